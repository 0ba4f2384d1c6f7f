import pytest
import torch
import torch.nn.functional as F

from regard.nn.gelu import gelu, gelu_tanh

KINDS = {"erf": (gelu, "none"), "tanh": (gelu_tanh, "tanh")}


@pytest.mark.parametrize(("own", "kind"), KINDS.values(), ids=KINDS.keys())
def test_the_function_and_its_slope_are_torchs(own, kind):
    x = torch.linspace(-12, 12, 20_001, requires_grad=True)
    wide = x.detach().double().requires_grad_()
    found, expected = own(x), F.gelu(wide, approximate=kind)
    torch.testing.assert_close(found.double(), expected, atol=2e-6, rtol=0)
    (slope,) = torch.autograd.grad(found.sum(), x)
    (expected_slope,) = torch.autograd.grad(expected.sum(), wide)
    torch.testing.assert_close(slope.double(), expected_slope, atol=4e-6, rtol=0)


@pytest.mark.parametrize(("own", "kind"), KINDS.values(), ids=KINDS.keys())
def test_half_precision_is_rounded_once(own, kind):
    x = torch.randn(1000).bfloat16()
    expected = F.gelu(x.double(), approximate=kind).bfloat16().float()
    wrong = (own(x).float() - expected).abs() > 1e-6
    assert wrong.float().mean() < 0.01  # where the exact value lies between two, either may come out
    torch.testing.assert_close(own(x).float(), expected, atol=1e-6, rtol=2**-7)
