"""From ids to vectors and back."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.nn.embedding import Embedding, VocabularyHead
from regard.nn.in_place import in_place
from regard.nn.packed import pack
from regard.nn.positions import LearnedPositions, SinusoidalPositions
from regard.nn.quantized import quantize
from regard.settings.network import EmbeddingConfig
from tests.models.families import BODIES, VOCABULARY, decoder

IDS = torch.tensor([4, 1, 4])
PLACES = torch.tensor([0, 1, 0])


def embedding(*, positions=None, norm=None, **settings) -> Embedding:
    config = EmbeddingConfig(**{"scaled": False, "dropout": 0.0, **settings})
    return Embedding(6, 4, config, positions=positions, norm=norm)


@pytest.mark.spec("1.3")
def test_a_lookup_equals_one_hot_times_the_matrix():
    part = embedding()
    one_hot = F.one_hot(IDS, 6).float()
    assert_close(part(IDS, PLACES, 2), one_hot @ part.tokens.weight)


@pytest.mark.spec("1.3")
def test_the_rows_are_learned():
    part = embedding()
    part(IDS, PLACES, 2).sum().backward()
    assert part.tokens.weight.grad[:, 0].tolist() == [0, 1, 0, 0, 2, 0]


def test_scaling_multiplies_the_row_and_not_the_position():
    positions = SinusoidalPositions(4)
    part = embedding(scaled=True, positions=positions)
    assert_close(part(IDS, PLACES, 2), part.tokens.weight[IDS] * 2 + positions(PLACES, 2))


@pytest.mark.spec("1.2")
def test_segments_and_learned_positions_are_added_and_the_sum_is_normed():
    positions, norm = LearnedPositions(4, 8), nn.LayerNorm(4)
    part = embedding(segments=2, normed=True, positions=positions, norm=norm)
    segments = torch.tensor([0, 0, 1])
    total = part.tokens.weight[IDS] + positions.table.weight[PLACES] + part.segments.weight[segments]
    assert_close(part(IDS, PLACES, 2, segments), norm(total))


def test_without_segments_every_token_is_in_the_first():
    part = embedding(segments=2)
    assert_close(part(IDS, PLACES, 2), part(IDS, PLACES, 2, torch.zeros(3, dtype=torch.int64)))


def test_segments_for_an_embedding_without_any_are_an_error():
    with pytest.raises(ValueError, match=r"embedding\.segments=2"):
        embedding()(IDS, PLACES, 2, torch.zeros(3, dtype=torch.int64))


def test_dropout_acts_in_training_only():
    part = embedding(dropout=0.5)
    assert (part.train()(IDS, PLACES, 2) == 0).any()
    assert_close(part.eval()(IDS, PLACES, 2), part.tokens.weight[IDS])


def test_a_tied_head_scores_by_the_embeddings_own_matrix():
    part = embedding()
    head = VocabularyHead(6, 4, bias=False, tied=part.tokens)
    assert head.weight is part.tokens.weight
    x = torch.randn(2, 4)
    assert_close(head(x), x @ part.tokens.weight.T)


def test_a_scaled_head_divides_the_states_by_the_root_of_their_width():
    part = embedding()
    head = VocabularyHead(6, 4, bias=True, tied=part.tokens, scaled=True)
    nn.init.normal_(head.bias)
    x = torch.randn(2, 4)
    assert_close(head(x), x @ part.tokens.weight.T / 2 + head.bias)
    assert_close(F.linear(x, head.scaled_weight, head.bias), head(x))


@pytest.mark.parametrize("made", [pack, quantize, in_place], ids=["packed", "in 8 bits", "in place"])
@torch.no_grad()
def test_copies_for_inference_scale_as_the_head_does(made):
    body, positions = BODIES["transformer, sinusoidal"]
    config = decoder(body, positions)
    one, other = (Decoder(replace(config, d_model=24, head_scaled=scaled)).eval() for scaled in (True, False))
    other.load_state_dict(one.state_dict())
    ids, layout = torch.arange(9) % VOCABULARY, Layout.of([4, 5])
    found, plain = (made(model).head(made(model)(ids, layout)) for model in (one, other))
    assert_close(found, plain / math.sqrt(24), atol=2e-2 if made is quantize else 1e-6, rtol=1e-5)


@pytest.mark.parametrize(("name", "value"), [("segments", -1), ("dropout", 1.0)])
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"embedding.{name}={value}"):
        EmbeddingConfig(**{name: value})
