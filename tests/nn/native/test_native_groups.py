"""Products with weights in groups: the same bits by scalars, AVX2 and AVX-512, and within the bound."""

import ctypes
import subprocess
from pathlib import Path

import gguf
import pytest
import torch

from regard.nn.native import FLAGS, LIBRARIES, library
from regard.nn.native import groups as module
from regard.nn.native.groups import KINDS, GroupedWeight, restored

pytestmark = pytest.mark.skipif(library() is None, reason="no C here")
FOLDER = Path(module.__file__).parent


@pytest.fixture(scope="module")
def narrow(tmp_path_factory) -> ctypes.CDLL:
    """The same C for a processor that has AVX2 and nothing wider."""
    made = tmp_path_factory.mktemp("narrow") / "groups.so"
    flags = ["-march=haswell" if flag == "-march=native" else flag for flag in FLAGS]
    subprocess.run(["cc", *flags, str(FOLDER / "groups.c"), "-o", str(made), *LIBRARIES], check=True)
    return ctypes.CDLL(str(made))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("outputs", "inputs"), [(16, 32), (5, 96), (100, 576)])
@pytest.mark.parametrize("tokens", [1, 2, 7, 8, 19])
def test_all_ways_give_the_same_bits_within_the_bound(narrow, kind, outputs, inputs, tokens):
    torch.manual_seed(tokens)
    weight, bias = torch.randn(outputs, inputs), torch.randn(outputs)
    x = torch.randn(tokens, inputs) * torch.rand(tokens, 1) * 10
    if inputs > 32:
        x[0, :32] = 0  # a group of nothing
    product = GroupedWeight(weight, bias, kind)
    found = product.times(x)
    assert torch.equal(found, product.times(x, plain=True))
    assert torch.equal(found, product.times(x, made=narrow))
    left = restored(weight, kind).double()
    exact = x.double() @ left.t() + bias.double()
    steps = x.double().unflatten(1, (-1, 32)).abs().amax(dim=2) / 127
    sizes = left.abs().unflatten(1, (-1, 32)).sum(dim=2)
    bound = steps @ sizes.t() / 2
    assert ((found - exact).abs() <= bound + 1e-5 * (1 + exact.abs())).all()
    assert (found - exact).abs().max() > 0
    assert torch.equal(found[-1:], product.times(x[-1:]))  # whatever its company


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_rounded_as_in_gguf_files_and_stay_what_they_are(kind):
    torch.manual_seed(1)
    weight = torch.randn(24, 128)
    weight[3, :32] = 0
    type_ = gguf.GGMLQuantizationType[kind.upper()]
    theirs = gguf.quants.dequantize(gguf.quants.quantize(weight.numpy(), type_), type_)
    assert torch.equal(restored(weight, kind), torch.from_numpy(theirs))
    assert torch.equal(restored(torch.from_numpy(theirs), kind), torch.from_numpy(theirs))
    whole = GroupedWeight(weight, None, kind)
    assert whole.bytes * 8 / (32 * 128) == {"q4_1": 5, "q4_0": 4.5, "q8_0": 8.5}[kind]  # panels of 16
    with pytest.raises(ValueError, match="48 inputs are no whole groups of 32"):
        GroupedWeight(torch.randn(4, 48), None, kind)
