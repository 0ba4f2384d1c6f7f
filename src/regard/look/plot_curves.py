"""Training curves of several runs in one picture: loss as it falls, the metric as it rises."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import ConfigError
from regard.look.plots import CATEGORIES, new_figure, picture, shown
from regard.train.report import LOG, read_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Log = Sequence[Mapping[str, Any]]
"""The entries of a log.jsonl."""
STYLES = ("-", "--", ":", "-.")


def read_runs(folders: Sequence[Path]) -> dict[str, Log]:
    """Their logs, by as much of their paths as tells them apart."""
    logs: dict[str, Log] = {}
    resolved = [folder.resolve() for folder in folders]
    for folder, name in zip(folders, _names(resolved), strict=True):
        entries = read_log(folder)
        if sum("loss" in entry for entry in entries) < 2:
            raise ConfigError(
                f"{folder}: no curve, as its {LOG} has not two lines of training; give the folder of a run"
            )
        if name in logs:
            raise ConfigError(f"{folder}: given twice; name each run once")
        logs[name] = entries
    return logs


def _names(folders: Sequence[Path]) -> list[str]:
    parts = 1
    while parts < max(len(folder.parts) for folder in folders):
        names = ["/".join(folder.parts[-parts:]) for folder in folders]
        if len(set(names)) == len(set(folders)):
            return names
        parts += 1
    return [str(folder) for folder in folders]


@picture
def plot_curves(runs: Mapping[str, Log], metric: str | None = None) -> "Figure":
    """Left the loss, in training (thin) and on validation text (dots); right a metric, unless none is logged.
    Without a name, it is the first that all runs have. Training losses are without label smoothing where all
    logs say so much, as those of validation are."""
    metric = _metric(runs, metric)
    smooth = all(any("perplexity" in entry for entry in log) for log in runs.values())
    figure = new_figure(11 if metric else 7.5, 4.8)
    panels = figure.subplots(1, 2 if metric else 1, squeeze=False)[0]
    left = panels[0]
    lines = []
    for number, log in enumerate(runs.values()):
        colour = CATEGORIES[number % len(CATEGORIES)]
        style = STYLES[number // len(CATEGORIES) % len(STYLES)]
        steps = [
            (entry["step"], math.log(entry["perplexity"]) if smooth else entry["loss"])
            for entry in log
            if ("perplexity" if smooth else "loss") in entry
        ]
        left.plot(*zip(*steps, strict=True), color=colour, linestyle=style, linewidth=1.0, alpha=0.8)
        lines += _add(left, log, "loss", color=colour, linestyle=style)
        if metric:
            _add(panels[1], log, metric, color=colour, linestyle=style)
            panels[1].set(xlabel="step", ylabel=metric, title=f"validation: {metric}")
    left.set(xlabel="step", ylabel="surprise (log perplexity)" if smooth else "loss")
    left.set_title("loss: training thin, validation with dots")
    for axes in panels:
        axes.grid(alpha=0.3)
    figure.legend(
        lines, [shown(name, 40) for name in runs], loc="outside lower center", ncols=min(4, len(runs))
    )
    return figure


def _metric(runs: Mapping[str, Log], wanted: str | None) -> str | None:
    logged = [
        dict.fromkeys(name for entry in log for name in entry.get("valid") or ()) for log in runs.values()
    ]
    common = [name for name in logged[0] if all(name in each for each in logged) and name != "loss"]
    if wanted is None:
        return common[0] if common else None
    if wanted not in common:
        raise ConfigError(f"metric {wanted!r}: all of these runs log {', '.join(common) or 'none'}")
    return wanted


def _add(axes: Any, log: Log, name: str, **style: Any) -> Any:
    looks = ((entry["step"], entry.get("valid") or {}) for entry in log)
    found = [(step, figures[name]) for step, figures in looks if name in figures]
    steps, values = zip(*found, strict=True) if found else ((), ())
    return axes.plot(steps, values, marker="o", markersize=3.5, linewidth=1.8, **style)
