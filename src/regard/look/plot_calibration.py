"""The reliability diagram: how often a model is right, by how sure it is (Guo et al. 2017, figure 1)."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.look.plots import BLUE, GREY, ORANGE, new_figure, picture, save
from regard.tasks.base.calibration import Calibration

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_calibration(found: Calibration, out: Path) -> None:
    save(plot_calibration(found), out)


@picture
def plot_calibration(found: Calibration) -> "Figure":
    """Above, the share that is right in each bin of probabilities, with the gap to what was claimed; below,
    how many predictions there are in each. On the diagonal, probabilities are as they say."""
    figure = new_figure(5.2, 5.8)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    full = [each for each in found.bins if each.count]
    places = [(each.low + each.high) / 2 for each in full]
    width = found.bins[0].high - found.bins[0].low
    right, sure = [each.right for each in full], [each.sure for each in full]
    above.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="as sure as right")
    above.bar(places, right, width=0.94 * width, color=BLUE, label="right")
    gaps = [claimed - share for claimed, share in zip(sure, right, strict=True)]
    style = {"edgecolor": ORANGE, "facecolor": "none", "hatch": "//", "linewidth": 1.0}
    above.bar(places, gaps, bottom=right, width=0.94 * width, label="gap to what it is sure of", **style)
    above.set(xlim=(0, 1), ylim=(0, 1), ylabel="share that is right")
    above.set_title(f"expected calibration error {found.error:.4f}, {len(found.bins)} bins")
    above.legend(loc="upper left")
    below.bar(places, [each.count for each in full], width=0.94 * width, color=GREY)
    below.set(xlabel="probability of the prediction", ylabel="predictions")
    for axes in (above, below):
        axes.grid(alpha=0.3)
    return figure
