"""Recipes from wherever they come, to model folders: what `regard train` and `regard.fit` call."""

import os
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console

from regard.config import ConfigError
from regard.disk import AGAIN, DiskFullError
from regard.tasks.base.folder import WEIGHTS
from regard.tasks.base.job import Job, build_trainer, train
from regard.tasks.base.recipe import Written, recipe_text
from regard.tasks.registry import as_recipe, get_task, read_recipe
from regard.text.doctor import render
from regard.train.ranks import Ranks, ignore_torchrun
from regard.train.standing import last_step
from regard.train.trainer import CHECKPOINT, Outcome, TrainingError
from regard.train.watch import LostRankError, advised

LOCKS: Any = import_module("fcntl") if find_spec("fcntl") else None
"""Windows has none."""
DRY_STEPS = 5
"""Steps that are timed to say how long a run would take."""


def written_recipe(
    recipe: Path | str | Mapping[str, Any] | None, settings: tuple[str, ...], folder: Path, *, resume: bool
) -> Written[Any]:
    """A file, plain data or, to resume, what the folder was begun with; with settings on top."""
    if recipe is None:
        if not resume:
            raise ConfigError("no recipe: name a TOML file, or resume a folder with --resume --out FOLDER")
        recipe = folder / "recipe.toml"
        if not recipe.exists():
            raise ConfigError(f"{folder}: nothing to resume, it has no recipe.toml; give the recipe")
    if isinstance(recipe, Mapping):
        if settings:
            raise ConfigError(f"settings {list(settings)} beside plain data: put them into it")
        return as_recipe(recipe)
    return read_recipe(recipe, settings)


def _refuse_used(folder: Path, remedy: str) -> None:
    for name in (CHECKPOINT, WEIGHTS):
        if (folder / name).exists():
            raise ConfigError(f"{folder} already holds {name}: {remedy}")


def fit(
    recipe: Path | str | Mapping[str, Any] | None,
    *settings: str,
    out: Path | str,
    resume: bool = False,
    overwrite: bool = False,
    check: bool = True,
    device: str = "auto",
    console: Console | None = None,
) -> Outcome:
    """Train what a recipe says into the folder `out`, which is then a model. With `check`, the text is
    looked at first, and training refused if it makes no sense.

    >>> outcome = regard.fit("recipe.toml", "model.layers=1", out="runs/a")
    >>> outcome = regard.fit({"data": {"train": ["train.en", "train.de"]}}, out="runs/b")
    >>> sorted(outcome.best)
    ['bleu', 'exact', 'loss']
    """
    folder, console = Path(out), console or Console()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file, not a folder: choose another --out")
    written = written_recipe(recipe, settings, folder, resume=resume)
    if not resume and not overwrite:
        _refuse_used(folder, "continue it by --resume, replace it by --overwrite, or choose another --out")
    if resume and not overwrite and (folder / WEIGHTS).exists() and not (folder / CHECKPOINT).exists():
        raise ConfigError(
            f"{folder} holds {WEIGHTS} but no {CHECKPOINT} to go on from: replace it by --overwrite, or "
            "choose another --out"
        )
    with _joined(folder, device) as ranks, _held(folder) if ranks.first else nullcontext():
        begun = resume and (folder / CHECKPOINT).exists()
        if resume and not begun and ranks.first:
            console.print(f"{folder}: no checkpoint yet, training starts from the beginning", highlight=False)
        if check and not begun:
            _check(written, ranks, console)
        job = prepare(written, folder, ranks, console, begun=begun)
        return train(job, folder, console, begun=begun)


@contextmanager
def _joined(folder: Path, device: str) -> Iterator[Ranks]:
    """What ends a run for a reason that is not its own is told with how to go on: a disk that is full, a rank
    that is lost."""
    ranks = Ranks.join(device)
    if ranks.watch is not None:
        ranks.watch.start(lambda: _go_on(folder))
    end: BaseException | None = None
    try:
        yield ranks
    except DiskFullError as error:
        again = f"continue with: regard train --resume --out {shlex.quote(str(folder))}"
        end = DiskFullError(error.path, error.why, again if (folder / CHECKPOINT).exists() else AGAIN)
        raise end from error
    except LostRankError as error:
        ignore_torchrun()
        end = LostRankError(advised(str(error), lambda: _go_on(folder)))
        raise end from error
    except BaseException as error:
        end = error
        raise
    finally:
        ranks.leave(end)


def _go_on(folder: Path) -> str:
    step = last_step(folder / CHECKPOINT)
    if step is None:
        return f"there is no checkpoint yet: {AGAIN}"
    return f"to continue from step {step}, the last checkpoint, give the same command again with --resume"


def prepare(
    written: Written[Any], folder: Path, ranks: Ranks, console: Console, *, begun: bool = False
) -> Job:
    """Everything up to the first step; only the recipe's own task is imported."""
    return get_task(written.checked.task).prepare(written, folder, ranks, console, begun=begun)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Nobody else trains into the folder meanwhile: two runs would write over each other's files."""
    folder.mkdir(parents=True, exist_ok=True)
    if LOCKS is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system that knows no locks
            try:
                LOCKS.flock(descriptor, LOCKS.LOCK_EX | LOCKS.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"{folder}: another run is at work there; wait for its end, or choose another --out"
                ) from None
        yield
    finally:
        os.close(descriptor)


def _check(written: Written[Any], ranks: Ranks, console: Console) -> None:
    """The first rank looks; the others wait for what it says."""
    doctor = get_task(written.checked.task).check
    if doctor is None:
        return
    report = doctor(written, tokens=False) if ranks.first else None
    if report is not None and not report.ok:
        render(report, console)
    elif report is not None:
        more = f"; {len(report.findings)} remarks, see regard check" if report.findings else ""
        console.print(f"text: {report.verdict}{more}", highlight=False, markup=False, soft_wrap=True)
    ok, verdict = ranks.share(report and (report.ok, report.verdict))
    if not ok:
        raise TrainingError(f"{verdict}; mend the files, or train all the same with --no-check")


def dry_run(
    recipe: Path | str | Mapping[str, Any] | None,
    *settings: str,
    device: str = "auto",
    console: Console | None = None,
) -> None:
    """Print the whole recipe, the size of the model and how long training would take here: everything is
    prepared, and a few steps are timed; nothing is kept. What is printed is a recipe itself."""
    aside, console = console or Console(stderr=True), console or Console()
    ranks = Ranks.join(device)
    with tempfile.TemporaryDirectory() as folder:
        written = written_recipe(recipe, settings, Path(folder), resume=False)
        job = prepare(written, Path(folder), ranks, aside)
        trainer = build_trainer(job, Path(folder), aside)
        seconds = []
        for step in range(1, DRY_STEPS + 1):
            began = time.perf_counter()
            trainer.engine.step(step, job.feed.parts(step), 0.0)
            if ranks.device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
    console.print(recipe_text(job.recipe), highlight=False, markup=False, soft_wrap=True)
    config, each = job.recipe.train, median(seconds[1:])
    steps = min(config.steps, round(60 * config.minutes / each)) if config.minutes else config.steps
    console.print(
        f"# {job.parameters:,} parameters; {steps:,} steps, "
        f"{steps / job.feed.plan.steps(0):.1f} epochs; "
        f"about {steps * each / 60:.1f} minutes on {ranks.device} ({each * 1000:.0f} ms a step), "
        "validations not counted",
        highlight=False,
        soft_wrap=True,
    )
