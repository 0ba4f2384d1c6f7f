"""Queries with their texts as batches.

sequences   [CLS] q0 [SEP] t [SEP]  ...      by length, those of all queries of the batch mixed
groups       1   0   0   1   1   0           which query each is of
first        2   0                           of each query, where its positive is
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from regard.data import Column, Packed, Plan, Shape, pack_flat, ragged, spread
from regard.tasks.base.feed import Batch, PlannedFeed, Sharing
from regard.tasks.base.reading import Piece, Reader
from regard.text import DataError
from regard.text.rankings import Ranking
from regard.train.objectives import HIDDEN

AT_ONCE = 1000
"""Queries whose pairs are encoded together."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedGroups:
    """Pairs as a model reads them, those of a query one after the other, its positive first."""

    ids: Column
    segments: Column | None
    offsets: np.ndarray
    """int64 [queries + 1]: where the pairs of each begin."""
    teacher: np.ndarray
    """float32 [pairs]: a teacher's scores, NaN where there are none."""

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each query, all its pairs together."""
        return np.add.reduceat(self.ids.lengths, self.offsets[:-1])


def encode(reader: Reader, records: Sequence[Ranking], *, skip: bool) -> tuple[EncodedGroups, int]:
    """And how many queries have a pair with more tokens than the model can read: it is cut, or they are left
    out."""
    kept: list[Piece] = []
    teacher: list[float] = []
    counts, long = [0], 0
    for start in range(0, len(records), AT_ONCE):
        chunk = records[start : start + AT_ONCE]
        pieces = reader.pieces(
            [record.query for record in chunk for _ in record.texts],
            [text for record in chunk for text in record.texts],
        )
        place = 0
        for record in chunk:
            own = pieces[place : place + len(record.texts)]
            place += len(own)
            whole = all(piece.whole for piece in own)
            long += not whole
            if whole or not skip:
                kept += own
                counts.append(len(own))
                teacher += record.scores or [np.nan] * len(own)
    if not kept:
        raise DataError(
            records[0].origin,
            f"none of {len(records)} queries can be used",
            f"(all have a text that makes more than {reader.longest} tokens with them)",
            remedy="raise data.longest, or choose data.too_long=cut",
        )
    marked = any(piece.segments is not None for piece in kept)
    segments = ragged([piece.segments or [0] * len(piece.ids) for piece in kept]) if marked else None
    offsets = np.cumsum(counts, dtype=np.int64)
    ids = ragged([piece.ids for piece in kept])
    return EncodedGroups(ids, segments, offsets, np.array(teacher, dtype=np.float32)), long


@dataclass(frozen=True, slots=True, eq=False)
class RankedBatch(Batch):
    text: Packed
    segments: Tensor | None
    groups: Tensor
    """int64 [sequences]: which row of `first` each is of; filler is of the last."""
    first: Tensor
    """int64 [queries]: where the positive of each is; hidden for filler, which the last row always is."""
    teacher: Tensor
    """float32 [sequences]: a teacher's scores; NaN for filler, and where there are none."""
    tokens: int
    """Queries, which is what is predicted here."""


class RankedFeed(PlannedFeed):
    """Batches of queries. The plan has one side: the tokens of all pairs of a query together."""

    def __init__(self, encoded: EncodedGroups, plan: Plan, **how: Unpack[Sharing]) -> None:
        super().__init__(plan, **how)
        self._encoded, self._lengths = encoded, encoded.ids.lengths
        self._most = int(np.diff(encoded.offsets).max())

    def batch(self, rows: np.ndarray, shapes: tuple[Shape, ...] | None, epoch: int) -> RankedBatch:
        encoded = self._encoded
        begins, ends = encoded.offsets[rows], encoded.offsets[rows + 1]
        pairs = np.concatenate([np.arange(begin, end) for begin, end in zip(begins, ends, strict=True)])
        owners = np.repeat(np.arange(len(rows)), ends - begins)
        order = np.argsort(self._lengths[pairs], kind="stable")  # neighbours of one length are read at once
        pairs, owners = pairs[order], owners[order]
        shape = None if shapes is None else self._of_pairs(shapes[0])
        packed = pack_flat(encoded.ids.gather(pairs), self._lengths[pairs].tolist(), shape)
        layout = packed.layout
        marks = encoded.segments
        segments = None if marks is None else spread(marks.gather(pairs), layout.tokens)
        first = np.full((len(rows) if shapes is None else shapes[0].sequences) + 1, HIDDEN, dtype=np.int64)
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        first[: len(rows)] = places[np.cumsum(ends - begins) - (ends - begins)]
        groups = np.full(layout.sequences, len(first) - 1, dtype=np.int64)
        groups[: len(pairs)] = owners
        teacher = np.full(layout.sequences, np.nan, dtype=np.float32)
        teacher[: len(pairs)] = encoded.teacher[pairs]
        return RankedBatch(
            packed,
            segments,
            torch.from_numpy(groups),
            torch.from_numpy(first),
            torch.from_numpy(teacher),
            len(rows),
        )

    def _of_pairs(self, shape: Shape) -> Shape:
        longest = int(self._lengths.max())
        return Shape(shape.slots, self._most * shape.sequences + -(-shape.slots // longest), longest)
