"""A rank that is lost ends the others soon, with a line that says which one, and how to go on."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch.distributed import HashStore

from regard.config import write_toml
from regard.train.standing import last_step
from regard.train.watch import Watch
from tests.tasks import tiny
from tests.tasks.test_runs import QUIET, command, free_port, reached

STUCK = """
import sys, time
from regard.train.ranks import Ranks
ranks = Ranks.join("cpu")
ranks.watch.start(lambda: "do this")
print("ready", flush=True)
time.sleep(1000)
"""
PATIENT = 300.0
"""Seconds until a test gives up: machines may be busy."""


def start(rank: int, port: int, *arguments: str, limit: int = -1) -> subprocess.Popen[str]:
    """One of two, as a launcher starts them; none of its files may have more than so many bytes."""
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**QUIET, **place, "MASTER_PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )


@pytest.mark.parametrize("victim", [1, pytest.param(0, marks=pytest.mark.long)])
def test_a_rank_that_is_killed_ends_the_other_with_one_line(tmp_path: Path, victim: int) -> None:
    (tmp_path / "recipe.toml").write_text(write_toml(tiny.recipe(tmp_path / "corpus")))
    settings = ["batch.parts=2", "train.steps=100000", "train.save_every=5"]
    arguments = ["-m", "regard", *command(tmp_path, "out", str(tmp_path / "recipe.toml"), *settings)]
    began, port = time.time(), free_port()
    pair = [start(rank, port, *arguments) for rank in (0, 1)]
    reached(tmp_path / "out", 12, pair[0], began)
    pair[victim].send_signal(signal.SIGKILL)
    survivor = pair[1 - victim]
    _, said = survivor.communicate(timeout=PATIENT)
    pair[victim].communicate()
    assert survivor.returncode == 1
    step = last_step(tmp_path / "out" / "checkpoint.safetensors")
    assert step is not None
    assert step % 5 == 0
    assert said == (
        f"error: rank {victim} is gone: process {pair[victim].pid} was killed, or crashed; to continue from "
        f"step {step}, the last checkpoint, give the same command again with --resume\n"
    )


@pytest.mark.long
def test_a_rank_that_fails_says_why_and_so_does_the_other(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(write_toml(tiny.recipe(tmp_path / "corpus")))
    settings = ["batch.parts=2", "train.steps=100000", "train.save_every=5"]
    arguments = ["-m", "regard", *command(tmp_path, "out", str(tmp_path / "recipe.toml"), *settings)]
    port = free_port()
    pair = [start(rank, port, *arguments, limit=limit) for rank, limit in ((0, 20_000), (1, -1))]
    said = [each.communicate(timeout=PATIENT)[1] for each in pair]
    assert [each.returncode for each in pair] == [1, 1]
    assert said[0].startswith(f"error: {tmp_path / 'out' / 'checkpoint.safetensors'}: could not be written")
    told = f"error: rank 0 has failed: {said[0].removeprefix('error: ')}"
    assert said[1] == told or said[1].startswith("error: rank 0 is gone")  # the store was rank 0's too
    assert [each.count("\n") for each in said] == [1, 1]


def test_a_rank_that_waits_where_it_cannot_be_woken_ends_too() -> None:
    port = free_port()
    pair = [start(rank, port, "-c", STUCK) for rank in (0, 1)]
    for each in pair:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    pair[1].send_signal(signal.SIGKILL)
    pair[1].communicate()
    _, said = pair[0].communicate(timeout=PATIENT)
    assert pair[0].returncode == 1
    assert said.splitlines()[-1] == (
        f"error: rank 1 is gone: process {pair[1].pid} was killed, or crashed; do this"
    )


def test_what_a_rank_failed_of_is_known_to_the_others() -> None:
    store = HashStore()
    one, other = Watch(store, 0, 2), Watch(store, 1, 2)
    assert one.lost() is None
    other.stop("train.de:7: no text")
    assert one.lost() == "rank 1 has failed: train.de:7: no text"
    assert one.diagnosis(RuntimeError("closed")) == "rank 1 has failed: train.de:7: no text"


def test_a_rank_that_came_to_its_end_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    store = HashStore()
    one, other = Watch(store, 0, 2), Watch(store, 1, 2)
    other.stop()
    monkeypatch.setattr("regard.train.watch._lives", lambda process: process == 0)
    assert one.lost() is None


def test_a_rank_of_another_machine_is_lost_when_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("regard.train.watch.time.monotonic", lambda: clock[0])
    store = HashStore()
    one = Watch(store, 0, 2)
    with monkeypatch.context() as there:
        there.setattr("regard.train.watch._machine", lambda: "other 1")
        Watch(store, 1, 2)
    for second in range(0, 1000, 10):  # it beats
        clock[0] = float(second)
        store.set("watch/beat 1", str(second))
        assert one.lost() is None
    clock[0] += 299
    assert one.lost() is None
    clock[0] += 2
    found = one.lost()
    assert found is not None
    assert re.fullmatch(rf"rank 1 \(process {os.getpid()} of other\) has not been heard of for 300 s", found)


def test_nothing_that_can_be_known_is_told_as_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.train.watch.ASKED", 0.1)
    store = HashStore()
    one, _ = Watch(store, 0, 2), Watch(store, 1, 2)
    assert one.diagnosis(RuntimeError("closed\n by peer")) == (
        "the other ranks cannot be reached any more (closed by peer)"
    )
