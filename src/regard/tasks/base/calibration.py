"""Whether probabilities mean what they say: of all that a model is 80 % sure of, 80 % should be right.

    error = sum_m  n_m / n  |right_m - sure_m|        Guo et al. 2017, eq. 3: expected calibration error

over M bins of equal width: n_m of n predictions have a probability (m - 1) / M < p <= m / M; `sure` is the
mean of their probabilities, `right` the share of them that is right. tests/tasks/test_analysis.py holds the
error equal to torchmetrics', and the bins to scikit-learn's.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 15


@dataclass(frozen=True, slots=True)
class Bin:
    low: float
    high: float
    count: int
    """Predictions whose probability is above `low`, up to `high`."""
    sure: float
    """The mean of their probabilities; 0 where there are none."""
    right: float
    """The share of them that is right; 0 where there are none."""


@dataclass(frozen=True, slots=True)
class Calibration:
    error: float
    """From 0, probabilities that can be taken at their word, to 1."""
    bins: tuple[Bin, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"error": self.error, "bins": [asdict(each) for each in self.bins]}


def calibration(probabilities: npt.ArrayLike, right: npt.ArrayLike, bins: int = BINS) -> Calibration:
    """Of each prediction, its probability, and whether it was right."""
    sure, truth = np.asarray(probabilities, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if sure.ndim != 1 or sure.shape != truth.shape or not len(sure):
        raise ValueError(
            f"probabilities have shape {sure.shape} and right {truth.shape}: give two rows of one length"
        )
    if not 0 <= sure.min() <= sure.max() <= 1:
        raise ValueError(f"probabilities go from {sure.min()} to {sure.max()}: give some from 0 to 1")
    edges = np.linspace(0, 1, bins + 1)
    places = np.searchsorted(edges[1:-1], sure, side="left")
    counts = np.bincount(places, minlength=bins)
    full = np.maximum(counts, 1)
    means, shares = (np.bincount(places, weights=each, minlength=bins) / full for each in (sure, truth))
    error = float((counts * np.abs(shares - means)).sum() / len(sure))
    columns = (edges[:-1], edges[1:], counts, means, shares)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Calibration(error, tuple(Bin(*row) for row in rows))
