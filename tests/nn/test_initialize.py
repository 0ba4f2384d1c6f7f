"""First values."""

import math

import pytest
import torch
from torch import nn

from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import EncoderConfig
from regard.settings.network import InitialConfig, PositionsConfig, RecurrentConfig
from regard.settings.presets import DECODERS, ENCODERS, SEQ2SEQ


def test_projections_that_share_a_matrix_start_as_if_each_were_alone():
    attention = Seq2Seq(SEQ2SEQ["tiny"](50)).encoder.body.each[0].attention
    bound = math.sqrt(6 / (128 + 128))
    for part in attention.project.weight.split(128):
        assert 0.95 * bound < float(part.detach().abs().max()) <= bound


def test_scaled_embeddings_start_so_that_the_stream_has_size_one():
    model = Seq2Seq(SEQ2SEQ["tiny"](2000))
    weight = model.encoder.embedding.tokens.weight
    assert weight is model.decoder.embedding.tokens.weight
    assert weight is model.decoder.head.weight
    assert abs(float(weight.detach().std()) * math.sqrt(128) - 1) < 0.05


def test_learned_positions_start_in_proportion_to_scaled_tokens():
    config = EncoderConfig(vocabulary=10, positions=PositionsConfig(kind="learned"))
    table = Encoder(config).embedding.positions.table.weight.detach()
    assert abs(float(table.std()) - 0.02 * math.sqrt(512)) < 0.01


def test_bert_starts_normal_with_norms_as_the_identity():
    model = Encoder(ENCODERS["tiny"](2000))
    assert abs(float(model.embedding.tokens.weight.detach().std()) - 0.02) < 1e-3
    assert abs(float(model.body.each[0].feed_forward.inner.weight.detach().std()) - 0.02) < 1e-3
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()
        if isinstance(module, nn.Linear):
            assert (module.bias == 0).all()


def test_gpt_shrinks_what_writes_to_the_residual_stream():
    layer = Decoder(DECODERS["tiny"](100)).body.each[0]
    expected = 0.02 / math.sqrt(2 * 2)  # two layers, each writes twice
    assert abs(float(layer.feed_forward.output.weight.detach().std()) - expected) < 1e-3
    assert abs(float(layer.attention.output.weight.detach().std()) - expected) < 1e-3
    assert abs(float(layer.feed_forward.inner.weight.detach().std()) - 0.02) < 1e-3


def test_an_lstm_starts_with_open_forget_gates_and_orthogonal_recurrence():
    config = EncoderConfig(
        vocabulary=10, d_model=32, positions=PositionsConfig(kind="none"), body=RecurrentConfig(cell="lstm")
    )
    cells = Encoder(config).body.cells
    gates = (cells.bias_ih_l0 + cells.bias_hh_l0).chunk(4)
    assert [float(gate.detach().mean()) for gate in gates] == [0, 1, 0, 0]
    recurrence = cells.weight_hh_l0[:16]
    torch.testing.assert_close(recurrence @ recurrence.T, torch.eye(16), atol=1e-5, rtol=0)


def test_the_same_seed_gives_the_same_model():
    states = []
    for _ in range(2):
        torch.manual_seed(7)
        states.append(Seq2Seq(SEQ2SEQ["tiny"](50)).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("std", [0.0, -1.0])
def test_a_spread_of_nothing_is_refused(std):
    with pytest.raises(ValueError, match=f"initial.std={std}"):
        InitialConfig(std=std)
