"""The reports as a table on the terminal, and as the page speed.md."""

from collections.abc import Sequence

from rich.table import Table

from regard.bench.results import Report, Row

INTRODUCTION = """# Speed, measured

Written by `regard bench` from the results in [speed/](speed/).

**What is compared.** A row is the same work done by regard and by a peer, in one process, on one machine.
Real tokens are counted on both sides, padding on neither. Where both must compute the same, that is
checked before anything is timed, and sides that differ give no figure. Rows with a dash have no peer;
where the peer is regard itself, the ratio says what something costs.

**The method.** The sides run in turns, and another one goes first in each round, so that what the machine
does besides falls on all of them alike. Figures are medians over the rounds, five unless a benchmark says
otherwise, after all sides have warmed up. The *ratio* is the median of the rounds' own ratios; the
*range* is that of the rounds. Above 1 is ahead, for times and memory too.

**To repeat it:**

```sh
regard bench                    # all that this machine can run, on the terminal
regard bench --list             # what there is
regard bench NAME --to docs     # results as docs/speed/NAME.json; this page and its picture anew
regard bench --write docs       # measure nothing: the page and the picture from the results that are there
```

The machine should do nothing else. Peers come with `make setup`; one that is not installed has a row that
says what to install. Each file of results stands alone: CPU and GPU are measured on different machines.
"""

PICTURE = "![Ratios of all rows, grouped by benchmark, with a line at 1: {summary}](pictures/speed.png)\n"

COLUMNS = {
    "work": "left",
    "setting": "left",
    "unit": "left",
    "regard": "right",
    "theirs": "right",
    "ratio": "right",
    "range": "right",
    "against": "left",
    "notes": "left",
}


def figure(value: float | None) -> str:
    """Three digits or so; a dash for none."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cells(row: Row) -> list[str]:
    """One for each column."""
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    spread = "-" if row.low is None or row.high is None else f"{row.low:.2f} - {row.high:.2f}"
    figures = [figure(row.ours), figure(row.theirs), ratio, spread]
    return [row.work, row.setting, row.unit, *figures, row.peer or "-", row.notes]


def facts(report: Report) -> str:
    """Where, with what, and when."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return f"{report.machine}; {versions}; {report.date}"


def table(report: Report) -> Table:
    """For the terminal."""
    grid = Table(title=report.title, caption=facts(report), title_justify="left", caption_justify="left")
    for name, side in COLUMNS.items():
        grid.add_column(name, justify="right" if side == "right" else "left")
    for row in report.rows:
        grid.add_row(*(cell.replace("[", r"\[") for cell in cells(row)))
    return grid


def page(reports: Sequence[Report], *, picture: bool) -> str:
    """Markdown; with a link to the picture where one was drawn."""
    parts = [INTRODUCTION]
    if picture:
        parts.append(PICTURE.format(summary=_summary(reports)))
    parts += [_section(report) for report in reports]
    return "\n".join(parts)


def _summary(reports: Sequence[Report]) -> str:
    ratios = [
        row.ratio for each in reports for row in each.rows if row.ratio is not None and not row.among_ours
    ]
    ahead = sum(ratio > 1 for ratio in ratios)
    return f"{ahead} of {len(ratios)} rows against others are above it"


def _section(report: Report) -> str:
    lines = [
        f"## {report.title}",
        "",
        f"{report.method} Repeat it by `regard bench {report.benchmark}`.",
        "",
        f"*{facts(report)}*",
        "",
        _line(COLUMNS),
        "|" + "|".join("---:" if side == "right" else "---" for side in COLUMNS.values()) + "|",
        *(_line(cells(row)) for row in report.rows),
    ]
    return "\n".join(lines) + "\n"


def _line(texts: Sequence[str] | dict[str, str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"
