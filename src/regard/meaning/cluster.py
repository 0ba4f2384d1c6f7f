"""Texts that mean alike, found by their vectors.

    kmeans          k clusters that share out all texts: those nearest to each of k means, by cosine
    communities     a text and all within a threshold of it, the largest first, without overlaps; the rest
                    stays alone (the idea of sentence-transformers' community_detection, exactly)

Both give the same every time. tests/meaning/test_cluster.py holds communities equal to a loop over all
pairs.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.tasks.base.vectors import Rows, Unit, normalised, products, uncertainty

MOST_CLUSTERS = 50
"""That `choose_k` gives: more than a person reads."""
MINI_ROWS = 20_000
"""Past so many texts, k-means looks at samples of them in turn."""
TOLERANCE = 1e-6
"""How far below the threshold counts as reaching it, so that equal texts are neighbours at 1.0."""

_ROWS, _COLUMNS = 512, 16_384
"""The largest matrix of cosines held at once."""


@dataclass(frozen=True, slots=True)
class Cluster:
    rows: tuple[int, ...]
    """Counted from 0, the most central first."""
    closeness: tuple[float, ...]
    """The cosine of each with the centre, which is the mean of all."""

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Clustering:
    clusters: tuple[Cluster, ...]
    """The largest first."""
    alone: tuple[int, ...] = ()
    """The rows that are in none."""

    @property
    def texts(self) -> int:
        """How many there are in all."""
        return sum(map(len, self.clusters)) + len(self.alone)

    def numbers(self) -> list[int | None]:
        """For each text the number of its cluster, from 0; None if it is alone."""
        found: list[int | None] = [None] * self.texts
        for number, cluster in enumerate(self.clusters):
            for row in cluster.rows:
                found[row] = number
        return found


def choose_k(texts: int) -> int:
    """A number of clusters for so many texts: sqrt(texts / 2), at least 2 and at most 50, and never more
    than there are texts."""
    return min(texts, max(2, min(MOST_CLUSTERS, round((texts / 2) ** 0.5))))


def kmeans(vectors: npt.ArrayLike, k: int | None = None, seed: int = 0) -> Clustering:
    """Clusters on the unit sphere; `choose_k` chooses where no k is given. There are fewer than k where
    fewer texts differ."""
    unit = normalised(vectors)
    k = choose_k(len(unit)) if k is None else k
    if not len(unit):
        return Clustering(())
    if not 1 <= k <= len(unit):
        raise ValueError(f"k={k} clusters of {len(unit)} texts: choose from 1 to {len(unit)}")
    labels = _kmeans_labels(unit, k, seed)
    return _clustering(unit, (np.flatnonzero(labels == label) for label in np.unique(labels)))


def _kmeans_labels(unit: Unit, k: int, seed: int) -> npt.NDArray[Any]:
    from sklearn.cluster import KMeans, MiniBatchKMeans  # slow to import
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    model: Any
    if len(unit) > MINI_ROWS:
        model = MiniBatchKMeans(n_clusters=k, batch_size=4096, n_init=4, random_state=seed)
    else:
        model = KMeans(n_clusters=k, max_iter=100, n_init=4, random_state=seed)
    # Threads would add up their shares in the order they finish.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer texts differ than k: there are less then
        return model.fit(unit).labels_


def communities(vectors: npt.ArrayLike, threshold: float = 0.75, smallest: int = 2) -> Clustering:
    """Every text in turn, from the one with most neighbours on (at a cosine of `threshold` or more), claims
    those that nobody has claimed before, if they are at least `smallest` with itself. Memory grows with the
    texts, not with their pairs; time with the pairs."""
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold={threshold}: it is a cosine, choose from above 0 to 1")
    if smallest < 1:
        raise ValueError(f"smallest={smallest}: a community has 1 text or more")
    unit = normalised(vectors)
    counts = _count_neighbours(unit, threshold)
    order = np.argsort(-counts, kind="stable")
    waiting = order[counts[order] >= smallest]
    taken = np.zeros(len(unit), dtype=bool)
    groups = []
    while len(waiting):
        centres, free = waiting[:_ROWS], np.flatnonzero(~taken)
        near = _near(unit[centres], unit[free], threshold)
        for centre, reached in zip(centres, near, strict=True):
            members = free[reached & ~taken[free]]
            if not taken[centre] and len(members) >= smallest:
                groups.append(members)
                taken[members] = True
        waiting = waiting[_ROWS:]
        waiting = waiting[~taken[waiting]]
    return _clustering(unit, groups)


def _count_neighbours(unit: Unit, threshold: float) -> Rows:
    """Each pair is looked at once."""
    counts = np.zeros(len(unit), dtype=np.int64)
    for start in range(0, len(unit), _ROWS):
        rows = unit[start : start + _ROWS]
        counts[start : start + _ROWS] += _near(rows, rows, threshold).sum(axis=1)
        for later in range(start + _ROWS, len(unit), _COLUMNS):
            near = _near(rows, unit[later : later + _COLUMNS], threshold)
            counts[start : start + _ROWS] += near.sum(axis=1)
            counts[later : later + _COLUMNS] += near.sum(axis=0)
    return counts


def _near(left: Unit, right: Unit, threshold: float) -> npt.NDArray[np.bool_]:
    """Whether each pair's cosine reaches the threshold; [left, right]. Where float32 cannot tell, float64
    does, so that the answer does not depend on the block that a pair falls into."""
    least = threshold - TOLERANCE
    doubt = uncertainty(left.shape[1])
    near = np.empty((len(left), len(right)), dtype=bool)
    for start in range(0, len(right), _COLUMNS):
        rough = left @ right[start : start + _COLUMNS].T
        near[:, start : start + _COLUMNS] = rough >= least
        rows, columns = np.nonzero(np.abs(rough - np.float32(least)) <= doubt)
        columns += start
        near[rows, columns] = products(left, rows, right, columns) >= least
    return near


def _clustering(unit: Unit, groups: Iterable[Rows]) -> Clustering:
    found = [_cluster(unit, rows) for rows in groups]
    clusters = sorted(found, key=lambda each: (-len(each), min(each.rows)))
    alone = np.ones(len(unit), dtype=bool)
    for cluster in clusters:
        alone[list(cluster.rows)] = False
    return Clustering(tuple(clusters), tuple(np.flatnonzero(alone).tolist()))


def _cluster(unit: Unit, rows: Rows) -> Cluster:
    centre = normalised(unit[rows].mean(axis=0, dtype=np.float64, keepdims=True))
    closeness = products(unit, rows, centre, np.zeros_like(rows))
    order = np.lexsort((rows, -closeness))
    return Cluster(tuple(rows[order].tolist()), tuple(closeness[order].clip(-1, 1).tolist()))
