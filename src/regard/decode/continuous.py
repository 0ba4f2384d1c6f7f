"""Continuous batching: texts that began at different times take their steps together.

    rows  |aaaaaaaaabbbbbb
          |cccccddddddd         A text joins between two steps, once its prompt is read; one that has come to
          |   eeeeeeeee         its end leaves, and its row is free for another. Rows differ in length, and in
          |     fff             how they are written: greedily or drawn, by which numbers.
          +------------- steps

Prompts are read by themselves (`prefill`); then their state joins that of the others (`JoiningState`). What a
text becomes does not depend on its company, but for rounding. tests/decode/test_continuous.py holds it equal
to what `regard.decode.steps` gives of it alone.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.config import DecodeConfig
from regard.decode.rules import NOTHING, START, Rules
from regard.decode.sample import Chooser, sample_streams, uniform
from regard.decode.sliding import Starter
from regard.decode.stepper import on_the_way
from regard.layout import Layout
from regard.nn.state import JoiningState

AHEAD = 64
"""Tokens for which a state has room when it begins; it grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    ids: Sequence[int]
    config: DecodeConfig
    """Greedy or sample; `n_best` rows come of it."""
    maximum: int
    """Most new tokens, whatever the minimum; `config.maximum` holds all the same."""
    ends: Collection[int] = ()
    """Any of them ends a row; without one, only the maximum does."""
    suppressed: Collection[int] = ()
    """Never come."""
    key: int = 0
    """What samples hang on besides the seed."""


