"""The training curve as a picture, from a run's log: loss as it falls, the metric as it rises."""

import math
from pathlib import Path
from typing import Any

from regard.disk import full_disk
from regard.train.report import read_log

PICTURE = "curve.png"
BLUE, RED, GREY = "#2166ac", "#b2182b", "#4d4d4d"


def draw_curve(folder: Path, metric: str) -> Path | None:
    """Write curve.png beside the log. None where there is nothing to draw, or nothing to draw with:
    matplotlib is an extra (pip install regard[look])."""
    entries = read_log(folder)
    # Without label smoothing, which a loss on validation text does not have either.
    steps = [(entry["step"], math.log(entry["perplexity"])) for entry in entries if "perplexity" in entry]
    what = "nll (log perplexity)"
    if not steps:
        steps, what = [(entry["step"], entry["loss"]) for entry in entries if "loss" in entry], "loss"
    looks = [(entry["step"], entry["valid"]) for entry in entries if entry.get("valid")]
    if len(steps) < 2:
        return None
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes: Any = figure.subplots()
    axes.plot(*zip(*steps, strict=True), color=BLUE, linewidth=1.2, label="training")
    axes.set(xlabel="step", ylabel=what, title=folder.resolve().name)
    axes.grid(alpha=0.3)
    lines = [*axes.lines, *_add(axes, looks, "loss", color=RED, marker="o", label="validation")]
    if metric != "loss":
        other = axes.twinx()
        other.set(ylabel=metric)
        lines += _add(other, looks, metric, color=GREY, marker="s", linestyle="--", label=metric)
    axes.legend(handles=lines, loc="center right", frameon=False)
    with full_disk(folder / PICTURE):
        figure.savefig(folder / PICTURE, dpi=120)
    return folder / PICTURE


def _add(axes: Any, looks: list[tuple[int, dict[str, float]]], name: str, **style: Any) -> list[Any]:
    found = [(step, figures[name]) for step, figures in looks if name in figures]
    return axes.plot(*zip(*found, strict=True), markersize=3, **style) if found else []
