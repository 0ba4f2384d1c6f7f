"""The report of a comparison: a table for the terminal, Markdown, and a page that stands alone."""

import html
import io
import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from regard.lab.summary import Line, Summary
from regard.lab.work import Run
from regard.look.plots import CATEGORIES, annotate, new_figure, picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADINGS = (
    "variant", "mean", "+-", "behind the best", "p, seeds", "p, examples", "parameters", "FLOPs", "time",
    "tokens/s", "memory",
)  # fmt: skip


def cells(line: Line, summary: Summary) -> list[str]:
    best = line is summary.best
    return [
        line.variant,
        _figure(line.mean),
        _figure(line.deviation) if len(line.values) > 1 else "",
        "best" if best else f"{_figure(line.behind)}{' *' if line.significant else ''}",
        _chance(line.p_seeds),
        _chance(line.p_examples),
        f"{line.parameters:,}",
        f"{line.flops:.2g}",
        f"{line.seconds:.0f} s",
        f"{line.tokens_per_second:,.0f}",
        f"{line.memory:.2f} GiB",
    ]


def _figure(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _chance(value: float) -> str:
    return "" if math.isnan(value) else "<0.001" if value < 0.001 else f"{value:.3f}"


def remarks(summary: Summary) -> list[str]:
    seeds = "one seed" if summary.seeds == 1 else f"{summary.seeds} seeds"
    way = "higher" if summary.better == "high" else "lower"
    lines = [
        f"{summary.metric} on the validation set, {way} is better; mean and standard deviation of {seeds}. "
        "`*`: behind the best beyond doubt, both over seeds (t, paired)"
        + (f" and over examples (bootstrap, {summary.example})" if summary.example else "")
        + ", p < 0.05 after Holm's correction; the p shown are before it."
    ]
    if summary.seeds < 3:
        lines.append("Fewer than three seeds: a difference over seeds can hardly be told from chance.")
    lines.append("FLOPs: 6 for each token and each parameter but the embeddings'.")
    return lines


def markdown(title: str, parts: Sequence[tuple[str, Summary]], facts: Sequence[str]) -> str:
    lines = [f"# {title}", "", *(f"{fact}\n" for fact in facts)]
    for name, summary in parts:
        lines += [f"## {name}", ""] if name else []
        lines += [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
        lines += [
            f"| {' | '.join(each.replace('|', '/') for each in cells(line, summary))} |"
            for line in summary.lines
        ]
        lines += ["", *(f"{remark}\n" for remark in remarks(summary))]
    return "\n".join(lines).rstrip() + "\n"


def page(
    title: str, parts: Sequence[tuple[str, Summary]], runs: Sequence[Sequence[Run]], facts: Sequence[str]
) -> str:
    """One file of HTML, with its pictures in it; nothing is fetched."""
    body = [f"<h1>{html.escape(title)}</h1>", *(f"<p>{html.escape(fact)}</p>" for fact in facts)]
    for (name, summary), own in zip(parts, runs, strict=True):
        body += [f"<h2>{html.escape(name)}</h2>"] if name else []
        head = "".join(f"<th>{html.escape(each)}</th>" for each in HEADINGS)
        rows = "".join(
            f"<tr{' class=best' if line is summary.best else ''}>"
            + "".join(f"<td>{html.escape(each)}</td>" for each in cells(line, summary))
            + "</tr>"
            for line in summary.lines
        )
        body.append(
            f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        )
        body += [f"<p class=faint>{html.escape(each.replace('`', ''))}</p>" for each in remarks(summary)]
        body += [f"<figure>{_svg(plot_bars(summary))}</figure>", f"<figure>{_svg(plot_curves(own))}</figure>"]
    return PAGE.replace("{title}", html.escape(title)).replace("{body}", "\n".join(body))


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title><style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } tr.best td { font-weight: 600; }
.wide { overflow-x: auto; } .faint { color: #595959; } figure { margin: 1.5rem 0; }
svg { max-width: 100%; height: auto; }
</style></head><body>
{body}
</body></html>
"""


def _svg(figure: "Figure") -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg")
    return file.getvalue().partition("<svg")[1] + file.getvalue().partition("<svg")[2]


@picture
def plot_bars(summary: Summary) -> "Figure":
    """The mean of each variant, with every seed as a dot."""
    count = len(summary.lines)
    figure = new_figure(8, 1.2 + 0.45 * count)
    axes = figure.subplots()
    places = [*range(count)][::-1]
    for place, line in zip(places, summary.lines, strict=True):
        colour = CATEGORIES[0] if line is summary.best else CATEGORIES[5]
        axes.barh(
            place, line.mean, 0.6, xerr=line.deviation or None, color=colour, ecolor="#444444", capsize=3
        )
        axes.plot(line.values, [place] * len(line.values), ".", color="#222222", markersize=5)
    axes.set_yticks(places, [line.variant for line in summary.lines])
    # bars begin at 0, for their lengths are read
    known = [line for line in summary.lines if math.isfinite(line.mean)]
    ends = {line.variant: max(line.mean + line.deviation, *line.values) for line in known}
    lowest = min((min(line.values) for line in known), default=0.0)
    axes.set_xlim(min(0.0, 1.1 * lowest), max(1.18 * max(ends.values(), default=1.0), 0.0) or 1.0)
    for place, line in zip(places, summary.lines, strict=True):
        end = ends.get(line.variant, 0.0)
        annotate(axes, _figure(line.mean), (end, place), (6, 0), va="center", fontsize=10)
    axes.set_xlabel(f"{summary.metric} ({'higher' if summary.better == 'high' else 'lower'} is better)")
    axes.grid(axis="x", alpha=0.3)
    return figure


@picture
def plot_curves(runs: Sequence[Run]) -> "Figure":
    """The metric by step, the mean over seeds; the range of the seeds behind it."""
    figure = new_figure(8, 4.2)
    axes = figure.subplots()
    order = {name: place for place, name in enumerate(dict.fromkeys(run.variant for run in runs))}
    by_variant = groupby(sorted(runs, key=lambda run: order[run.variant]), key=lambda run: run.variant)
    for number, (name, group) in enumerate(by_variant):
        points: dict[int, list[float]] = {}
        for run in group:
            for step, value in run.curve:
                points.setdefault(step, []).append(value)
        steps = sorted(points)
        colour = CATEGORIES[number % len(CATEGORIES)]
        means = [sum(points[step]) / len(points[step]) for step in steps]
        style = "-" if number < len(CATEGORIES) else "--"
        axes.plot(steps, means, style, color=colour, marker=".", label=name)
        axes.fill_between(
            steps,
            [min(points[step]) for step in steps],
            [max(points[step]) for step in steps],
            color=colour,
            alpha=0.15,
        )
    axes.set(xlabel="step", ylabel=runs[0].metric)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    return figure
