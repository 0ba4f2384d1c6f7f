"""Memory is a matter of a shard, not of the corpus."""

import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 1 << 31
"""Bytes that a process may have for data: what is read whole would not fit, at 5 GB."""
WORDS = [
    "the",
    "a",
    "old",
    "house",
    "station",
    "dog",
    "cat",
    "sleeps",
    "is",
    "where",
    "morning",
    "good",
    "hotel",
    "red",
    "river",
]


def generated(path: Path, megabytes: int) -> None:
    """Lines of some hundred words; the same every time."""
    chance = random.Random(0)
    block = "".join(" ".join(chance.choices(WORDS, k=chance.randint(200, 600))) + "\n" for _ in range(500))
    raw = block.encode()
    with path.open("wb") as file:
        for _ in range(max(megabytes * 1_000_000 // len(raw), 1)):
            file.write(raw)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))


def peak(model: Path, folder: Path, megabytes: int, tokens: int, *more: str) -> int:
    """Bytes that embedding so much text has needed at most, in any one process."""
    path, out = folder / f"{megabytes}.txt", folder / f"out-{megabytes}"
    generated(path, megabytes)
    command = [sys.executable, "-m", "regard", "corpus", "embed", str(path), str(out), "--model", str(model)]
    own = ["--shard-tokens", str(tokens), "--device", "cpu", "--engine", "local", *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    process = subprocess.Popen(
        [*command, *own], preexec_fn=limited, env=environment, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    path.unlink()
    return used.ru_maxrss * 1024


@pytest.mark.long
def test_fifteen_times_the_text_takes_no_more_memory(tiny, tmp_path):
    small = peak(tiny["embedder"], tmp_path, megabytes=2, tokens=50_000)
    large = peak(tiny["embedder"], tmp_path, megabytes=30, tokens=50_000)
    assert large - small < 20e6


@pytest.mark.long
def test_a_worker_of_its_own_holds_a_shard_too_and_not_the_corpus(tiny, tmp_path):
    """Whoever waits for a process is told the most that it, or one that it waited for, has needed."""
    small = peak(tiny["embedder"], tmp_path, 4, 50_000, "--workers", "2")
    large = peak(tiny["embedder"], tmp_path, 30, 50_000, "--workers", "2")
    assert large - small < 30e6
