"""What stands on an encoder."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from regard.layout import Layout
from regard.models.heads import (
    ClassifyHead,
    MaskedHead,
    Pool,
    PoolConfig,
    RegressHead,
    TagHead,
    next_sentence_head,
)
from regard.nn.initialize import InitialConfig, initialize

LAYOUT = Layout.of([3, 1, 4])


def states() -> torch.Tensor:
    return torch.randn(8, 6)


@pytest.mark.parametrize("kind", ["first", "last", "mean", "max"])
def test_pools_take_what_their_name_says(kind):
    x = states()
    expected = {
        "first": lambda s: s[0],
        "last": lambda s: s[-1],
        "mean": lambda s: s.mean(0),
        "max": lambda s: s.max(0).values,
    }[kind]
    pooled = Pool(6, PoolConfig(kind=kind))(x, LAYOUT)
    assert_close(pooled, torch.stack([expected(sequence) for sequence in LAYOUT.split(x)]))


@pytest.mark.spec("2.5", "4.1")
def test_an_attention_pool_weighs_tokens_by_a_trained_query():
    pool, x = Pool(6, PoolConfig(kind="attention")), states()
    initialize(pool, InitialConfig())
    expected = [torch.softmax(s @ pool.attention.query / 6**0.5, dim=0) @ s for s in LAYOUT.split(x)]
    assert_close(pool(x, LAYOUT), torch.stack(expected))
    fixed = Pool(6, PoolConfig(kind="attention", query="fixed"))
    assert not list(fixed.parameters())


def test_a_dense_pool_is_berts_pooler():
    pool, x = Pool(6, PoolConfig(kind="first", dense=True)), states()
    assert_close(pool(x, LAYOUT), torch.tanh(F.linear(x[[0, 3, 4]], pool.dense.weight, pool.dense.bias)))


@pytest.mark.parametrize("kind", ["first", "last", "ends", "mean", "max", "attention"])
def test_filler_behind_the_real_sequences_is_not_felt(kind):
    pool, x = Pool(6, PoolConfig(kind=kind)), states()
    initialize(pool, InitialConfig())
    padded = torch.cat([x, torch.full((4, 6), 1e6)])
    assert_close(pool(padded, Layout.of([3, 1, 4, 4, 0]))[:3], pool(x, LAYOUT))


def test_a_masked_head_is_berts_and_shares_the_embedding():
    table = nn.Embedding(11, 6)
    head, x = MaskedHead(11, 6, tied=table), states()
    inner = F.layer_norm(F.gelu(head.dense(x)), (6,), head.norm.weight, head.norm.bias, eps=1e-12)
    assert_close(head(x), inner @ table.weight.T + head.vocabulary.bias)
    before = table.weight.clone()
    MaskedHead(11, 6, tied=table)
    assert torch.equal(table.weight, before)  # a new head leaves a trained body alone


def test_a_classifier_scores_each_label_and_drops_in_training_only():
    head, x = ClassifyHead(5, 6, PoolConfig(kind="mean"), dropout=0.5), states()
    assert head(x, LAYOUT).shape == (3, 5)
    assert not torch.equal(head(x, LAYOUT), head(x, LAYOUT))
    head.eval()
    assert_close(head(x, LAYOUT), head.output(Pool(6, PoolConfig(kind="mean"))(x, LAYOUT)))


def test_a_regressor_gives_one_number_for_each_sequence():
    assert RegressHead(6, PoolConfig(kind="mean"))(states(), LAYOUT).shape == (3,)


def test_a_tagger_scores_each_token():
    head, x = TagHead(4, 6).eval(), states()
    assert_close(head(x), head.output(x))


def test_next_sentence_has_two_scores_from_the_first_token():
    head, x = next_sentence_head(6), states()
    assert_close(head(x, LAYOUT), head.output(torch.tanh(head.pool.dense(x[[0, 3, 4]]))))
