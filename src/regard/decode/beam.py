"""Beam search: the `beam` best hypotheses of each source, followed side by side.

At each step every live hypothesis is continued by every token. Of all continuations of a source, those among
the `beam` best that are an end become finished hypotheses; the `beam` best others live on. Finished ones are
ranked by score / length ** penalty, and the `n_best` are kept.

A live hypothesis leaves as soon as it cannot come to rank above the worst that is kept:

    score / longest ** penalty        the best it could reach: no more score lost, at the maximum length

(its next length, if the penalty is negative). As live hypotheses of a source are equally long, this takes the
worst ones first, and what would have filled their places ranks lower still: the result is that of going on
to the maximum length. With `stop="estimate"` a source leaves when the best that is live would not rank above
the worst of `beam` finished ones, were it to end as it is. tests/decode holds a wide beam equal to a search
through everything.

Only the likeliest tokens of each row come to the host, in one transfer; all bookkeeping is done there, by
numpy: an operation on so few numbers takes torch three times as long.

    with watched() as searches:      what each step kept, dropped and finished; results are the same
        decode(...)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decode.config import Hypothesis, most_kept, rank
from regard.decode.rules import Rules, Scores, merge_ends_, top
from regard.decode.stepper import Request, Search, check_numbers, real, to_host


@dataclass(frozen=True, slots=True, eq=False)
class BeamStep:
    """What one step decided about the best continuations of each source, best first."""

    scores: Float[Tensor, "sources count"]
    """Of the whole hypothesis so far; -inf where there are too few."""
    rows: Int[Tensor, "sources count"]
    """The hypothesis that each continues: the number of a True of the step before's `alive`, counted along
    the rows; of the first step, the source itself."""
    tokens: Int[Tensor, "sources count"]
    ended: Bool[Tensor, "sources count"]
    """Finished here."""
    alive: Bool[Tensor, "sources count"]
    """Followed further. What is neither was dropped."""


_searches: ContextVar[list[list[BeamStep]] | None] = ContextVar("_searches", default=None)


@contextmanager
def watched() -> Iterator[list[list[BeamStep]]]:
    """The steps of each beam search that this thread makes inside the block."""
    found: list[list[BeamStep]] = []
    before = _searches.set(found)
    try:
        yield found
    finally:
        _searches.reset(before)


def is_watched() -> bool:
    """Whether this thread is inside such a block."""
    return _searches.get() is not None


def search(request: Request) -> Search:
    seen = _searches.get()
    steps: list[BeamStep] | None = None
    if seen is not None:
        seen.append(steps := [])
    config, sources = request.config, len(request.prefixes)
    logits = request.prefill()
    rules, end = request.rules(), int(request.ends[0])
    best = Best(sources, most_kept(config), config.length_penalty)
    owners = np.arange(sources)  # the source of each row; its better rows come first
    scores = np.zeros(sources)
    history, maximums = request.history().numpy(), request.maximums.numpy()
    most = 2 * config.beam  # a hypothesis has one end: so many hold `beam` continuations that are none
    length = 0
    while True:
        values, ids = _likeliest(rules, logits, history, length, most)
        del logits  # the next ones may take their room
        found = _Continuations.of(values, ids, owners, scores, sources, most)
        possible = found.scores > -np.inf
        ends = possible & (found.tokens == end)
        ended = ends.copy()
        ended[:, config.beam :] = False
        best.finish(found, ended, history, length)

        alive = possible & ~ends
        alive &= alive.cumsum(axis=1) <= config.beam
        alive &= found.scores / reach(request, length)[:, None] > best.worst[:, None]
        alive[maximums <= length] = False
        if config.stop == "full":
            alive[best.finished >= config.beam] = False
        elif config.stop == "estimate":
            held = np.where(alive, found.scores, -np.inf).max(axis=1)
            alive[held / (length + 1) ** config.length_penalty <= best.worst] = False
        if request.gone:
            alive[[*request.gone]] = False
        if steps is not None:
            steps.append(_step(found, ended, alive))
        leaving = ~alive.any(axis=1)
        best.cut_off(owners, scores, leaving, found.rows[ended], history, length)
        if request.told is not None:
            for source in np.unique(owners[leaving[owners]]).tolist():
                request.told(source, best.kept[source][: config.n_best])

        owners = alive.nonzero()[0]
        if len(owners) == 0:
            return [each[: config.n_best] for each in best.kept]
        rows, tokens, scores = found.rows[alive], found.tokens[alive], found.scores[alive]
        history = np.concatenate([history[rows], tokens[:, None]], axis=1)
        request.state.select(torch.from_numpy(rows))
        logits = yield torch.from_numpy(tokens)
        length += 1


def _likeliest(
    rules: Rules, logits: Scores, history: Int[np.ndarray, "rows time"], length: int, most: int
) -> tuple[Float[np.ndarray, "rows count"], Int[np.ndarray, "rows count"]]:
    """Log-probabilities and ids."""
    found = rules.best(logits, length, most) if len(rules.ends) == 1 else None
    if found is None:
        likely = merge_ends_(rules(logits, torch.from_numpy(history), length), rules.ends)
        values, ids = to_host(*top(likely, most))
    else:
        values, ids = found
        check_numbers(values.numpy())
    return values.numpy(), ids.numpy()


def reach(request: Request, length: int) -> Float[np.ndarray, "sources"]:
    """What the score of a hypothesis with one more token is divided by, at the length where that is best."""
    penalty, maximums = request.config.length_penalty, request.maximums.numpy()
    longest = maximums + 1 if penalty >= 0 else np.full_like(maximums, length + 2)  # the end counts
    found: Float[np.ndarray, sources] = longest.astype(np.float64) ** penalty
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Continuations:
    """The best continuations of each source, best first; of equals, that of the earlier row, then of the
    lower id. Where there are too few, the score is -inf."""

    scores: Float[np.ndarray, "sources count"]
    rows: Int[np.ndarray, "sources count"]
    tokens: Int[np.ndarray, "sources count"]

    @classmethod
    def of(
        cls,
        values: Float[np.ndarray, "rows count"],
        ids: Int[np.ndarray, "rows count"],
        owners: Int[np.ndarray, "rows"],
        scores: Float[np.ndarray, "rows"],
        sources: int,
        most: int,
    ) -> "_Continuations":
        """`values` are the log-probabilities of the tokens `ids`, which go up along each row."""
        rows, count = ids.shape
        beams = np.bincount(owners, minlength=sources)
        firsts = beams.cumsum() - beams
        grid = np.full((sources, int(beams.max()), count), -np.inf)
        grid[owners, np.arange(rows) - firsts[owners]] = scores[:, None] + values
        totals = grid.reshape(sources, -1)
        places = (-totals).argsort(axis=1, kind="stable")[:, :most]
        origins = np.minimum(firsts[:, None] + places // count, rows - 1)
        return cls(np.take_along_axis(totals, places, axis=1), origins, ids[origins, places % count])


def _step(
    found: _Continuations, ended: Bool[np.ndarray, "sources count"], alive: Bool[np.ndarray, "sources count"]
) -> BeamStep:
    every = (found.scores, found.rows, found.tokens, ended, alive)
    return BeamStep(*(torch.from_numpy(each) for each in every))


class Best:
    """The hypotheses kept for each source, best first; unfinished ones come last."""

    def __init__(self, sources: int, count: int, penalty: float) -> None:
        self.count, self.penalty = count, penalty
        self.kept: list[list[Hypothesis]] = [[] for _ in range(sources)]
        self.worst = np.full(sources, -np.inf)
        """What a hypothesis must rank above to be kept."""
        self.finished = np.zeros(sources, dtype=np.int64)
        """How many have come to their end, kept or not."""

    def finish(
        self,
        found: _Continuations,
        ended: Bool[np.ndarray, "sources count"],
        history: Int[np.ndarray, "rows time"],
        length: int,
    ) -> None:
        """These continuations are ends, behind `length` tokens."""
        self.finished += ended.sum(axis=1)
        better = found.scores / (length + 1) ** self.penalty > self.worst[:, None]
        for source, place in np.argwhere(ended & better).tolist():
            score = float(found.scores[source, place])
            ids = real(history[found.rows[source, place]])
            self._keep(source, score, ids, length)

    def add(self, source: int, ended: Sequence[tuple[float, tuple[int, ...]]], length: int) -> None:
        """The same for one source, by scores and tokens."""
        self.finished[source] += len(ended)
        for score, ids in ended:
            if score / (length + 1) ** self.penalty > self.worst[source]:
                self._keep(source, score, ids, length)

    def _keep(self, source: int, score: float, ids: tuple[int, ...], length: int) -> None:
        kept = self.kept[source]
        kept.append(Hypothesis(ids, score, rank(score, length + 1, self.penalty), finished=True))
        kept.sort(key=lambda hypothesis: -hypothesis.ranking)  # stable: of equals, the first to finish
        del kept[self.count :]
        if len(kept) == self.count:
            self.worst[source] = kept[-1].ranking

    def cut_off(
        self,
        owners: Int[np.ndarray, "rows"],
        scores: Float[np.ndarray, "rows"],
        leaving: Bool[np.ndarray, "sources"],
        ended: Int[np.ndarray, "ended"],
        history: Int[np.ndarray, "rows time"],
        length: int,
    ) -> None:
        """Where a source leaves with too few finished hypotheses, its rows make up the number as they are;
        not those that have just `ended`."""
        done = {*ended.tolist()}
        for row in leaving[owners].nonzero()[0].tolist():
            kept = self.kept[owners[row]]
            if len(kept) < self.count and row not in done:
                score = float(scores[row])
                ranking = rank(score, length, self.penalty)
                kept.append(Hypothesis(real(history[row]), score, ranking, finished=False))
