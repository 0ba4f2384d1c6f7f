"""Going on where a model can read no further: the older half of what it holds is forgotten.

    longest = 8       a b c d e f g h            full: the next token makes it one too many
                              f g h i            its last half is read anew, and there is room again

Tokens keep the positions that they have in what is read, so learned positions serve too. To greedy search,
sampling and beams it is a model like any other.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.stepper import Stepper
from regard.layout import Layout
from regard.nn.state import JoiningState, Rows, check_rows


class Starter(Stepper, Protocol):
    def start(self, *, rows: int, capacity: int) -> Any:
        """An empty state."""


@dataclass(slots=True, eq=False)
class SlidingState:
    inner: JoiningState
    tokens: list[list[int]]
    """What each row of the inner state has read."""

    @property
    def rows(self) -> int:
        return self.inner.rows

    @property
    def lengths(self) -> Int[Tensor, "rows"]:
        return self.inner.lengths

    @property
    def longest(self) -> int:
        return self.inner.longest

    def select(self, rows: Rows) -> None:
        numbers = check_rows(rows, self.rows).tolist()
        self.inner.select(rows)
        self.tokens = [[*self.tokens[row]] for row in numbers]

    def join(self, other: "SlidingState") -> None:
        self.inner.join(other.inner)
        self.tokens = [*self.tokens, *other.tokens]


@dataclass(frozen=True, slots=True, eq=False)
class Sliding:
    model: Starter
    longest: int
    """The most tokens that the model can read."""

    def __post_init__(self) -> None:
        if self.longest < 2:
            raise ValueError(f"longest={self.longest} has no half to go on from: it must be at least 2")

    def start(self, *, rows: int, capacity: int) -> SlidingState:
        inner = self.model.start(rows=rows, capacity=min(capacity, self.longest))
        return SlidingState(inner, [[] for _ in range(rows)])

    def prefill(
        self, ids: Int[Tensor, "tokens"], layout: Layout, state: SlidingState
    ) -> Float[Tensor, "rows vocab"]:
        """Of a prefix that is too long, the last half of `longest` is read."""
        state.tokens = [part.tolist() for part in layout.split(ids.cpu())]
        return self._read(state) if self._cut(state) else self.model.prefill(ids, layout, state.inner)

    def step(self, tokens: Int[Tensor, "rows"], state: SlidingState) -> Float[Tensor, "rows vocab"]:
        """Where a row is full, all are read anew: another row's state stays what it was, but for rounding."""
        for row, token in zip(state.tokens, tokens.tolist(), strict=True):
            row.append(token)
        if not self._cut(state):
            return self.model.step(tokens, state.inner)
        state.inner = self.model.start(rows=len(state.tokens), capacity=self.longest)
        return self._read(state)

    def _cut(self, state: SlidingState) -> bool:
        """Whether a row had to be."""
        full = any(len(row) > self.longest for row in state.tokens)
        state.tokens = [
            row[-(self.longest // 2) :] if len(row) > self.longest else row for row in state.tokens
        ]
        return full

    def _read(self, state: SlidingState) -> Float[Tensor, "rows vocab"]:
        device = state.inner.lengths.device
        ids = torch.tensor([id for row in state.tokens for id in row], device="cpu")
        layout = Layout.of([len(row) for row in state.tokens])
        return self.model.prefill(ids.to(device), layout.to(device), state.inner)
