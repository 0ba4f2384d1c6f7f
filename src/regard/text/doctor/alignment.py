"""Which lines are translations of each other, judged by words alone.

A lexicon is learned from the corpus itself: expectation maximisation as in IBM Model 1 (Brown et al. 1993),
over the rarest known words of each line. For words s and t of the two sides it holds how much likelier they
are to be translations of each other than chance has it,

    lift(s, t) = p(t | s) / p(t)

and from it comes the evidence that lines S and T belong together, in nats: positive for, negative against.

    evidence(S, T) = 1/2 sum_t log(a + (1-a) sum_s lift(s, t)) + 1/2 sum_s log(a + (1-a) sum_t lift(s, t))

Evidence adds up over lines. So where one side slipped against the other, and by how much, is the best path
through the evidence for each shift, where each change of the shift has its price.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Grid = NDArray[np.int16]
"""The words that are looked at, a row for each line."""

KNOWN = 4096
"""The most words of a side that the lexicon holds."""
LOOKED_AT = 16
"""The most words of a line that are looked at: the rarest, for they tell most."""
SAMPLE = 60_000
"""The most pairs that the lexicon is learned from."""
SHIFT = 8
"""The farthest that lines are looked for beside their place."""

_SEEN = 3
_COMMON = 100
_CHANCE = 0.15
_CHUNK = 4096
_BLOCK = 16
_PRICE = 25.0
_SHORTEST_RUN = 5
_FEW = 3
_FEWEST = 500
_ENOUGH = 5000
_CONVINCING = 0.25
_SURE = 0.85


@dataclass(frozen=True, slots=True)
class Words:
    """The words of many lines, as numbers, end to end."""

    ids: NDArray[np.int32]
    ends: Ints
    """Where each line ends."""

    def __len__(self) -> int:
        return len(self.ends)

    def cut(self, start: int, stop: int) -> "Words":
        """Some of the lines."""
        before = int(self.ends[start - 1]) if start else 0
        after = int(self.ends[stop - 1]) if stop > start else before
        return Words(self.ids[before:after], self.ends[start:stop] - before)

    def sums(self, values: Floats) -> NDArray[np.float64]:
        """For each line, what the values of its words add up to."""
        running = np.concatenate([[0.0], np.cumsum(values[self.ids], dtype=np.float64)])
        return running[self.ends] - running[self.ends - self.counts]

    @property
    def counts(self) -> Ints:
        return np.diff(self.ends, prepend=0)

    @property
    def rows(self) -> Ints:
        """For each word, its line."""
        return np.repeat(np.arange(len(self)), self.counts)


@dataclass(frozen=True, slots=True)
class Run:
    """Lines from `start` to before `stop` whose source fits the target `shift` lines further down."""

    start: int
    stop: int
    shift: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """What words say about the pairs of one file."""

    evidence: Floats
    """In nats, for each pair."""
    unlike: NDArray[np.bool_]
    """Pairs that fit no better than lines drawn at random do."""
    runs: tuple[Run, ...]


class Aligner:
    """Learns from the pairs of a corpus and judges them, or others of the same kind."""

    related: bool | None
    """Whether the two sides are translations at all; None where there is too little text to say."""
    sure: bool
    """Whether enough was learned to judge single pairs, not only long runs of them."""

    def __init__(self, source: Words, target: Words, size: int) -> None:
        """All numbers of words are less than `size`."""
        self._known, self._ranks = zip(
            *(_most_frequent(side, size) for side in (source, target)), strict=True
        )
        left, right = self._ranks
        same = np.flatnonzero((left >= _COMMON) & (right >= _COMMON))  # names and numbers stay what they are
        self._same = left[same] * (self._known[1] + 1) + right[same]
        grids = self._grids(source, target)
        fitting = self._learn(*grids)
        if fitting < _CONVINCING:
            fitting = self._learn_shifted(*grids)
        self.related = fitting >= _CONVINCING
        if len(source) < _FEWEST or (not self.related and len(source) < _ENOUGH):
            self.related = None
        self.sure = bool(self.related) and (fitting >= _SURE or len(source) >= _ENOUGH)

    def judge(self, source: Words, target: Words) -> Judgement:
        left, right = self._grids(source, target)
        evidence = self.evidence(left, right)
        if not self.related:
            return Judgement(evidence, np.zeros(len(left), bool), ())
        runs = self._runs(left, right, evidence)
        enough = np.minimum(*self._sizes(left, right)) >= _FEW
        unlike = enough & (evidence < self._bar * self._longer(left, right)) & self.sure
        for run in runs:
            unlike[run.start : run.stop] = False
        return Judgement(evidence, unlike, tuple(runs))

    def evidence(self, source: Grid, target: Grid) -> Floats:
        total = np.empty(len(source), np.float32)
        for rows in _chunks(len(source)):
            s, t = source[rows].astype(np.int64), target[rows].astype(np.int64)
            lifts = self._lift.ravel()[s[:, :, None] * (self._known[1] + 1) + t[:, None, :]]
            forth = np.where(t < self._known[1], np.log(_CHANCE + (1 - _CHANCE) * lifts.sum(1)), 0).sum(1)
            back = np.where(s < self._known[0], np.log(_CHANCE + (1 - _CHANCE) * lifts.sum(2)), 0).sum(1)
            total[rows] = (forth + back) / 2
        return total

    def _grids(self, source: Words, target: Words) -> tuple[Grid, Grid]:
        return _rarest(source, self._ranks[0], self._known[0]), _rarest(
            target, self._ranks[1], self._known[1]
        )

    def _sizes(self, source: Grid, target: Grid) -> tuple[Ints, Ints]:
        return (source < self._known[0]).sum(1), (target < self._known[1]).sum(1)

    def _longer(self, source: Grid, target: Grid) -> Ints:
        return np.maximum(np.maximum(*self._sizes(source, target)), 1)

    def _learn(self, source: Grid, target: Grid) -> float:
        """Expectation maximisation; returns what `_compare` does.

        A word may also come from nowhere, with a lift of 1. Counts lose 1, so that no pair of words is
        believed for the one pair of lines in which it stands.
        """
        whole = source, target
        step = max(1, -(-len(source) // SAMPLE))
        source, target = source[::step], target[::step]
        height, width = self._known[0] + 1, self._known[1] + 1
        totals = np.bincount(source.ravel(), minlength=height), np.bincount(target.ravel(), minlength=width)
        chance = (len(source) / np.maximum(totals[0][:, None] * totals[1], 1)).astype(np.float32)
        self._lift: Floats = np.ones((height, width), np.float32)
        for _ in range(4):
            self._lift[-1], self._lift[:, -1] = 0, 0
            together = np.zeros(height * width, np.float32)
            for rows in _chunks(len(source)):
                codes = source[rows].astype(np.int64)[:, :, None] * width + target[rows][:, None, :]
                lifts = self._lift.ravel()[codes]
                shares = lifts / (1 + lifts.sum(1, keepdims=True)) + lifts / (1 + lifts.sum(2, keepdims=True))
                np.add.at(together, codes.ravel(), shares.ravel() / 2)
            together[self._same] += 2
            self._lift = np.maximum(together.reshape(height, width) - 1, 0) * chance
        self._lift[-1], self._lift[:, -1] = 0, 0
        return self._compare(*whole)

    def _learn_shifted(self, source: Grid, target: Grid) -> float:
        """A line lost near the start leaves nothing to learn from in place: look beside it."""
        moved = {shift: np.roll(target, -shift, axis=0) for shift in (-1, 1, -2, 2, -3, 3)}
        fitting = {shift: self._learn(source[:20_000], other[:20_000]) for shift, other in moved.items()}
        return self._learn(source, moved[max(fitting, key=lambda shift: fitting[shift])])

    def _compare(self, source: Grid, target: Grid) -> float:
        """The share of pairs that fit better than nearly all strangers do. Sets the bars, in nats a word."""
        step = max(1, len(source) // 10_000)
        strangers = np.roll(target, int(0.38 * len(source)), axis=0)[::step]
        source, target = source[::step], target[::step]
        own = self.evidence(source, target) / self._longer(source, target)
        strange = self.evidence(source, strangers) / self._longer(source, strangers)
        if not len(own):
            return 0.0
        middle = float(np.median(own))
        spread = 1.4826 * float(np.median(np.abs(own - middle)))
        self._strange = float(np.quantile(strange, 0.75))
        self._bar = min(self._strange, max(middle - 3 * spread, 0.9 * float(np.log(_CHANCE))))
        return float((own > np.quantile(strange, 0.95)).mean())

    def _runs(self, source: Grid, target: Grid, evidence: Floats) -> list[Run]:
        runs = []
        for start, stop in _stretches(evidence / self._longer(source, target) < self._strange / 2):
            table = np.full((stop - start, 2 * SHIFT + 1), -_PRICE, np.float32)
            for shift in range(-SHIFT, SHIFT + 1):
                low, high = max(start, -shift), min(stop, len(source) - shift)
                if low < high:
                    table[low - start : high - start, shift + SHIFT] = self.evidence(
                        source[low:high], target[low + shift : high + shift]
                    )
            path = _best_path(table, SHIFT) - SHIFT
            edges = np.flatnonzero(np.diff(path, prepend=0, append=0))
            for low, high in pairwise(edges.tolist()):
                if path[low] and high - low >= _SHORTEST_RUN:
                    runs.append(Run(start + low, start + high, int(path[low])))
        return runs


def _most_frequent(words: Words, size: int) -> tuple[int, Ints]:
    """How many words are known, and for each its rank, most frequent first; -1 for those that are not."""
    counts = np.bincount(words.ids, minlength=size)
    order = np.argsort(-counts, kind="stable")[:KNOWN]
    order = order[counts[order] >= _SEEN]
    ranks = np.full(size, -1, np.int64)
    ranks[order] = np.arange(len(order))
    return len(order), ranks


def _rarest(words: Words, ranks: Ints, known: int) -> Grid:
    """The rarest known words of each line, each once; a row is filled up with the number `known`."""
    rank = ranks[words.ids]
    width = known + 1
    keys = (words.rows * width + (known - rank))[rank >= 0]
    keys.sort()
    keys = keys[np.diff(keys, prepend=-1) > 0]
    rows, rank = keys // width, known - keys % width
    places = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(words)))[rows]
    grid = np.full((len(words), LOOKED_AT), known, np.int16)
    kept = places < LOOKED_AT
    grid[rows[kept], places[kept]] = rank[kept]
    return grid


def _stretches(bad: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Where half of the lines are bad, and a little before and after."""
    starts = np.arange(0, len(bad), _BLOCK)
    if not len(starts):
        return
    shares = np.add.reduceat(bad.astype(np.int64), starts) / np.diff(starts, append=len(bad))
    wide = np.convolve(shares >= 0.5, np.ones(5), mode="same")[: len(starts)] > 0
    edges = np.flatnonzero(np.diff(wide.astype(int), prepend=0, append=0))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        yield int(start * _BLOCK), int(min(stop * _BLOCK, len(bad)))


def _best_path(table: Floats, start: int) -> Ints:
    """For each row a column, such that they add up to most. A change has its price; so has another start."""
    scores = np.full(table.shape[1], -_PRICE)
    scores[start] = 0
    stayed = np.empty(table.shape, bool)
    best = np.empty(len(table), np.int64)
    for row, gains in enumerate(table):
        best[row] = scores.argmax()
        change = scores[best[row]] - _PRICE
        stayed[row] = scores >= change
        scores = np.maximum(scores, change) + gains
    path = np.empty(len(table), np.int64)
    column = int(scores.argmax())
    for row in range(len(table) - 1, -1, -1):
        path[row] = column
        if not stayed[row, column]:
            column = int(best[row])
    return path


def _chunks(size: int) -> Iterator[slice]:
    for start in range(0, size, _CHUNK):
        yield slice(start, min(start + _CHUNK, size))
