from math import exp, isclose, log

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.unigram import Lattice, learn_pieces

words = st.lists(st.text("abc", min_size=1, max_size=7), min_size=1, max_size=5, unique=True)
PIECES = ["a", "b", "c", "ab", "bc", "abc", "aa"]


def segmentations(word: str) -> list[list[int]]:
    if not word:
        return [[]]
    return [
        [i, *rest]
        for i, piece in enumerate(PIECES)
        if word.startswith(piece)
        for rest in segmentations(word[len(piece) :])
    ]


@settings(deadline=None)
@given(words=words, numbers=st.lists(st.floats(0.01, 1), min_size=7, max_size=7))
def test_expected_counts_are_those_over_all_segmentations(words: list[str], numbers: list[float]) -> None:
    scores, weights = np.log(np.array(numbers)), np.arange(1.0, len(words) + 1)
    naive = np.zeros(len(PIECES))
    for word, weight in zip(words, weights, strict=True):
        ways = segmentations(word)
        chances = np.array([exp(sum(scores[i] for i in way)) for way in ways])
        for way, chance in zip(ways, chances / chances.sum(), strict=True):
            for i in way:
                naive[i] += weight * chance
    lattice = Lattice.of(words, PIECES)
    np.testing.assert_allclose(lattice.expected_counts(scores, weights), naive, rtol=1e-9, atol=1e-12)
    best = [max(sum(scores[i] for i in way) for way in segmentations(word)) for word in words]
    np.testing.assert_allclose(lattice.totals(scores, np.maximum), best, rtol=1e-9)


@settings(deadline=None)
@given(words=words, kept=st.sets(st.integers(3, 6)))
def test_dropping_pieces_equals_starting_without_them(words: list[str], kept: set[int]) -> None:
    left = np.array([0, 1, 2, *sorted(kept)])
    dropped = Lattice.of(words, PIECES).with_pieces(left)
    fresh = Lattice.of(words, [PIECES[i] for i in left])
    for name in ("words", "starts", "ends", "pieces", "lengths"):
        np.testing.assert_array_equal(getattr(dropped, name), getattr(fresh, name))


def test_a_word_outside_the_alphabet_counts_for_nothing() -> None:
    lattice = Lattice.of(["ab", "aXb"], ["a", "b"])
    np.testing.assert_allclose(lattice.expected_counts(np.log([0.5, 0.5]), np.ones(2)), [1.0, 1.0])


def test_frequent_words_become_pieces_and_probabilities_sum_to_one() -> None:
    counts = {"▁the": 90, "▁cat": 40, "▁cats": 20, "▁hat": 5, "▁that": 5}
    alphabet = sorted(set("".join(counts)))
    pieces = dict(learn_pieces(counts, alphabet, len(alphabet) + 3))
    assert set(alphabet) < set(pieces)
    assert len(pieces) == len(alphabet) + 3
    assert {"▁the", "▁cat"} < set(pieces)
    assert pieces["▁the"] == max(pieces.values())
    assert isclose(sum(map(exp, pieces.values())), 1, rel_tol=0.01)
    assert pieces["▁the"] > log(0.3)
