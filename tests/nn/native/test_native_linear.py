"""A layer in 8 bits in C, against torch's operations."""

import copy

import pytest
import torch
from torch.testing import assert_close

from regard.nn.layers import activate
from regard.nn.native import linear
from regard.nn.quantized import QuantizedLinear

pytestmark = pytest.mark.skipif(not linear.bytes_available(), reason="no compiler, or no processor with VNNI")


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


@pytest.mark.parametrize("tokens", [0, 1, 5, 6, 7, 47, 48, 97, 300])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (33, 7), (4, 65), (130, 300)])
@torch.no_grad()
def test_a_layer_gives_the_same_numbers_to_the_last_bit(monkeypatch, threads, tokens, inputs, outputs):
    own, other = both(monkeypatch, torch.randn(outputs, inputs), torch.randn(outputs))
    x = torch.randn(tokens, inputs) * torch.logspace(-3, 3, tokens)[:, None]
    assert torch.equal(own(x), other(x))


@pytest.mark.parametrize("then", ["relu", "gelu", "gelu_tanh"])
@pytest.mark.parametrize("tokens", [1, 100])
@torch.no_grad()
def test_activations_are_torchs(monkeypatch, threads, then, tokens):
    weight, bias = torch.randn(100, 40), torch.randn(100)
    own, other = both(monkeypatch, weight, bias, then)
    x = torch.randn(tokens, 40)
    assert_close(own(x), other(x), atol=2e-6, rtol=1e-6)
    assert_close(own(x), activate(QuantizedLinear(weight, bias)(x), then), atol=2e-6, rtol=1e-6)


@pytest.mark.parametrize("then", ["gelu", "gelu_tanh"])
@torch.no_grad()
def test_activations_hold_everywhere(then):
    # One input, one token a value: its own size is its scale, so nothing is rounded.
    x = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([-1e30, -80.0, 80.0, 1e4])])[:, None]
    own = QuantizedLinear(torch.ones(1, 1), None, then)(x)
    assert_close(own, activate(x.clone(), then), atol=2e-6, rtol=1e-6)


@pytest.mark.parametrize("then", [None, "relu", "gelu", "gelu_tanh"])
def test_what_is_no_number_is_not_lost(then):
    layer = QuantizedLinear(torch.randn(70, 40), torch.randn(70), then)
    x = torch.randn(60, 40)
    expected = layer(x)
    x[7, 3], x[50, 39] = torch.nan, -torch.nan
    found = layer(x)
    assert found[[7, 50]].isnan().all()
    others = [row for row in range(60) if row not in (7, 50)]
    assert torch.equal(found[others], expected[others])


def test_rows_that_do_not_lie_together_and_more_axes():
    layer = QuantizedLinear(torch.randn(10, 8), None)
    x = torch.randn(3, 8, 5).transpose(1, 2)
    assert torch.equal(layer(x), torch.stack([layer(each.contiguous()) for each in x]))
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))
