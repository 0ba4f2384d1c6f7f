"""The sides of a comparison in turns: what a machine does besides then falls on all of them alike.

So a ratio is taken within each round, and the median of the rounds' ratios is the figure: it is steadier than
the ratio of two medians. Another side goes first each time, so that none always runs on a warm cache.
"""

import time
from collections.abc import Callable, Mapping, Sequence

ROUNDS = 5
OURS = "regard"
"""The name of our side."""

Side = Callable[[], object]
Wait = Callable[[], object]
"""Returns when the device has done all that it was asked to do: torch.cuda.synchronize."""


def seconds(work: Side, wait: Wait | None = None) -> float:
    """A device that works on after a call has returned needs a `wait`."""
    if wait is not None:
        wait()
    start = time.perf_counter()
    work()
    if wait is not None:
        wait()
    return time.perf_counter() - start


def one_round(sides: Mapping[str, Side], number: int = 0, wait: Wait | None = None) -> dict[str, float]:
    """Seconds of each side, once; which one goes first depends on the round's number."""
    names = list(sides)
    first = number % len(names)
    found = {name: seconds(sides[name], wait) for name in names[first:] + names[:first]}
    return {name: found[name] for name in names}


def in_turns(
    sides: Mapping[str, Side], rounds: int = ROUNDS, wait: Wait | None = None
) -> dict[str, list[float]]:
    """Seconds of each side, round by round. Warming up is the caller's business."""
    every = [one_round(sides, number, wait) for number in range(rounds)]
    return {name: [found[name] for found in every] for name in sides}


def rates(count: float, times: Sequence[float]) -> list[float]:
    """So many of something in each of these times: how many a second."""
    return [count / each for each in times]
