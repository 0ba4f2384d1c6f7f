"""Whole runs of `regard train`, in processes of their own: stopped, killed, resumed, shared out."""

import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from regard.config import write_toml
from regard.tasks import run
from regard.train.report import LOG, read_log
from regard.train.trainer import Outcome
from tests.tasks import tiny

QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default", "CUDA_VISIBLE_DEVICES": ""}
CLOCKS = ("data_wait", "seconds", "tokens_per_second", "took")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, a recipe of it, and room for runs."""
    place = tmp_path_factory.mktemp("runs")
    (place / "recipe.toml").write_text(write_toml(tiny.recipe(place / "corpus")))
    return place


def train(place: Path, out: str, *settings: str) -> Outcome:
    """In this process."""
    console = Console(file=io.StringIO())
    return run.fit(place / "recipe.toml", *settings, out=place / out, device="cpu", console=console)


def command(place: Path, out: str, *arguments: str) -> list[str]:
    return ["train", *arguments, "--out", str(place / out), "--device", "cpu"]


def start(place: Path, out: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "regard", *command(place, out, *arguments)],
        env=QUIET,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def reached(folder: Path, step: int, process: subprocess.Popen[str], began: float) -> None:
    """Wait until the log has this step, and not from a sitting before."""
    deadline = time.monotonic() + 120
    path = folder / LOG
    while not (
        path.exists()
        and path.stat().st_mtime >= began
        and any(entry["step"] >= step for entry in read_log(folder))
    ):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise AssertionError(f"no step {step}: {process.communicate()[0]}")
        time.sleep(0.002)


def log(folder: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key not in CLOCKS} for entry in read_log(folder)]


def step_of(folder: Path) -> int:
    content = (folder / "checkpoint.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return json.loads(header["__metadata__"]["facts"])["standing"]["step"]


@pytest.fixture(scope="module")
def interrupted(place: Path) -> dict[str, Any]:
    """One run in five sittings: killed twice without warning, asked to stop twice, then left alone."""
    folder, chance, facts = place / "parted", random.Random(), {}
    steps = sorted(chance.sample(range(4, 40), 4))
    numbers = [signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGTERM]
    for step, number in zip(steps, numbers, strict=True):
        arguments = [str(place / "recipe.toml")] if step == steps[0] else ["--resume"]
        began = time.time()
        process = start(place, "parted", *arguments)
        reached(folder, step, process, began)
        time.sleep(chance.uniform(0, 0.01))
        process.send_signal(number)
        output, _ = process.communicate(timeout=120)
        last = read_log(folder)[-1]["step"]
        facts[number.name] = (process.returncode, output, step_of(folder), last)
    process = start(place, "parted", "--resume")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return {**facts, "end": output, "steps": steps}


@pytest.mark.long
@pytest.mark.spec("3.6d")
def test_a_run_killed_and_stopped_at_any_moment_is_the_run_that_never_was(
    place: Path, interrupted: dict[str, Any]
) -> None:
    assert train(place, "whole").step == 60
    whole, parted = place / "whole", place / "parted"
    assert interrupted["SIGKILL"][0] == -signal.SIGKILL, interrupted
    assert log(parted) == log(whole)
    assert len(log(whole)) == 66
    for name in ("model.safetensors", "checkpoint.safetensors"):
        one, other = load_file(whole / name), load_file(parted / name)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one), (name, interrupted["steps"])


@pytest.mark.long
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_run_that_is_asked_to_stop_writes_a_checkpoint_and_says_how_to_go_on(
    interrupted: dict[str, Any], name: str, code: int
) -> None:
    returned, output, kept, last = interrupted[name]
    assert returned == code, output
    assert kept == last  # that very step, not the last checkpoint before it
    assert f"stopped at step {last}; continue with: regard train --resume --out" in output
    assert "Traceback" not in output


@pytest.mark.long
def test_a_resumed_run_neither_learns_the_tokenizer_nor_reads_the_text_anew(
    place: Path, interrupted: dict[str, Any]
) -> None:
    made = (place / "parted" / "tokens" / "store.json").stat().st_mtime_ns
    began = min(path.stat().st_mtime_ns for path in (place / "parted").glob("events.*"))
    assert made < began
    assert "the model is in" in interrupted["end"]


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


@pytest.mark.long
@pytest.mark.spec("3.6d")
def test_two_processes_make_the_steps_of_one(place: Path) -> None:
    settings = ["batch.parts=2", "train.steps=12", "train.save_every=0"]
    train(place, "alone", *settings)
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    arguments = command(place, "shared", str(place / "recipe.toml"), *settings)
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "regard", *arguments],
        env=QUIET,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    alone, shared = (
        [entry["loss"] for entry in read_log(place / name) if "loss" in entry] for name in ("alone", "shared")
    )
    assert len(alone) == 12
    assert shared == pytest.approx(alone, rel=1e-5)
    assert done.stdout.count("12/12") == 1  # one of them speaks
    one, other = (load_file(place / name / "model.safetensors") for name in ("alone", "shared"))
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-3, atol=1e-3)


@pytest.mark.long
def test_a_dry_run_of_two_processes_says_what_they_would_do(place: Path) -> None:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    arguments = ["train", str(place / "recipe.toml"), "--dry-run", "batch.parts=2", "train.minutes=0.01"]
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "regard", *arguments, "--device=cpu"],
        env=QUIET,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("# 2 ranks, train.fsdp=auto: every rank has the whole model (DDP)") == 1
    assert done.stdout.count("[train]") == 1  # one of them speaks
