"""Attention as pictures: who looks (a row) at what (a column), and how much.

Colours follow the square root of the weights: most of them are small, beside the few that a head lays on a
token it rests on.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.look.plots import MAGNITUDES, ORANGE, label_axis, new_figure, picture, set_title, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.look.plot_weights import Attention
    from regard.tasks.translation.alignment import Alignment

NUMBERED = 16
"""Rows and columns up to which a large matrix has its numbers written into it."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One axis of a matrix."""

    labels: tuple[str, ...]
    special: tuple[bool, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def room(self) -> float:
        """Inches that the labels want beside the matrix."""
        return 0.3 + 0.075 * min(24, max(map(len, self.labels), default=0))


@picture
def plot_heads(attention: "Attention", layer: int | None = None, head: int | None = None) -> "Figure":
    """All layers and heads as small matrices; or the heads of one layer, or one head in all layers, or a
    single one, large. All of a picture share one scale. Layers and heads count from 0."""
    attention.chosen(layer, head)
    counts = len(attention.weights), len(attention.weights[0])
    layers = range(counts[0]) if layer is None else [layer]
    heads = range(counts[1]) if head is None else [head]
    rows, columns = (
        _Side(side.labels, tuple(owner is None for owner in side.owners))
        for side in (attention.queries, attention.keys)
    )
    what = attention.what[0].upper() + attention.what[1:]
    panels = [(number, place) for number in layers for place in heads]
    if len(panels) == 1:
        ((number, place),) = panels
        title = f"{what}: layer {number}, head {place}"
        return _matrix(attention.weights[number][place], rows, columns, title, "attention weight")
    width = len(heads) if layer is None and head is None else min(4, len(panels))
    chosen = "layers down, heads across"
    if layer is not None:
        chosen = f"the heads of layer {layer}"
    elif head is not None:
        chosen = f"head {head} of all layers"
    return _grid(attention, panels, width, rows, columns, f"{what}: {chosen}")


def _grid(
    attention: "Attention", panels: list[tuple[int, int]], width: int, rows: _Side, columns: _Side, title: str
) -> "Figure":
    from regard.look.plot_weights import words_of

    height = -(-len(panels) // width)
    side = min(3.4, 13 / width, max(1.3, 0.2 * max(len(rows), len(columns))))
    cell = 72 * side / max(len(rows), len(columns))
    named = cell >= 7
    margins = (rows.room, columns.room) if named else (0.3, 0.3)
    fit = side / max(len(rows), len(columns))
    size = width * (fit * len(columns) + 0.08), height * (fit * len(rows) + 0.23)
    figure = new_figure(max(size[0] + margins[0] + 1.1, 6.5), size[1] + margins[1] + (0.7 if named else 1.0))
    if not named:  # at least what was read
        words = words_of(attention.queries).tokens
        title += f"\n{shown(' '.join(word for word in words if word.strip()), 100)}"
    set_title(figure, title)
    axes = figure.subplots(height, width, squeeze=False)
    most = max(float(attention.weights[layer][head].max()) for layer, head in panels)
    image = None
    for place, ax in enumerate(axes.flat):
        if place >= len(panels):
            ax.set_axis_off()
            continue
        layer, head = panels[place]
        image = ax.imshow(attention.weights[layer][head], cmap=MAGNITUDES, norm=_scale(most))
        ax.set_title(f"{layer}.{head}", fontsize=8, pad=2)
        ax.set(xticks=[], yticks=[])
        if named and place % width == 0:
            label_axis(ax.yaxis, rows.labels, rows.special, cell=cell)
        if named and place + width >= len(panels):
            label_axis(ax.xaxis, columns.labels, columns.special, cell=cell)
    figure.supxlabel("at what", fontsize=10)
    figure.supylabel("who looks", fontsize=10)
    figure.colorbar(image, ax=axes, label="attention weight", shrink=0.8, aspect=30, pad=0.01)
    return figure


@picture
def plot_alignment(alignment: "Alignment") -> "Figure":
    """Rows are written, columns are read; what each word of the translation is linked to has a frame."""
    title = "Where each word of the translation comes from"
    rows, columns = _Side(alignment.target_words), _Side(alignment.source_words)
    figure = _matrix(alignment.weights, rows, columns, title, "share of the attention")
    from matplotlib.patches import Rectangle

    axes = figure.axes[0]
    axes.set(xlabel="source", ylabel="translation")
    for source, target in alignment.links:
        corner = (source - 0.5, target - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=ORANGE, linewidth=2, clip_on=False))
    return figure


def _matrix(weights: np.ndarray, rows: _Side, columns: _Side, title: str, scale: str) -> Any:
    """One matrix, large, with names on both axes."""
    if not len(rows) or not len(columns):
        raise ValueError("there are no words to draw: the text or its translation is empty")
    inches = min(0.55, 11 / max(len(rows), len(columns)))
    inches = max(inches, 3.2 / max(len(rows), len(columns)))
    width, height = inches * len(columns), inches * len(rows)
    figure = new_figure(max(width + rows.room + 1.3, 5.4), max(height + columns.room + 0.6, 2.6))
    axes = figure.subplots()
    set_title(figure, title)
    image = axes.imshow(weights, cmap=MAGNITUDES, norm=_scale(float(weights.max())))
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set(xlabel="at what", ylabel="who looks")
    label_axis(axes.xaxis, columns.labels, columns.special, cell=72 * inches)
    label_axis(axes.yaxis, rows.labels, rows.special, cell=72 * inches)
    figure.colorbar(image, ax=axes, label=scale, shrink=min(1.0, 3.5 / height), pad=0.02)
    if max(len(rows), len(columns)) <= NUMBERED:
        _write_numbers(axes, weights, min(9.0, 22 * inches))
    return figure


def _scale(most: float) -> Any:
    from matplotlib.colors import PowerNorm

    return PowerNorm(0.5, vmin=0, vmax=most or 1.0)


def _write_numbers(axes: Any, weights: np.ndarray, size: float) -> None:
    """As hundredths, where there is something to say; light on dark and dark on light."""
    most = float(weights.max())
    for row, column in zip(*np.nonzero(weights >= 0.005), strict=True):
        value = float(weights[row, column])
        colour = "black" if value > 0.4 * most else "white"
        number = f"{value:.2f}".removeprefix("0")
        axes.text(column, row, number, ha="center", va="center", fontsize=size, color=colour)
