"""Several machines, each with torchrun's agent: here two agents on one, with a process each.

Machines that do not share a disk are two folders: what the first rank writes, the second does not see.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard.config import ConfigError, write_toml
from regard.tasks.run import fit
from regard.train.ranks import Ranks
from regard.train.report import read_log
from regard.train.resume import find, reached
from tests.tasks import tiny
from tests.tasks.test_runs import QUIET, command, free_port, train

STEPS = 24
PATIENT = 400.0
"""Seconds: machines may be busy."""
PATIENTLY = "--rdzv-conf=read_timeout=300,close_timeout=300,keep_alive_max_attempt=60"
"""An agent that is busy starting processes is not gone."""
SETTINGS = ["batch.parts=2", f"train.steps={STEPS}", "train.save_every=6", "train.log_every=1"]


def recipe(folder: Path) -> Path:
    path = folder / "recipe.toml"
    path.write_text(write_toml(tiny.recipe(folder / "corpus")))
    return path


class Agents:
    """Two of torchrun's, which meet at a port."""

    def __init__(self, folder: Path, outs: tuple[str, str], *settings: str) -> None:
        for path in folder.glob("said-*.txt"):
            path.unlink()
        self.folder, self.outs = folder, outs
        self._settings = settings
        self._port = free_port()
        self.agents = [self.start(number) for number in range(2)]

    def start(self, number: int) -> subprocess.Popen[bytes]:
        launcher = [
            *(sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"),
            *("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self._port}", "--rdzv-id=here"),
            *("--local-addr=127.0.0.1", "--max-restarts=3", "--monitor-interval=0.2", PATIENTLY),
            *("-m", "regard"),
        ]
        own = command(self.folder, self.outs[number], str(self.folder / "recipe.toml"), *self._settings)
        with (self.folder / f"said-{number}.txt").open("ab") as said:
            return subprocess.Popen(
                [*launcher, *own],
                env={**QUIET, "TORCH_CPP_LOG_LEVEL": "ERROR"},
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self) -> str:
        return "\n".join((self.folder / f"said-{number}.txt").read_text() for number in range(2))

    def worker(self, agent: int) -> int:
        """The process that an agent has started."""
        children = Path(f"/proc/{self.agents[agent].pid}/task/{self.agents[agent].pid}/children").read_text()
        found = [int(each) for each in children.split() if _is_worker(int(each))]
        assert len(found) == 1, (children, self.said())
        return found[0]

    def reached(self, step: int, timeout: float = PATIENT) -> None:
        """Until a checkpoint of this step, or a later one, is there."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            if any((reached(self.folder / out) or 0) >= step for out in set(self.outs)):
                return
            assert all(agent.poll() is None for agent in self.agents), self.said()
            time.sleep(0.02)
        raise AssertionError(f"step {step} was not reached:\n{self.said()}")

    def end(self, timeout: float = PATIENT) -> None:
        for agent in self.agents:
            assert agent.wait(timeout) == 0, self.said()


def _is_worker(process: int) -> bool:
    with suppress(OSError):
        return b"regard" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


@contextmanager
def agents(folder: Path, outs: tuple[str, str], *settings: str) -> Iterator[Agents]:
    both = Agents(folder, outs, *settings)
    try:
        yield both
    finally:
        for number, agent in enumerate(both.agents):
            with suppress(ProcessLookupError, OSError, AssertionError):
                os.kill(both.worker(number), signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.killpg(agent.pid, signal.SIGKILL)
            agent.wait()


def losses(folder: Path) -> list[float]:
    return [entry["loss"] for entry in read_log(folder) if "loss" in entry]


def same(folder: Path, one: str, other: str) -> None:
    assert len(losses(folder / one)) == STEPS
    assert losses(folder / other) == pytest.approx(losses(folder / one), rel=1e-5)
    first, second = (load_file(folder / name / "model.safetensors") for name in (one, other))
    assert first.keys() == second.keys()
    for name, each in first.items():
        if "project" in name and name.endswith("bias"):
            continue  # keys all moved alike change nothing: their gradient is rounding, and AdamW follows it
        torch.testing.assert_close(each, second[name], rtol=1e-3, atol=1e-3)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, and what one process alone makes of it."""
    folder = tmp_path_factory.mktemp("nodes")
    recipe(folder)
    train(folder, "alone", *SETTINGS)
    return folder


@pytest.mark.parametrize("fsdp", ["no", pytest.param("yes", marks=pytest.mark.long)])
def test_a_run_goes_on_after_one_of_its_processes_was_killed(place: Path, fsdp: str) -> None:
    out = f"killed-{fsdp}"
    slow = [*SETTINGS, f"train.fsdp={fsdp}"]
    with agents(place, (out, out), *slow) as both:
        both.reached(6)
        os.kill(both.worker(1), signal.SIGKILL)
        both.end()
        assert "continuing from step" in both.said()  # and not from the beginning
    same(place, "alone", out)


@pytest.mark.long
def test_machines_that_share_no_disk_build_their_own_stores_and_no_more(place: Path) -> None:
    with agents(place, ("here", "there"), *SETTINGS) as both:
        both.reached(6)
        os.kill(both.worker(0), signal.SIGKILL)  # its checkpoint is sent to the other
        both.end()
        assert "continuing from step" in both.said()
    same(place, "alone", "here")
    assert (place / "there" / "tokens" / "store.json").exists()
    assert find(place / "there") is None
    assert not (place / "there" / "model.safetensors").exists()
    facts = [json.loads((place / name / "tokens" / "store.json").read_text()) for name in ("here", "there")]
    assert facts[0] == facts[1]
    with agents(place, ("there", "here"), *SETTINGS) as both:
        until = time.monotonic() + PATIENT
        while "choose an --out that all machines share" not in both.said() and time.monotonic() < until:
            time.sleep(0.1)
        assert re.search(
            r"would read \S+/there, which has no checkpoint, but \S+/here on .* has step 24", both.said()
        )
    assert find(place / "there") is None


@pytest.mark.parametrize("steps", [(0, 12), (6, 12), (12, 6), (12, 12), (0, 0)])
def test_a_run_goes_on_where_its_last_checkpoint_is_or_not_at_all(
    tmp_path: Path, steps: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two machines that share no disk, another one is the first now."""
    two = [Ranks(rank=rank, count=2, device=torch.device("cpu"), shared=False) for rank in (0, 1)]
    names = {0: "there", 1: "here"}

    def reaching(own: Ranks, _: Path) -> Ranks:
        monkeypatch.setattr("socket.gethostname", lambda: f"node-{names[own.rank]}")
        return own

    def gathered(own: Ranks, fact: Any) -> list[Any]:
        assert fact == (steps[own.rank], f"node-{names[own.rank]}", str(tmp_path / names[own.rank]))
        return [(steps[rank], f"node-{name}", str(tmp_path / name)) for rank, name in names.items()]

    class BegunError(Exception):
        pass

    def share(own: Ranks, fact: Any) -> Any:
        raise BegunError

    for name, stub in {"reaching": reaching, "gathered": gathered, "share": share}.items():
        monkeypatch.setattr(Ranks, name, stub)
    monkeypatch.setattr(Ranks, "agreed", lambda _, fact: fact)
    monkeypatch.setattr("regard.tasks.run.checkpoints.find", lambda _: None)
    monkeypatch.setattr(
        "regard.tasks.run.checkpoints.reached",
        lambda folder: {name: steps[rank] or None for rank, name in names.items()}[folder.name],
    )
    recipe(tmp_path)
    for rank in two:
        monkeypatch.setattr(Ranks, "join", lambda _, rank=rank: rank)
        with pytest.raises((ConfigError, BegunError)) as found:
            fit(tmp_path / "recipe.toml", out=tmp_path / names[rank.rank], resume=True)
        assert found.type is (ConfigError if steps[0] < steps[1] else BegunError)
        if found.type is ConfigError:
            has = f"step {steps[0]}" if steps[0] else "no checkpoint"
            assert str(found.value) == (
                f"rank 0 on node-there would read {tmp_path / 'there'}, which has {has}, but "
                f"{tmp_path / 'here'} on node-here has step 12: copy the latter to the former, or choose an "
                "--out that all machines share; to go on without it, remove it"
            )


@pytest.mark.long
def test_what_only_one_machine_can_see_is_no_place_for_shards(place: Path) -> None:
    with agents(place, ("mine", "yours"), *SETTINGS, "train.fsdp=yes") as both:
        until = time.monotonic() + PATIENT
        while "choose an --out that they share" not in both.said() and time.monotonic() < until:
            time.sleep(0.1)
        assert "train.fsdp='yes': every rank writes its part of a checkpoint" in both.said()


def test_machines_with_other_text_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(rank=1, count=2, device=torch.device("cpu"))
    monkeypatch.setattr(Ranks, "share", lambda *_: "theirs")
    with pytest.raises(ConfigError, match=r"rank 1 on .* has other text or tokens than rank 0"):
        ranks.check_same("text or tokens", "ours")


def test_one_process_builds_for_all_of_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"share": lambda _, fact: "mark", "wait": lambda _: None}
    for name, stub in asked.items():
        monkeypatch.setattr(Ranks, name, stub)
    monkeypatch.setattr(Ranks, "agreed", lambda _, fact: fact)
    monkeypatch.setattr("regard.train.ranks.SEEN_AFTER", 1)
    far = [Ranks(rank=rank, count=4, device=torch.device("cpu"), local=rank - 2) for rank in (2, 3)]
    assert [each.reaching(tmp_path / "far").builder for each in far] == [True, False]
    (tmp_path / "mark").touch()
    near = [Ranks(rank=rank, count=4, device=torch.device("cpu"), local=rank % 2) for rank in (0, 1, 2, 3)]
    assert [each.builder for each in near] == [True, False, False, False]
    assert [each.reaching(tmp_path).builder for each in near[1:]] == [False, False, False]
