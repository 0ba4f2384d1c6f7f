"""What a model's probabilities say of how good its translations are (Guo et al. 2017 for classifiers).

    confidence = 1 / (1 + exp(-(slope * m + offset))),    m = the mean log-probability of its tokens

A model that was trained with label smoothing is unsure of everything, one that was trained for long on little
text is sure of it. So `slope` and `offset` are fitted on the validation pairs, to what the translations there
are worth: chrF against their references, from 0 to 1. Then a confidence of 0.7 is what translations have that
are, on such text, 70 chrF on average.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = "confidence"
"""The key of config.json."""
FEWEST = 20
"""Pairs from which on it is fitted."""
STEPS = 50
RIDGE = 1e-6
"""Of the squared parameters, for each pair: where all translations are perfect, any slope would do."""
LEAST = 1e-9
"""The smallest probability that is told apart from none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    slope: float
    offset: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.slope) and math.isfinite(self.offset)):
            raise ValueError(f"slope={self.slope} and offset={self.offset} must be finite")

    def __call__(self, probability: float) -> float:
        """From the geometric mean of the tokens' probabilities."""
        odds = self.slope * math.log(max(probability, LEAST)) + self.offset
        return 1 / (1 + math.exp(-min(max(odds, -700.0), 700.0)))


def quality(translation: str, reference: str) -> float:
    """chrF, from 0 to 1."""
    from sacrebleu.metrics.chrf import CHRF  # imports what only some systems have

    return float(CHRF().sentence_score(translation, [reference]).score) / 100


def fit(probabilities: Sequence[float], qualities: Sequence[float]) -> Calibration | None:
    """The most likely one (Newton's method); None from too few, or where sure translations are no better than
    others."""
    if len(probabilities) < FEWEST:
        return None
    logs = np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), LEAST))
    inputs = np.stack([logs, np.ones_like(logs)], axis=1)
    wanted, found = np.asarray(qualities, dtype=np.float64), np.zeros(2)
    for _ in range(STEPS):
        guessed = 1 / (1 + np.exp(-inputs @ found))
        slopes = inputs.T @ (guessed - wanted) + RIDGE * len(logs) * found
        weights = guessed * (1 - guessed)
        bends = (inputs * weights[:, None]).T @ inputs + RIDGE * len(logs) * np.eye(2)
        step = np.linalg.solve(bends, slopes)
        found = found - step
        if np.abs(step).max() < 1e-10:
            break
    slope, offset = map(float, found)
    return Calibration(slope=slope, offset=offset) if slope > 0 else None
