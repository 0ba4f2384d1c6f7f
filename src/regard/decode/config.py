"""How to decode, and what comes out of it."""

import math
from dataclasses import dataclass
from typing import Literal

from regard.config import check_choices


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeConfig:
    """How a translator or a language model searches for its text.

    >>> translator = regard.load("runs/phrasebook", regard.Translator)
    >>> likeliest = regard.DecodeConfig(method="greedy")
    >>> translator.translate("Where is the station?", decoding=likeliest).text
    'Wo ist der Bahnhof?'
    >>> regard.DecodeConfig(beam=2, n_best=3)
    Traceback (most recent call last):
    ValueError: n_best=3 hypotheses cannot come out of beam=2: widen the beam
    """

    method: Literal["beam", "greedy", "sample"] = "beam"
    """Search with a beam, take the likeliest token each time, or draw tokens at random."""
    beam: int = 5
    """Hypotheses of one source that are followed side by side."""
    n_best: int = 1
    """Hypotheses given back for each source: at most `beam`; 1 if greedy; for sampling, so many samples."""
    length_penalty: float = 1.0
    """Hypotheses are ranked by score / length ** this, the end counted in the length; 0 for the plain
    score."""
    stop: Literal["full", "exact", "estimate"] = "full"
    """full: a beam leaves a source when `beam` hypotheses have finished, as most toolkits do. exact: it
    goes on until nothing it holds can still rank among the `n_best`, which takes about twice as long.
    estimate: until the best that it holds, ranked as it is now, is no better than the worst of `beam` that
    have finished, as transformers does by default."""
    minimum: int = 0
    """Fewest tokens generated; neither a forced prefix nor the end counts."""
    maximum: int = 256
    """Most tokens generated; neither a forced prefix nor the end counts."""
    no_repeat: int = 0
    """No sequence of so many tokens comes twice, the forced prefix included; 0 for off."""
    repetition_penalty: float = 1.0
    """Above 1, tokens that came before are made less likely (Keskar et al. 2019, 4.1)."""
    temperature: float = 1.0
    """Sampling: below 1 the likely becomes likelier, above 1 the unlikely does."""
    top_k: int = 0
    """Sampling: from so many likeliest tokens only; 0 for all."""
    top_p: float = 1.0
    """Sampling: from the fewest likeliest tokens that together have this probability (Holtzman et al.
    2020)."""
    min_p: float = 0.0
    """Sampling: from tokens with at least this share of the likeliest one's probability."""
    seed: int = 0
    """Sampling: another seed draws other samples."""

    def __post_init__(self) -> None:
        check_choices(self)
        for name, least in (("beam", 1), ("n_best", 1), ("minimum", 0), ("maximum", 0), ("no_repeat", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least}")
        if self.minimum > self.maximum:
            raise ValueError(f"minimum={self.minimum} is above maximum={self.maximum}: lower it")
        if self.method == "beam" and self.n_best > self.beam:
            raise ValueError(
                f"n_best={self.n_best} hypotheses cannot come out of beam={self.beam}: widen the beam"
            )
        if self.method == "greedy" and self.n_best != 1:
            raise ValueError(f"n_best={self.n_best}, but greedy search finds one hypothesis: take a beam")
        if not math.isfinite(self.length_penalty):
            raise ValueError(f"length_penalty={self.length_penalty} must be a finite number")
        for name in ("repetition_penalty", "temperature"):
            if not 0 < getattr(self, name) < math.inf:
                remedy = " (greedy search is method='greedy')" if name == "temperature" else ""
                raise ValueError(f"{name}={getattr(self, name)} must be above 0, and finite{remedy}")
        if self.top_k < 0:
            raise ValueError(f"top_k={self.top_k} must be at least 1, or 0 for all tokens")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} must be in (0, 1]")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p={self.min_p} must be in [0, 1]")

    @property
    def width(self) -> int:
        """Rows that a source takes."""
        return self.beam if self.method == "beam" else self.n_best


@dataclass(frozen=True, slots=True)
class Hypothesis:
    ids: tuple[int, ...]
    """The forced prefix and what was generated, without the start and the end token."""
    score: float
    """Log-probability of what was generated and of the end, given the forced prefix. The repetition penalty
    changes it; tokens that were not allowed do not: their probability goes to nobody. For samples too it is
    the model's, whatever the temperature."""
    ranking: float
    """The score after the length penalty."""
    finished: bool
    """It came to its end. False: stopped at the maximum, or no token was allowed; the score is that of the
    tokens alone."""


def rank(score: float, length: int, penalty: float) -> float:
    """`length` is how many tokens the score is a sum over, the end among them."""
    return score / max(length, 1) ** penalty


def most_kept(config: DecodeConfig) -> int:
    """Finished hypotheses that a beam keeps of each source: an estimate looks at a full beam of them."""
    return config.beam if config.stop == "estimate" else config.n_best
