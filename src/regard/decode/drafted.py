"""The steps of one text, from fewer passes: a quick copy of the model guesses ahead, the model itself reads
all guesses at once, and a guess that comes true has its scores there already (Leviathan et al. 2023).

    asked for the step after token t:   the copy goes on:   t -> g1 -> g2 -> g3
                                        the model reads:    t g1 g2 g3, in one pass
    the search takes g1, g2:            their scores are there
    the search takes another:           what lies behind it is forgotten, and guessed anew

Every score is the model's own, so whatever the search makes of them stays as it is. One row at a time on a
CPU is bound by reading the weights; a pass over a few tokens reads them once.
"""

from collections import deque
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.nn.stacks import Stack
from regard.nn.state import Rows, TransformerState

FIRST, MOST = 4, 8
"""Guesses of the first round, and of any."""


def may_draft(model: Decoder) -> bool:
    """A Transformer alone, whose positions do not bias scores, can be read in pieces."""
    return isinstance(model.body, Stack) and all(
        layer.cross_attention is None and layer.attention.bias is None for layer in model.body.each
    )


@dataclass(slots=True, eq=False)
class DraftedState:
    exact: TransformerState
    quick: TransformerState | None
    """None where there are several rows: then steps are plain."""
    most: int
    """Tokens that there is room for, prefix included."""
    read: list[int] = field(default_factory=list)
    """All tokens of the one row that the search has taken."""
    ahead: deque[tuple[int, Tensor]] = field(default_factory=deque)
    """Guesses that were read, each with the scores for what follows it."""
    guesses: int = FIRST

    @property
    def rows(self) -> int:
        return self.exact.rows

    @property
    def longest(self) -> int:
        return self.exact.longest if self.quick is None else len(self.read)

    @property
    def lengths(self) -> Int[Tensor, "rows"]:
        if self.quick is None:
            return self.exact.lengths
        return torch.tensor([len(self.read)], device=self.exact.lengths.device)

    def select(self, rows: Rows) -> None:
        self.forget()
        if len(rows) != 1:
            self.quick = None
        self.exact.select(rows)

    def forget(self) -> None:
        """What was read ahead."""
        self.ahead.clear()
        if self.quick is not None:
            for own in (self.exact, self.quick):
                own.cache.cut(min(own.longest, len(self.read)))


class DraftedStepper:
    def __init__(self, model: Decoder, quick: Decoder) -> None:
        """`quick` is a copy of the model that is faster, and nearly always of its opinion."""
        if not may_draft(model):
            raise ValueError("only a Transformer alone, without a bias of positions, can be read in pieces")
        self.model, self.quick = model, quick
        positions = model.config.positions
        self._longest = positions.longest if positions.kind == "learned" else None

    def start(self, *, rows: int, capacity: int = 256) -> DraftedState:
        def started(model: Decoder) -> TransformerState:
            state = model.start(rows=rows, capacity=capacity)
            if not isinstance(state, TransformerState):
                raise TypeError(f"{type(state).__name__} has no keys to go back to")
            return state

        most = capacity if self._longest is None else min(capacity, self._longest)
        return DraftedState(started(self.model), started(self.quick) if rows == 1 else None, most)

    def prefill(
        self, ids: Int[Tensor, "tokens"], layout: Layout, state: DraftedState
    ) -> Float[Tensor, "rows vocab"]:
        if state.quick is not None:
            state.read = ids.tolist()
            self.quick.prefill(ids, layout, state.quick)
        return self.model.prefill(ids, layout, state.exact)

    def step(self, tokens: Int[Tensor, "rows"], state: DraftedState) -> Float[Tensor, "rows vocab"]:
        if state.quick is None:
            return self.model.step(tokens, state.exact)
        token = int(tokens[0])
        if state.ahead and state.ahead[0][0] == token:
            state.read.append(token)
            return state.ahead.popleft()[1]
        self._learn(state)
        state.forget()
        state.read.append(token)
        guesses = self._guess(state, state.quick)
        scores = self.model.extend(torch.tensor([token, *guesses], device=tokens.device), state.exact)
        state.ahead = deque(zip(guesses, scores[1:].split(1), strict=True))
        return scores[:1]

    def _learn(self, state: DraftedState) -> None:
        """More guesses next time where all came true; else little more than came true."""
        wrong = len(state.ahead)
        state.guesses = min(MOST, state.guesses + 1) if not wrong else max(1, state.guesses - wrong + 1)

    def _guess(self, state: DraftedState, quick: TransformerState) -> list[int]:
        """What the copy would write next; it first reads what it has not."""
        guesses: list[int] = []
        fresh = state.read[quick.longest :]
        for _ in range(min(state.guesses, state.most - len(state.read))):
            ids = torch.tensor(fresh, device=quick.lengths.device)
            scores = self.quick.step(ids, quick) if len(fresh) == 1 else self.quick.extend(ids, quick)
            fresh = [int(scores[-1].argmax())]
            guesses += fresh
        return guesses
