"""The self-test: what holds is ok, and every row fails when one of its two sides is another."""

import dataclasses
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.deploy.engine import CTranslate2Engine
from regard.deploy.onnx_run import Graph
from regard.machine import checks, exports, resuming, selftest, subjects
from regard.machine.results import apart, failed, judged, skipped, together
from regard.machine.subjects import Subject, numbers
from regard.machine.tiny import ENCODERS, LANGUAGE, TRANSLATORS, write_tiny
from regard.machine.without_c import WithoutC
from regard.nn import kernels, multihead
from regard.nn.native import library
from regard.nn.native.groups import restored
from regard.nn.quantized import QuantizedLinear
from regard.tasks.registry import FOLDERS, task_of
from regard.train import standing

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def opened(folders):
    """By name."""
    return lambda name: Subject.open(name, folders[name])


def run(check, subject: Subject, *given, **settings):
    with subject.predictor.ready():
        return check(subject, *given, **settings)


# What holds.


def test_there_is_a_tiny_model_of_each_task(folders):
    assert {task_of(folder).name for folder in folders.values()} == {*FOLDERS}


@pytest.mark.parametrize("name", [*TRANSLATORS, *LANGUAGE, *ENCODERS])
def test_every_family_computes_the_same_in_two_ways(opened, name):
    subject = opened(name)
    for check in (checks.check_attention, checks.check_packed, checks.check_cached, checks.check_int8):
        result = run(check, subject)
        assert result.verdict in ("ok", "skipped"), result
        if result.verdict == "ok":
            assert result.numbers > 1000
            assert result.difference < result.bound
            # what is packed is read as it would be alone, to the last bit; other ways are other roundings
            assert result.difference > 0 or check is checks.check_packed
        else:
            assert "recurrent" in name or name in ENCODERS


def test_steps_are_taken_by_beam_groups_too(opened):
    wanted = "steps and beam groups" if library() is not None else "steps"
    assert run(checks.check_cached, opened("modern translator")).why == wanted


@pytest.mark.skipif(library() is None, reason="no library")
def test_another_process_without_c_computes_the_same(folders, opened, tmp_path):
    names = ("translator", "tagger")
    other = WithoutC([folders[name] for name in names], tmp_path / "out")
    for name, without in zip(names, other.results(), strict=True):
        result = run(checks.check_native, opened(name), without)
        assert result.verdict == "ok"
        assert result.numbers > 1000
    other.stop()


def test_a_process_without_c_that_fails_says_why(tmp_path):
    other = WithoutC([tmp_path / "nothing"], tmp_path / "out")
    with pytest.raises(RuntimeError, match=r"ended with 1: .*nothing"):
        other.results()


def test_a_training_that_was_killed_ends_in_the_same_bits(tmp_path):
    result = resuming.check_resumed(tmp_path)
    assert (result.verdict, result.difference, result.bound) == ("ok", 0.0, 0.0)
    assert result.numbers > 10_000


@pytest.mark.parametrize("name", [*TRANSLATORS, *LANGUAGE, *ENCODERS])
def test_half_precision_stays_within_its_bound(opened, name):
    """On a CPU, which rounds as a GPU does."""
    result = run(checks.check_cuda, opened(name), half=True, device="cpu")
    assert result.verdict == "ok"
    assert result.difference > checks.ROUNDING  # so it is half precision


# What does not hold is found.


@pytest.mark.parametrize("name", ["language model", "tagger"])
def test_a_key_that_a_fused_kernel_forgets_is_found(opened, name, monkeypatch):
    def forgetful(queries, keys, values, offsets, key_offsets, before, after, scale):
        return right(queries, keys, values, offsets, key_offsets, 20, after, scale)

    def short(*given):
        *parts, mask, bias, scale, dropout = given
        return whole(*parts, dataclasses.replace(mask, before=20), bias, scale, dropout)

    right, whole = kernels.attend_grouped, kernels._padded
    monkeypatch.setattr(kernels, "attend_grouped", forgetful)
    monkeypatch.setattr(kernels, "_padded", short)
    result = run(checks.check_attention, opened(name))
    assert result.verdict == "FAILED"
    assert result.difference > 10 * result.bound  # far from rounding


