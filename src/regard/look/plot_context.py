"""How a word's vectors part between sentences, as a picture: layer by layer, and where they end."""

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.look.plot_maps import Floats, project
from regard.look.plots import CATEGORIES, GREY, annotate, new_figure, picture, set_title, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.meaning.context import Moves

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@picture
def plot_context(moves: "Moves") -> "Figure":
    """Left a line for each two sentences: how alike the word is in both, layer by layer. Right its vectors in
    the last layer, on the plane in which they differ most; between them, how near it is to other words, if
    there are some. Past eight pairs only the nearest and the furthest are distinguished."""
    count = len(moves.sentences)
    figure = new_figure(12 if moves.near is None else 16, 4.6 + 0.24 * count)
    set_title(figure, f"“{shown(moves.word, 40)}” in {count} sentences")
    left, *between, right = figure.subplots(1, 2 if moves.near is None else 3)
    _draw_lines(left, moves)
    for axes in between:
        _draw_near(axes, moves)
    _draw_points(right, moves)
    listed = [
        f"{number}  {shown(' '.join(sentence.split()), 110)}"
        for number, sentence in enumerate(moves.sentences, start=1)
    ]
    figure.legend(right.collections, listed, loc="outside lower center", fontsize=10, handletextpad=0.2)
    return figure


def _draw_lines(axes: Any, moves: "Moves") -> None:
    layers = range(len(moves.cosines))
    last = moves.cosines[-1]
    many = len(moves.pairs) > len(CATEGORIES)
    coloured = [int(last.argmin()), int(last.argmax())] if many else [*range(len(moves.pairs))]
    for place, (one, other) in enumerate(moves.pairs):
        style: dict[str, Any] = {"color": GREY, "linewidth": 0.7, "alpha": 0.5, "label": None, "zorder": 1}
        if place in coloured:
            number = coloured.index(place)
            style = {"color": CATEGORIES[number], "linewidth": 1.8, "label": f"{one + 1} and {other + 1}"}
            style |= {"marker": MARKERS[number % len(MARKERS)], "markersize": 4}
        axes.plot(layers, moves.cosines[:, place], **style)
    axes.set_xticks(layers, ["embedding", *(str(layer) for layer in layers[1:])])
    axes.set(xlabel="layer", ylabel="cosine", title="how alike the word is in two sentences")
    axes.grid(alpha=0.3)
    title = "furthest and nearest" if many else "sentences"
    axes.legend(title=title, fontsize=9, ncols=-(-len(coloured) // 4))


def _draw_near(axes: Any, moves: "Moves") -> None:
    """At the last layer: a group of bars for each other word, a bar for each sentence."""
    if moves.near is None:
        return
    last, count = moves.near[-1], len(moves.sentences)
    wide = 0.8 / count
    for number in range(count):
        places = [group + wide * (number - (count - 1) / 2) for group in range(len(moves.others))]
        colour = CATEGORIES[number % len(CATEGORIES)]
        bars = axes.bar(places, last[:, number], wide * 0.92, color=colour, label=f"in {number + 1}")
        axes.bar_label(bars, fmt="%.2f", fontsize=9, padding=2)
    axes.set_xticks(range(len(moves.others)), [shown(other, 20) for other in moves.others])
    axes.set(ylabel="cosine", title=f"how near “{shown(moves.word, 20)}” is to other words, last layer")
    axes.axhline(0, color=GREY, linewidth=0.5)
    axes.margins(y=0.15)
    axes.legend(title="sentence", fontsize=9)


def _draw_points(axes: Any, moves: "Moves") -> None:
    projection = project(moves.vectors[:, -1])
    points = projection.points
    for number, (x, y) in enumerate(points):
        colour = CATEGORIES[number % len(CATEGORIES)]
        marker = MARKERS[number // len(CATEGORIES) % len(MARKERS)]
        axes.scatter([x], [y], s=70, color=colour, marker=marker, edgecolors="white", zorder=2)
    for group in _together(points):
        name = ", ".join(str(number + 1) for number in group)
        place = points[group[0]]
        annotate(axes, name, place, (8, 0), fontsize=11, va="center")
    axes.axhline(0, color=GREY, linewidth=0.5, zorder=0)
    axes.axvline(0, color=GREY, linewidth=0.5, zorder=0)
    axes.set(xlabel=projection.axes[0], ylabel=projection.axes[1], title="its vectors in the last layer")
    axes.margins(0.2)
    reach = float(np.abs(points).max()) or 1.0
    if len(moves.sentences) == 2 or float(np.ptp(points[:, 1])) < 1e-9 * reach:
        axes.set_ylim(-reach, reach)


def _together(points: Floats) -> list[list[int]]:
    """The numbers of points; those that lie on one another share a name."""
    near = 0.03 * (float(np.ptp(points, axis=0).max()) or 1.0)
    groups: list[list[int]] = []
    for number, point in enumerate(points):
        group = next((own for own in groups if np.abs(points[own[0]] - point).max() <= near), [])
        if not group:
            groups.append(group)
        group.append(number)
    return groups
