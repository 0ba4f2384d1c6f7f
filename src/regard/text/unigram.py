"""Learning the pieces of a Unigram model (Kudo 2018, section 3.2).

    P(word) = sum over its segmentations of prod P(piece)

Start from the frequent substrings; maximise the likelihood of the words by EM; drop the pieces whose loss
would hurt it least; repeat until few enough are left. The trainer of the `tokenizers` library sums over a
hash map whose order changes from run to run, so its vocabulary does too; here every sum has a fixed order.
"""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LONGEST_PIECE = 16
WORDS = 100_000  # the rest is too rare to change the pieces, and would fill the memory
LONGEST_WORD = 48  # longer ones (scripts without spaces) are cut into stretches of this length
SEEDS_PER_PIECE = 10
KEPT_PER_ROUND = 0.75
STEPS_PER_ROUND = 2


def learn_pieces(counts: Mapping[str, int], alphabet: Sequence[str], size: int) -> list[tuple[str, float]]:
    """At most `size` pieces with their log-probabilities, best first; all of `alphabet` is among them."""
    stretches, weights = _stretches(counts)
    seeds = _seeds(stretches, weights, alphabet, SEEDS_PER_PIECE * size)
    pieces, expected = list(seeds), np.array(list(seeds.values()))
    scores = np.log(expected / expected.sum())
    lattice = Lattice.of(stretches, pieces)
    spellings = Lattice.of(pieces, pieces, whole=False)
    while True:
        for _ in range(STEPS_PER_ROUND):
            expected = lattice.expected_counts(scores, weights)
            scores = np.log(np.maximum(expected, 1e-3) / expected.sum())
        if len(pieces) <= size:
            break
        # A piece that goes is spelt by the best segmentation of it into others: the loss is how often that
        # happens, times the drop in log-probability.
        losses = expected * (scores - spellings.totals(scores, np.maximum))
        losses[: len(alphabet)] = np.inf
        left = max(size, int(KEPT_PER_ROUND * len(pieces)))
        kept = np.sort(np.argsort(-losses, kind="stable")[:left])
        pieces, scores = [pieces[i] for i in kept], scores[kept]
        lattice, spellings = lattice.with_pieces(kept), spellings.with_pieces(kept).with_words(kept)
    # Rounded, so that the last bit of another processor's logarithm does not show.
    rounded = np.round(scores, 6).tolist()
    return sorted(zip(pieces, rounded, strict=True), key=lambda item: (-item[1], item[0]))


def _stretches(counts: Mapping[str, int]) -> tuple[list[str], Floats]:
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:WORDS]
    stretches: Counter[str] = Counter()
    for word, count in common:
        for start in range(0, len(word), LONGEST_WORD):
            stretches[word[start : start + LONGEST_WORD]] += count
    return list(stretches), np.array(list(stretches.values()), dtype=np.float64)


def _seeds(words: Sequence[str], weights: Floats, alphabet: Sequence[str], size: int) -> dict[str, float]:
    """The alphabet, then the substrings seen twice or more that cover most; with how much they cover."""
    covered: dict[str, float] = dict.fromkeys(alphabet, 1.0)
    for word, weight in zip(words, weights.tolist(), strict=True):
        for start in range(len(word)):
            for end in range(start + 1, min(start + LONGEST_PIECE, len(word)) + 1):
                if word[end - 1] not in covered:
                    break
                piece = word[start:end]
                covered[piece] = covered.get(piece, 0.0) + weight * len(piece)
    longer = [(piece, cover) for piece, cover in covered.items() if 1 < len(piece) < cover]
    longer.sort(key=lambda item: (-item[1], item[0]))
    return {letter: covered[letter] for letter in alphabet} | dict(longer[: max(0, size - len(alphabet))])


