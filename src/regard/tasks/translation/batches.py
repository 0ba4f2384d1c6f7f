"""Batches of pairs, packed from the token store."""

from dataclasses import dataclass
from typing import Unpack

import numpy as np
from jaxtyping import Int
from torch import Tensor

from regard.data import Packed, Plan, Shape, pack_flat, spread
from regard.tasks.base.feed import Batch, PlannedFeed, Sharing
from regard.tasks.translation.data import Pairs
from regard.train.objectives import HIDDEN


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch(Batch):
    source: Packed
    inputs: Packed
    labels: Int[Tensor, "slots"]
    """What follows each input; hidden where it is filler."""

    @property
    def tokens(self) -> int:
        return self.inputs.tokens


class PairFeed(PlannedFeed):
    """Batches of pairs."""

    def __init__(self, store: Pairs, plan: Plan, **how: Unpack[Sharing]) -> None:
        super().__init__(plan, **how)
        self._source, self._target = store["source"], store["target"]

    def batch(self, rows: np.ndarray, shapes: tuple[Shape, ...] | None, epoch: int) -> PairBatch:
        source_lengths, target_lengths = self.plan.lengths[:, rows].tolist()
        source_shape, target_shape = shapes or (None, None)
        source = pack_flat(self._source.gather(rows), source_lengths, source_shape)
        inputs = pack_flat(self._target.gather(rows, skip_last=1), target_lengths, target_shape)
        labels = spread(self._target.gather(rows, skip_first=1), inputs.layout.tokens, HIDDEN)
        return PairBatch(source, inputs, labels)
