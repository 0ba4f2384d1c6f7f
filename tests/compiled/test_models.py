"""Eager equals compiled, values and gradients, without a second compilation for other lengths."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing import assert_close

from regard.layout import Layout
from regard.models import ClassifyHead, Decoder, Encoder, Seq2Seq
from regard.nn.kernels import attend_packed
from regard.nn.masks import CAUSAL
from regard.settings.models import ClassifyConfig, PoolConfig
from regard.settings.presets import ENCODERS, SEQ2SEQ
from tests.models.families import BODIES, D_MODEL, VOCABULARY, decoder, encoder

LENGTHS = ([3, 5, 4, 4], [1, 2, 9, 4], [6, 6, 0, 4])
LONGEST = 16


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_attention_equals_eager_attention(backend):
    counter = CompileCounterWithBackend(backend)

    @torch.compile(backend=counter, fullgraph=True, dynamic=False)
    def compiled(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
        return attend_packed(q, k, v, layout, layout, CAUSAL) * 2

    for lengths in LENGTHS:
        layout = Layout.of(lengths, longest=LONGEST)
        tensors = [torch.randn(16, 4, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
        gradient = torch.randn(16, 4, 8, dtype=torch.float64)
        eager = attend_packed(*tensors, layout, layout, CAUSAL) * 2
        fast = compiled(*tensors, layout)
        assert_close(fast, eager)
        assert_close(
            torch.autograd.grad(fast, tensors, gradient), torch.autograd.grad(eager, tensors, gradient)
        )
    assert counter.frame_count == 1


def outcome(function, parameters: list[nn.Parameter], *inputs) -> tuple[Tensor, ...]:
    output = function(*inputs)
    gradient = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return output, *torch.autograd.grad(output, parameters, gradient)


def hold_equal(model: nn.Module, inputs_of, backend: str = "aot_eager") -> None:
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(model, backend=counter, fullgraph=True, dynamic=False)
    used = [p for name, p in model.named_parameters() if not name.endswith("head.weight")]
    for lengths in LENGTHS:
        inputs = inputs_of(Layout.of(lengths, longest=LONGEST))
        eager = outcome(model, used, *inputs)
        assert_close(outcome(compiled, used, *inputs), eager, atol=1e-10, rtol=1e-10)
    assert counter.frame_count == 1


def ids() -> Tensor:
    return torch.randint(0, VOCABULARY, (16,))


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_compiled_encoder_equals_eager_encoder(training):
    config = ENCODERS["tiny"](VOCABULARY)
    plain = dataclasses.replace(config.embedding, dropout=0.0)
    body = dataclasses.replace(config.body, dropout=0.0)
    model = Encoder(dataclasses.replace(config, embedding=plain, body=body)).double().train(training)
    hold_equal(model, lambda layout: (ids(), layout, torch.zeros(16, dtype=torch.int64)))


TRANSFORMERS = {name: family for name, family in BODIES.items() if name.startswith("transformer")}
SHORT = ("transformer, sinusoidal", "transformer, modern")
"""Families that stand for all; the others are left to `make gauntlet`."""
FAMILIES = [
    pytest.param(own, id=name, marks=[] if name in SHORT else [pytest.mark.long])
    for name, own in TRANSFORMERS.items()
]


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("family", FAMILIES)
def test_compiled_decoder_equals_eager_decoder(family, training):
    """All positions, grouped-query heads, windows, gates, free widths."""
    model = Decoder(decoder(*family)).double().train(training)
    hold_equal(model, lambda layout: (ids(), layout))


def test_compiled_recurrent_models_equal_eager_ones():
    """The compiler leaves recurrent layers to eager mode, so there is no single graph to ask for."""
    model = Encoder(encoder(*BODIES["gru, dot"])).double().eval()
    compiled = torch.compile(model, backend="aot_eager")
    layout = Layout.of([3, 5, 4, 4])
    inputs = ids(), layout
    with torch.no_grad():  # where a graph breaks off, torch warns about the gradients of its own pieces
        assert_close(compiled(*inputs), model(*inputs))


@pytest.mark.parametrize("kind", ["first", "ends", "mean", "max", "attention"])
def test_compiled_classifiers_equal_eager_ones(kind):
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = Encoder(encoder(*TRANSFORMERS["transformer, sinusoidal"]))
            self.classify = ClassifyHead(
                D_MODEL, ClassifyConfig(labels=3, pool=PoolConfig(kind=kind), dropout=0.0)
            )

        def forward(self, ids: Tensor, layout: Layout) -> Tensor:
            return self.classify(self.encoder(ids, layout), layout)

    hold_equal(Classifier().double(), lambda layout: (ids(), layout))


def test_compiled_translator_equals_eager_translator():
    model = Seq2Seq(SEQ2SEQ["tiny"](VOCABULARY)).double().eval()
    source = Layout.of([2, 8, 2, 4], longest=LONGEST)
    hold_equal(model, lambda layout: (ids(), source, ids(), layout))


def test_inductor_agrees_as_well():
    model = Seq2Seq(SEQ2SEQ["tiny"](VOCABULARY)).double().eval()
    source = Layout.of([2, 8, 2, 4], longest=LONGEST)
    hold_equal(model, lambda layout: (ids(), source, ids(), layout), backend="inductor")
