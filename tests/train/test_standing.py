"""Checkpoints that cannot be: each is refused before anything of the run changes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.settings.training import AverageConfig
from regard.train import checkpoint
from regard.train.checkpoint import CheckpointError
from tests.train.toys import Run

Change = Callable[[dict[str, Tensor], dict[str, Any]], object]
NAME = "checkpoint.safetensors"


def begun(folder: Path, **how: Any) -> Run:
    """Some steps of which are not logged yet."""
    return Run(folder, log_every=10, **how)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a mean of the weights, and a history, that stopped at its third step."""
    folder = tmp_path_factory.mktemp("run")
    run = begun(folder)
    trainer = run.trainer
    for step in (1, 2, 3):
        trainer.standing.step = step
        trainer._step(None, None)  # type: ignore[arg-type]
        trainer._history.append(trainer.engine.statistics.clone())
    trainer._save()
    return folder / NAME


def put(name: str, value: Any) -> Change:
    return lambda tensors, facts: facts["standing"].__setitem__(name, value)


def vector(name: str, change: Callable[[Tensor], Tensor]) -> Change:
    return lambda tensors, facts: tensors.__setitem__(name, change(tensors[name]))


CASES: dict[str, tuple[Change, str]] = {
    "one weight for all": (vector("weights", lambda one: one[:1].clone()), "weights is [1]"),
    "a number for a vector": (vector("means", lambda one: one[0].clone()), "means is []"),
    "a weight too many": (vector("weights", lambda one: torch.cat([one, one[:1]])), "weights is ["),
    "other type": (vector("squares", lambda one: one.double()), "torch.float64"),
    "whole numbers": (vector("weights", lambda one: one.long()), "torch.int64"),
    "no means": (lambda tensors, facts: tensors.pop("means"), "no means"),
    "no weights": (lambda tensors, facts: tensors.pop("weights"), "no weights"),
    "no mean": (lambda tensors, facts: tensors.pop("average.mean"), "no mean of the weights"),
    "short mean": (vector("average.mean", lambda one: one[:1].clone()), "average.mean is [1]"),
    "something else": (lambda tensors, facts: tensors.update(more=torch.ones(1)), "['more']"),
    "an average of no kind": (
        lambda tensors, facts: tensors.update({"average.more": torch.ones(1)}), "['average.more']"
    ),
    "a gap in the averages": (
        lambda tensors, facts: tensors.update({"average.last.1": tensors["weights"].clone()}),
        "no average.last.0",
    ),
    "narrow history": (vector("history", lambda rows: rows[:, :2].clone()), "rows of 4 belong"),
    "flat history": (vector("history", lambda rows: rows[0].clone()), "rows of 4 belong"),
    "history of whole numbers": (vector("history", lambda rows: rows.long()), "rows of 4 belong"),
    "negative step": (put("step", -1), "step=-1"),
    "endless step": (put("step", 10**13), "step=10000000000000"),
    "step as text": (put("step", "3"), "step='3'"),
    "step as a fraction": (put("step", 3.5), "step=3.5"),
    "step as a truth": (put("step", True), "step=True"),
    "no step": (lambda tensors, facts: facts["standing"].pop("step"), "at which step"),
    "seconds that are no number": (put("seconds", float("nan")), "seconds=nan"),
    "endless seconds": (put("seconds", float("inf")), "seconds=inf"),
    "negative seconds": (put("seconds", -1.0), "seconds=-1.0"),
    "seconds as text": (put("seconds", "1"), "seconds='1'"),
    "negative split": (put("split", -2), "split=-2"),
    "no split": (put("split", 0), "split=0"),
    "huge split": (put("split", 10**9), "split=1000000000"),
    "best after the last": (put("best_step", 99), "best_step=99"),
    "finished as text": (put("finished", "no"), "finished='no'"),
    "compiled as a number": (put("compiled", 1), "compiled=1"),
    "best as a list": (put("best", [1]), "best=[1]"),
    "best of text": (put("best", {"loss": "low"}), "best={'loss': 'low'}"),
    "waited as nothing": (put("waited", None), "waited=None"),
    "unknown fact": (put("more", 1), "['more']"),
    "standing as a list": (lambda tensors, facts: facts.update(standing=[1]), "at which step"),
    "no standing": (lambda tensors, facts: facts.pop("standing"), "at which step"),
    "updates as text": (lambda tensors, facts: facts.update(updates="3"), "updates='3'"),
    "negative updates": (lambda tensors, facts: facts.update(updates=-3), "updates=-3"),
    "no updates": (lambda tensors, facts: facts.pop("updates"), "updates=None"),
    "no places": (lambda tensors, facts: facts.pop("places"), "the weights of another model"),
    "places as text": (lambda tensors, facts: facts.update(places="x"), "the weights of another model"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_is_refused_and_changes_nothing(stopped: Path, tmp_path: Path, case: str) -> None:
    change, said = CASES[case]
    tensors, facts = checkpoint.read(stopped)
    change(tensors, facts)
    checkpoint.write(tmp_path / NAME, tensors, facts)
    run = begun(tmp_path)
    before = run.trainer.engine.weights.values.clone()
    with pytest.raises(CheckpointError) as caught:
        run.trainer.resume()
    told = str(caught.value)
    assert told.startswith(f"{tmp_path / NAME}: ")
    assert said in told
    assert "\n" not in told
    assert "resume with" in told or "start again in a new folder" in told
    assert torch.equal(run.trainer.engine.weights.values, before)


def test_what_can_be_is_taken(stopped: Path, tmp_path: Path) -> None:
    tensors, facts = checkpoint.read(stopped)
    assert tensors["history"].shape == (3, 4)
    facts["standing"]["best"] = {"loss": float("nan")}  # a validation may have none
    facts["standing"].pop("split")  # an older version may know less
    checkpoint.write(tmp_path / NAME, tensors, facts)
    run = begun(tmp_path)
    run.trainer.resume()
    assert run.trainer.standing.step == 3
    assert torch.equal(run.trainer.engine.weights.values, tensors["weights"])
    other = begun(tmp_path, average=AverageConfig(kind="none"))  # which needs no mean
    other.trainer.resume()
    assert torch.equal(other.trainer.engine.weights.values, tensors["weights"])


@pytest.mark.parametrize("facts", ["", "[1]", "{", "null", "[" * 100_000], ids=lambda text: text[:4])
def test_facts_that_are_no_table_are_refused(tmp_path: Path, facts: str) -> None:
    about = {"format": checkpoint.FORMAT, "facts": facts}
    checkpoint.save_file({"a": torch.ones(1)}, tmp_path / NAME, about)
    with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors: cannot be read .*start again"):
        checkpoint.read(tmp_path / NAME)


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors: cannot be read"):
        checkpoint.read(tmp_path / NAME)
