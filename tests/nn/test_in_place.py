"""A copy that works in place says the same to the last bit, and is the model in all but its sums."""

import pytest
import torch

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.models.seq2seq import Seq2Seq
from regard.nn.in_place import activate_, add_, in_place
from regard.nn.layers import FeedForward, Residual, activate
from regard.nn.packed import pack
from regard.nn.quantized import quantize
from regard.settings.network import FeedForwardConfig, NormConfig
from tests.models.families import BODIES, LONG, VOCABULARY, decoder, seq2seq, transformer
from tests.models.watching import changed, watched

FAMILIES = pytest.mark.parametrize("family", [*BODIES.values(), *LONG.values()], ids=[*BODIES, *LONG])
ACTIVATIONS = pytest.mark.parametrize(
    "activation", ["relu", "gelu", "gelu_tanh", "swish", "geglu", "geglu_tanh", "swiglu"]
)
LAYOUT = Layout.of([3, 7, 1])


def ids() -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (LAYOUT.tokens,))


@FAMILIES
@pytest.mark.parametrize("made", [lambda model: model, pack, quantize], ids=["plain", "packed", "in 8 bits"])
@torch.no_grad()
def test_it_says_the_same(family, made):
    model = made(Seq2Seq(seq2seq(*family)).eval())
    given = ids()
    found, expected = (
        each.decoder.head(each(given, LAYOUT, given, LAYOUT)) for each in (in_place(model), model)
    )
    assert torch.equal(found, expected)


@ACTIVATIONS
@pytest.mark.parametrize("place", ["post", "pre"])
@pytest.mark.parametrize("half", [True, False], ids=["bfloat16", "float32"])
@torch.no_grad()
def test_it_says_the_same_with_every_activation(activation, place, half):
    body = transformer(
        feed_forward=FeedForwardConfig(d_ff=64, activation=activation), norm=NormConfig(place=place)
    )
    model = Decoder(decoder(body, "rotary")).eval()
    given = ids()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        assert torch.equal(in_place(model)(given, LAYOUT), model(given, LAYOUT))


@ACTIVATIONS
@torch.no_grad()
def test_activations_in_place_are_those_that_are_not(activation):
    x = torch.randn(5, 64)
    assert torch.equal(activate_(x.clone(), activation), activate(x, activation))


def test_sums_of_two_precisions_keep_the_streams():
    x, update = torch.randn(2, 3), torch.randn(2, 3, dtype=torch.bfloat16)
    assert torch.equal(add_(x, update), x + update)


def test_only_sums_and_activations_are_exchanged_and_the_model_stays_as_it_was():
    model = Seq2Seq(seq2seq(*BODIES["transformer, sinusoidal"])).eval()
    copied = in_place(model)
    assert [*map(id, copied.parameters())] == [*map(id, model.parameters())]
    assert copied.encoder.embedding is model.encoder.embedding
    own, others = (
        [part for part in each.modules() if isinstance(part, Residual)] for each in (copied, model)
    )
    assert {part.add for part in own} == {add_}
    assert add_ not in {part.add for part in others}
    assert {part.activate for part in copied.modules() if isinstance(part, FeedForward)} == {activate_}
    recurrent = Seq2Seq(seq2seq(*BODIES["gru, dot"])).eval()
    assert in_place(recurrent) is recurrent  # nothing to exchange


@pytest.mark.parametrize("made", [pack, quantize])
@torch.no_grad()
def test_packed_and_rounded_models_do_not_work_in_place_by_themselves(made):
    model = made(Seq2Seq(seq2seq(*BODIES["transformer, modern"])).eval())
    with watched(model) as seen:
        model(ids(), LAYOUT, ids(), LAYOUT)
    assert seen
    assert changed(seen) == []
