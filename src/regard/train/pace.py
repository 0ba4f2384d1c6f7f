"""How fast a run is, and what fits into a time.

    steps = (time - look) / (step + look / every)

for steps and validations (`look`) that take so many seconds, a validation every so many steps and one at the
end.
"""

from dataclasses import dataclass


def affordable(seconds: float, step: float, look: float, every: int) -> int:
    return max(0, int((seconds - look) / (step + look / every)))


@dataclass(slots=True)
class Pace:
    """Of one sitting. Its first step does not count: compilers work in it."""

    _began: float | None = None
    _now: float = 0.0
    _steps: int = 0

    def stepped(self, now: float) -> None:
        """A step has ended."""
        if self._began is None:
            self._began = now
        else:
            self._steps += 1
        self._now = now

    def paused(self, seconds: float) -> None:
        """So much time went by for something else."""
        if self._began is not None:
            self._began += seconds

    @property
    def each(self) -> float | None:
        """Seconds of a step, with the checkpoints between; None until it is known."""
        return (self._now - (self._began or 0.0)) / self._steps if self._steps else None
