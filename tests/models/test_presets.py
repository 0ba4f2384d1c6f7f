"""Named shapes have their published sizes."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.config import from_dict, to_dict
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.seq2seq import Seq2Seq
from regard.settings.presets import DECODERS, ENCODERS, SEQ2SEQ


def count(*modules: nn.Module) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


@pytest.mark.spec("3.6")
def test_the_base_translator_is_the_papers():
    config = SEQ2SEQ["base"](37_000)
    for side in (config.encoder, config.decoder):
        assert (side.d_model, side.body.layers) == (512, 6)
        assert (side.body.attention.heads, side.body.feed_forward.d_ff) == (8, 2048)
    # The parameters of the paper's parts, and one matrix for both embeddings and the output.
    attention, feed_forward, norm = 4 * (512**2 + 512), 2 * 512 * 2048 + 2048 + 512, 2 * 512
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    with torch.device("meta"):
        assert count(Seq2Seq(config)) == 37_000 * 512 + 6 * (encoder + decoder)


@pytest.mark.spec("3.7")
def test_bert_base_has_its_published_size():
    config = replace(ENCODERS["base"](30_522), pooler=True)
    with torch.device("meta"):
        assert count(Encoder(config)) == 109_482_240


@pytest.mark.spec("3.7")
def test_gpt2_small_has_its_published_size():
    with torch.device("meta"):
        assert count(Decoder(DECODERS["base"](50_257))) == 124_439_808


@pytest.mark.parametrize(("presets", "model"), [(SEQ2SEQ, Seq2Seq), (ENCODERS, Encoder), (DECODERS, Decoder)])
def test_every_preset_builds_and_survives_the_trip_to_plain_data(presets, model):
    for make in presets.values():
        config = make(100)
        assert from_dict(type(config), to_dict(config)) == config
        with torch.device("meta"):
            model(config)
