"""Products in 8 bits."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.decode import DecodeConfig, decode
from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.seq2seq import Seq2Seq
from regard.nn.embedding import VocabularyHead
from regard.nn.native import linear
from regard.nn.quantized import QuantizedLinear, quantize, token_steps
from tests.models.families import BODIES, VOCABULARY, decoder, encoder, seq2seq


@pytest.fixture(autouse=True, params=["native", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything holds by either way."""
    if request.param == "torch":
        monkeypatch.setattr(linear, "bytes_available", lambda: False)
    elif not linear.bytes_available():
        pytest.skip("no compiler, or no processor with VNNI")


FAMILIES = pytest.mark.parametrize("family", BODIES.values(), ids=BODIES.keys())


def rounded(x: Tensor, steps: int = 127) -> Tensor:
    """Each row in so many whole steps up to its largest element."""
    most = x.abs().amax(dim=-1, keepdim=True).double()
    return (x.double() / most * steps + 0.5).floor() * most / steps


def relative(found: Tensor, reference: Tensor) -> float:
    return float((found - reference).norm() / reference.norm())


@pytest.mark.parametrize("rows", [1, 2, 8, 33])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 192), (33, 7), (768, 50)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("steps", [127, 63])
def test_a_product_is_that_of_the_rounded_numbers(rows, inputs, outputs, bias, steps):
    layer = nn.Linear(inputs, outputs, bias=bias).eval()
    x = torch.randn(rows, inputs) * torch.logspace(-3, 3, rows)[:, None]
    weight = layer.weight.detach()
    expected = rounded(x, steps) @ rounded(weight).T
    expected = expected + layer.bias.detach() if bias else expected
    found = QuantizedLinear(layer.weight, layer.bias, steps=steps)(x).double()
    # A float32 quotient may fall on the other side of a half: a step of x, times what it meets.
    slack = x.abs().amax(dim=1, keepdim=True) / steps * weight.abs().amax() * 2
    assert ((found - expected).abs() <= slack + 1e-5).all()
    assert relative(found, expected) < 1e-3


def test_the_error_is_within_half_a_step_of_each_factor():
    layer, x = nn.Linear(256, 64).eval(), torch.randn(20, 256)
    weight = layer.weight.detach()
    step_x = x.abs().amax(dim=1, keepdim=True) / (2 * token_steps())
    step_w = weight.abs().amax(dim=1) / 254
    bound = step_x * weight.abs().sum(dim=1) + x.abs().sum(dim=1, keepdim=True) * step_w
    bound = bound + 256 * step_x * step_w
    with torch.no_grad():
        assert ((quantize(layer)(x) - layer(x)).abs() <= bound * 1.001).all()


def test_a_tokens_output_does_not_depend_on_its_company():
    layer = quantize(nn.Linear(64, 32).eval())
    x = torch.randn(9, 64) * torch.logspace(-3, 3, 9)[:, None]
    assert_close(layer(x), torch.cat([layer(row[None]) for row in x]), atol=0, rtol=1e-6)


@pytest.mark.parametrize("outputs", [1, 255, 256, 257, 600])
def test_weights_are_rounded_in_blocks_as_they_would_be_at_once(outputs):
    weight = torch.randn(outputs, 40) * torch.logspace(-3, 3, outputs)[:, None]
    most = weight.abs().amax(dim=1, keepdim=True)
    found = QuantizedLinear(weight, None)(torch.eye(40)).T  # a token of a single 1 has no rounding of its own
    assert_close(found, (weight * (127 / most)).round() * most / 127, atol=0, rtol=1e-6)


def test_zeros_nothing_and_more_axes():
    linear = nn.Linear(16, 8).eval()
    linear.weight.data[3] = 0.0
    layer = quantize(linear)
    assert torch.equal(layer(torch.zeros(2, 16)), linear.bias.detach().expand(2, 8))
    assert layer(torch.ones(2, 16))[:, 3].tolist() == [float(linear.bias.detach()[3])] * 2
    assert layer(torch.zeros(0, 16)).shape == (0, 8)
    x = torch.randn(2, 3, 16)
    assert_close(layer(x), layer(x.flatten(0, 1)).unflatten(0, (2, 3)))
    assert layer(x.bfloat16()).dtype == torch.bfloat16
    assert layer(torch.full((1, 16), torch.nan)).isnan().all()


