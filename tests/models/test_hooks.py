"""A forward hook may keep what it is given: nothing that a model does later changes it."""

import pytest
import torch

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.models.headed import Headed, HeadedConfig
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import ClassifyConfig, EmbedConfig, MaskedConfig, PoolConfig, TagConfig
from regard.settings.network import FeedForwardConfig, NormConfig
from tests.models.families import BODIES, LONG, VOCABULARY, decoder, encoder, seq2seq, transformer
from tests.models.watching import changed, watched

FAMILIES = pytest.mark.parametrize("family", [*BODIES.values(), *LONG.values()], ids=[*BODIES, *LONG])
MODES = pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
TRAINING = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
LAYOUT = Layout.of([3, 7, 1])


def draw(layout: Layout) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (layout.tokens,))


@FAMILIES
@MODES
@TRAINING
def test_what_the_parts_of_a_translator_were_given_stays(family, mode, training):
    model = Seq2Seq(seq2seq(*family)).train(training)
    targets = Layout.of([5, 2, 4])
    with watched(model) as seen, mode():
        model.decoder.head(model(draw(LAYOUT), LAYOUT, draw(targets), targets))
    heard = {name.removeprefix("out of ") for name, _, _ in seen}
    assert {name for name, _ in model.named_modules() if name.endswith("attention")} <= heard
    assert changed(seen) == []


@FAMILIES
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_and_that_of_its_steps(family, mode):
    model = Seq2Seq(seq2seq(*family)).eval()
    prefixes = Layout.of([2, 2, 2])
    with watched(model) as seen, mode():
        state = model.start(draw(LAYOUT), LAYOUT)
        model.prefill(draw(prefixes), prefixes, state)
        for rows in ([0, 0, 2], [0, 1]):
            state.select(rows)
            model.step(torch.zeros(len(rows), dtype=torch.int64), state)
    assert changed(seen) == []


@FAMILIES
@MODES
def test_what_the_parts_of_a_language_model_were_given_stays(family, mode):
    model = Decoder(decoder(*family)).eval()
    with watched(model) as seen, mode():
        model.head(model(draw(LAYOUT), LAYOUT))
    assert changed(seen) == []


@pytest.mark.parametrize(
    "activation", ["relu", "gelu", "gelu_tanh", "swish", "geglu", "geglu_tanh", "swiglu"]
)
@pytest.mark.parametrize("place", ["post", "pre"])
@MODES
@TRAINING
def test_activations_and_sums_leave_their_inputs_alone(activation, place, mode, training):
    body = transformer(
        feed_forward=FeedForwardConfig(d_ff=64, activation=activation), norm=NormConfig(place=place)
    )
    model = Decoder(decoder(body, "rotary")).train(training)
    with watched(model) as seen, mode():
        model(draw(LAYOUT), LAYOUT)
    assert changed(seen) == []


@pytest.mark.parametrize(
    "head",
    [
        MaskedConfig(activation="relu"),
        MaskedConfig(),
        ClassifyConfig(inner="relu", pool=PoolConfig(kind="attention")),
        ClassifyConfig(pool=PoolConfig(kind="pooler")),
        TagConfig(),
        EmbedConfig(project=8),
    ],
)
@MODES
@TRAINING
def test_what_heads_were_given_stays(head, mode, training):
    own = encoder(*BODIES["transformer, learned"], pooler=True)
    model = Headed(HeadedConfig(encoder=own, head=head)).train(training)
    with watched(model) as seen, mode():
        model(draw(LAYOUT), LAYOUT)
    assert changed(seen) == []
