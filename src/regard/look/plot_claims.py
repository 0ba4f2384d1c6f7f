"""The claims that motivate the Transformer, as they were measured: six panels, a line for each model."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table

from regard.look.plots import CATEGORIES, GREY, annotate, new_figure, picture, set_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.look.claims import Claims, Kind

NAMES: "dict[Kind, str]" = {"transformer": "Transformer", "recurrent": "LSTM", "plain": "plain RNN"}
STYLES: "dict[Kind, dict[str, Any]]" = {
    "transformer": {"color": CATEGORIES[0], "marker": "o"},
    "recurrent": {"color": CATEGORIES[3], "marker": "s"},
    "plain": {"color": CATEGORIES[1], "marker": "^"},
}


class Panel(NamedTuple):
    title: str
    caption: str
    """What was done to find it."""
    across: str
    places: Sequence[int]
    values: "dict[Kind, list[list[float]]]"
    """At each place one, or one of each run."""
    form: str

    def means(self, kind: "Kind") -> list[float]:
        return [sum(each) / len(each) for each in self.values[kind]]


def panels_of(claims: "Claims") -> Iterator[Panel]:
    from regard.look.claims import recent

    config = claims.config

    def one_each(found: "dict[Kind, list[int]] | dict[Kind, list[float]]") -> "dict[Kind, list[list[float]]]":
        return {kind: [[float(value)] for value in values] for kind, values in found.items()}

    yield Panel(
        "steps that must wait for one another",
        "the longest chain of dependent matrix products\nin the graph of one layer's pass",
        "tokens N",
        config.lengths,
        one_each(claims.steps),
        ",.0f",
    )
    yield Panel(
        "path from the first to the last token",
        "how often a layer, or a cell, must act\nbefore the last token can feel the first",
        "tokens N",
        config.lengths,
        one_each(claims.paths),
        ",.0f",
    )
    millions = " and ".join(f"{weights / 1e6:.1f} M" for weights in claims.weights.values())
    yield Panel(
        f"training speed on {claims.machine}",
        f"tokens a second, forwards and backwards, {config.timed_tokens:,} in a batch;\n"
        f"{config.timed_layers} layers, d = {config.timed_width}: {millions} weights",
        "tokens N in a sequence",
        config.timed_lengths,
        one_each(claims.speeds),
        ",.0f",
    )
    runs = f"mean of {config.seeds} runs" if config.seeds > 1 else "one run"
    yield Panel(
        "accuracy against distance",
        f"say what the first token was: {config.train_steps} steps of {config.batch},\n"
        f"1 layer, d = {config.d_model}, {runs}, each at one distance",
        "distance in tokens",
        config.distances,
        claims.accuracies,
        ".2f",
    )
    yield Panel(
        "what is left of the gradient at the first token",
        "|dy_N / dx_1| over |dy_N / dx_N|, one layer that has learned nothing,\n"
        f"d = {config.d_model}, {runs}",
        "tokens N",
        config.lengths,
        one_each(claims.fading),
        ".1e",
    )
    yield Panel(
        "the last tokens weigh most",
        f"|dy_N / dx_i| as a share of the sum over {max(config.lengths)} tokens,\n"
        "by the distance from the end (0 is shown at 1/2)",
        "distance from the last token",
        recent(config),
        one_each(claims.recency),
        ".1e",
    )


@picture
def plot_claims(claims: "Claims") -> "Figure":
    """Counts and lengths on scales of powers of two; every run of a training is a faint mark."""
    figure = new_figure(12, 13.5)
    figure.get_layout_engine().set(h_pad=0.12)
    set_title(figure, "Why the Transformer: the claims, measured")
    for axes, panel in zip(figure.subplots(3, 2).flat, panels_of(claims), strict=True):
        _draw(axes, panel)
    counted, paths, timed, recall, *graded = figure.axes
    for axes in graded:
        axes.set_yscale("log")
        lowest = min(min(line.get_ydata()) for line in axes.lines)
        axes.set_ylim(bottom=max(lowest / 3, 1e-12))
        axes.legend(loc="lower left", fontsize=9)  # some end below the picture
    for axes in (counted, paths):
        axes.set_yscale("log", base=2)
        axes.set_ylim(bottom=0.8)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    timed.set_ylim(bottom=0)
    timed.yaxis.set_major_formatter("{x:,.0f}")
    recall.set_ylim(-0.04, 1.08)
    chance = 1 / claims.config.symbols
    recall.axhline(chance, color=GREY, linewidth=1, linestyle=":", zorder=0)
    across = recall.get_yaxis_transform()
    annotate(recall, "guessing", (0.01, chance), (0, 3), xycoords=across, color=GREY, fontsize=9)
    return figure


def _draw(axes: Any, panel: Panel) -> None:
    places = [place or 0.5 for place in panel.places]  # of powers of two, 0 is none
    for kind, runs in panel.values.items():
        style, name = STYLES[kind], NAMES[kind]
        axes.plot(places, panel.means(kind), linewidth=1.8, markersize=5, label=name, **style)
        for place, each in zip(places, runs, strict=True):
            if len(each) > 1:
                axes.scatter([place] * len(each), each, s=14, alpha=0.35, zorder=1, **style)
    _name_ends(axes, panel)
    axes.set_xscale("log", base=2)
    axes.set_xticks(places, [str(place) for place in panel.places])
    axes.minorticks_off()
    first, last = places[0], places[-1]
    axes.set_xlim(first / 1.15, last * max(2.0, last / first) ** 0.3)
    axes.set_title(panel.title, loc="left", fontsize=12, pad=34)
    annotate(axes, panel.caption, (0, 1), (0, 6), xycoords="axes fraction", color="#555555", fontsize=9)
    axes.set_xlabel(panel.across)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _name_ends(axes: Any, panel: Panel) -> None:
    """Each line by its name and its last value; two that end together make room for each other."""
    ends = {kind: panel.means(kind)[-1] for kind in panel.values}
    low, *_, high = sorted(ends, key=lambda kind: ends[kind])
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    shift = 7 if len(ends) == 2 and ends[high] - ends[low] < 0.12 * ends[high] else 0
    for kind, own in ends.items():
        move = shift if kind == high else -shift
        name, end = f"{NAMES[kind]} {own:{panel.form}}", (panel.places[-1], own)
        annotate(axes, name, end, (9, move), color=STYLES[kind]["color"], va="center", bbox=box)


def tables_of(claims: "Claims") -> Iterator[tuple[str, Table]]:
    """The numbers of each panel, by its title."""
    for panel in panels_of(claims):
        table = Table(box=None, pad_edge=False)
        table.add_column(panel.across, no_wrap=True)
        for place in panel.places:
            table.add_column(str(place), justify="right", no_wrap=True)
        for kind in panel.values:
            table.add_row(NAMES[kind], *(f"{mean:{panel.form}}" for mean in panel.means(kind)))
        yield panel.title, table