@FAMILIES
@torch.no_grad()
def test_models_of_every_family_stay_close(family):
    torch.manual_seed(0)
    layout, ids = Layout.of([5, 9, 1]), torch.randint(0, VOCABULARY, (15,))
    reader = Encoder(encoder(*family)).eval()
    assert relative(quantize(reader)(ids, layout), reader(ids, layout)) < 0.05
    translator = Seq2Seq(seq2seq(*family)).eval()
    small = quantize(translator)
    scores = [each.decoder.head(each(ids, layout, ids, layout)) for each in (small, translator)]
    assert relative(*scores) < 0.05


@pytest.mark.parametrize("tied", [True, False])
def test_every_product_is_exchanged_and_the_model_stays_as_it_was(tied):
    model = Decoder(decoder(*BODIES["transformer, modern"], tied=tied, head_bias=True)).eval()
    before = copy.deepcopy(model.state_dict())
    small = quantize(model)
    kinds = [type(part) for part in small.modules()]
    assert nn.Linear not in kinds
    assert VocabularyHead not in kinds
    products = sum(isinstance(part, nn.Linear | VocabularyHead) for part in model.modules())
    assert kinds.count(QuantizedLinear) == products
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not any(parameter.requires_grad for parameter in small.parameters())


def test_a_layer_that_is_in_two_places_stays_one():
    shared = nn.Linear(4, 4)
    small = quantize(nn.Sequential(shared, nn.ReLU(), shared).eval())
    assert small[0] is small[2]


@torch.enable_grad()
def learned() -> Decoder:
    """A small language model of the rule: the next token is the sum of the last two, modulo the size."""
    torch.manual_seed(0)
    model = Decoder(decoder(*BODIES["transformer, rotary"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(250):
        ids = sums(64, 13)
        loss = nll(model, ids[:, :-1], ids[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def nll(model: Decoder, ids: Tensor, following: Tensor) -> Tensor:
    layout = Layout.of([ids.shape[1]] * len(ids))
    return nn.functional.cross_entropy(model.head(model(ids.flatten(), layout)), following.flatten())


def sums(rows: int, length: int) -> Tensor:
    ids = torch.randint(0, VOCABULARY, (rows, 2))
    for _ in range(length - 2):
        ids = torch.cat([ids, (ids[:, -1:] + ids[:, -2:-1]) % VOCABULARY], dim=1)
    return ids


@torch.no_grad()
def test_what_was_learned_is_kept():
    model = learned()
    small = quantize(model)
    ids = sums(200, 13)
    losses = [float(nll(each, ids[:, 1:-1], ids[:, 2:])) for each in (model, small)]
    assert losses[0] < 1.0  # it has learned
    assert abs(losses[1] - losses[0]) < 0.02
    config = DecodeConfig(method="greedy", maximum=8)
    found = [
        decode(each, each.start(rows=50), ids[:50, :4].tolist(), end=VOCABULARY - 1, config=config)
        for each in (model, small)
    ]
    same = [a[0].ids == b[0].ids for a, b in zip(*found, strict=True)]
    assert sum(same) >= 47


def test_what_8_bits_cannot_do_is_refused():
    with pytest.raises(ValueError, match=r"eval\(\)"):
        quantize(nn.Linear(2, 2))
    small = quantize(nn.Sequential(nn.Linear(2, 2)).eval())
    assert small.eval() is small
    with pytest.raises(ValueError, match="cannot be trained"):
        small.train()
    with pytest.raises(ValueError, match="not stored"):
        small.state_dict()
    x = torch.ones(1, 2, requires_grad=True)
    assert not small(x).requires_grad
