"""What training waits for, on one NVIDIA GPU: its batches, and its first step.

    batches     made from the text while it trains, against the same ones made before: what making them costs
    first step  from the command until it is done, when nothing was compiled before and when all was

On the built-in corpus, in batches that suit a GPU (the recipe's own 1,024 tokens are for two CPU cores: a GPU
is done with them in 1.6 ms, sooner than a batch is made and sent), or what REGARD_TRAINING says: what stands
behind `regard train`, as in "recipes/multi30k-en-de.toml data.root=DIR".
"""

import itertools
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
from rich.console import Console

from regard.bench.results import Report, Row, compared, report
from regard.tasks.base.terminal import say
from regard.tasks.run import fit
from regard.text.phrasebook import write
from regard.train.report import LOG
from regard.train.trainer import Trainer

TITLE = "What training waits for, on one NVIDIA GPU: batches, and the first step"
METHOD = (
    "`regard train` in processes of its own: batches made from the text on the way against the same, made "
    "before, in turns; and the time from the command to the end of the first step, caches empty and full."
)
STEPS, WARMING, MADE, ROUNDS = 2000, 500, 400, 3
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def training(work: Path) -> list[str]:
    """What stands behind `regard train`; the built-in corpus is written if nothing else is said."""
    if "REGARD_TRAINING" in os.environ:
        return shlex.split(os.environ["REGARD_TRAINING"])
    write(work / "phrases")
    return ["recipes/phrasebook.toml", f"data.root={work / 'phrases'}", "batch.tokens=4096"]


def speed(
    out: str, arguments: list[str], *, before: bool, count: int = STEPS, warming: int = WARMING
) -> float:
    """Tokens a second, warmed up; `before`: of batches that lie ready, over and over."""
    steps = Trainer._steps

    def ready(self: Trainer) -> Iterator[Any]:
        made = [*itertools.islice(steps(self), MADE)]
        return itertools.islice(itertools.cycle(made), self.config.steps - self.standing.step)

    with patch.object(Trainer, "_steps", ready if before else steps):
        fit(*arguments, f"train.steps={count}", f"train.validate_every={count}", out=out)
    lines = (Path(out) / "log.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if "tokens_per_second" in row and row["step"] > warming]
    return statistics.median(row["tokens_per_second"] for row in rows)


def first_step(out: Path, arguments: list[str], **environment: str) -> float:
    """Seconds from the command until what its first step found is in the log; then it is ended."""
    command = [sys.executable, "-m", "regard", "train", *arguments, "train.log_every=1", "--out", str(out)]
    began, log = time.monotonic(), out / LOG
    with (
        (out.parent / f"{out.name}.said").open("w+") as said,
        subprocess.Popen(
            command, stdout=said, stderr=subprocess.STDOUT, env={**os.environ, **environment}
        ) as running,
    ):
        while not (log.exists() and log.stat().st_size):
            if running.poll() is not None:
                said.seek(0)
                raise RuntimeError(f"training failed:\n{said.read()[-2000:]}")
            time.sleep(0.005)
        found = time.monotonic() - began
        running.kill()
    return found


def apart(call: str, **environment: str) -> float:
    """What a function of this module finds in a process of its own."""
    code = f"import json; from regard.bench import feeding; print(json.dumps(feeding.{call}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}
    )
    if done.returncode:
        raise RuntimeError(f"training failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def rows(arguments: list[str], work: Path) -> Iterator[Row]:
    what = " ".join(Path(each).name for each in arguments if each.endswith(".toml"))
    caches = {name: str(work / name.lower()) for name in CACHES}
    times: dict[str, float] = {}
    for name in ("cold", "warm"):
        times[name] = first_step(work / name, arguments, **caches)
    yield compared(
        [times["warm"]], [times["cold"]], work="from the command to the first step", setting=what, unit="s",
        peer="regard, nothing compiled before",
    )  # fmt: skip
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(ROUNDS):
        for before in (False, True) if number % 2 else (True, False):
            out = str(work / f"{number}{before}")
            found[before].append(apart(f"speed({out!r}, {arguments!r}, before={before})", **caches))
    yield compared(
        found[False], found[True], work="training, batches made on the way", setting=what, unit="tokens/s",
        peer="regard, batches made before",
    )  # fmt: skip


def measure(console: Console) -> Report | None:
    if not torch.cuda.is_available():
        say(console, "feeding: no NVIDIA GPU on this machine, nothing measured")
        return None
    with TemporaryDirectory() as folder:
        work = Path(folder)
        arguments = training(work)
        recipe = next((each for each in arguments if each.endswith(".toml")), "")
        if not Path(recipe).is_file():
            say(
                console,
                f"feeding: there is no {recipe or 'recipe'} here, nothing measured: run it beside recipes/",
            )
            return None
        found = [*rows(arguments, work)]
    machine = torch.cuda.get_device_name()
    return report("feeding", title=TITLE, method=METHOD, machine=machine, rows=found)
