"""What the self-test finds: the same numbers computed in two ways, and how far apart they came out.

Differences are shares of the greatest number of a comparison, since sums are rounded beside their largest
terms; those of exports and of 8 bits are as they are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor

from regard.deploy.onnx_compare import Gaps

Verdict = Literal["ok", "FAILED", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    check: str
    """What was compared."""
    model: str
    verdict: Verdict
    numbers: int = 0
    difference: float | None = None
    """The largest, of the comparison that came nearest to its bound."""
    bound: float | None = None
    """What it may be."""
    why: str = ""

    @property
    def share(self) -> float:
        """Of the bound that was used up; where that is 0, any difference is too much."""
        if self.difference is None or self.bound is None or self.difference == 0:
            return 0.0
        return self.difference / self.bound if self.bound else float("inf")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def judged(
    check: str, model: str, found: Iterable[tuple[int, float, float]], *, why: str = "", slack: float = 1.0
) -> Result:
    """From comparisons: of how many numbers, how far apart, and the bound. All of them count; the one nearest
    to its bound speaks. Up to `slack` of a bound is allowed."""
    every = [
        Result(check=check, model=model, verdict="ok", numbers=numbers, difference=most, bound=bound)
        for numbers, most, bound in found
    ]
    numbers = sum(each.numbers for each in every)
    if not numbers:
        return Result(check=check, model=model, verdict="FAILED", why="nothing was compared")
    worst = max(every, key=lambda each: each.share)
    verdict: Verdict = "ok" if worst.share <= slack else "FAILED"
    return Result(
        check=check, model=model, verdict=verdict, numbers=numbers, difference=worst.difference,
        bound=worst.bound, why=why,
    )  # fmt: skip


def apart(pairs: Iterable[tuple[Tensor, Tensor]], bound: float) -> list[tuple[int, float, float]]:
    """What `judged` takes, of tensors that should be equal: found and expected. Differences and the bound are
    shares of the greatest number expected. What is no number is infinitely far off."""
    found = []
    for one, two in pairs:
        if one.shape != two.shape:
            raise ValueError(f"{tuple(one.shape)} beside {tuple(two.shape)}: these are not the same numbers")
        gaps = Gaps()
        gaps.add(*(each.detach().float().cpu().numpy() for each in (one, two)))
        found.append((gaps.count, gaps.most / (gaps.greatest or 1.0), bound))
    return found


def skipped(check: str, model: str, why: str) -> Result:
    return Result(check=check, model=model, verdict="skipped", why=why)


def failed(check: str, model: str, error: Exception) -> Result:
    """By an error that nothing here should raise."""
    return Result(check=check, model=model, verdict="FAILED", why=f"{type(error).__name__}: {error}")


def together(results: Sequence[Result]) -> list[Result]:
    """One for each check. Of several models the worst speaks: one that failed, else the one nearest to its
    bound; those that were skipped only where nothing else is there."""
    found = []
    for check in dict.fromkeys(each.check for each in results):
        own = [each for each in results if each.check == check]
        ran = [each for each in own if each.verdict != "skipped"]
        if not ran:
            found.append(own[0])
            continue
        worst = max(ran, key=lambda each: (each.verdict == "FAILED", each.share))
        numbers = sum(each.numbers for each in ran)
        model = worst.model if len(ran) == 1 or worst.verdict == "FAILED" else f"{len(ran)} models"
        found.append(
            Result(**{**asdict(worst), "numbers": numbers, "model": model})
            if worst.verdict == "ok"
            else worst
        )
    return found
