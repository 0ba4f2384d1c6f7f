"""From scores to answers, against a search through all spans of all windows."""

import math

import numpy as np
import pytest

from regard.tasks.answering.spans import SpanScores, best_threshold, join
from regard.tasks.answering.windows import Laid, Window


def made(seed=0, tokens=11, room=6, step=3, first=3):
    """Windows over so many tokens, with scores."""
    chance = np.random.default_rng(seed)
    windows, rows = [], []
    for begin in range(0, tokens - room + 1, step):
        windows.append(Window([0] * (first + room + 1), [0] * (first + room + 1), first, begin, room))
        rows.append(chance.normal(size=(first + room + 1, 2)).astype(np.float32))
    return Laid(windows, [(2 * i, 2 * i + 1) for i in range(tokens)]), rows


def by_hand(laid, rows, longest):
    """Every span's best score over the windows that have the whole of it."""
    found = {}
    for window, row in zip(laid.windows, rows, strict=True):
        for i in range(window.count):
            for j in range(i, min(i + longest, window.count)):
                score = float(row[window.first + i, 0]) + float(row[window.first + j, 1])
                key = (window.begin + i, window.begin + j)
                found[key] = max(found.get(key, -math.inf), score)
    return found


@pytest.mark.spec("5.9")
@pytest.mark.parametrize("longest", [1, 3, 50])
def test_the_best_spans_are_those_of_a_search_through_all(longest):
    laid, rows = made()
    scores = join(laid, rows, longest, none=True)
    wanted = by_hand(laid, rows, longest)
    order = sorted(wanted, key=lambda span: -wanted[span])
    assert scores.ranked(10_000) == order
    assert scores.ranked(3) == order[:3]
    assert scores.best == pytest.approx(wanted[order[0]])
    none = min(float(row[0, 0]) + float(row[0, 1]) for row in rows)
    assert scores.none == pytest.approx(none)
    assert scores.margin == pytest.approx(none - wanted[order[0]])


def test_probabilities_are_the_softmax_over_all_spans_and_none():
    laid, rows = made(seed=1)
    scores = join(laid, rows, 4, none=True)
    wanted = by_hand(laid, rows, 4)
    total = sum(math.exp(value) for value in wanted.values()) + math.exp(scores.none)
    chances, none = scores.probabilities()
    assert none == pytest.approx(math.exp(scores.none) / total)
    for (first, last), value in wanted.items():
        assert chances[first, last - first] == pytest.approx(math.exp(value) / total)
    assert chances.sum() + none == pytest.approx(1)


def test_where_there_must_be_an_answer_none_has_no_share():
    laid, rows = made()
    scores = join(laid, rows, 4, none=False)
    chances, none = scores.probabilities()
    assert (none, scores.margin) == (0, -math.inf)
    assert chances.sum() == pytest.approx(1)


def test_a_text_without_tokens_has_no_answer():
    scores = join(Laid([], []), [], 4, none=True)
    assert scores.ranked(3) == []
    assert scores.margin == math.inf
    assert scores.probabilities()[1] == 1


def test_of_equal_spans_the_first_comes_first():
    scores = SpanScores(np.zeros((3, 1)), -math.inf)
    assert scores.ranked(2) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("seed", range(20))
def test_the_threshold_is_the_best_of_all(seed):
    chance = np.random.default_rng(seed)
    margins = chance.integers(-3, 4, size=12) + 0.25
    answered, unanswered = chance.random(12).round(1), chance.integers(0, 2, size=12).astype(float)

    def total(threshold):
        return float(np.where(margins <= threshold, answered, unanswered).sum())

    found = best_threshold(margins, answered, unanswered)
    assert total(found) == pytest.approx(max(total(each) for each in np.arange(-6, 7, 0.125)))
