"""What is written in C, against torch's operations."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from regard.nn import native
from regard.nn.layers import activate
from regard.nn.native import NativeWarning, library
from regard.nn.quantized import QuantizedLinear

compiled = pytest.mark.skipif(library() is None, reason="no compiler, or no processor with VNNI")


def both(monkeypatch: pytest.MonkeyPatch, *given, **settings) -> tuple[QuantizedLinear, QuantizedLinear]:
    own = QuantizedLinear(*given, **settings)
    with monkeypatch.context() as without:
        without.setattr("regard.nn.quantized.library", lambda: None)
        return own, QuantizedLinear(*given, **settings)


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@compiled
@pytest.mark.parametrize("tokens", [0, 1, 5, 6, 7, 47, 48, 97, 300])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (33, 7), (4, 65), (130, 300)])
@torch.no_grad()
def test_a_layer_gives_the_same_numbers_to_the_last_bit(monkeypatch, threads, tokens, inputs, outputs):
    own, other = both(monkeypatch, torch.randn(outputs, inputs), torch.randn(outputs))
    x = torch.randn(tokens, inputs) * torch.logspace(-3, 3, tokens)[:, None]
    assert torch.equal(own(x), other(x))


@compiled
@pytest.mark.parametrize("then", ["relu", "gelu", "gelu_tanh"])
@pytest.mark.parametrize("tokens", [1, 100])
@torch.no_grad()
def test_activations_are_torchs(monkeypatch, threads, then, tokens):
    weight, bias = torch.randn(100, 40), torch.randn(100)
    own, other = both(monkeypatch, weight, bias, then)
    x = torch.randn(tokens, 40)
    assert_close(own(x), other(x), atol=2e-6, rtol=1e-6)
    assert_close(own(x), activate(QuantizedLinear(weight, bias)(x), then), atol=2e-6, rtol=1e-6)


@compiled
@pytest.mark.parametrize("then", ["gelu", "gelu_tanh"])
@torch.no_grad()
def test_activations_hold_everywhere(then):
    # One input, one token a value: its own size is its scale, so nothing is rounded.
    x = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([-1e30, -80.0, 80.0, 1e4])])[:, None]
    own = QuantizedLinear(torch.ones(1, 1), None, then)(x)
    assert_close(own, activate(x.clone(), then), atol=2e-6, rtol=1e-6)


@compiled
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


@compiled
def test_rows_that_do_not_lie_together_and_more_axes():
    layer = QuantizedLinear(torch.randn(10, 8), None)
    x = torch.randn(3, 8, 5).transpose(1, 2)
    assert torch.equal(layer(x), torch.stack([layer(each.contiguous()) for each in x]))
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))


@compiled
def test_it_shares_torchs_threads():
    """Two libraries of threads in one process would wait for one another."""
    code = (
        "import torch; from regard.nn.native import library; library(); "
        "print({line.split()[-1] for line in open('/proc/self/maps') if 'libgomp' in line})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("libgomp") == 1


@compiled
def test_the_library_is_made_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    native.library.__wrapped__()
    (made,) = (tmp_path / "regard").iterdir()
    time = made.stat().st_mtime_ns
    monkeypatch.setattr(native.subprocess, "run", None)
    native.library.__wrapped__()
    assert made.stat().st_mtime_ns == time


@compiled
def test_a_compiler_that_fails_is_named_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    broken = tmp_path / "broken.c"
    broken.write_text("int linear(")
    monkeypatch.setattr(native, "SOURCE", broken)
    with pytest.warns(NativeWarning, match=r"broken\.c, so 8 bits are computed by torch.*error: "):
        assert native.library.__wrapped__() is None
    assert [*(tmp_path / "regard").iterdir()] == []


def test_without_a_compiler_torch_does_it(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert native.library.__wrapped__() is None


def test_the_source_is_in_the_package():
    assert native.SOURCE.is_file()
    assert (
        f'"{native.SOURCE.relative_to(Path(native.__file__).parents[1])}"'
        in Path("pyproject.toml").read_text()
    )
