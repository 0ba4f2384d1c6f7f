"""Texts with labels as batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from regard.data import Column, Packed, Plan, Shape, pack_flat, ragged, spread
from regard.tasks.base.feed import Batch, PlannedFeed, Sharing
from regard.tasks.base.reading import Reader
from regard.text import DataError, Labelled
from regard.train.objectives import HIDDEN


@dataclass(frozen=True, slots=True, eq=False)
class LabelledBatch(Batch):
    text: Packed
    segments: Tensor | None
    labels: Tensor
    """Of each sequence; filler has the label that is not predicted, or NaN where labels are numbers."""
    tokens: int
    """Texts, which is what is predicted here."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedTexts:
    """Texts as a model reads them, with their labels."""

    ids: Column
    segments: Column | None
    labels: np.ndarray


def encode(
    reader: Reader, records: Sequence[Labelled], labels: np.ndarray, *, skip: bool
) -> tuple[EncodedTexts, int]:
    """And how many texts have more tokens than the model can read: they are cut, or left out."""
    seconds = None if not records or records[0].second is None else [str(r.second) for r in records]
    pieces = reader.pieces([record.text for record in records], seconds)
    long = sum(not piece.whole for piece in pieces)
    if skip:
        pieces = [piece for piece in pieces if piece.whole]
    if not pieces:
        raise DataError(
            records[0].origin,
            f"none of {len(records)} texts can be used",
            f"(all have more than {reader.longest} tokens)",
            remedy="raise data.longest, or choose data.too_long=cut",
        )
    marked = any(piece.segments is not None for piece in pieces)
    segments = ragged([piece.segments or [0] * len(piece.ids) for piece in pieces]) if marked else None
    kept = np.array([piece.text for piece in pieces], dtype=np.int64)
    return EncodedTexts(ragged([piece.ids for piece in pieces]), segments, labels[kept]), long


class LabelledFeed(PlannedFeed):
    """Batches of texts with their labels."""

    def __init__(self, texts: EncodedTexts, plan: Plan, **how: Unpack[Sharing]) -> None:
        super().__init__(plan, **how)
        self._texts = texts

    def batch(self, rows: np.ndarray, shapes: tuple[Shape, ...] | None, epoch: int) -> LabelledBatch:
        texts = self._texts
        lengths = self.plan.lengths[0, rows].tolist()
        packed = pack_flat(texts.ids.gather(rows), lengths, None if shapes is None else shapes[0])
        marks, layout = texts.segments, packed.layout
        segments = None if marks is None else spread(marks.gather(rows), layout.tokens)
        labels = filled_labels(texts.labels[rows], layout.sequences)
        return LabelledBatch(packed, segments, labels, len(rows))


def filled_labels(labels: np.ndarray, sequences: int) -> Tensor:
    """With the labels of filler sequences behind them."""
    filler: Any = HIDDEN if labels.dtype == np.int64 else np.nan
    values = labels if labels.dtype == np.int64 else labels.astype(np.float32)
    rest = np.full((sequences - len(labels), *labels.shape[1:]), filler, dtype=values.dtype)
    return torch.from_numpy(np.concatenate([values, rest]))
