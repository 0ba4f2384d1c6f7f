"""What stands on an encoder."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from regard.config import from_dict, to_dict
from regard.layout import Layout
from regard.models.headed import Headed, HeadedConfig
from regard.models.heads import ClassifyHead, EmbedHead, MaskedHead, Pool, TagHead
from regard.nn.initialize import initialize
from regard.nn.pooling import Pooler
from regard.settings.models import ClassifyConfig, EmbedConfig, MaskedConfig, PoolConfig, TagConfig
from regard.settings.network import InitialConfig
from regard.settings.presets import ENCODERS

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


def test_the_encoders_pooler_is_berts():
    pooler, x = Pooler(6), states()
    expected = torch.tanh(F.linear(x[[0, 3, 4]], pooler.dense.weight, pooler.dense.bias))
    assert_close(Pool(6, PoolConfig(kind="pooler"), pooler)(x, LAYOUT), expected)
    with pytest.raises(ValueError, match=r"set encoder\.pooler=true"):
        Pool(6, PoolConfig(kind="pooler"))


@pytest.mark.parametrize("kind", ["first", "last", "ends", "mean", "max", "attention"])
def test_filler_behind_the_real_sequences_is_not_felt(kind):
    pool, x = Pool(6, PoolConfig(kind=kind)), states()
    initialize(pool, InitialConfig())
    padded = torch.cat([x, torch.full((4, 6), 1e6)])
    assert_close(pool(padded, Layout.of([3, 1, 4, 4, 0]))[:3], pool(x, LAYOUT))


def test_a_masked_head_is_berts_and_shares_the_embedding():
    table, x = nn.Embedding(11, 6), states()
    head = MaskedHead(11, 6, MaskedConfig(), embedding=table)
    inner = F.layer_norm(F.gelu(head.dense(x)), (6,), head.norm.weight, head.norm.bias, eps=1e-12)
    assert_close(head(x), inner @ table.weight.T + head.vocabulary.bias)
    before = table.weight.clone()
    apart = MaskedHead(11, 6, MaskedConfig(tied=False), embedding=table)
    assert torch.equal(table.weight, before)  # a new head leaves a trained body alone
    assert not torch.equal(apart.vocabulary.weight, table.weight)


@pytest.mark.parametrize(("activation", "function"), [("relu", F.relu), ("gelu_tanh", "tanh")])
def test_a_masked_head_activates_as_its_encoder_does(activation, function):
    table, x = nn.Embedding(11, 6), states()
    head = MaskedHead(11, 6, MaskedConfig(activation=activation), embedding=table)
    dense = head.dense(x)
    inner = F.gelu(dense, approximate="tanh") if function == "tanh" else function(dense)
    assert_close(head(x), head.vocabulary(head.norm(inner)))


def test_next_sentence_has_two_scores_from_the_pooler():
    pooler, x = Pooler(6), states()
    config = MaskedConfig(next_sentence=True)
    head = MaskedHead(11, 6, config, embedding=nn.Embedding(11, 6), pooler=pooler)
    assert_close(head.follows(x, LAYOUT), head.next_sentence.output(pooler(x, LAYOUT)))
    without = MaskedHead(11, 6, MaskedConfig(), embedding=nn.Embedding(11, 6))
    with pytest.raises(ValueError, match=r"head\.next_sentence=true"):
        without.follows(x, LAYOUT)


def test_a_classifier_scores_each_label_and_drops_in_training_only():
    config = ClassifyConfig(labels=5, pool=PoolConfig(kind="mean"), dropout=0.5)
    head, x = ClassifyHead(6, config), states()
    assert head(x, LAYOUT).shape == (3, 5)
    assert not torch.equal(head(x, LAYOUT), head(x, LAYOUT))
    head.eval()
    assert_close(head(x, LAYOUT), head.output(Pool(6, PoolConfig(kind="mean"))(x, LAYOUT)))


@pytest.mark.parametrize(("inner", "function"), [("tanh", torch.tanh), ("relu", F.relu)])
def test_a_classifier_may_have_a_dense_layer(inner, function):
    head, x = ClassifyHead(6, ClassifyConfig(inner=inner)).eval(), states()
    assert_close(head(x, LAYOUT), head.output(function(head.dense(x[[0, 3, 4]]))))


def test_a_head_leaves_the_encoders_pooler_alone():
    pooler = Pooler(6)
    before = pooler.dense.weight.clone()
    ClassifyHead(6, ClassifyConfig(pool=PoolConfig(kind="pooler")), pooler)
    assert torch.equal(pooler.dense.weight, before)


def test_a_tagger_scores_each_token():
    head, x = TagHead(6, TagConfig(tags=4)).eval(), states()
    assert_close(head(x), head.output(x))


def test_a_tagger_scores_words_by_the_mean_of_their_tokens():
    head, x = TagHead(6, TagConfig(tags=4, words="mean")).eval(), states()
    places = torch.tensor([0, 0, 1, 2, 3, 3, 3, 7])  # the last one belongs to no word
    means = torch.stack([x[:2].mean(0), x[2], x[3], x[4:7].mean(0)])
    assert_close(head(x, places)[:4], head.output(means))


def test_an_embedder_pools_and_has_length_one():
    x = states()
    vectors = EmbedHead(6, EmbedConfig())(x, LAYOUT)
    means = torch.stack([s.mean(0) for s in LAYOUT.split(x)])
    assert_close(vectors, means / means.norm(dim=1, keepdim=True))
    raw = EmbedHead(6, EmbedConfig(pool=PoolConfig(kind="max"), normalised=False))
    assert_close(raw(x, LAYOUT), torch.stack([s.amax(0) for s in LAYOUT.split(x)]))
    projected = EmbedHead(6, EmbedConfig(project=4, normalised=False))
    assert_close(projected(x, LAYOUT), torch.tanh(projected.project(means)))


def test_one_encoder_carries_any_head():
    encoder = replace(ENCODERS["tiny"](30), pooler=True)
    heads = {
        MaskedConfig(next_sentence=True): (8, 30),
        ClassifyConfig(labels=3, pool=PoolConfig(kind="pooler")): (3, 3),
        TagConfig(tags=5): (8, 5),
        EmbedConfig(): (3, 128),
    }
    first = Headed(HeadedConfig(encoder=encoder))
    for config, shape in heads.items():
        whole = HeadedConfig(encoder=encoder, head=config)
        assert from_dict(HeadedConfig, to_dict(whole)) == whole
        model = Headed(whole).eval()
        model.encoder.load_state_dict(first.encoder.state_dict())
        names = [name for name, _ in model.named_parameters()]
        assert sum("pooler" in name for name in names) == 2  # once, as the encoder's
        assert model(torch.arange(8), LAYOUT).shape == shape


def test_a_parameters_depth_is_how_far_up_it_stands():
    model = Headed(HeadedConfig(encoder=replace(ENCODERS["tiny"](30), pooler=True)))
    depths = {name: model.depth(name) for name, _ in model.named_parameters()}
    assert depths["encoder.embedding.tokens.weight"] == 0
    assert depths["encoder.body.layers.0.attention.project.weight"] == 1
    assert depths["encoder.body.layers.1.feed_forward.output.bias"] == 2
    assert depths["encoder.pooler.dense.weight"] == 3
    assert set(depths.values()) == {0, 1, 2, 3}
