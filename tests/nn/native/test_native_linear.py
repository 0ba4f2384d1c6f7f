"""Linear layers in C, against torch's operations."""

import copy

import pytest
import torch
from torch.testing import assert_close

from regard.nn.layers import activate
from regard.nn.native import linear
from regard.nn.native.linear import Panels
from regard.nn.packed import PackedLinear
from regard.nn.quantized import QuantizedLinear

pytestmark = pytest.mark.skipif(not linear.available(), reason="no compiler")
in_bytes = pytest.mark.skipif(not linear.bytes_available(), reason="no processor with AVX-512 VNNI")
SIZES = [(64, 64), (33, 7), (4, 65), (130, 300)]


def both(monkeypatch: pytest.MonkeyPatch, *given, **settings) -> tuple[QuantizedLinear, QuantizedLinear]:
    own = QuantizedLinear(*given, **settings)
    with monkeypatch.context() as without:
        without.setattr(linear, "bytes_available", lambda: False)
        return own, QuantizedLinear(*given, **settings)


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@in_bytes
@pytest.mark.parametrize(
    ("tokens", "inputs", "outputs"),
    [(tokens, *size) for tokens in (0, 1, 5, 6, 7, 47, 97) for size in SIZES] + [(300, 2048, 130)],
)  # the last is more than one block of tokens
@torch.no_grad()
def test_a_layer_gives_the_same_numbers_to_the_last_bit(monkeypatch, threads, tokens, inputs, outputs):
    own, other = both(monkeypatch, torch.randn(outputs, inputs), torch.randn(outputs))
    x = torch.randn(tokens, inputs) * torch.logspace(-3, 3, tokens)[:, None]
    assert torch.equal(own(x), other(x))


@in_bytes
@pytest.mark.parametrize("then", ["relu", "gelu", "gelu_tanh", "swish"])
@pytest.mark.parametrize("tokens", [1, 100])
@torch.no_grad()
def test_activations_are_torchs(monkeypatch, threads, then, tokens):
    weight, bias = torch.randn(100, 40), torch.randn(100)
    own, other = both(monkeypatch, weight, bias, then)
    x = torch.randn(tokens, 40)
    assert_close(own(x), other(x), atol=2e-6, rtol=1e-6)
    assert_close(own(x), activate(QuantizedLinear(weight, bias)(x), then), atol=2e-6, rtol=1e-6)


@pytest.mark.parametrize("then", ["gelu", "gelu_tanh", "swish"])
@torch.no_grad()
def test_activations_hold_everywhere(then):
    x = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([-1e30, -80.0, 80.0, 1e4])])[:, None]
    own = Panels(torch.ones(1, 1), None, then).times(x)
    assert_close(own, activate(x, then), atol=2e-6, rtol=1e-6)


@pytest.mark.parametrize("then", [None, "relu", "gelu", "gelu_tanh", "swish"])
@pytest.mark.parametrize("kind", [PackedLinear, pytest.param(QuantizedLinear, marks=in_bytes)])
@torch.no_grad()
def test_what_is_no_number_is_not_lost(kind, then):
    layer = kind(torch.randn(70, 40), torch.randn(70), then)
    x = torch.randn(60, 40)
    expected = layer(x)
    x[7, 3], x[50, 39] = torch.nan, -torch.nan
    found = layer(x)
    assert found[[7, 50]].isnan().all()
    others = [row for row in range(60) if row not in (7, 50)]
    assert torch.equal(found[others], expected[others])


@pytest.mark.parametrize("kind", [PackedLinear, pytest.param(QuantizedLinear, marks=in_bytes)])
@torch.no_grad()
def test_rows_that_do_not_lie_together_and_more_axes(kind):
    layer = kind(torch.randn(10, 8), None)
    x = torch.randn(3, 8, 5).transpose(1, 2)
    assert torch.equal(layer(x), torch.stack([layer(each.contiguous()) for each in x]))
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))


@pytest.mark.parametrize("then", [None, "relu", "gelu", "gelu_tanh", "swish"])
@pytest.mark.parametrize(
    ("tokens", "inputs", "outputs"),
    [(tokens, *size) for tokens in (0, 1, 5, 6, 7, 47) for size in SIZES] + [(300, 2048, 130)],
)
@torch.no_grad()
def test_a_layer_in_float32_is_torchs(threads, tokens, inputs, outputs, then):
    weight, bias, x = torch.randn(outputs, inputs), torch.randn(outputs), torch.randn(tokens, inputs)
    found = Panels(weight, bias, then).times(x)
    exact = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
    # Each of so many sums may be off by half of the last bit of one as large as the result.
    assert_close(found.double(), activate(exact, then), atol=4e-5 * inputs**0.5, rtol=1e-6)


@torch.no_grad()
def test_what_does_not_fit_is_refused():
    layer = PackedLinear(torch.randn(20, 48), None)
    for wrong in (torch.randn(10, 3), torch.randn(4, 96)):
        with pytest.raises(ValueError, match="takes tokens of 48 numbers"):
            layer(wrong)
    with pytest.raises(ValueError, match="on meta"):
        layer(torch.randn(2, 48, device="meta"))
    assert layer(torch.randn(0, 48)).shape == (0, 20)


def test_nothing_comes_in_and_nothing_goes_out():
    assert torch.equal(
        Panels(torch.randn(3, 0), torch.arange(3.0), None).times(torch.randn(2, 0)),
        torch.arange(3.0).expand(2, 3),
    )
    assert Panels(torch.randn(0, 3), None, None).times(torch.randn(2, 3)).shape == (2, 0)
