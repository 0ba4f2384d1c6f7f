"""Findings in the making: their examples are places still, whose text is read when all checks are done."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.text.doctor.findings import Example, Severity

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64] | NDArray[np.float64] | NDArray[np.float32]

NEVER = 2.0
"""A share that no fault can have."""
_KEPT = 20


@dataclass(frozen=True, slots=True)
class Location:
    number: int
    why: str
    beside: tuple[str, int] | None = None
    """Split and number of another pair: where that one stands ends the reason."""


@dataclass(frozen=True, slots=True)
class Draft:
    name: str
    severity: Severity
    split: str
    count: int
    total: int
    text: str
    """{place} is where the first example's target stands."""
    remedy: str
    places: Sequence[Location] = ()
    examples: Sequence[Example] = ()
    """Those that are no pairs."""


def severity(share: float, warning: float, error: float = NEVER) -> Severity:
    return "error" if share >= error else "warning" if share >= warning else "info"


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault that pairs have or have not, and from which share of them on it is serious."""

    name: str
    text: str
    remedy: str
    warning: float = 0.0
    error: float = NEVER

    def draft(
        self,
        split: str,
        faulty: Mask,
        why: Callable[[int], str],
        *,
        badness: Numbers | None = None,
        beside: Callable[[int], tuple[str, int] | None] = lambda number: None,
    ) -> Iterator[Draft]:
        """Nothing where no pair is faulty. The worst come first, or else those that stand first."""
        numbers = np.flatnonzero(faulty)
        if not len(numbers):
            return
        if badness is not None:
            numbers = numbers[np.argsort(-badness[numbers], kind="stable")]
        places = [Location(int(number), why(int(number)), beside(int(number))) for number in numbers[:_KEPT]]
        share = len(numbers) / len(faulty)
        how_bad = severity(share, self.warning, self.error)
        yield Draft(self.name, how_bad, split, len(numbers), len(faulty), self.text, self.remedy, places)