@dataclass(frozen=True, slots=True)
class Lattice:
    """All places of all pieces in all words: piece `pieces[i]` is words[i][starts[i] : ends[i]].

    Places come ordered by (end, word, start).
    """

    words: Ints
    starts: Ints
    ends: Ints
    pieces: Ints
    lengths: Ints
    """Of each word, in characters."""

    @classmethod
    def of(cls, words: Sequence[str], pieces: Sequence[str], whole: bool = True) -> "Lattice":
        """`whole=False` leaves out a piece that is the whole word, unless it is one character."""
        index = {piece: i for i, piece in enumerate(pieces)}
        found = array("i")
        for number, word in enumerate(words):
            for end in range(1, len(word) + 1):
                for start in range(max(0, end - LONGEST_PIECE), end):
                    piece = index.get(word[start:end])
                    if piece is not None and (whole or end - start < len(word) or len(word) == 1):
                        found.extend((number, start, end, piece))
        numbers, starts, ends, indices = np.array(found, dtype=np.int64).reshape(-1, 4).T
        order = np.lexsort((starts, numbers, ends))
        lengths = np.array([len(word) for word in words], dtype=np.int64)
        return cls(numbers[order], starts[order], ends[order], indices[order], lengths)

    def with_pieces(self, kept: Ints) -> "Lattice":
        """Only the pieces `kept`, numbered anew in that order."""
        pieces, left = _renumber(self.pieces, kept)
        return Lattice(self.words[left], self.starts[left], self.ends[left], pieces[left], self.lengths)

    def with_words(self, kept: Ints) -> "Lattice":
        """Only the words `kept`, ascending, numbered anew."""
        words, left = _renumber(self.words, kept)
        return Lattice(words[left], self.starts[left], self.ends[left], self.pieces[left], self.lengths[kept])

    def totals(self, scores: Floats, add: np.ufunc) -> Floats:
        """Log-probability of each word: over all segmentations (logaddexp), or of the best one (maximum)."""
        reached = _sweep(self.words, self.starts, self.ends, scores[self.pieces], self.lengths, add)
        return reached[np.arange(len(self.lengths)), self.lengths]

    def expected_counts(self, scores: Floats, weights: Floats) -> Floats:
        """How often each piece is used, over all segmentations of all words."""
        own = scores[self.pieces]
        before = _sweep(self.words, self.starts, self.ends, own, self.lengths, np.logaddexp)
        # The sweep from the right is the sweep from the left over the mirrored words.
        length = self.lengths[self.words]
        starts, ends = length - self.ends, length - self.starts
        order = np.lexsort((starts, self.words, ends))
        after = _sweep(self.words[order], starts[order], ends[order], own[order], self.lengths, np.logaddexp)
        total = before[self.words, length]
        # A word with a letter outside the alphabet has no segmentation and counts for nothing.
        possible = np.isfinite(total)
        used = np.full(len(own), -np.inf)
        np.subtract(
            before[self.words, self.starts] + own + after[self.words, starts], total, used, where=possible
        )
        counts = np.bincount(self.pieces, weights=np.exp(used) * weights[self.words], minlength=len(scores))
        return counts.astype(np.float64)


def _renumber(numbers: Ints, kept: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    renumbered = np.full(int(max(numbers.max(initial=0), kept.max(initial=0))) + 1, -1, dtype=np.int64)
    renumbered[kept] = np.arange(len(kept))
    new = renumbered[numbers]
    return new, new >= 0


def _sweep(words: Ints, starts: Ints, ends: Ints, scores: Floats, lengths: Ints, add: np.ufunc) -> Floats:
    """[word, position]: the sum over all paths up to there.

    Places come ordered by (end, word): every position is complete before a path leaves it.
    """
    sums = np.full((len(lengths), int(lengths.max()) + 1), -np.inf)
    sums[:, 0] = 0.0
    borders = np.searchsorted(ends, np.arange(1, sums.shape[1] + 1))
    for end, (low, high) in enumerate(pairwise(borders), start=1):
        if low == high:
            continue
        here = words[low:high]
        firsts = np.flatnonzero(np.r_[True, here[1:] != here[:-1]])
        sums[here[firsts], end] = add.reduceat(sums[here, starts[low:high]] + scores[low:high], firsts)
    return sums