@dataclass(slots=True, eq=False)
class Row:
    """A text under way, and what its last step did to it."""

    prompt: Prompt
    choose: Chooser
    stream: np.uint64
    ids: list[int]
    """All tokens, those of the prompt first."""
    count: int = 0
    """New ones among them."""
    token: int = -1
    """The last one; at an end, the end or nothing of note."""
    score: float = 0.0
    """Log-probability of all new ones; the end's included where one came."""
    ended: bool = False
    cut: bool = False
    """Stopped without an end: at its maximum, or because no token was allowed."""
    broken: bool = False
    """The model gave scores that are no numbers."""
    over: bool = False
    """It leaves before the next step. Whoever reads the rows may set it."""

    @property
    def maximum(self) -> int:
        return min(self.prompt.maximum, self.prompt.config.maximum)

    @property
    def full(self) -> bool:
        """It has all its tokens, and there is no end to ask the model for."""
        return not self.prompt.ends and self.count >= self.maximum

    def take(self, value: float, token: int) -> None:
        possible = value > -math.inf
        self.broken, self.token = math.isnan(value), token
        self.ended = possible and token in self.prompt.ends
        self.cut = not self.ended and (not possible or self.count >= self.maximum)
        if not self.cut:
            self.score += value
        if self.ended or self.cut:
            self.over = True
        else:
            self.ids.append(token)
            self.count += 1


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Prompts whose rows have not joined yet, and the scores for what follows each."""

    state: JoiningState
    scores: Float[Tensor, "rows vocab"]
    rows: list[Row]


class ContinuousBatch:
    def __init__(self, stepper: Starter) -> None:
        self.stepper = stepper
        self._rows: list[Row] = []
        self._state: JoiningState | None = None
        self._read: list[_Read] = []
        self._early: Float[Tensor, "rows vocab"] | None = None
        self._choosers: WeakValueDictionary[Any, Chooser] = WeakValueDictionary()

    @property
    def rows(self) -> list[Row]:
        """That are not over."""
        every = [*self._rows, *(row for each in self._read for row in each.rows)]
        return [row for row in every if not row.over]

    @torch.no_grad()
    def join(self, prompts: Sequence[Prompt]) -> list[list[Row]]:
        """The rows of each prompt, which is read here; an error changes nothing for the others."""
        if any(prompt.config.method == "beam" for prompt in prompts):
            raise ValueError(
                "method='beam' has no tokens before its end: which hypothesis is best may change at each "
                "step; choose greedy or sample"
            )
        lengths = [len(prompt.ids) for prompt in prompts]
        room = max(len(prompt.ids) + min(prompt.maximum, AHEAD) for prompt in prompts)
        state: JoiningState = self.stepper.start(rows=len(prompts), capacity=room)
        device = state.lengths.device
        ids = torch.tensor([id for prompt in prompts for id in prompt.ids], device="cpu").to(device)
        scores = self.stepper.prefill(ids, Layout.of(lengths).to(device), state)
        owners = [number for number, prompt in enumerate(prompts) for _ in range(prompt.config.n_best)]
        if len(owners) > len(prompts):
            state.select(owners)
            scores = scores[torch.tensor(owners, device=scores.device)]
        found = [self._rows_of(prompt, scores.device) for prompt in prompts]
        self._read.append(_Read(state, scores, [row for rows in found for row in rows]))
        return found

    def _rows_of(self, prompt: Prompt, device: torch.device) -> list[Row]:
        config = prompt.config
        choose = self._chooser(prompt, device)
        streams = sample_streams(config.seed, [prompt.key], config.n_best)
        return [Row(prompt, choose, stream, [*prompt.ids]) for stream in streams]

    def _chooser(self, prompt: Prompt, device: torch.device) -> Chooser:
        """One for all rows that are written alike, so that they are done at once."""
        c, ends, suppressed = prompt.config, sorted({*prompt.ends}), sorted({*prompt.suppressed})
        rules = (c.minimum, c.no_repeat, c.repetition_penalty)
        drawn = () if c.method == "greedy" else (c.temperature, c.top_k, c.top_p, c.min_p)
        key = (c.method, *rules, *drawn, *ends, None, *suppressed)
        found = self._choosers.get(key)
        if found is None:
            tokens = (torch.tensor(each, dtype=torch.int64, device=device) for each in (ends, suppressed))
            found = self._choosers[key] = Chooser(c, Rules(c, *tokens))
        return found

    @torch.no_grad()
    def step(self) -> list[Row]:
        """One more token of each row, those that have joined among them; each says what it was."""
        full = [row for row in self._rows if row.full and not row.over]
        for row in full:
            row.cut = row.over = True
        scores = self._advance()
        for each in self._read:
            scores = self._join(each, scores)
        self._read = []
        if scores is not None:
            self._choose(scores)
        return [*full, *self._rows]

    def _advance(self) -> Float[Tensor, "rows vocab"] | None:
        """The scores for what follows the last tokens, of rows that are not over."""
        if self._state is None:
            return None
        order = _without([row.over for row in self._rows])
        early, self._early = self._early, None
        if len(order) < len(self._rows):
            self._rows = [self._rows[place] for place in order]
            if not order:
                self._state = None
                return None
            self._state.select(order)
            early = None if early is None else early[torch.tensor(order, device=early.device)]
        if early is not None:
            return early
        tokens = torch.tensor([row.token for row in self._rows], device="cpu")
        return self.stepper.step(tokens.to(self._state.lengths.device), self._state)

    def _join(self, read: _Read, scores: Float[Tensor, "rows vocab"] | None) -> Float[Tensor, "rows vocab"]:
        self._rows = [*self._rows, *read.rows]
        if self._state is None or scores is None:  # whoever is alone keeps a state that the stepper knows
            self._state = read.state
            return read.scores
        self._state.join(read.state)
        return torch.cat([scores, read.scores.to(scores.dtype)])

    def _choose(self, scores: Float[Tensor, "rows vocab"]) -> None:
        alike: dict[tuple[int, bool], list[int]] = {}
        for place, row in enumerate(self._rows):
            alike.setdefault((id(row.choose), row.count < row.prompt.config.minimum), []).append(place)
        values = torch.empty(len(scores), dtype=torch.float64, device=scores.device)
        tokens = torch.empty(len(scores), dtype=torch.int64, device=scores.device)
        for places in alike.values():
            rows = [self._rows[place] for place in places]
            chosen = slice(None) if len(places) == len(scores) else torch.tensor(places, device=scores.device)
            values[chosen], tokens[chosen] = _next(rows, scores[chosen])
        if _is_apart(scores):
            wait = on_the_way(values, tokens, check=False)
            if getattr(self.stepper, "early", False) and not any(map(_last, self._rows)):
                self._early = self.stepper.step(tokens, self._state)  # for those that end here too
            values, tokens = wait()
        for row, value, token in zip(self._rows, values.tolist(), tokens.tolist(), strict=True):
            row.take(value, token)


def _is_apart(scores: Tensor) -> bool:
    """Whether a device works while the host does."""
    return scores.is_cuda


def _last(row: Row) -> bool:
    """Whether this token is the last for sure."""
    return row.count >= row.maximum - (not row.prompt.ends)


def _next(
    rows: Sequence[Row], scores: Float[Tensor, "rows vocab"]
) -> tuple[Float[Tensor, "rows"], Int[Tensor, "rows"]]:
    """The next token of rows that are written alike."""
    choose, config = rows[0].choose, rows[0].choose.config
    looks_back = config.repetition_penalty != 1 or config.no_repeat > 0
    history = _history(rows) if looks_back else torch.empty(len(rows), 0, dtype=torch.int64, device="cpu")
    points = None
    if config.method == "sample":
        streams = np.array([row.stream for row in rows])
        points = uniform(streams, np.array([row.count for row in rows], dtype=np.uint64))
    values, tokens = choose(scores, history, rows[0].count, points)
    return values.double(), tokens


def _history(rows: Sequence[Row]) -> Int[Tensor, "rows time"]:
    """As `Request.history`."""
    longest = max(len(row.ids) for row in rows)
    history = torch.full((len(rows), longest), NOTHING, device="cpu")
    for place, row in enumerate(rows):
        first, *rest = row.ids
        special = first in row.prompt.ends or first in row.prompt.suppressed
        history[place, longest - len(row.ids) :] = torch.tensor([START if special else first, *rest])
    return history


def _without(over: Sequence[bool]) -> list[int]:
    """Which rows stay, in an order that moves few: those at the end take the places of those that leave."""
    count = len(over) - sum(over)
    tail = [place for place in range(count, len(over)) if not over[place]]
    return [tail.pop() if over[place] else place for place in range(count)]
