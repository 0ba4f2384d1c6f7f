"""The equation itself, against naive loops and the facts it must obey. float64 throughout."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.nn.attention import additive_scores, attend, dot_scores, self_attend, weigh
from regard.nn.masks import CAUSAL, Mask


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def naive(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """sum_i s(q, k_i) v_i, number by number."""
    output = torch.zeros(len(queries), queries.shape[1], values.shape[2], dtype=torch.float64)
    for head in range(queries.shape[1]):
        for place, query in enumerate(queries[:, head]):
            scores = [
                sum(float(a) * float(b) for a, b in zip(query, key, strict=True)) for key in keys[:, head]
            ]
            powers = [math.exp(score * scale) for score in scores]
            for power, value in zip(powers, values[:, head], strict=True):
                output[place, head] += power / sum(powers) * value
    return output


@pytest.mark.spec("2.1", "2.6")
def test_attention_is_the_weighted_sum_of_a_naive_loop():
    queries, keys, values = draw(3, 2, 4), draw(5, 2, 4), draw(5, 2, 6)
    assert_close(attend(queries, keys, values), naive(queries, keys, values, scale=1 / 2))


@pytest.mark.spec("2.1")
def test_weights_are_not_negative_and_rows_sum_to_one():
    weights = weigh(draw(2, 4, 7))
    assert (weights >= 0).all()
    assert_close(weights.sum(-1), torch.ones(2, 4, dtype=torch.float64))


@pytest.mark.spec("2.2")
def test_additive_scores_equal_the_loop_over_concatenations():
    queries, keys = draw(3, 4), draw(5, 6)  # of different widths
    matrix, direction = draw(8, 10), draw(8)
    by_key, by_query = matrix.split([6, 4], dim=1)
    expected = torch.stack(
        [torch.stack([direction @ torch.tanh(matrix @ torch.cat([k, q])) for k in keys]) for q in queries]
    )
    assert_close(additive_scores(queries @ by_query.T, keys @ by_key.T, direction), expected)


@pytest.mark.spec("2.3")
def test_dot_scores_are_products_and_scaled_ones_are_divided_by_the_root_of_the_width():
    queries, keys = draw(3, 1, 16), draw(5, 1, 16)
    products = (queries[:, 0] @ keys[:, 0].T).unsqueeze(0)
    assert_close(dot_scores(queries, keys, scale=1.0), products)
    assert_close(dot_scores(queries, keys), products / 4)


@pytest.mark.spec("2.3")
@pytest.mark.parametrize("width", [16, 256])
def test_scaling_keeps_the_variance_of_scores_near_one(width):
    scores = dot_scores(draw(400, 1, width), draw(400, 1, width))
    assert 0.9 < float(scores.var()) < 1.1
    unscaled = dot_scores(draw(400, 1, width), draw(400, 1, width), scale=1.0)
    assert 0.9 < float(unscaled.var()) / width < 1.1


@pytest.mark.spec("2.4")
def test_self_attention_without_parameters_is_softmax_of_x_xt_times_x():
    x = draw(6, 5)
    assert_close(self_attend(x), torch.softmax(x @ x.T, dim=-1) @ x)


@pytest.mark.spec("2.4")
def test_permuting_the_tokens_permutes_self_attention_alike():
    x, order = draw(6, 5), torch.randperm(6)
    assert_close(self_attend(x[order]), self_attend(x)[order])


@pytest.mark.spec("2.8")
def test_hidden_keys_cannot_be_felt():
    queries, keys, values = draw(4, 2, 8), draw(6, 2, 8), draw(6, 2, 8)
    visible = Mask(chosen=torch.rand(1, 4, 6) < 0.5).visible(4, 6)
    visible[:, 2:4] = False
    before = attend(queries, keys, values, visible)
    keys[2:4], values[2:4] = 1e9, -1e9
    assert torch.equal(attend(queries, keys, values, visible), before)


@pytest.mark.spec("2.8")
def test_hidden_weights_are_exactly_zero():
    visible = torch.rand(4, 6) < 0.5
    visible[:, 0] = True
    weights = weigh(draw(2, 4, 6), visible)
    assert (weights[:, ~visible] == 0).all()
    assert_close(weights.sum(-1), torch.ones(2, 4, dtype=torch.float64))


@pytest.mark.spec("2.8")
def test_a_causal_row_equals_attention_over_its_prefix():
    queries, keys, values = draw(5, 2, 8), draw(5, 2, 8), draw(5, 2, 8)
    whole = attend(queries, keys, values, CAUSAL.visible(5, 5))
    for t in range(1, 6):
        prefix = attend(queries[t - 1 : t], keys[:t], values[:t])
        assert_close(whole[t - 1 : t], prefix)


def test_a_query_that_sees_nothing_gets_zeros_and_gives_zero_gradients():
    scores = draw(1, 2, 3).requires_grad_()
    visible = torch.tensor([[True, True, False], [False, False, False]])
    weights = weigh(scores, visible)
    (weights * draw(1, 2, 3)).sum().backward()
    assert (weights[:, 1] == 0).all()
    assert (scores.grad[:, 1] == 0).all()
    assert scores.grad[:, 0, :2].abs().min() > 0


def test_shared_key_heads_equal_repeated_ones():
    queries, keys, values = draw(3, 4, 8), draw(5, 2, 8), draw(5, 2, 8)
    repeated = attend(queries, keys.repeat_interleave(2, 1), values.repeat_interleave(2, 1))
    assert_close(attend(queries, keys, values), repeated)


def test_a_bias_is_added_to_the_scores():
    queries, keys, values, bias = draw(3, 2, 4), draw(5, 2, 4), draw(5, 2, 4), draw(2, 3, 5)
    weights = torch.softmax(dot_scores(queries, keys) + bias, dim=-1)
    assert_close(attend(queries, keys, values, bias=bias), torch.einsum("hqk,khd->qhd", weights, values))


def test_dropout_drops_weights_and_keeps_their_mean():
    queries, keys, values = draw(1, 1, 4), draw(3, 1, 4), draw(3, 1, 2)
    drawn = torch.stack([attend(queries, keys, values, dropout=0.4) for _ in range(4000)])
    assert drawn.std(dim=0).min() > 0
    error = (drawn.mean(0) - attend(queries, keys, values)).abs()
    assert (error < 5 * drawn.std(dim=0) / 4000**0.5).all()
