"""Sequences of ids become one packed tensor with its layout.

    pack([[7, 3, 9], [4, 4]])                     ids 7 3 9 4 4            lengths 3 2
    pack([[7, 3, 9], [4, 4]], Shape(8, 4, 4))     ids 7 3 9 4 4 0 0 0      lengths 3 2 3 0

A `Shape` makes every batch of a run the same size, so that nothing compiled for one batch must be compiled
again for the next: the slots that are left over become filler sequences at the end, and empty sequences make
up the count.
"""

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.layout import Layout


@dataclass(frozen=True, slots=True)
class Shape:
    """The size that all batches of a run share."""

    slots: int
    """Tokens, filler included."""
    sequences: int
    """Sequences, filler and empty ones included."""
    longest: int
    """Bound of a sequence's length."""

    def __post_init__(self) -> None:
        if self.slots < 0 or self.sequences < 0 or self.longest < 1:
            raise ValueError(
                f"{self} cannot hold anything: slots and sequences are 0 or more, longest is 1 or more"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    ids: Int[Tensor, "slots"]
    layout: Layout
    tokens: int
    """Real ones: they come first, filler behind them."""
    sequences: int
    """Real ones: they come first."""

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Packed":
        ids, layout = self.ids.to(device, non_blocking=non_blocking), self.layout
        return Packed(ids, layout.to(device, non_blocking=non_blocking), self.tokens, self.sequences)

    def pin(self) -> "Packed":
        """The same in memory that a GPU can copy from by itself, while the host goes on."""
        return Packed(self.ids.pin_memory(), self.layout.pin(), self.tokens, self.sequences)


def pack(sequences: Sequence[np.ndarray | Sequence[int]], shape: Shape | None = None) -> Packed:
    """Lay the sequences end to end, in the order given; filler is id 0 and belongs to no real sequence."""
    parts = [_flat(sequence) for sequence in sequences]
    flat = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    return pack_flat(flat, [len(part) for part in parts], shape)


def pack_flat(flat: np.ndarray, lengths: Sequence[int], shape: Shape | None = None) -> Packed:
    """The same for sequences that already lie end to end."""
    tokens = len(flat)
    layout = Layout.of(lengths) if shape is None else Layout.of(filled(lengths, shape), shape.longest)
    return Packed(ids=spread(flat, layout.tokens), layout=layout, tokens=tokens, sequences=len(lengths))


def spread(flat: np.ndarray, slots: int, filler: int = 0) -> Int[Tensor, "slots"]:
    """Ids as a tensor of so many slots."""
    ids = torch.full((slots,), filler, dtype=torch.int64)
    ids.numpy()[: len(flat)] = flat
    return ids


def _flat(sequence: np.ndarray | Sequence[int]) -> np.ndarray:
    ids = np.asarray(sequence)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise TypeError(f"{reprlib.repr(sequence)} is no row of ids: give sequences of whole numbers")
    return ids if ids.size else ids.astype(np.int64)  # to numpy an empty list is of floats


def filled(lengths: Sequence[int], shape: Shape) -> list[int]:
    """These lengths, filler that uses up the slots, and empty sequences up to the count."""
    left = shape.slots - sum(lengths)
    pieces = [shape.longest] * (left // shape.longest) if left >= 0 else []
    if left % shape.longest:
        pieces.append(left % shape.longest)
    spare = shape.sequences - len(lengths) - len(pieces)
    if left < 0 or spare < 0 or max(lengths, default=0) > shape.longest:
        raise ValueError(
            f"{len(lengths)} sequences of up to {max(lengths, default=0)} tokens, {sum(lengths)} in all, "
            f"do not fit {shape}: take fewer, or a larger shape"
        )
    return [*lengths, *pieces, *[0] * spare]
