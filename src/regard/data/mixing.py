"""Own text and general text in every epoch, by share: which pairs it has is a function of (seed, epoch).

An epoch has every own pair once, and so many general ones that they hold the wanted share of its tokens, on
the mean over epochs. General text is walked through shuffle by shuffle, so that all of it is seen before
anything comes again, however little of it an epoch takes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.store import Column, Store

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mix:
    """Rows 0 to `own` - 1 are own text, the `general` rows after them are general."""

    own: int
    general: int
    drawn: int
    """General rows in an epoch."""
    seed: int = 0

    @classmethod
    def of(cls, own: npt.ArrayLike, general: npt.ArrayLike, share: float, seed: int = 0) -> "Mix":
        """For rows with so many tokens, and this share of the tokens from the general ones."""
        if not 0 < share < 1:
            raise ValueError(f"share={share} must be above 0 and below 1")
        tokens, others = np.asarray(own), np.asarray(general)
        wanted = share / (1 - share) * int(tokens.sum())
        drawn = max(1, round(wanted / max(float(others.mean()), 1e-9)))
        return cls(own=len(tokens), general=len(others), drawn=drawn, seed=seed)

    def rows(self, epoch: int) -> Indices:
        """Of an epoch: own ones, then general ones."""
        first, last = epoch * self.drawn, (epoch + 1) * self.drawn
        rounds = range(first // self.general, -(-last // self.general))
        walked = np.concatenate([_shuffled(self.seed, number, self.general) for number in rounds])
        start = first - rounds.start * self.general
        return np.concatenate([np.arange(self.own), self.own + walked[start : start + self.drawn]])

    @property
    def pool(self) -> Indices:
        """All rows, each as often as one epoch may hold it."""
        again = -(-self.drawn // self.general) + (self.drawn % self.general != 0)
        return np.concatenate([np.arange(self.own), np.repeat(self.own + np.arange(self.general), again)])


@lru_cache(maxsize=4)
def _shuffled(seed: int, number: int, count: int) -> Indices:
    return np.random.default_rng((seed, number, 2)).permutation(count)


class JoinedColumn:
    """Two columns, the rows of the second after those of the first."""

    def __init__(self, first: Column, second: Column) -> None:
        self._first, self._second = first, second
        self.lengths = np.concatenate([first.lengths, second.lengths])

    def __len__(self) -> int:
        return len(self.lengths)

    def gather(self, rows: Indices, *, skip_first: int = 0, skip_last: int = 0) -> npt.NDArray[Any]:
        """As `Column.gather`."""
        count = len(self._first)
        others = rows >= count
        skips = {"skip_first": skip_first, "skip_last": skip_last}
        first = self._first.gather(rows[~others], **skips)
        second = self._second.gather(rows[others] - count, **skips)
        places = np.repeat(others, np.maximum(self.lengths[rows] - skip_first - skip_last, 0))
        values = np.empty(len(places), dtype=np.promote_types(first.dtype, second.dtype))
        values[~places], values[places] = first, second
        return values


def joined(first: Store, second: Store) -> Mapping[str, JoinedColumn]:
    """The columns of two stores that have the same."""
    return {name: JoinedColumn(first[name], second[name]) for name in first.columns}
