"""Is a difference more than chance? Over seeds, and over examples; both must say so.

    seeds      Student's t for pairs: the same seed in both variants
    examples   paired bootstrap (Efron 1979; Koehn 2004): the mean over seeds of each example, 10,000 draws
    several    Holm's correction (1979): the smallest p times the number of comparisons, the next times one
               less, and so on

Two seeds say little: with few, most differences are not significant, however large they look.
"""

from collections.abc import Sequence

import numpy as np

DRAWS = 10_000
LEVEL = 0.05
LEAST = 20
"""Examples: a bootstrap over fewer is too sure of itself."""


def paired_t(one: Sequence[float], other: Sequence[float]) -> float:
    """Two-sided p of the pairs' differences; nan where it cannot be told: fewer than two pairs, or all with
    the same difference."""
    from scipy.stats import t  # slow to import

    gaps = np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    if len(gaps) < 2 or not np.isfinite(gaps).all():
        return float("nan")
    deviation = gaps.std(ddof=1)
    if deviation <= 1e-9 * max(1e-9, np.abs(gaps).max()):  # equal gaps are no measure of chance
        return 1.0 if not gaps.any() else float("nan")
    return float(2 * t.sf(abs(gaps.mean()) / (deviation / np.sqrt(len(gaps))), len(gaps) - 1))


def paired_bootstrap(one: np.ndarray, other: np.ndarray, *, seed: int = 0) -> float:
    """Two-sided p of the mean difference of examples, [seeds, examples] each; nan for a handful."""
    gaps = (np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)).mean(axis=0)
    if len(gaps) < LEAST or not np.isfinite(gaps).all():
        return float("nan")
    chance = np.random.default_rng(seed)
    means = np.concatenate(
        [
            gaps[chance.integers(0, len(gaps), size=(size, len(gaps)))].mean(axis=1)
            for size in _sizes(DRAWS, max(1, 2_000_000 // len(gaps)))
        ]
    )
    tail = min((means <= 0).mean(), (means >= 0).mean())
    return float(min(1.0, 2 * max(tail, 1 / DRAWS))) if gaps.any() else 1.0


def _sizes(total: int, most: int) -> list[int]:
    return [most] * (total // most) + ([total % most] if total % most else [])


def holm(chances: Sequence[float]) -> list[float]:
    """Corrected for the number of comparisons; nan stays nan, and counts for none."""
    known = [place for place, chance in enumerate(chances) if not np.isnan(chance)]
    order = sorted(known, key=lambda place: chances[place])
    found, least = [float("nan")] * len(chances), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * chances[place]))
        found[place] = least
    return found
