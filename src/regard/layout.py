"""Packed tokens: a batch is sequences laid end to end, and a `Layout` says where each one lies.

    ids        7 3 9 | 4 4 | 8 1 2 5        three sequences, nine tokens, no padding
    lengths    3       2     4
    offsets    0       3     5         9
    positions  0 1 2   0 1   0 1 2 3

Everything in a model but attention and recurrence works on tokens one by one and never looks at the layout.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from jaxtyping import Int, Shaped
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each sequence of a packed batch lies. Sequences may be empty."""

    offsets: Int[Tensor, "bounds"]
    """Sequence s is tokens offsets[s] up to offsets[s + 1], so one bound more than sequences; int32, on the
    device of the tokens."""
    positions: Int[Tensor, "tokens"]
    """The place of each token within its own sequence, from 0."""
    longest: int
    """No sequence is longer. A bound known on the host, so that kernels and compilers need not ask the
    device."""
    host_offsets: Int[Tensor, "bounds"]
    """`offsets` on the CPU: the same tensor there, a copy made before the transfer elsewhere."""

    @classmethod
    def of(cls, lengths: Sequence[int] | Int[Tensor, "sequences"], longest: int | None = None) -> "Layout":
        """Lay out sequences of these lengths on the CPU. `longest` may be set higher than the data, so that
        batches of different content share one compiled shape, never lower."""
        sizes = torch.as_tensor(lengths, device="cpu").reshape(-1)
        if sizes.numel() and sizes.is_floating_point():
            raise ValueError(f"lengths are {sizes.dtype}, like {float(sizes[0])}: a length is a whole number")
        sizes = sizes.to(torch.int64)
        if sizes.numel() and int(sizes.min()) < 0:
            raise ValueError(f"lengths has {int(sizes.min())}: a length is 0 or more")
        most = int(sizes.max()) if sizes.numel() else 0
        if longest is not None and longest < most:
            raise ValueError(
                f"longest={longest} but a sequence has {most} tokens: give a bound of {most} or more"
            )
        offsets = torch.zeros(len(sizes) + 1, dtype=torch.int64, device="cpu")
        torch.cumsum(sizes, dim=0, out=offsets[1:])
        tokens = int(offsets[-1])
        positions = torch.arange(tokens, device="cpu") - offsets[:-1].repeat_interleave(
            sizes, output_size=tokens
        )
        offsets = offsets.to(torch.int32)
        return cls(offsets=offsets, positions=positions, longest=longest or most, host_offsets=offsets)

    @classmethod
    def singles(cls, sequences: int, device: torch.device | str = "cpu") -> "Layout":
        """Sequences of one token each; made on the device, without a transfer."""
        return cls(
            offsets=torch.arange(sequences + 1, dtype=torch.int32, device=device),
            positions=torch.zeros(sequences, dtype=torch.int64, device=device),
            longest=1,
            host_offsets=torch.arange(sequences + 1, dtype=torch.int32, device="cpu"),
        )

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Layout":
        """The same layout with its tensors on `device`; the host's copy stays where it is."""
        wanted, present = torch.device(device), self.offsets.device
        if wanted.type == present.type and wanted.index in (None, present.index):
            return self
        return Layout(
            offsets=self.offsets.to(device, non_blocking=non_blocking),
            positions=self.positions.to(device, non_blocking=non_blocking),
            longest=self.longest,
            host_offsets=self.host_offsets,
        )

    def twice(self) -> "Layout":
        """All sequences, and then all of them again."""

        def doubled(offsets: Tensor) -> Tensor:
            return torch.cat([offsets, offsets[1:] + offsets[-1]])

        offsets = doubled(self.offsets)
        on_host = self.host_offsets is self.offsets
        return Layout(
            offsets=offsets,
            positions=self.positions.repeat(2),
            longest=self.longest,
            host_offsets=offsets if on_host else doubled(self.host_offsets),
        )

    def pin(self) -> "Layout":
        """The same in memory that a GPU can copy from by itself, while the host goes on."""
        return Layout(
            offsets=self.offsets.pin_memory(),
            positions=self.positions.pin_memory(),
            longest=self.longest,
            host_offsets=self.host_offsets,
        )

    @property
    def tokens(self) -> int:
        return self.positions.shape[0]

    @property
    def sequences(self) -> int:
        return self.offsets.shape[0] - 1

    @property
    def lengths(self) -> Int[Tensor, "sequences"]:
        return self.offsets.diff()

    @cached_property
    def host_lengths(self) -> list[int]:
        """The lengths as plain numbers, without asking the device."""
        return [end - start for start, end in pairwise(self.host_offsets.tolist())]

    @property
    def owners(self) -> Int[Tensor, "tokens"]:
        """The sequence that each token belongs to."""
        sequences = torch.arange(self.sequences, device=self.offsets.device)
        return sequences.repeat_interleave(self.lengths, output_size=self.tokens)

    @property
    def firsts(self) -> Int[Tensor, "sequences"]:
        """The index of each sequence's first token; of some other token for an empty sequence."""
        return self.offsets[:-1].clamp(max=max(self.tokens - 1, 0))

    @property
    def lasts(self) -> Int[Tensor, "sequences"]:
        """The index of each sequence's last token; of some other token for an empty sequence."""
        return (self.offsets[1:] - 1).clamp(min=0)

    def split(self, x: Shaped[Tensor, "tokens *rest"]) -> tuple[Tensor, ...]:
        """One view per sequence."""
        return x.split(self.host_lengths)

    @property
    def cells(self) -> Int[Tensor, "tokens"]:
        """The place of each token in a grid of `sequences` rows and `longest` columns, counted row by row."""
        return self.owners * self.longest + self.positions

    def to_grid(self, x: Shaped[Tensor, "tokens *rest"]) -> Shaped[Tensor, "sequences longest *rest"]:
        """Tokens spread over a padded grid, zeros in the empty cells: for kernels that know no layout."""
        grid = x.new_zeros(self.sequences * self.longest, *x.shape[1:])
        return grid.index_copy(0, self.cells, x).unflatten(0, (self.sequences, self.longest))

    def from_grid(self, grid: Shaped[Tensor, "sequences longest *rest"]) -> Shaped[Tensor, "tokens *rest"]:
        """The inverse of `to_grid`; what lies in empty cells is dropped."""
        return grid.flatten(0, 1).index_select(0, self.cells)
