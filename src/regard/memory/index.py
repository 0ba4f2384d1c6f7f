"""Near matches among a million sources, none of them lost.

Of two texts with n and m words, L = max(n, m), a score of s or more leaves at least

    s L / 100  >=  T = ceil(s n / 100)

words that both have. So a match has at least one of the n - T + 1 rarest words of what is looked for, and at
least j + 1 of the n - T + 1 + j rarest, for any j: only their lists are read, and the sources that are often
enough in them are compared word by word (Chaudhuri et al. 2006, prefix filtering; Li et al. 2008,
T-occurrence). tests/memory holds the result equal to a scan over everything.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from regard.memory.words import WORD, levenshtein, occurrences, percent

FEW = 2000
"""So many sources are compared, and no further list is read to have fewer."""
WORTH = 25
"""To compare a source takes about as long as to read fifty entries of a list, and a list halves the
sources."""

Ids = Int[np.ndarray, "ids"]


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The words of all sources, one after the other; a source's number is its place."""

    tokens: Int[np.ndarray, "words"]
    starts: Int[np.ndarray, "sources_and_one"]
    lengths: Int[np.ndarray, "sources"]

    def nearest(
        self,
        query: Sequence[int],
        postings: Callable[[int], Ids],
        count: Callable[[int], int],
        allowed: Bool[np.ndarray, "sources"] | None,
        at_least: int,
        floor: Callable[[], int],
    ) -> Iterator[tuple[int, int]]:
        """Every source that scores `at_least` or more, by its number, and its score; those that may score
        highest come first. When no source can reach `floor()` any more, the others are left out.

        query     numbers of words, in their order; -1 for a word that no source has
        postings  the sources that have a token (a word, the first time or a later one), going up
        count     how many those are
        """
        tokens = occurrences([id for id in query if id >= 0])
        chosen = self._candidates(tokens, len(query), postings, count, at_least)
        if allowed is not None:
            chosen = chosen[allowed[chosen]]
        chosen, bounds = self._bounded(chosen, tokens, len(query), at_least)
        order = np.lexsort((chosen, -bounds))
        wanted, distance = [*query], levenshtein().distance
        for source, bound in zip(chosen[order].tolist(), bounds[order].tolist(), strict=True):
            if bound < floor():
                return
            own = self.tokens[self.starts[source] : self.starts[source + 1]] & WORD
            found = percent(distance(wanted, own.tolist()), max(len(own), len(wanted)))
            if found >= at_least:
                yield source, found

    def _candidates(
        self,
        tokens: Sequence[int],
        words: int,
        postings: Callable[[int], Ids],
        count: Callable[[int], int],
        at_least: int,
    ) -> Ids:
        """Sources that may share enough words."""
        ranked = sorted((count(token), token) for token in tokens)
        unknown = words - len(ranked)  # the rarest of all: they are in no list
        must = words - -(-at_least * words // 100) + 1 - unknown
        if must < 1:
            return np.empty(0, dtype=np.int64)
        seen = np.zeros(len(self.lengths), dtype=np.uint8)
        for _, token in ranked[:must]:
            seen[postings(token)] += 1
        often, chosen = 1, self._fitting(seen, 1, words, at_least)
        for size, token in ranked[must:]:
            if len(chosen) <= FEW or size > WORTH * len(chosen):
                break
            seen[postings(token)] += 1
            often += 1
            chosen = self._fitting(seen, often, words, at_least)
        return chosen

    def _fitting(self, seen: Int[np.ndarray, "sources"], often: int, words: int, at_least: int) -> Ids:
        """Those that were seen so often, and are neither too short nor too long."""
        chosen = np.flatnonzero(seen >= often)
        lengths = self.lengths[chosen]
        return chosen[100 * np.minimum(lengths, words) >= at_least * np.maximum(lengths, words)]

    def _bounded(self, chosen: Ids, tokens: Sequence[int], words: int, at_least: int) -> tuple[Ids, Ids]:
        """Those that can score so much, with the most that they can: all words they share in their places."""
        sizes = self.lengths[chosen]
        ends = sizes.cumsum(dtype=np.int64)
        total = int(ends[-1]) if len(ends) else 0
        places = np.arange(total) + np.repeat(self.starts[chosen] - (ends - sizes), sizes)
        hits = np.isin(self.tokens[places], np.array(tokens, dtype=np.uint32))
        shared = np.add.reduceat(hits, ends - sizes, dtype=np.int64) if total else np.zeros(0, dtype=np.int64)
        bounds = 100 * shared // np.maximum(sizes, words)
        kept = bounds >= at_least
        return chosen[kept], bounds[kept]
