"""All ratios as bars, grouped by benchmark: to the right of the line at 1 we are ahead, to the left behind.

The scale is logarithmic, so that twice as fast and half as fast are equally long. A thin line spans the range
over the rounds. A bar that would be longer than `MOST` ends there, its ratio beside it. Where both sides are
ours, a bar is grey: it says what something costs.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.bench.results import Report, Row
from regard.look.plots import BLUE, GREY, ORANGE, new_figure, picture, set_title, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TICKS = (0.12, 0.25, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8)
MOST = 8.0
"""The longest bar: a few that are far ahead would leave no room for the others."""
HEADING = 2.5
"""Room for the two lines above a group, in rows."""


def drawable(reports: Sequence[Report]) -> list[tuple[Report, list[Row]]]:
    """The rows that have a ratio, by report."""
    found = [(each, [row for row in each.rows if row.ratio is not None]) for each in reports]
    return [(each, rows) for each, rows in found if rows]


@picture
def plot_ratios(reports: Sequence[Report]) -> "Figure":
    groups = drawable(reports)
    if not groups:
        raise ValueError("no row has a ratio: there is nothing to draw")
    lines = sum(len(rows) + HEADING for _, rows in groups)
    drawing = new_figure(11, 1.3 + 0.25 * lines)
    set_title(drawing, "regard and its peers, in turns on the same machine: how many times as fast")
    axes = drawing.subplots()
    low, high = _limits([row for _, rows in groups for row in rows])
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    names, place = {}, 0.0
    for report, rows in groups:
        _name_group(axes, report, place - 0.3)
        for row in rows:
            place += 1
            _draw_bar(axes, row, place)
            names[place] = shown(_name(row))
        place += HEADING
    axes.set_ylim(place - HEADING + 0.7, -1.2)
    axes.set_yticks([*names], [*names.values()], fontsize=9)
    axes.tick_params(axis="y", length=0)
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.axvline(1, color="black", linewidth=1, zorder=3)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("ratio, median of the rounds and range; above 1 is ahead")
    return drawing


def _name(row: Row) -> str:
    """What stands behind a semicolon is left to the table."""
    return ", ".join(filter(None, (row.work, row.setting.partition(";")[0])))


def _limits(rows: Sequence[Row]) -> tuple[float, float]:
    """The last third is room for what is written behind the bars."""
    ends = [end for row in rows for end in (row.ratio, row.low, row.high) if end is not None]
    low, high = min(0.7, *ends) / 1.1, min(max(1.4, *ends), MOST)
    return low, low * (high / low) ** 1.5


def _name_group(axes: Any, report: Report, place: float) -> None:
    """From the left edge of the picture, across the names of the rows."""
    for text, lift, style in (
        (report.title, 7, {"fontsize": 10, "fontweight": "bold"}),
        (report.machine, -6, {"fontsize": 8.5, "color": "#555555"}),
    ):
        axes.annotate(
            shown(text),
            (0.01, place),
            xycoords=("figure fraction", "data"),
            xytext=(0, lift),
            textcoords="offset points",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            zorder=4,
            **style,
        ).set_in_layout(False)


def _draw_bar(axes: Any, row: Row, place: float) -> None:
    ratio = row.ratio or 1.0
    colour = GREY if row.among_ours else BLUE if ratio >= 1 else ORANGE
    axes.barh(place, min(ratio, MOST) - 1, left=1, height=0.68, color=colour)
    low, high = (min(end or ratio, MOST) for end in (row.low, row.high))
    axes.plot([low, high], [place, place], color="black", linewidth=1, zorder=3)
    axes.annotate(
        shown(f"{ratio:.2f}  {row.peer}"),
        (max(1.0, min(ratio, MOST), high), place),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        color="#333333",
    ).set_in_layout(False)
