"""Recipes from wherever they come, to model folders: what `regard train` and `regard.fit` call."""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console

from regard.config import ConfigError
from regard.tasks.check import check_recipe
from regard.tasks.folder import WEIGHTS
from regard.tasks.recipe import Written, as_recipe, read_recipe, recipe_text
from regard.tasks.translate import build_trainer, prepare
from regard.tasks.translate import train as train_translator
from regard.text.doctor import render
from regard.train.ranks import Ranks
from regard.train.trainer import CHECKPOINT, Outcome, TrainingError

REHEARSED = 5
"""Steps that are timed to say how long a run would take."""


def written_recipe(
    recipe: Path | str | Mapping[str, Any] | None, settings: tuple[str, ...], folder: Path, *, resume: bool
) -> Written:
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


def train(
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

    regard.fit("recipe.toml", "model.layers=4", out="runs/a")
    regard.fit({"data": {"train": ["train.en", "train.de"]}}, out="runs/b")
    """
    folder, console = Path(out), console or Console()
    written = written_recipe(recipe, settings, folder, resume=resume)
    if not resume and not overwrite:
        _refuse_used(folder, "go on with it by --resume, replace it by --overwrite, or choose another --out")
    if resume and not overwrite and not (folder / CHECKPOINT).exists():
        _refuse_used(
            folder, f"but no {CHECKPOINT} to go on from; replace it by --overwrite, or choose another --out"
        )
    ranks = Ranks.join(device)
    try:
        if check and not resume and ranks.first:
            _check(written, console)
        return train_translator(written, folder, ranks=ranks, console=console, resume=resume)
    finally:
        ranks.leave()


def _check(written: Written, console: Console) -> None:
    report = check_recipe(written, tokens=False)
    if not report.ok:
        render(report, console)
        raise TrainingError(f"{report.verdict}; mend the files, or train all the same with --no-check")
    more = "; see them with regard check" if report.findings else ""
    console.print(f"text: {report.verdict}{more}", highlight=False, markup=False, soft_wrap=True)


def rehearse(
    recipe: Path | str | Mapping[str, Any] | None,
    *settings: str,
    device: str = "auto",
    console: Console | None = None,
) -> None:
    """Print the whole recipe, the size of the model and how long training would take here: everything is
    prepared, and a few steps are timed; nothing is kept."""
    console = console or Console()
    ranks = Ranks.join(device)
    with tempfile.TemporaryDirectory() as folder:
        written = written_recipe(recipe, settings, Path(folder), resume=False)
        prepared = prepare(written, Path(folder), ranks, console)
        trainer = build_trainer(prepared, Path(folder), console)
        seconds = []
        for step in range(1, REHEARSED + 1):
            began = time.perf_counter()
            trainer.engine.step(step, prepared.feed.parts(step), 0.0)
            if ranks.device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
    console.print(recipe_text(prepared.recipe), highlight=False, markup=False, soft_wrap=True)
    config, each = prepared.recipe.train, median(seconds[1:])
    steps = min(config.steps, round(60 * config.minutes / each)) if config.minutes else config.steps
    console.print(
        f"{prepared.parameters:,} parameters; {steps:,} steps, "
        f"{steps / prepared.feed.plan.steps(0):.1f} epochs; "
        f"about {steps * each / 60:.1f} minutes on {ranks.device} ({each * 1000:.0f} ms a step), "
        "validations not counted",
        highlight=False,
        soft_wrap=True,
    )
