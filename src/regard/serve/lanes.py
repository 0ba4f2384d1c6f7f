"""The threads of a model: they take what is waiting for it, as much as fits, and answer each caller.

    Lane           reads texts (embed, classify, tag, answer, fill): all that waits goes through in one pass,
                   large requests in several
    Translating    writes translations: sentences join while others are being written, and leave when done
    Writing        continues prompts: they join while others are being written, and leave when done

What a text gives does not hang on its company, but for rounding.
"""

import logging
import threading
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.serve.limits import Limits
from regard.serve.line import Line, Work
from regard.serve.metrics import Metrics
from regard.text import DataError

LOG = logging.getLogger("regard.serve")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a `Lane` does: a method of the predictor, on parallel lists, one result for each."""

    method: str
    lists: tuple[Sequence[Any], ...]
    settings: tuple[tuple[str, Hashable], ...] = ()

    @property
    def kind(self) -> Hashable:
        return self.method, len(self.lists), self.settings


class Lane:
    """One thread: a pass uses all cores by itself."""

    def __init__(
        self, predictor: Any, name: str, limits: Limits, metrics: Metrics, *, threads: int = 1
    ) -> None:
        self.predictor, self.name, self.metrics = predictor, name, metrics
        self._cores = torch.get_num_threads() // threads
        self.line = Line(limits.waiting, limits.tokens)
        self.budget = 65_536 if predictor.device.type == "cuda" else 4096
        self._threads = [
            threading.Thread(target=self._begin, name=f"regard-{name}-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def close(self, seconds: float) -> None:
        """Takes no more, and ends when what it has is done, or after so much time."""
        self.line.close()
        until = time.monotonic() + seconds
        for each in self._threads:
            if each.is_alive():
                each.join(max(0.0, until - time.monotonic()))

    def _begin(self) -> None:
        torch.set_num_threads(self._cores)  # a thread has its own number
        self._run()

    def _run(self) -> None:
        while works := self.line.take(self.budget):
            self.metrics.took(self.name, works)
            parts = [_Part.of(work) for work in works]
            try:
                self._answer(parts)
            except BaseException as error:
                LOG.exception("model %s: a batch failed", self.name)
                for work in works:
                    work.fail(error)
            self.line.progressed(sum(work.granted for work in works))
            for part in parts:
                if part.left and not part.work.dropped:
                    self.line.give_back(part.work, part.tokens_left, part.left)
                else:
                    self.line.done([part.work])

    def _answer(self, parts: list["_Part"]) -> None:
        try:
            results = self._read([part.asked for part in parts])
        except Exception as error:
            if len(parts) == 1:
                parts[0].fail(error)
                return
            for part in parts:  # the others are not to suffer for what is wrong with one
                self._answer([part])
            return
        for part, result in zip(parts, results, strict=True):
            part.give(result)

    def _read(self, asked: list[Reading]) -> list[list[Any]]:
        first = asked[0]
        lists = [[item for each in asked for item in each.lists[place]] for place in range(len(first.lists))]
        found = getattr(self.predictor, first.method)(*lists, **dict(first.settings))
        results, place = [], 0
        for each in asked:
            results.append([*found[place : place + len(each.lists[0])]])
            place += len(each.lists[0])
        return results


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """As many items of a request as are granted, and one at least."""

    work: Work
    asked: Reading
    before: int
    """Items that came before,"""
    left: int
    """and those that are still to come."""

    @classmethod
    def of(cls, work: Work) -> "_Part":
        asked, done = work.asked, len(work.state or ())
        count = len(asked.lists[0])
        few = max(1, count * work.granted // work.cost) if work.cost else count
        end = count if count - done <= few else done + few
        lists = tuple(each[done:end] for each in asked.lists)
        return cls(work, replace(asked, lists=lists), done, count - end)

    @property
    def tokens_left(self) -> int:
        return self.work.cost * self.left // len(self.work.asked.lists[0])

    def fail(self, error: Exception) -> None:
        """Told by its place in the whole request."""
        if isinstance(error, DataError) and error.origin.line:
            origin = replace(error.origin, line=error.origin.line + self.before)
            error = DataError(origin, error.reason, error.particulars, error.remedy)
        self.work.fail(error)

    def give(self, results: list[Any]) -> None:
        self.work.state = [*(self.work.state or ()), *results]
        if not self.left:
            self.work.give(self.work.state)
