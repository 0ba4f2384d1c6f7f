"""Questions about texts as batches.

    tokens    [CLS] who met bob [SEP] ann lees ##on met bob . [SEP]
    starts      0    -   -   -    -    1   0    0    0   0  0   -       how many gold answers begin here
    ends        0    -   -   -    -    0   0    1    0   0  0   -       and end; - : no answer can

A window without an answer has a 1 at [CLS].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
from torch import Tensor

from regard.data import Column, Packed, Plan, Shape, pack_flat, ragged, spread
from regard.tasks.answering.data import CANNOT
from regard.tasks.answering.windows import Laid
from regard.tasks.base.feed import Batch, PlannedFeed, Sharing
from regard.text import DataError, Question


@dataclass(frozen=True, slots=True, eq=False)
class EncodedQuestions:
    """Windows as a model reads them, with their labels."""

    ids: Column
    segments: Column | None
    starts: Column
    ends: Column
    silent: int
    """Questions whose answers left no token: they are learned as if there was none."""
    answered: int
    """Windows with an answer in them."""


def encode(laid: Sequence[Laid], records: Sequence[Question], *, paired: bool) -> EncodedQuestions:
    """`paired`: the model tells segments apart."""
    ids, segments, silent, answered = [], [], 0, 0
    starts: list[np.ndarray] = []
    ends: list[np.ndarray] = []
    for each, record in zip(laid, records, strict=True):
        spans = each.spans(record.answers)
        silent += bool(record.answers) and not spans
        for window in each.windows:
            both = np.full((2, len(window.ids)), CANNOT, dtype=np.int64)
            both[:, 0] = 0
            both[:, window.first : window.first + window.count] = 0
            for start, end in window.places(spans):
                both[0, start] += 1
                both[1, end] += 1
            answered += not both[0, 0]
            ids.append(window.ids)
            segments.append(window.segments)
            starts.append(both[0])
            ends.append(both[1])
    if not answered:
        raise DataError(
            records[0].origin,
            f"none of {len(records)} questions has an answer to learn",
            remedy="check data.answer and data.start, and that the answers stand in their texts",
        )
    every = ragged(ids)
    marks = ragged(segments) if paired else None
    first, last = (Column(np.concatenate(side), every.offsets) for side in (starts, ends))
    return EncodedQuestions(every, marks, first, last, silent, answered)


@dataclass(frozen=True, slots=True, eq=False)
class QuestionBatch(Batch):
    text: Packed
    segments: Tensor | None
    starts: Tensor
    """Of each slot: how many answers begin there, or that none can."""
    ends: Tensor
    tokens: int
    """Windows, which is what is predicted here."""


class QuestionFeed(PlannedFeed):
    """Batches of windows with their answers."""

    def __init__(self, questions: EncodedQuestions, plan: Plan, **how: Unpack[Sharing]) -> None:
        super().__init__(plan, **how)
        self._questions = questions

    def batch(self, rows: np.ndarray, shapes: tuple[Shape, ...] | None, epoch: int) -> QuestionBatch:
        own = self._questions
        lengths = self.plan.lengths[0, rows].tolist()
        packed = pack_flat(own.ids.gather(rows), lengths, None if shapes is None else shapes[0])
        slots = packed.layout.tokens
        segments = None if own.segments is None else spread(own.segments.gather(rows), slots)
        starts = spread(own.starts.gather(rows), slots, CANNOT)
        return QuestionBatch(
            packed, segments, starts, spread(own.ends.gather(rows), slots, CANNOT), len(rows)
        )
