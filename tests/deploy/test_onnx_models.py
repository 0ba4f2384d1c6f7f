"""Padded models for ONNX give what the packed ones give, whatever the padding and wherever it stands."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.config import ConfigError
from regard.data.packing import pack
from regard.deploy.onnx_body import check_config, prepare_positions
from regard.deploy.onnx_models import (
    PaddedDecoder,
    PaddedEncoder,
    PaddedHeaded,
    PaddedLanguage,
    PaddedSteps,
)
from regard.deploy.onnx_run import BUDGET, in_batches, padded
from regard.models.decoder import Decoder
from regard.models.headed import Headed, HeadedConfig
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import (
    ClassifyConfig,
    EmbedConfig,
    HeadConfig,
    MaskedConfig,
    PoolConfig,
    TagConfig,
)
from regard.settings.network import EmbeddingConfig, FeedForwardConfig, PositionsConfig
from tests.models.families import BODIES, LONG, VOCABULARY, decoder, encoder, seq2seq, transformer

FAMILIES = {
    **{name: family for name, family in BODIES.items() if name.startswith("transformer")},
    **LONG,
    "transformer, geglu": (
        transformer(feed_forward=FeedForwardConfig(d_ff=48, activation="geglu"), final_norm=True),
        PositionsConfig(kind="learned", longest=64, first=2),
    ),
    "transformer, pruned": (transformer(kept_heads=((0, 2), (1, 2, 3))), "alibi"),
}
LENGTHS = [4, 1, 9, 6]
POOLS = ["first", "last", "ends", "mean", "max", "attention", "pooler"]


def stirred(model):
    """With weights far from zero, so that everything can be felt."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model.eval()


def rows(lengths=LENGTHS) -> list[list[int]]:
    return [torch.randint(VOCABULARY, (length,)).tolist() for length in lengths]


def laid(given: list[list[int]], side: str = "right") -> tuple[Tensor, Tensor]:
    """Ids and mask, two columns of padding more than there must be."""
    ids, mask = (np.pad(each, ((0, 0), (0, 2)), constant_values=0) for each in padded(given, pad=3))
    if side == "left":
        for row, length in enumerate(map(len, given)):
            ids[row], mask[row] = np.roll(ids[row], -length), np.roll(mask[row], -length)
    return torch.from_numpy(ids), torch.from_numpy(mask)


def headed(head: HeadConfig, body=None, kind="sinusoidal", **settings) -> Headed:
    return stirred(Headed(HeadedConfig(encoder=encoder(body or transformer(), kind, **settings), head=head)))


@torch.no_grad()
def assert_padded_is_packed(model: Headed, side: str, segments: bool = False) -> None:
    given = rows()
    ids, mask = laid(given, side)
    packed = pack(given)
    marks = torch.randint(2, ids.shape) if segments else None
    own = None if marks is None else marks[mask > 0]
    found = PaddedHeaded(model).eval()(ids, mask, marks)[-1]
    found = found[mask > 0] if found.dim() == 3 else found
    assert_close(found, model(packed.ids, packed.layout, own), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_make_of_encoder_is_the_same_padded(family, side):
    assert_padded_is_packed(headed(MaskedConfig(), *FAMILIES[family]), side)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", POOLS)
def test_every_pool_is_the_same_padded(kind, side):
    settings = {"pooler": kind == "pooler"}
    assert_padded_is_packed(headed(EmbedConfig(pool=PoolConfig(kind=kind)), **settings), side)


@pytest.mark.parametrize(
    "head",
    [
        ClassifyConfig(labels=3, inner="tanh"),
        ClassifyConfig(labels=1, inner="relu", pool=PoolConfig(kind="mean")),
        TagConfig(tags=5),
        EmbedConfig(project=7),
        EmbedConfig(normalised=False),
        MaskedConfig(tied=False, activation="relu"),
    ],
)
def test_every_head_is_the_same_padded(head):
    assert_padded_is_packed(headed(head), "right")


def test_segments_are_told_apart():
    model = headed(ClassifyConfig())
    two = replace(model.config.encoder, embedding=EmbeddingConfig(segments=2, normed=True, dropout=0.0))
    assert_padded_is_packed(stirred(Headed(replace(model.config, encoder=two))), "left", segments=True)


@torch.no_grad()
def test_next_sentences_are_scored_beside_the_words():
    model = headed(MaskedConfig(next_sentence=True), pooler=True)
    graph, given = PaddedHeaded(model).eval(), rows()
    packed = pack(given)
    _, follows = graph(*laid(given))
    states = model.states(packed.ids, packed.layout)
    assert graph.outputs == ["logits", "seq_relationship_logits"]
    assert_close(follows, model.head.follows(states, packed.layout), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_every_make_of_language_model_is_the_same_padded(family, side):
    model = stirred(Decoder(decoder(*FAMILIES[family])))
    given = rows()
    ids, mask = laid(given, side)
    packed = pack(given)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    found = PaddedLanguage(model).eval()(ids, mask, positions)[mask > 0]
    assert_close(found, model.head(model(packed.ids, packed.layout)), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_every_make_of_translator_is_the_same_whole_and_in_steps(family):
    model = stirred(Seq2Seq(seq2seq(*FAMILIES[family])))
    sources, targets = rows(), rows([7] * len(LENGTHS))
    read, told = pack(sources), pack(targets)
    wanted = model.decoder.head(model(read.ids, read.layout, told.ids, told.layout)).view(4, 7, -1)
    ids, mask = laid(sources)
    states = PaddedEncoder(model.encoder).eval()(ids, mask)
    whole = PaddedDecoder(model.decoder).eval()
    target = torch.tensor(targets)
    logits, past = whole(mask, target, states)
    assert_close(logits, wanted, atol=1e-4, rtol=1e-4)
    begun, past = whole(mask, target[:, :3], states)
    steps = PaddedSteps(whole)
    one, kept = steps(mask, target[:, 3:4], past)
    rest, _ = steps(mask, target[:, 4:], [(*own, *old[2:]) for own, old in zip(kept, past, strict=True)])
    assert_close(torch.cat([begun, one, rest], dim=1), wanted, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_distances_past_the_reach_share_their_bias():
    positions = PositionsConfig(kind="relative", buckets=4, reach=5)
    model = headed(MaskedConfig(), transformer(), positions)
    given = [[*range(VOCABULARY)]]
    packed = pack(given)
    found = PaddedHeaded(model).eval()(*laid(given))[0][0, :VOCABULARY]
    assert_close(found, model(packed.ids, packed.layout), atol=1e-4, rtol=1e-4)


def test_tables_of_positions_are_one_and_long_enough():
    model = headed(MaskedConfig(), *FAMILIES["transformer, yarn"])
    prepare_positions(model, 1500)
    first, second = (layer.attention.rotary for layer in model.encoder.body.each)
    assert first.table is second.table
    assert_close(first.table, first.rows(1500).float())


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_recurrent_bodies_are_refused_by_name(side):
    config = getattr(seq2seq(*BODIES["lstm, additive"]), side)
    with pytest.raises(ConfigError, match=rf"^{side}\.body\.kind='recurrent': not exported .*; train one"):
        check_config(side, config)


def test_batches_keep_their_order_within_the_budget():
    given = [[0] * length for length in (1000, 900, 600, 3000, 1, 2)]
    found = list(in_batches(given))
    assert [row for batch in found for row in batch] == given
    assert all(len(batch) * max(map(len, batch)) <= BUDGET or len(batch) == 1 for batch in found)
    assert [len(batch) for batch in found] == [2, 1, 1, 2]
