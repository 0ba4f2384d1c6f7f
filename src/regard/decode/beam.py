"""Beam search: the `beam` best hypotheses of each source, followed side by side.

At each step every live hypothesis is continued by every token. Of all continuations of a source, those among
the `beam` best that are an end become finished hypotheses; the `beam` best others live on. Finished ones are
ranked by score / length ** penalty, and the `n_best` are kept.

A live hypothesis leaves as soon as it cannot come to rank above the worst that is kept:

    score / longest ** penalty        the best it could reach: no more score lost, at the maximum length

(its next length, if the penalty is negative). As live hypotheses of a source are equally long, this takes the
worst ones first, and what would have filled their places ranks lower still: the result is that of going on
to the maximum length. tests/decode holds a wide beam equal to a search through everything.

Only the likeliest tokens of each row come to the host, in one transfer; all bookkeeping is done there.

    with watched() as searches:      what each step kept, dropped and finished; results are the same
        decode(...)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decode.config import Hypothesis, rank
from regard.decode.rules import merge_ends_, top
from regard.decode.stepper import Request, Search, real, to_host


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


def search(request: Request) -> Search:
    seen = _searches.get()
    steps: list[BeamStep] | None = None
    if seen is not None:
        seen.append(steps := [])
    config, sources = request.config, len(request.prefixes)
    logits = request.prefill()
    rules, end = request.rules(), int(request.ends[0])
    best = _Best(sources, config.n_best, config.length_penalty)
    owners = torch.arange(sources, device="cpu")  # the source of each row; its better rows come first
    scores = torch.zeros(sources, dtype=torch.float64, device="cpu")
    history = request.history()
    most = 2 * config.beam  # a hypothesis has one end: so many hold `beam` continuations that are none
    length = 0
    while True:
        likely = merge_ends_(rules(logits, history, length), rules.ends)
        values, ids = to_host(*top(likely, most))
        found = _Continuations.of(values, ids, owners, scores, sources, most)
        possible = found.scores > -torch.inf
        ends = possible & (found.tokens == end)
        ended = ends.clone()
        ended[:, config.beam :] = False
        best.finish(found, ended, history, length)

        alive = possible & ~ends
        alive &= alive.cumsum(dim=1) <= config.beam
        alive &= found.scores / _reach(request, length).unsqueeze(1) > best.worst.unsqueeze(1)
        alive[request.maximums <= length] = False
        if config.stop == "full":
            alive[best.finished >= config.beam] = False
        if request.gone:
            alive[[*request.gone]] = False
        if steps is not None:
            steps.append(BeamStep(found.scores, found.rows, found.tokens, ended, alive))
        leaving = ~alive.any(dim=1)
        best.cut_off(owners, scores, leaving, found.rows[ended], history, length)
        if request.told is not None:
            for source in owners[leaving[owners]].unique().tolist():
                request.told(source, best.kept[source])

        owners = alive.nonzero()[:, 0]
        if len(owners) == 0:
            return best.kept
        rows, tokens, scores = found.rows[alive], found.tokens[alive], found.scores[alive]
        history = torch.cat([history[rows], tokens.unsqueeze(1)], dim=1)
        request.state.select(rows)
        logits = yield tokens
        length += 1


def _reach(request: Request, length: int) -> Float[Tensor, "sources"]:
    """What the score of a hypothesis with one more token is divided by, at the length where that is best."""
    penalty = request.config.length_penalty
    longest = request.maximums + 1  # the end counts
    return (longest if penalty >= 0 else torch.full_like(longest, length + 2)).double() ** penalty


@dataclass(frozen=True, slots=True, eq=False)
class _Continuations:
    """The best continuations of each source, best first; of equals, that of the earlier row, then of the
    lower id. Where there are too few, the score is -inf."""

    scores: Float[Tensor, "sources count"]
    rows: Int[Tensor, "sources count"]
    tokens: Int[Tensor, "sources count"]

    @classmethod
    def of(
        cls,
        values: Float[Tensor, "rows count"],
        ids: Int[Tensor, "rows count"],
        owners: Int[Tensor, "rows"],
        scores: Float[Tensor, "rows"],
        sources: int,
        most: int,
    ) -> "_Continuations":
        """`values` are the log-probabilities of the tokens `ids`, which go up along each row."""
        rows, count = ids.shape
        beams = torch.bincount(owners, minlength=sources)
        firsts = beams.cumsum(dim=0) - beams
        grid = scores.new_full((sources, int(beams.max()), count), -torch.inf)
        grid[owners, torch.arange(rows, device="cpu") - firsts[owners]] = scores.unsqueeze(1) + values
        totals, places = grid.flatten(1).sort(dim=1, descending=True, stable=True)
        totals, places = totals[:, :most], places[:, :most]
        origins = (firsts.unsqueeze(1) + places // count).clamp(max=rows - 1)
        return cls(totals, origins, ids[origins, places % count])


class _Best:
    """The hypotheses kept for each source, best first; unfinished ones come last."""

    def __init__(self, sources: int, count: int, penalty: float) -> None:
        self.count, self.penalty = count, penalty
        self.kept: list[list[Hypothesis]] = [[] for _ in range(sources)]
        self.worst = torch.full((sources,), -torch.inf, dtype=torch.float64, device="cpu")
        """What a hypothesis must rank above to be kept."""
        self.finished = torch.zeros(sources, dtype=torch.int64, device="cpu")
        """How many have come to their end, kept or not."""

    def finish(
        self,
        found: _Continuations,
        ended: Bool[Tensor, "sources count"],
        history: Int[Tensor, "rows time"],
        length: int,
    ) -> None:
        """These continuations are ends, behind `length` tokens."""
        self.finished += ended.sum(dim=1)
        better = found.scores / (length + 1) ** self.penalty > self.worst.unsqueeze(1)
        for source, place in (ended & better).nonzero().tolist():
            score = float(found.scores[source, place])
            ids = real(history[found.rows[source, place]])
            kept = self.kept[source]
            kept.append(Hypothesis(ids, score, rank(score, length + 1, self.penalty), finished=True))
            kept.sort(key=lambda hypothesis: -hypothesis.ranking)  # stable: of equals, the first to finish
            del kept[self.count :]
            if len(kept) == self.count:
                self.worst[source] = kept[-1].ranking

    def cut_off(
        self,
        owners: Int[Tensor, "rows"],
        scores: Float[Tensor, "rows"],
        leaving: Bool[Tensor, "sources"],
        ended: Int[Tensor, "ended"],
        history: Int[Tensor, "rows time"],
        length: int,
    ) -> None:
        """Where a source leaves with too few finished hypotheses, its rows make up the number as they are;
        not those that have just `ended`."""
        done = set(ended.tolist())
        for row in leaving[owners].nonzero()[:, 0].tolist():
            kept = self.kept[owners[row]]
            if len(kept) < self.count and row not in done:
                score = float(scores[row])
                ranking = rank(score, length, self.penalty)
                kept.append(Hypothesis(real(history[row]), score, ranking, finished=False))
