"""Which examples make which batch: a pure function of (seed, epoch, step).

Batches hold a budget of tokens, not of examples. Examples of like length come together, so that what does
depend on the longest of a batch (a recurrent pass, a padded kernel) wastes little; then the batches are
shuffled. Lengths are jittered before sorting: an example meets other neighbours in every epoch.

A step takes `parts` batches. Ranks share the parts of a step out among themselves, one process takes them all
in turn: the step sees the same examples either way. So a run is resumed by an integer, and worker threads
only change when a batch is made, never what is in it.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from regard.data.mixing import Mix
from regard.data.packing import Shape
from regard.settings.training import BatchConfig

Made = TypeVar("Made")
Indices = npt.NDArray[np.int64]

JITTER = 0.1
"""How far, as a share of itself, a length may stray when examples are sorted."""

FEW = 100
"""Up to so many batches in an epoch, the emptiness of the last one shows: slightly smaller batches may divide
the examples more evenly."""


class Plan:
    """Batches over examples with one or more sides (source and target), known by their lengths."""

    def __init__(self, lengths: Sequence[npt.ArrayLike], config: BatchConfig, mix: Mix | None = None) -> None:
        """An epoch has every example once; with a `mix`, those that this says."""
        self.config, self._mix = config, mix
        sides = [_whole(np.asarray(side)) for side in lengths]
        if not sides or {side.shape for side in sides} != {(sides[0].size,)}:
            raise ValueError(
                f"lengths has shapes {[side.shape for side in sides]}: give one list for each side, "
                "each with a length for every example"
            )
        self.lengths = np.stack(sides)
        if self.lengths.shape[1] == 0:
            raise ValueError("there are no examples to make batches of")
        if (self.lengths < 0).any():
            side, example = np.argwhere(self.lengths < 0)[0]
            raise ValueError(
                f"example {example} has {self.lengths[side, example]} tokens on side {side}: "
                "give lengths of 0 or more"
            )
        self.slots = self._slots(1.0)
        if (over := self.lengths > self.slots[:, None]).any():
            side, example = np.argwhere(over)[0]
            raise ValueError(
                f"example {example} has {self.lengths[side, example]} tokens on side {side}, but a batch has "
                f"{self.slots[side]} slots there: raise batch.tokens, or shorten the example"
            )
        if 1 < len(self._cut(self._order(0))) < FEW:
            orders = [self._order(epoch) for epoch in range(3)]
            shares = [self._slots(share) for share in np.linspace(1.0, 0.9, 21)]
            self.slots = max(shares, key=lambda slots: self._worth(slots, orders))
        self.epoch = lru_cache(maxsize=2)(self._epoch)
        self.steps = lru_cache(maxsize=None)(self._steps)

    def _slots(self, share: float) -> Indices:
        """This share of the budget, in proportion to each side's tokens, in eights as matrix units like it;
        never more than the budget, and a corpus smaller than it is one batch."""
        totals = np.maximum(self.lengths.sum(axis=1), 1)
        budget = share * min(self.config.tokens, totals.max())
        exact = np.ceil(budget * totals / totals.max()).astype(np.int64)
        down, up = exact - exact % 8, exact + -exact % 8
        slots = np.where(exact > 64, np.where(up > self.config.tokens, down, up), exact)
        longest = self.lengths.max(axis=1)
        return np.maximum(slots, np.minimum(longest, exact) if share == 1 else longest)

    def _worth(self, slots: Indices, orders: list[Indices]) -> float:
        """The efficiency that these slots would have, in the worst of a few epochs; with a little room, since
        other epochs come and one batch more would stand nearly empty."""
        tight = np.maximum(slots - slots // 400, self.lengths.max(axis=1))
        most = max(len(self._cut(order, tight)) for order in orders)
        return 1 / float(most * slots.sum())

    def shapes(self) -> tuple[Shape, ...]:
        """The size that the batches of all epochs fit in, for each side."""
        longest = np.maximum(self.lengths.max(axis=1), 1)
        pool = self.lengths if self._mix is None else self.lengths[:, self._mix.pool]
        # As many of the shortest examples as the budget holds: no batch has more.
        most = min(
            int(np.searchsorted(np.sort(side).cumsum(), slots, side="right"))
            for side, slots in zip(pool, self.slots, strict=True)
        )
        filler = int((-(-self.slots // longest)).max())
        return tuple(
            Shape(slots=int(slots), sequences=most + filler, longest=int(bound))
            for slots, bound in zip(self.slots, longest, strict=True)
        )

    def _epoch(self, epoch: int) -> list[Indices]:
        """All batches of an epoch, in order; each example of it is in exactly one. In a batch, by length: of
        the last side, then of the one before it."""
        batches = [self._by_length(batch) for batch in self._cut(self._order(epoch))]
        shuffled = np.random.default_rng((self.config.seed, epoch, 1)).permutation(len(batches))
        return [batches[index] for index in shuffled]

    def _order(self, epoch: int) -> Indices:
        """All examples of an epoch by jittered length. Both sides of a pair count by their own measure, so
        that every batch has about the overall proportion of the two."""
        sizes = (self.lengths / np.maximum(self.lengths.sum(axis=1, keepdims=True), 1)).sum(axis=0)
        rows = np.arange(len(sizes)) if self._mix is None else self._mix.rows(epoch)
        random = np.random.default_rng((self.config.seed, epoch, 0))
        jittered = sizes[rows] * random.uniform(1 - JITTER, 1 + JITTER, size=len(rows))
        return rows[np.argsort(jittered, kind="stable")]

    def _cut(self, order: Indices, slots: Indices | None = None) -> list[Indices]:
        slots = self.slots if slots is None else slots
        ends = self.lengths[:, order].cumsum(axis=1)
        batches, start = [], 0
        while start < len(order):
            used = ends[:, start - 1] if start else np.zeros(len(ends), dtype=np.int64)
            stop = min(
                int(np.searchsorted(side, limit, side="right"))
                for side, limit in zip(ends, used + slots, strict=True)
            )
            batches.append(order[start:stop])
            start = stop
        return batches

    def _by_length(self, batch: Indices) -> Indices:
        return batch[np.lexsort([side[batch] for side in self.lengths])]

    def _steps(self, epoch: int) -> int:
        return -(-len(self._cut(self._order(epoch))) // self.config.parts)

    def batches(self, epoch: int, step: int, rank: int = 0, ranks: int = 1) -> list[Indices]:
        """The batches of one step that this rank takes. The last step of an epoch may have fewer than
        `parts`, so a rank may have none there."""
        if epoch < 0:
            raise IndexError(f"there is no epoch {epoch}: they count from 0")
        if not 0 <= rank < ranks:
            raise ValueError(f"rank={rank} is none of {ranks} ranks: they count from 0")
        if self.config.parts % ranks:
            raise ValueError(
                f"{ranks} ranks cannot share batch.parts={self.config.parts} evenly: "
                f"choose a multiple of {ranks}"
            )
        if not 0 <= step < self.steps(epoch):
            raise IndexError(f"epoch {epoch} has {self.steps(epoch)} steps; there is no step {step}")
        first = step * self.config.parts
        return self.epoch(epoch)[first : first + self.config.parts][rank::ranks]

    def locate(self, step: int) -> tuple[int, int]:
        """The epoch and the step in it that is the `step`-th of the whole run, both from 0."""
        if step < 0:
            raise IndexError(f"there is no step {step}: they count from 0")
        epoch = 0
        while step >= (steps := self.steps(epoch)):
            step -= steps
            epoch += 1
        return epoch, step


def _whole(lengths: npt.NDArray[Any]) -> Indices:
    if lengths.size and lengths.dtype.kind not in "iu":
        raise TypeError(f"lengths of type {lengths.dtype} are no counts of tokens: give whole numbers")
    return lengths.astype(np.int64)


def prefetch(jobs: Iterator[Callable[[], Made]], workers: int = 0, ahead: int = 4) -> Iterator[Made]:
    """The results of the jobs, in the order of the jobs. Worker threads make the next few while the caller is
    busy with the last; with none, each is made when it is asked for. The results are the same."""
    if workers == 0:
        for job in jobs:
            yield job()
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="regard-batches")
    waiting: list[Future[Made]] = []
    try:
        for future in _submitted(jobs, pool):
            waiting.append(future)
            if len(waiting) > ahead:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _submitted(jobs: Iterator[Callable[[], Made]], pool: ThreadPoolExecutor) -> Iterator[Future[Made]]:
    """Where `jobs` itself fails, that is the next result: those before it still come first."""
    try:
        for job in jobs:
            yield pool.submit(job)
    except Exception as error:
        failed: Future[Made] = Future()
        failed.set_exception(error)
        yield failed
