"""What may come next: each rule alone, against a loop over rows and tokens."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.decode.config import DecodeConfig
from regard.decode.rules import (
    NOTHING,
    START,
    Rules,
    forbid_repeats_,
    likeliest,
    merge_ends_,
    penalize,
    suppress_,
    top,
)

VOCABULARY = 6


def forbidden(scores: torch.Tensor) -> list[set[int]]:
    return [set((row == -math.inf).nonzero()[:, 0].tolist()) for row in scores]


def rectangle(histories: list[list[int]]) -> torch.Tensor:
    longest = max(map(len, histories))
    return torch.tensor(
        [[NOTHING] * (longest - len(row)) + row for row in histories], dtype=torch.int64
    ).reshape(len(histories), longest)


histories = st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=9), min_size=1, max_size=4)


def test_suppressed_ids_are_forbidden_and_nothing_else():
    scores = torch.randn(3, VOCABULARY)
    after = suppress_(scores.clone(), torch.tensor([1, 4]))
    assert forbidden(after) == [{1, 4}] * 3
    assert torch.equal(after[:, [0, 2, 3, 5]], scores[:, [0, 2, 3, 5]])


@given(histories, st.integers(1, 4))
def test_exactly_the_tokens_that_would_repeat_an_n_gram_are_forbidden(rows, size):
    expected = []
    for row in rows:
        grams = {tuple(row[at : at + size]) for at in range(len(row) - size + 1)}
        tail = row[len(row) - (size - 1) :] if len(row) >= size - 1 else None
        expected.append(
            {token for token in range(VOCABULARY) if tail is not None and (*tail, token) in grams}
        )
    assert forbidden(forbid_repeats_(torch.zeros(len(rows), VOCABULARY), rectangle(rows), size)) == expected


@given(histories)
def test_tokens_that_came_before_are_penalized_once(rows):
    logits = torch.linspace(-2, 3, len(rows) * VOCABULARY).view(len(rows), VOCABULARY)
    expected = logits.clone()
    for row, tokens in enumerate(rows):
        for token in set(tokens):
            expected[row, token] *= 1 / 1.5 if logits[row, token] > 0 else 1.5
    assert_close(penalize(logits, rectangle(rows), 1.5), expected)


@given(histories, st.integers(1, 4))
def test_a_start_has_not_come(rows, size):
    started = rectangle([[START, *row] for row in rows])
    logits = torch.randn(len(rows), VOCABULARY)
    assert torch.equal(penalize(logits, started, 1.3), penalize(logits, rectangle(rows), 1.3))
    found, expected = (forbid_repeats_(logits.clone(), each, size) for each in (started, rectangle(rows)))
    assert torch.equal(found, expected)


def test_the_likeliest_end_stands_for_all():
    scores = torch.tensor([[0.0, -1.0, -2.0, -3.0], [0.0, -5.0, -3.0, -1.0]])
    after = merge_ends_(scores.clone(), torch.tensor([1, 3]))
    assert after.tolist() == [[0, -1, -2, -math.inf], [0, -1, -3, -math.inf]]
    assert torch.equal(merge_ends_(scores.clone(), torch.tensor([1])), scores)


def rules(ends=(2,), suppressed=(), **settings) -> Rules:
    return Rules(DecodeConfig(**settings), torch.tensor(ends), torch.tensor(suppressed, dtype=torch.int64))


def test_the_end_is_forbidden_below_the_minimum_only():
    logits, history = torch.randn(2, VOCABULARY), torch.zeros(2, 0, dtype=torch.int64)
    for length, expected in ((0, {2, 3}), (1, {2, 3}), (2, set()), (3, set())):
        assert forbidden(rules(ends=(2, 3), minimum=2)(logits, history, length)) == [expected] * 2


def test_what_is_forbidden_gives_its_probability_to_nobody():
    logits, history = torch.randn(2, VOCABULARY), torch.tensor([[4], [5]])
    after = rules(suppressed=(0,), no_repeat=1)(logits, history, 0)
    assert forbidden(after) == [{0, 4}, {0, 5}]
    allowed = after > -math.inf
    assert_close(after[allowed], logits.log_softmax(dim=1)[allowed])


@pytest.mark.parametrize(
    ("given_type", "expected"),
    [(torch.bfloat16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)],
)
def test_log_probabilities_are_computed_in_float32_or_better(given_type, expected):
    logits = torch.randn(2, VOCABULARY).to(given_type)
    after = rules()(logits, torch.zeros(2, 0, dtype=torch.int64), 0)
    assert after.dtype == expected
    assert_close(after, logits.to(expected).log_softmax(dim=1))


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=7, max_size=7), min_size=1, max_size=4), st.integers(1, 9)
)
def test_the_best_of_each_row_with_the_lower_ids_of_equals(rows, count):
    scores = torch.tensor(rows, dtype=torch.float32)
    scores[scores == 0] = -math.inf
    values, ids = top(scores, count)
    for row, found, best in zip(rows, values, ids, strict=True):
        expected = sorted(sorted(range(7), key=lambda id: (-row[id], id))[:count])
        possible = [id for id in best.tolist() if row[id] > 0]
        assert possible == [id for id in expected if row[id] > 0]
        assert best.tolist() == sorted(set(best.tolist()))
        assert found.tolist() == [float(row[id]) if row[id] else -math.inf for id in best.tolist()]


@pytest.mark.parametrize("vocabulary", [1, 63, 64, 129, 640, 2000])
@pytest.mark.parametrize("values", [5, 1000, 10**7], ids=["many equal", "some equal", "few equal"])
def test_large_vocabularies_are_searched_by_blocks_with_the_same_result(vocabulary, values):
    scores = torch.randint(values, (12, vocabulary)).float()
    scores[0] = -math.inf
    ordered = scores.sort(dim=1, descending=True, stable=True).indices
    assert torch.equal(likeliest(scores)[1:], ordered[1:, 0])
    assert torch.equal(likeliest(scores.bfloat16()), scores.bfloat16().argmax(dim=1))
    for count in (1, 2, 6, 30):
        assert torch.equal(top(scores, count)[1][1:], ordered[1:, :count].sort(dim=1).values)