def test_a_batch_in_which_a_text_feels_its_neighbour_is_found(opened, monkeypatch):
    def leaky(model, rows, sources, device="cpu"):
        found = right(model, rows, sources, device)
        return tuple(each + 1e-3 * each.flip(0) * (len(rows) > 1) for each in found)

    right = checks.outputs
    monkeypatch.setattr(checks, "outputs", leaky)
    assert run(checks.check_packed, opened("embedder")).verdict == "FAILED"


@pytest.mark.parametrize("name", ["language model", "recurrent translator"])
def test_a_cache_that_forgets_is_found(opened, name, monkeypatch):
    if "recurrent" in name:
        monkeypatch.setattr(subjects.Decoding, "whole", _without_a_token(subjects.Decoding.whole))
    else:
        monkeypatch.setattr(multihead, "attend_cached", _nearsighted(multihead.attend_cached))
    assert run(checks.check_cached, opened(name)).verdict == "FAILED"


def _nearsighted(attend):
    return lambda *given, **settings: attend(*given, **{**settings, "before": 1})


def _without_a_token(whole):
    def other(self, model) -> Tensor:
        rows = [[row[1], *row[1:]] for row in self.rows]
        return whole(dataclasses.replace(self, rows=rows), model)

    return other


def test_rounding_in_steps_that_are_too_coarse_is_found(opened, monkeypatch):
    monkeypatch.setattr(checks, "QuantizedLinear", partial(QuantizedLinear, steps=7))
    assert run(checks.check_int8, opened("classifier")).verdict == "FAILED"


@pytest.mark.skipif(library() is None, reason="no library")
@pytest.mark.parametrize("name", LANGUAGE)
def test_products_in_groups_are_within_their_bound_and_coarser_ones_are_found(opened, name, monkeypatch):
    result = run(checks.check_groups, opened(name))
    assert result.verdict == "ok", result
    assert 0 < result.difference < result.bound
    coarse = lambda weight, kind: restored(weight, "q4_0" if kind == "q8_0" else kind)  # noqa: E731
    monkeypatch.setattr(checks, "restored", coarse)
    assert run(checks.check_groups, opened(name)).verdict == "FAILED"
    assert run(checks.check_groups, opened("classifier")).verdict == "skipped"


def test_c_that_computes_something_else_is_found(opened):
    subject = opened("language model")
    with subject.predictor.ready():
        without = {name: each.clone() for name, each in numbers(subject).items()}
    assert run(checks.check_native, subject, without).verdict == "ok"
    for name in without:
        other = {**without, name: without[name] * (1 + 1e-3)}
        assert run(checks.check_native, subject, other).verdict == "FAILED"


def test_a_checkpoint_that_loses_a_bit_is_found(tmp_path, monkeypatch):
    def lossy(path):
        tensors, facts = right(path)
        return {name: each.bfloat16().to(each.dtype) for name, each in tensors.items()}, facts

    right = standing.checkpoint.read
    monkeypatch.setattr(standing.checkpoint, "read", lossy)
    assert resuming.check_resumed(tmp_path).verdict == "FAILED"


@pytest.mark.parametrize("half", [True, False])
def test_another_device_that_computes_something_else_is_found(opened, half, monkeypatch):
    def wrong(model, rows, sources, device="cpu", seen=[]):  # noqa: B006
        seen.append(device)
        found = right(model, rows, sources, device)
        return found if len(seen) == 1 else tuple(each.roll(1, 0) for each in found)

    right = checks.outputs
    monkeypatch.setattr(checks, "outputs", wrong)
    assert run(checks.check_cuda, opened("classifier"), half=half, device="cpu").verdict == "FAILED"


