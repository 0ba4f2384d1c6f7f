"""Where the batches of every step come from: a plan says which examples, each task packs them its own way."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NotRequired, Self, TypedDict, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.data import Packed, Plan, Shape
from regard.nn.memory import memory_errors

Result = TypeVar("Result")


class Batch:
    """A frozen dataclass of packed ids, tensors and plain values: what a loss takes, wherever it lies. It has
    `tokens`, how many are predicted."""

    __slots__ = ()

    def tensors(self) -> list[Tensor]:
        found: list[Tensor] = []
        for each in self._parts().values():
            layout = each.layout if isinstance(each, Packed) else None
            found += [each] if layout is None else [each.ids, layout.offsets, layout.positions]
        return found

    def to(self, device: torch.device) -> Self:
        return self._each(lambda part: part.to(device))

    def pin(self) -> Self:
        """In memory that a GPU can copy from by itself, while the host goes on."""
        return self._each(lambda part: part.pin() if isinstance(part, Packed) else part.pin_memory())

    def _parts(self) -> dict[str, Any]:
        every: Any = self
        values = {field.name: getattr(self, field.name) for field in fields(every)}
        return {name: value for name, value in values.items() if isinstance(value, Packed | Tensor)}

    def _each(self, change: Callable[[Any], Any]) -> Self:
        every: Any = self
        return replace(every, **{name: change(part) for name, part in self._parts().items()})


class Sharing(TypedDict):
    """How batches are filled up, and shared out."""

    static: bool
    """Every batch has the same size, filled up."""
    rank: NotRequired[int]
    ranks: NotRequired[int]


class PlannedFeed(ABC):
    def __init__(self, plan: Plan, *, static: bool, rank: int = 0, ranks: int = 1) -> None:
        """For what `Sharing` says."""
        self.plan = plan
        self._whole = plan.shapes()
        self._static = static
        self._rank, self._ranks = rank, ranks

    @abstractmethod
    def batch(self, rows: np.ndarray, shapes: tuple[Shape, ...] | None, epoch: int) -> Any:
        """These examples packed; into these shapes, one for each side of the plan, where sizes must not
        change."""

    def parts(self, step: int, split: int = 1) -> list[tuple[int, Any]]:
        """This rank's batches of a step, from 1, each with its number among all of the step. `split` cuts
        each batch in so many, for a device too small for it."""
        epoch, batches, shapes = self._pieces(step, split, self._rank)
        return [
            (self._rank + index * self._ranks, self.batch(rows, shapes if self._static else None, epoch))
            for index, rows in enumerate(batches)
        ]

    def idle(self, step: int, split: int = 1) -> list[Any]:
        """Any batches, as many as this rank has fewer than the one that has most."""
        counts = [len(self._pieces(step, split, rank)[1]) for rank in range(self._ranks)]
        epoch, batches, shapes = self._pieces(step, split, int(np.argmax(counts)))
        missing = max(counts) - counts[self._rank]
        return [self.batch(rows, shapes if self._static else None, epoch) for rows in batches[:missing]]

    def _pieces(self, step: int, split: int, rank: int) -> tuple[int, list[np.ndarray], tuple[Shape, ...]]:
        """Which examples are in which batch of a rank; the epoch, and what shapes they fit into."""
        epoch, place = self.plan.locate(step - 1)
        batches, shapes = self.plan.batches(epoch, place, rank, self._ranks), self._whole
        if split > 1:
            shapes = tuple(_smaller(shape, split) for shape in shapes)
            batches = [piece for batch in batches for piece in self._cut(batch, shapes)]
        return epoch, batches, shapes

    def _cut(self, batch: np.ndarray, shapes: tuple[Shape, ...]) -> list[np.ndarray]:
        """A batch in pieces that fit smaller shapes."""
        pieces, used, start = [], np.zeros(len(shapes), dtype=np.int64), 0
        room = np.array([shape.slots for shape in shapes])
        for place, lengths in enumerate(self.plan.lengths[:, batch].T):
            if (used + lengths > room).any():
                pieces.append(batch[start:place])
                used, start = np.zeros_like(used), place
            used = used + lengths
        return [*pieces, batch[start:]]


def _smaller(shape: Shape, split: int) -> Shape:
    return Shape(min(shape.slots, -(-shape.slots // split) + shape.longest), shape.sequences, shape.longest)


def in_pieces(work: Callable[[int], Result]) -> Result:
    """Work cut in as few pieces as the device's memory asks for."""
    split = 1
    while True:
        try:
            with memory_errors():
                return work(split)
        except torch.OutOfMemoryError:
            if split >= 64:
                raise
        torch.cuda.empty_cache()
        split *= 2
