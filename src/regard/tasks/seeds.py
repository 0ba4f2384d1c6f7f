"""The same recipe with several seeds: how good it is, and how much of that is luck.

OUT/seed-0  OUT/seed-1  ...     a model folder each
OUT/seeds.json                  every figure of each, with mean and standard deviation
"""

import os
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from regard.config import ConfigError
from regard.disk import DiskFullError
from regard.tasks.base.folder import read_metrics, write_json
from regard.tasks.base.terminal import say
from regard.tasks.run import fit
from regard.train.trainer import Outcome

SPREAD: Any = {"mean": statistics.fmean, "deviation": statistics.stdev, "least": min, "most": max}


def train_seeds(
    recipe: Path | str | None,
    *settings: str,
    out: Path | str,
    seeds: int,
    console: Console | None = None,
    **how: Any,
) -> Outcome:
    """Train with the seeds 0, 1, ...; how the last one ended. One that was stopped stops them all; with
    `resume`, those that are done are left as they are."""
    if seeds < 2:
        raise ConfigError(f"seeds={seeds}: a spread takes 2 or more")
    folder, console = Path(out), console or Console()
    first = os.environ.get("RANK", "0") == "0"  # of several processes, which alone writes and tells
    for seed in range(seeds):
        if first:
            say(console, f"seed {seed}")
        own = (*settings, f"train.seed={seed}", f"batch.seed={seed}")
        try:
            outcome = fit(recipe, *own, out=folder / f"seed-{seed}", console=console, **how)
        except DiskFullError as error:
            raise DiskFullError(error.path, error.why, "give the same command and --resume") from error
        if outcome.stopped is not None:
            return outcome
    if not first:
        return outcome
    figures = [_figures(folder / f"seed-{seed}") for seed in range(seeds)]
    every = {name: [each[name] for each in figures] for name in figures[0]}
    spread = {name: {key: of(own) for key, of in SPREAD.items()} for name, own in every.items()}
    write_json(folder / "seeds.json", {"seeds": figures, "spread": spread})
    _render(spread, seeds, console)
    return outcome


def _figures(folder: Path) -> dict[str, float]:
    """All numbers of a model's metrics, validation and test: {"valid.accuracy": 0.91, ...}."""
    plain = read_metrics(folder)
    found = {}
    for split in ("valid", "test"):
        for name, value in plain.get(split, {}).items():
            number = value.get("value") if isinstance(value, Mapping) else value
            if isinstance(number, int | float):
                found[f"{split}.{name}"] = float(number)
    return found


def _render(spread: Mapping[str, Mapping[str, float]], seeds: int, console: Console) -> None:
    table = Table(title=f"{seeds} seeds", title_justify="left")
    table.add_column("")
    for name in SPREAD:
        table.add_column(name, justify="right")
    for name, figures in spread.items():
        table.add_row(name, *(f"{figure:.4f}" for figure in figures.values()))
    console.print(table)
