"""How a model tells where a token stands, as pictures.

    added      PE[position, dimension], beside cos(PE[m], PE[n])        sinusoidal, learned, rotary
    biased     what is added to the scores of a head at each distance    relative, ALiBi

Of rotary positions the rows are the cosines and sines of the angles that queries and keys are rotated by: the
cosine of rows m and n is then that of a vector of ones rotated to m and to n.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from regard.look.plots import CATEGORIES, MAGNITUDES, new_figure, picture, set_title, signs

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

    from regard.tasks.base.predictor import Predictor

Floats = npt.NDArray[np.floating[Any]]
Kind = Literal["sinusoidal", "rotary"]
LENGTH = 50


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Vectors of positions."""

    title: str
    rows: Floats
    """[positions, width]"""

    @property
    def likeness(self) -> Floats:
        """The cosine of each two."""
        rows = self.rows.astype(np.float64)
        sizes = np.linalg.norm(rows, axis=1, keepdims=True)
        unit = np.divide(rows, sizes, out=np.zeros_like(rows), where=sizes > 0)
        return unit @ unit.T


@dataclass(frozen=True, slots=True, eq=False)
class Biases:
    """What heads add to their scores."""

    title: str
    values: Floats
    """[heads of all layers, distances]"""
    distances: npt.NDArray[np.int64]
    """Of a key from its query, below 0 for those before it."""
    heads: tuple[str, ...]


def formula(kind: Kind, width: int, length: int, base: float) -> Positions:
    """Those that are computed, not learned."""
    from regard.nn.positions import RotaryPositions, SinusoidalPositions

    if width < 2 or length < 2:
        raise ValueError(f"width={width} and length={length}: both must be at least 2")
    if base <= 1:
        raise ValueError(f"base={base} must be greater than 1: 10000 is the usual value")
    table = SinusoidalPositions(width, base) if kind == "sinusoidal" else RotaryPositions(width, base)
    title = f"{kind.capitalize()} positions: d = {width}, N = {length}, n = {base:g}"
    return Positions(title, table.rows(length).numpy())


def positions_of(
    model: "Predictor", length: int | None = None, side: Literal["encoder", "decoder"] = "encoder"
) -> Positions | Biases:
    """The first `length` of a model; of a translator, of one of its sides. Unless given, all that were
    learned, or LENGTH."""
    from regard.look.parts import Parts
    from regard.nn.positions import LearnedPositions as Learned
    from regard.nn.positions import RotaryPositions as Rotary
    from regard.nn.positions import SinusoidalPositions as Sinusoidal
    from regard.nn.stacks import Stack

    sides = Parts.of(model).sides
    part = sides[side] if len(sides) > 1 else next(iter(sides.values()))
    config = part.config.positions
    added, body = part.embedding.positions, part.body
    if added is not None:
        if isinstance(added, Learned):
            length = length or added.longest
            if length > added.longest:
                raise ValueError(f"length={length}, but the model has learned {added.longest} positions")
            rows = added.table.weight[added.first : added.first + length].detach().float().cpu().numpy()
            return Positions(f"Learned positions: d = {rows.shape[1]}, {length} of {added.longest}", rows)
        if isinstance(added, Sinusoidal):
            return formula("sinusoidal", added.d_model, length or LENGTH, added.base)
        return _computed(added, length or LENGTH, config.kind)
    length = length or LENGTH
    if isinstance(body, Stack):
        rotary = body.each[0].attention.rotary
        if isinstance(rotary, Rotary):
            title = f"Rotary positions: d_head = {body.each[0].attention.d_head}, n = {config.base:g}"
            title += "" if config.scaling == "none" else f", {config.scaling} by {config.factor:g}"
            return Positions(title, rotary.rows(length).numpy())
        biases = [layer.attention.bias for layer in body.each]
        if biases[0] is not None:
            return _biases(biases, length, config.kind)
    raise ValueError(f"positions.kind={config.kind!r} adds no rows and no bias: there is nothing to draw")


