"""The lane of a language model: prompts that wait together begin together, and new ones begin while others
are being written, a token of each in turn."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regard.serve.lanes import LOG, Lane
from regard.serve.line import LateError, Work
from regard.tasks.language.continuation import Generated, Written
from regard.tasks.language.generator import Generator

MOST = 8
"""Batches under way at a time."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What a language model's lane does: some texts behind a prompt."""

    prompt: str
    settings: tuple[tuple[str, Any], ...]
    """Of `Generator.write`."""
    key: int = 0
    """What the samples hang on."""


@dataclass(slots=True, eq=False)
class _Running:
    works: list[Work]
    steps: Iterator[list[Written]]
    found: list[dict[int, Generated]]
    begun: bool = False


class GeneratorLane(Lane):
    predictor: Generator

    def _run(self) -> None:
        with self.predictor.ready():
            running: list[_Running] = []
            while True:
                full = len(running) >= MOST
                works = [] if full else self.line.take(self.budget, wait=not running)
                if not works and not running:
                    return
                if works:
                    self.metrics.took(self.name, works)
                    running.append(self._begin_all(works))
                for each in [*running]:
                    if not self._step(each, running):
                        running.remove(each)

    def _begin_all(self, works: list[Work]) -> _Running:
        prompts, keys = zip(*((work.asked.prompt, work.asked.key) for work in works), strict=True)
        steps = self.predictor.write(prompts, keys=keys, **dict(works[0].asked.settings))
        return _Running(works, steps, [{} for _ in works])

    def _step(self, each: _Running, running: list[_Running]) -> bool:
        """One token of each text; False when all have come to their end."""
        try:
            found = next(each.steps)
            for written in found:
                self._tell(each, written)
            self.line.progressed(len(found))
            each.begun = True
            going = any(not work.dropped for work in each.works)
        except StopIteration:
            going = False
        except Exception as error:
            if len(each.works) > 1 and not each.begun:
                # the others are not to suffer for what is wrong with one
                running += [self._begin_all([work]) for work in each.works]
                return False
            if each.begun:
                LOG.exception("model %s: a batch failed", self.name)
            for work in each.works:
                work.fail(error)
            going = False
        if not going:
            self.line.done(each.works)
        return going

    def _tell(self, each: _Running, written: Written) -> None:
        work, found = each.works[written.prompt], each.found[written.prompt]
        work.spent += 1
        if work.dropped or time.monotonic() > work.deadline:
            work.fail(LateError("the text was not written in time"))
            written.stopped = True
            return
        if work.tell is not None:
            work.tell(written)
        if written.whole is not None:
            found[written.sample] = written.whole
            if len(found) == dict(work.asked.settings).get("samples", 1):
                work.give([found[number] for number in sorted(found)])
