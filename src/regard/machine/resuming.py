"""A training that is killed and resumed, and one that never was: the same weights, bit for bit.

A tiny translator, on a CPU, as `regard train` prepares it. Dropout, averages and the optimizer's state all
have a part in what comes next.
"""

import io
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from regard.machine.results import Result, apart, judged
from regard.tasks.base.job import build_trainer
from regard.tasks.registry import as_recipe
from regard.tasks.run import prepare
from regard.text.phrasebook import write
from regard.train.checkpoint import read
from regard.train.ranks import Ranks
from regard.train.resume import CHECKPOINT

RESUMED = "a resumed training = an uninterrupted one"
STEPS, KILLED = 8, 5


class _KillError(Exception):
    """What stands for kill -9: nothing is written any more."""


class _Until:
    """A feed that ends a run at a step."""

    def __init__(self, feed: Any, last: int) -> None:
        self._feed, self._last = feed, last

    def parts(self, step: int, split: int = 1) -> Any:
        if step > self._last:
            raise _KillError
        return self._feed.parts(step, split)


def check_resumed(work: Path) -> Result:
    write(work / "text", train=150, valid=4, test=1)
    _train(work, "whole")
    _train(work, "parted", until=KILLED)
    _train(work, "parted", resume=True)
    (whole, facts), (parted, others) = (read(work / name / CHECKPOINT) for name in ("whole", "parted"))
    for found in (facts, others):
        if found["standing"]["step"] != STEPS:
            raise ValueError(f"{found['standing']['step']} steps were made instead of {STEPS}")
    if whole.keys() != parted.keys():
        raise ValueError(f"checkpoints with {', '.join(whole)} and with {', '.join(parted)}")
    # Nothing is computed twice in another order, so nothing is rounded in another way: the bound is 0.
    pairs = [(parted[name], whole[name]) for name in whole]
    why = f"bit for bit: {STEPS} steps, killed in step {KILLED + 1}"
    return judged(RESUMED, "tiny translator", apart(pairs, 0.0), why=why)


def _train(work: Path, name: str, *, until: int = STEPS, resume: bool = False) -> None:
    folder, console = work / name, Console(file=io.StringIO())
    job = prepare(as_recipe(_recipe(work)), folder, Ranks.join("cpu"), console, begun=resume)
    trainer = build_trainer(replace(job, feed=cast(Any, _Until(job.feed, until))), folder, console)
    if resume:
        trainer.resume()
    with suppress(_KillError):
        trainer.run()


def _recipe(work: Path) -> dict[str, Any]:
    return {
        "data": {
            "train": ["train.en", "train.de"],
            "valid": ["valid.en", "valid.de"],
            "root": str(work / "text"),
        },
        "tokenizer": {"kind": "words", "vocabulary": 100},
        "model": {"preset": "tiny", "d_model": 32, "heads": 4, "layers": 1, "d_ff": 64, "dropout": 0.2},
        "batch": {"tokens": 256},
        "optimizer": {"warmup": 2},
        # logged in one piece at the end: a checkpoint has to carry what was not logged yet
        "train": {"steps": STEPS, "validate_every": STEPS, "log_every": STEPS, "save_every": 2},
        "valid": {"sentences": 2},
        "decode": {"beam": 1},
    }