def test_an_export_that_says_something_else_is_found(opened, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    right = Graph.__call__
    assert exports.check_onnx(opened("classifier"), tmp_path / "a").verdict == "ok"
    monkeypatch.setattr(
        Graph, "__call__", lambda self, feed: {name: each + 0.1 for name, each in right(self, feed).items()}
    )
    check = partial(exports.check_onnx, opened("classifier"), tmp_path / "b")
    result = selftest._guarded(exports.ONNX, "classifier", check)
    assert result.verdict == "FAILED"
    assert "more than rounding" in result.why


def test_an_export_for_ctranslate2_that_says_something_else_is_found(opened, tmp_path, monkeypatch):
    pytest.importorskip("ctranslate2")
    right = CTranslate2Engine.score
    assert exports.check_ctranslate2(opened("translator"), tmp_path / "a").verdict == "ok"

    def wrong(self, sources, targets):
        return [[value - 0.1 for value in row] for row in right(self, sources, targets)]

    monkeypatch.setattr(CTranslate2Engine, "score", wrong)
    check = partial(exports.check_ctranslate2, opened("translator"), tmp_path / "b")
    assert selftest._guarded(exports.CTRANSLATE2, "translator", check).verdict == "FAILED"


# What cannot be compared is skipped.


@pytest.mark.parametrize(
    ("package", "check"),
    [("ctranslate2", exports.check_ctranslate2), ("onnxruntime", exports.check_onnx)],
)
def test_an_engine_that_is_not_installed_is_skipped_by_its_name(
    opened, tmp_path, monkeypatch, package, check
):
    monkeypatch.setitem(sys.modules, package, None)
    result = check(opened("translator"), tmp_path)
    assert result.verdict == "skipped"
    assert f"{package} is not installed: pip install regard[" in result.why.lower()


def test_what_a_format_cannot_express_is_skipped(opened, tmp_path):
    assert "not for task = 'tag'" in exports.check_ctranslate2(opened("tagger"), tmp_path).why
    pytest.importorskip("onnxruntime")
    assert exports.check_onnx(opened("recurrent translator"), tmp_path).verdict == "skipped"


# Results.


def test_what_is_no_number_and_what_was_not_compared_fail():
    one = torch.ones(4)
    assert judged("a", "b", apart([(one, one)], 1e-4)).verdict == "ok"
    assert judged("a", "b", apart([(one * torch.nan, one)], 1e-4)).verdict == "FAILED"
    assert judged("a", "b", apart([(one, one * torch.nan)], 1e-4)).verdict == "FAILED"
    assert judged("a", "b", []).why == "nothing was compared"
    assert judged("a", "b", apart([(one + np.float32(1e-7), one)], 0.0)).verdict == "FAILED"
    with pytest.raises(ValueError, match=r"\(4,\) beside \(3,\)"):
        apart([(one, one[:3])], 1e-4)


def test_of_several_models_the_worst_speaks():
    good, near = judged("a", "x", [(5, 0.1, 1.0)]), judged("a", "y", [(7, 0.9, 1.0)])
    (both,) = together([good, near, skipped("a", "z", "no")])
    assert (both.model, both.numbers, both.difference, both.verdict) == ("2 models", 12, 0.9, "ok")
    bad = failed("a", "w", ValueError("hm"))
    (worst,) = together([good, bad, near])
    assert (worst.model, worst.verdict, worst.why) == ("w", "FAILED", "ValueError: hm")
    assert together([skipped("a", "z", "no")])[0].verdict == "skipped"


# The command.


def regard(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "regard", "selftest", *arguments], capture_output=True, text=True, check=False
    )


def test_the_command_says_what_was_compared_on_ones_own_model(folders):
    done = regard(str(folders["embedder"]), "--no-export", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] is True
    by_check = {each["check"]: each for each in found["results"]}
    assert {checks.ATTENTION, checks.PACKED, checks.INT8, resuming.RESUMED, checks.CUDA} <= {*by_check}
    assert by_check[checks.PACKED]["model"] == "embedder"
    assert by_check[checks.PACKED]["numbers"] == 62 * 64 + 6 * 64
    assert by_check[exports.ONNX]["why"] == "--no-export"


def test_it_ends_with_1_when_something_differs(folders, monkeypatch, capsys):
    from rich.console import Console

    monkeypatch.setattr(checks, "check_packed", lambda subject: judged(checks.PACKED, "m", [(1, 1.0, 0.5)]))
    settings = {"export": False, "console": Console(width=160)}
    assert selftest.selftest(folders["tagger"], as_json=False, **settings) is False
    assert "FAILED  a packed batch = each text alone, m: 1 apart, 0.5 allowed" in capsys.readouterr().out


def test_a_folder_that_is_no_model_is_an_error(tmp_path):
    done = regard(str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}")
