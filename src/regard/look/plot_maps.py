"""Vectors of texts, and of a word in several sentences, on a plane.

    pca     the two directions in which the vectors differ most: distances are true as far as they go
    tsne    neighbours stay neighbours; how far apart groups are says little (van der Maaten and Hinton 2008)

Both give the same every time.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from regard.look.plots import CATEGORIES, GREY, annotate, new_figure, picture, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Method = Literal["pca", "tsne"]
Floats = npt.NDArray[np.floating[Any]]

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
MOST_NAMED = 24
"""Labels in the legend; how many more there are is said."""
ALONE = "(in no group)"


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    points: npt.NDArray[np.float64]
    """[texts, 2]"""
    axes: tuple[str, str]
    """What they are."""


def project(vectors: npt.ArrayLike, method: Method = "pca") -> Projection:
    from regard.tasks.base.vectors import checked, finite

    rows = finite(checked(vectors))
    if method not in get_args(Method):
        raise ValueError(f"method={method!r} is none of {', '.join(get_args(Method))}")
    least = 4 if method == "tsne" else 2
    if len(rows) < least:
        raise ValueError(f"{len(rows)} texts are too few for a map by {method}: give {least} or more")
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # threads would add up their shares in the order they finish
        return _pca(rows) if method == "pca" else _tsne(rows)


def _pca(rows: npt.NDArray[np.float64]) -> Projection:
    centred = rows - rows.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(rows), 2))
    kept = min(2, len(sizes))
    points[:, :kept] = left[:, :kept] * sizes[:kept]
    # Of a direction and its opposite, the one whose largest value is above zero.
    extremes = points[np.abs(points).argmax(axis=0), [0, 1]]
    points *= np.where(extremes < 0, -1.0, 1.0)
    shares = np.append(sizes**2, 0.0)[:2] / ((sizes**2).sum() or 1.0)
    first, second = (f"{share:.0%} of the variance" for share in shares)
    return Projection(points, (f"first component, {first}", f"second component, {second}"))


def _tsne(rows: npt.NDArray[np.float64]) -> Projection:
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(rows) - 1) / 3)
    method = "barnes_hut" if len(rows) > 100 else "exact"  # few texts have too few neighbours for the first
    made = TSNE(2, perplexity=perplexity, init="pca", random_state=0, method=method)
    points = made.fit_transform(rows).astype(np.float64)
    return Projection(points, (f"t-SNE, perplexity {perplexity:.0f}", ""))


@picture
def plot_map(
    projection: Projection,
    texts: Sequence[str],
    labels: Sequence[str | None],
    *,
    title: str = "Texts by meaning",
    named: int = 14,
) -> "Figure":
    """A point for each text, coloured by its label; None is in no group. As many as `named` of the texts are
    written beside their points: the most central of each label first, and none over another."""
    points = projection.points
    if not len(points) == len(texts) == len(labels):
        raise ValueError(f"{len(points)} points, {len(texts)} texts and {len(labels)} labels: give as many")
    counts = Counter(label for label in labels if label is not None)
    order = sorted(counts, key=lambda label: (-counts[label], label))
    figure = new_figure(11, 7)
    axes = figure.subplots()
    size = max(14.0, min(60.0, 12000 / max(len(points), 1)))
    for number, label in enumerate([*order, *([None] if None in labels else [])]):
        own = points[[each == label for each in labels]]
        name, style = ALONE, {"color": GREY, "marker": "."}
        if label is not None:
            colour, marker = number % len(CATEGORIES), number // len(CATEGORIES) % len(MARKERS)
            name, style = shown(label, 36), {"color": CATEGORIES[colour], "marker": MARKERS[marker]}
            style["edgecolors"] = "#404040"
        axes.scatter(*own.T, s=size, linewidths=0.4, label=f"{name} ({len(own):,})", **style)
    axes.set(title=title, xlabel=projection.axes[0], ylabel=projection.axes[1], xticks=[], yticks=[])
    axes.margins(0.08)
    _legend(axes)
    _name_points(figure, axes, points, texts, _central(points, labels, order), named)
    return figure


def _legend(axes: Any) -> None:
    handles = axes.collections[:MOST_NAMED]
    names = [handle.get_label() for handle in handles]
    rest = len(axes.collections) - len(handles)
    title = None if rest == 0 else f"the largest {len(handles)}, and {rest} more"
    axes.legend(handles, names, loc="upper left", bbox_to_anchor=(1.0, 1.0), title=title, fontsize=9)


def _central(points: Floats, labels: Sequence[str | None], order: Sequence[str]) -> list[int]:
    """All texts, in rounds over the labels, each time the next nearest to the middle of its label; those
    without a label come last."""
    rounds = []
    for number, label in enumerate([*order, None]):
        own = np.flatnonzero([each == label for each in labels])
        if len(own):
            away = np.linalg.norm(points[own] - np.median(points[own], axis=0), axis=1)
            ranked = own[np.argsort(away, kind="stable")]
            rounds += [(turn, number, int(row)) for turn, row in enumerate(ranked)]
    return [row for _, _, row in sorted(rounds)]


def _name_points(
    figure: Any, axes: Any, points: Floats, texts: Sequence[str], order: Sequence[int], most: int
) -> None:
    """Names are tried in this order, each at several places around its point; one that finds none is left
    out."""
    figure.draw_without_rendering()  # from here on it is known where everything lies
    figure.set_layout_engine("none")
    window, pixels = axes.get_window_extent(), axes.transData.transform(points)
    unit = figure.dpi / 72
    taken: list[tuple[float, float, float, float]] = []
    seen: set[str] = set()
    for row in order[: 20 * most]:
        if len(taken) >= most:
            return
        text = shown(" ".join(texts[row].split()), 42)
        if text in seen:
            continue
        note = annotate(
            axes, text, points[row], (0, 0), fontsize=8, ha="center", va="center", bbox=_BOX, arrowprops=_LINE
        )
        box = note.get_window_extent()
        width, height = box.width + 6 * unit, box.height + 4 * unit
        place = _free_place(pixels[row], width, height, window, taken, pixels, unit)
        if place is None:
            note.remove()
            continue
        note.set_position(((place[0] - pixels[row][0]) / unit, (place[1] - pixels[row][1]) / unit))
        x, y = place
        taken.append((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
        seen.add(text)


_BOX = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
_LINE = {"arrowstyle": "-", "color": GREY, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}
_SIDES = [
    (right, up, gap)
    for gap in (9, 24, 44)
    for right, up in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1))
]
"""Where a name may stand from its point, and how far away in points: the nearest first."""


def _free_place(
    point: Floats,
    width: float,
    height: float,
    window: Any,
    taken: Sequence[tuple[float, float, float, float]],
    pixels: Floats,
    unit: float,
) -> tuple[float, float] | None:
    """The middle of a name beside its point: within the axes, over no other name, and over as few points as
    can be."""
    found = []
    for number, (right_by, up_by, gap) in enumerate(_SIDES):
        x = point[0] + right_by * (width / 2 + gap * unit)
        y = point[1] + up_by * (height / 2 + gap * unit)
        left, low, right, high = x - width / 2, y - height / 2, x + width / 2, y + height / 2
        if left < window.x0 or right > window.x1 or low < window.y0 or high > window.y1:
            continue
        if any(left < b[2] and right > b[0] and low < b[3] and high > b[1] for b in taken):
            continue
        reach = 3 * unit  # of a marker
        inside = (pixels > (left - reach, low - reach)).all(axis=1)
        inside &= (pixels < (right + reach, high + reach)).all(axis=1)
        found.append((int(inside.sum()), number, (float(x), float(y))))
    return min(found)[2] if found else None
