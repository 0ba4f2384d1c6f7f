"""Sentences with a tag for each word as batches.

words             Ann    Leeson         met
tokens     [CLS]  ann    lees   ##on    met    [SEP]
places     0      1      2      2       4      5         where the word of each token begins
labels     -      B-PER  I-PER  -       O      -         a word's tag stands where it begins
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from regard.data import Column, Packed, Plan, Shape, pack_flat, ragged, spread
from regard.tasks.base.feed import Batch, PlannedFeed, Sharing
from regard.tasks.tagging.data import numbers_of
from regard.tasks.tagging.windows import Window, windows
from regard.text import (
    DataError,
    Tagged,
    Tokenizer,
)
from regard.train.objectives import HIDDEN


@dataclass(frozen=True, slots=True, eq=False)
class EncodedSentences:
    """Windows as a model reads them, with their labels."""

    ids: Column
    firsts: Column
    labels: Column
    """Numbers of tags; or numbers, NaN where there is none."""
    silent: int
    """Words that left no token, and so are not learned from."""
    cut: int
    """Words with more tokens than a window."""


def encode(
    tokenizer: Tokenizer, records: Sequence[Tagged], names: Mapping[str, int] | None, longest: int
) -> EncodedSentences:
    """`names` has the number of each tag; None where tags are numbers themselves."""
    found: list[Window] = []
    labels: list[np.ndarray] = []
    silent = cut = 0
    none, kind = (HIDDEN, np.int32) if names is not None else (np.nan, np.float32)
    values: Sequence[Sequence[float]] = (
        numbers_of(records) if names is None else [[names[tag] for tag in each.tags] for each in records]
    )
    for record, own in zip(records, values, strict=True):
        parts, long = windows(tokenizer.encode_words(record.words, template="cls"), longest)
        cut += long
        silent += len(record.words) - sum(len(part.spoken) for part in parts)
        for part in parts:
            row = np.full(len(part.ids), none, dtype=kind)
            for word, place in part.spoken:
                row[place] = own[word]
            found.append(part)
            labels.append(row)
    if not found:
        raise DataError(
            records[0].origin,
            f"none of {len(records)} sentences can be used",
            "(their words leave no tokens)",
            remedy="check data.word and data.format",
        )
    ids, firsts = ragged([part.ids for part in found]), ragged([part.firsts for part in found])
    return EncodedSentences(ids, firsts, Column(np.concatenate(labels), ids.offsets), silent, cut)


@dataclass(frozen=True, slots=True, eq=False)
class TagBatch(Batch):
    text: Packed
    labels: Tensor
    """Of each slot: the tag, or the number, of the word that begins there; all others are not predicted."""
    places: Tensor | None
    """Where the word of each token begins, if a word is the mean of its tokens; for tokens of none, their own
    place, where no word is."""
    tokens: int
    """Words, which is what is predicted here."""


class TagFeed(PlannedFeed):
    """Batches of sentences with their tags."""

    def __init__(self, text: EncodedSentences, plan: Plan, *, mean: bool, **how: Unpack[Sharing]) -> None:
        """`mean`: a word is the mean of its tokens."""
        super().__init__(plan, **how)
        self._text, self._mean = text, mean

    def batch(self, rows: np.ndarray, shapes: tuple[Shape, ...] | None, epoch: int) -> TagBatch:
        text = self._text
        lengths = self.plan.lengths[0, rows]
        packed = pack_flat(text.ids.gather(rows), lengths.tolist(), None if shapes is None else shapes[0])
        labels = text.labels.gather(rows)
        places = None
        if self._mean:
            places = torch.arange(packed.layout.tokens)
            begins = np.repeat(lengths.cumsum() - lengths, lengths)
            places.numpy()[: packed.tokens] = text.firsts.gather(rows) + begins
        if labels.dtype.kind == "f":
            slots = torch.full((packed.layout.tokens,), torch.nan)
            slots.numpy()[: len(labels)] = labels
            return TagBatch(packed, slots, places, int((~np.isnan(labels)).sum()))
        return TagBatch(
            packed, spread(labels, packed.layout.tokens, HIDDEN), places, int((labels != HIDDEN).sum())
        )
