"""Log-probabilities and the best tokens in C, against torch and a sort of each row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.decode.config import DecodeConfig
from regard.decode.rules import Rules, top
from regard.nn.native import best as native
from regard.nn.native import library

pytestmark = pytest.mark.skipif(library() is None, reason="no compiler")
NONE = torch.zeros(0, dtype=torch.int64)


def by_sorting(values, count, hidden):
    """Of rows of log-probabilities."""
    values = values.index_fill(1, hidden, -torch.inf)
    ids = values.sort(dim=1, descending=True, stable=True).indices[:, :count].sort(dim=1).values
    return values.gather(1, ids).double(), ids


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("vocabulary", [3, 15, 16, 64, 67, 1000, 10_000])
def test_log_probabilities_are_torchs_but_for_rounding(vocabulary, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        scores = torch.randn(40, vocabulary) * 6
        assert_close(native.log_softmax(scores), scores.log_softmax(dim=1), atol=1e-6, rtol=1e-6)
        values, ids = native.best(scores, 2, NONE)
    finally:
        torch.set_num_threads(before)
    expected, expected_ids = by_sorting(scores.log_softmax(dim=1), 2, NONE)
    assert torch.equal(ids, expected_ids)
    assert_close(values, expected, atol=1e-6, rtol=1e-6)


@given(
    st.integers(1, 300),
    st.integers(1, 12),
    st.integers(0, 5),
    st.integers(0, 10**6),
    st.sampled_from([2, 40, 10**4]),
)
def test_the_best_are_those_of_a_stable_sort(vocabulary, count, hidden, seed, steps):
    """Also where many scores are equal: there the lower ids are taken."""
    draw = torch.Generator().manual_seed(seed)
    count = min(count, vocabulary)
    scores = torch.randint(0, steps, (5, vocabulary), generator=draw) * (8 / steps)
    never = torch.randint(0, vocabulary, (hidden,), generator=draw).unique()
    values, ids = native.best(scores, count, never)
    expected, expected_ids = by_sorting(native.log_softmax(scores), count, never)
    taken, there = values > -torch.inf, expected > -torch.inf
    assert torch.equal(taken.sum(dim=1), there.sum(dim=1))
    assert torch.equal(values[taken], expected[there])
    assert torch.equal(ids[taken], expected_ids[there])


def test_scores_whose_log_probabilities_are_rounded_to_one_number_are_equals():
    """Beside a score that is much larger, neighbours come to be the same number: then the lower id counts."""
    scores = torch.full((1, 64), -30.0)
    scores[0, 40] = 1000.0
    scores[0, [9, 3, 50]] = torch.tensor([1.00001, 1.00002, 1.00003])
    assert len(native.log_softmax(scores)[0, [9, 3, 50]].unique()) == 1
    assert native.best(scores, 3, NONE)[1].tolist() == [[3, 9, 40]]


def test_rows_may_lie_apart():
    scores = torch.randn(6, 200)
    for part in (scores[::2], scores[:, 20:90]):
        assert native.serves(part)
        assert torch.equal(native.log_softmax(part), native.log_softmax(part.contiguous()))
        for found, expected in zip(
            native.best(part, 5, NONE), native.best(part.contiguous(), 5, NONE), strict=True
        ):
            assert torch.equal(found, expected)
    assert not native.serves(scores.T)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("place", [0, 37, 66])
def test_what_are_no_numbers_stays_so_and_in_its_row(bad, place):
    scores = torch.randn(3, 67)
    scores[1, place] = bad
    values, _ = native.best(scores, 4, NONE)
    assert values.isnan().any(dim=1).tolist() == [False, True, False]
    assert native.log_softmax(scores).isnan().any(dim=1).tolist() == [False, True, False]
    scores[1] = -torch.inf
    assert native.best(scores, 4, NONE)[0][1].isnan().all()


def test_forbidden_scores_are_never_taken():
    scores = torch.randn(2, 90)
    scores[:, 5:] = -torch.inf
    values, ids = native.best(scores, 8, torch.tensor([1]))
    assert (values > -torch.inf).sum(dim=1).tolist() == [4, 4]
    assert [set(row[own > -torch.inf].tolist()) for row, own in zip(ids, values, strict=True)] == [
        {0, 2, 3, 4}
    ] * 2


def test_gradients_and_other_numbers_are_left_to_torch():
    scores = torch.randn(2, 30, requires_grad=True)
    assert not native.serves(scores)
    with torch.no_grad():
        assert native.serves(scores)
    assert not native.serves(scores.detach().double())
    with pytest.raises(ValueError, match="count=31 of 30 tokens"):
        native.best(scores.detach(), 31, NONE)


@pytest.mark.parametrize("length", [0, 3])
def test_rules_choose_the_same_by_one_pass(length):
    scores = torch.randn(7, 500)
    rules = Rules(DecodeConfig(minimum=2), torch.tensor([2]), torch.tensor([0, 1, 7]))
    scores[:, [1, 2]] += 9  # what may not come would
    found = rules.best(scores, length, 6)
    expected = top(rules(scores, torch.zeros(7, 0, dtype=torch.int64), length), 6)
    assert torch.equal(found[0], expected[0].double())
    assert torch.equal(found[1], expected[1])
    assert (found[1] == 2).any(dim=1).tolist() == [length > 0] * 7


def test_rules_that_look_at_the_history_have_no_such_pass():
    scores, end = torch.randn(2, 30), torch.tensor([2])
    for config in (DecodeConfig(no_repeat=3), DecodeConfig(repetition_penalty=1.2)):
        assert Rules(config, end, NONE).best(scores, 0, 4) is None
    assert Rules(DecodeConfig(), end, NONE).best(scores, 0, 30) is None
    assert Rules(DecodeConfig(), end, NONE).best(scores.double(), 0, 4) is None
