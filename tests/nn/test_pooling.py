"""Attention with a free score and a free query."""

import pytest
import torch
from torch.testing import assert_close

from regard.layout import Layout
from regard.nn.initialize import initialize
from regard.nn.pooling import AttentionPooling, ScoredAttention, pool_ends, pool_max, pool_mean
from regard.settings.network import InitialConfig

QUERIES, KEYS = Layout.of([2, 1, 3]), Layout.of([4, 2, 5])


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def scored(score: str, d_query: int, d_key: int) -> ScoredAttention:
    part = ScoredAttention(score, d_query=d_query, d_key=d_key).double()
    initialize(part, InitialConfig())
    return part


def ask(
    part: ScoredAttention, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    return part(queries, part.prepare(keys), values, QUERIES, KEYS)


@pytest.mark.spec("2.2")
def test_additive_attention_is_the_loop_for_queries_and_keys_of_different_widths():
    part = scored("additive", d_query=3, d_key=7)
    queries, keys, values = draw(6, 3), draw(11, 7), draw(11, 2)
    matrix = torch.cat([part.project_keys.weight, part.match.weight], dim=1)  # W_a over [k ; q]
    expected = []
    for q, k, v in zip(QUERIES.split(queries), KEYS.split(keys), KEYS.split(values), strict=True):
        for one in q:
            scores = torch.stack([part.direction @ torch.tanh(matrix @ torch.cat([key, one])) for key in k])
            expected.append(torch.softmax(scores, dim=0) @ v)
    assert_close(ask(part, queries, keys, values), torch.stack(expected))


@pytest.mark.spec("2.3")
@pytest.mark.parametrize(("score", "scale"), [("dot", 1.0), ("scaled", 0.5)])
@pytest.mark.parametrize("d_value", [4, 2])
def test_dot_attention_is_the_loop(score, scale, d_value):
    part = scored(score, d_query=4, d_key=4)
    queries, keys, values = draw(6, 4), draw(11, 4), draw(11, d_value)
    expected = [
        torch.softmax(q @ k.T * scale, dim=-1) @ v
        for q, k, v in zip(QUERIES.split(queries), KEYS.split(keys), KEYS.split(values), strict=True)
    ]
    assert_close(ask(part, queries, keys, values), torch.cat(expected))


def test_dot_attention_brings_a_query_of_another_width_to_the_keys():
    part = scored("dot", d_query=3, d_key=4)
    queries, keys = draw(6, 3), draw(11, 4)
    plain = scored("dot", d_query=4, d_key=4)
    assert_close(ask(part, queries, keys, keys), ask(plain, part.match(queries), keys, keys))


@pytest.mark.spec("2.5")
@pytest.mark.parametrize("score", ["additive", "dot", "scaled"])
@pytest.mark.parametrize("query", ["fixed", "ones", "trained", "state"])
def test_pooling_weighs_each_sequence_by_its_query(query, score):
    part = AttentionPooling(4, query, score).double()
    initialize(part, InitialConfig())
    x, state = draw(11, 4), draw(3, 4)
    pooled = part(x, KEYS, state) if query == "state" else part(x, KEYS)
    for row, tokens in enumerate(KEYS.split(x)):
        asking = state[row] if query == "state" else part.query
        match score:
            case "additive":
                inner = part.attention.match(asking) + part.attention.project_keys(tokens)
                scores = torch.tanh(inner) @ part.attention.direction
            case "dot":
                scores = tokens @ asking
            case "scaled":
                scores = tokens @ asking / 2
        assert_close(pooled[row], torch.softmax(scores, dim=0) @ tokens)


@pytest.mark.spec("2.5")
def test_a_trained_query_learns_and_a_fixed_one_stays_and_is_stored():
    x = draw(11, 4)
    trained, fixed = AttentionPooling(4, "trained").double(), AttentionPooling(4, "fixed").double()
    for part in (trained, fixed):
        initialize(part, InitialConfig())
    ones = AttentionPooling(4, "ones").double()
    initialize(ones, InitialConfig())
    assert ones.query.tolist() == [1, 1, 1, 1]
    trained(x, KEYS).sum().backward()
    assert trained.query.grad.abs().sum() > 0
    assert not fixed.query.requires_grad
    assert "query" in fixed.state_dict()


def test_a_state_is_given_exactly_when_it_is_wanted():
    with pytest.raises(ValueError, match="query='state'"):
        AttentionPooling(4, "trained").double()(draw(11, 4), KEYS, draw(3, 4))
    with pytest.raises(ValueError, match="query='state'"):
        AttentionPooling(4, "state").double()(draw(11, 4), KEYS)


def test_mean_and_max_are_those_of_each_sequence_and_zero_for_an_empty_one():
    layout = Layout.of([3, 0, 2])
    x = draw(5, 4)
    first, _, last = layout.split(x)
    zero = torch.zeros(4, dtype=torch.float64)
    assert_close(pool_mean(x, layout), torch.stack([first.mean(0), zero, last.mean(0)]))
    assert_close(pool_max(x, layout), torch.stack([first.max(0).values, zero, last.max(0).values]))


def test_the_ends_are_one_half_of_the_last_token_and_the_other_of_the_first():
    layout, x = Layout.of([3, 0, 2]), draw(5, 4)
    expected = [[*x[2, :2], *x[0, 2:]], [0, 0, 0, 0], [*x[4, :2], *x[3, 2:]]]
    assert_close(pool_ends(x, layout), torch.tensor(expected, dtype=torch.float64))


def test_a_mean_of_many_half_precision_numbers_does_not_overflow():
    x = torch.full((1000, 2), 100.0, dtype=torch.float16)
    assert pool_mean(x, Layout.of([1000])).tolist() == [[100.0, 100.0]]