def _computed(added: "nn.Module", length: int, kind: str) -> Positions:
    """Of any other kind: what it adds to each position."""
    import torch

    with torch.no_grad():
        rows = added(torch.arange(length, device=_device(added)), length).float().cpu().numpy()
    return Positions(f"{kind} positions: d = {rows.shape[1]}", rows)


def _biases(layers: "Sequence[nn.Module | None]", length: int, kind: str) -> Biases:
    """ALiBi's are the same in all layers: one of them is enough."""
    import torch

    from regard.nn.positions import AlibiBias, RelativeBias

    own = layers[:1] if isinstance(layers[0], AlibiBias) else layers
    causal = isinstance(layers[0], RelativeBias) and layers[0].causal
    distances = torch.arange(1 - length, 1 if causal else length)
    with torch.no_grad():
        values = [layer(distances.to(_device(layer))).float().cpu().numpy() for layer in own if layer]
    heads = [
        f"head {head}" if len(values) == 1 else f"layer {number}, head {head}"
        for number, each in enumerate(values)
        for head in range(len(each))
    ]
    title = "ALiBi: what is added to scores" if kind == "alibi" else "Relative positions: what is added"
    return Biases(f"{title} at each distance", np.concatenate(values), distances.numpy(), tuple(heads))


def _device(module: "nn.Module") -> Any:
    return next((parameter.device for parameter in module.parameters()), None)


@picture
def plot_positions(positions: Positions | Biases) -> "Figure":
    """Vectors as a heat map beside how alike they are; biases as a heat map beside their curves."""
    return _plot_biases(positions) if isinstance(positions, Biases) else _plot_rows(positions)


def _plot_rows(positions: Positions) -> "Figure":
    figure = new_figure(12, 4.8)
    rows = positions.rows.astype(np.float64)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    set_title(figure, positions.title)
    largest = float(np.abs(rows).max()) or 1.0
    # A few values that were learned are far larger than all others.
    most = min(largest, 1.5 * float(np.percentile(np.abs(rows), 99))) or largest
    image = left.imshow(rows, cmap=signs(), vmin=-most, vmax=most, aspect="auto")
    left.set(xlabel="dimension", ylabel="position", title="each position is a row")
    beyond = "both" if most < largest else "neither"
    figure.colorbar(image, ax=left, label="value", pad=0.02, extend=beyond)
    image = right.imshow(positions.likeness, cmap=signs(), vmin=-1, vmax=1, aspect="auto")
    right.set(xlabel="position", ylabel="position", title="how alike two positions are")
    figure.colorbar(image, ax=right, label="cosine", pad=0.02)
    return figure


def _plot_biases(biases: Biases) -> "Figure":
    count = len(biases.heads)
    figure = new_figure(12, min(9.0, max(4.2, 1.6 + 0.12 * count)))
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    set_title(figure, biases.title)
    most = float(np.abs(biases.values).max()) or 1.0
    first, last = int(biases.distances[0]), int(biases.distances[-1])
    edges = (first - 0.5, last + 0.5, count - 0.5, -0.5)
    image = left.imshow(biases.values, cmap=signs(), vmin=-most, vmax=most, aspect="auto", extent=edges)
    step = -(-count // 24)
    left.set_yticks(range(0, count, step), biases.heads[::step], fontsize=8)
    across = "distance of the key from the query"
    left.set(xlabel=across, title="each head is a row")
    figure.colorbar(image, ax=left, label="added to the score", pad=0.02)
    if count <= len(CATEGORIES):
        colours = list(CATEGORIES[:count])
    else:
        import matplotlib

        colours = list(matplotlib.colormaps[MAGNITUDES](np.linspace(0, 0.95, count)))
    for values, name, colour in zip(biases.values, biases.heads, colours, strict=True):
        right.plot(biases.distances, values, color=colour, linewidth=1.2, drawstyle="steps-mid", label=name)
    right.set(xlabel=across, ylabel="added to the score", title="each head is a line")
    right.grid(alpha=0.3)
    if count <= len(CATEGORIES):
        right.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
