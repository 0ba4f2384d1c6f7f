"""The lane of a language model: prompts join those that are being written between two tokens, whatever their
settings, and each takes its steps with all others (regard.tasks.language.batch)."""

import time
from dataclasses import dataclass, field
from typing import Any

from regard.serve.lanes import LOG, Lane
from regard.serve.line import Work
from regard.tasks.language.batch import Asked, TextBatch
from regard.tasks.language.continuation import Generated, Written
from regard.tasks.language.generator import Generator

ROWS = {"cpu": 64, "cuda": 256}
"""Texts under way from which on only callers who have none join, so that nobody waits for another's long
ones; from twice as many on, none does."""
ROOM = 8
"""Times the lane's budget, the tokens of such texts, likewise."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What a language model's lane does: some texts behind a prompt."""

    prompt: str
    settings: tuple[tuple[str, Any], ...]
    """Of `Generator.asked`."""
    key: int = 0
    """What the samples hang on."""


@dataclass(slots=True, eq=False)
class _Open:
    """A request under way."""

    work: Work
    number: int
    """In the batch."""
    texts: int
    found: dict[int, Generated] = field(default_factory=dict)


class GeneratorLane(Lane):
    predictor: Generator

    def _run(self) -> None:
        with self.predictor.ready():
            while True:
                batch: TextBatch = self.predictor.batch()
                under_way: dict[int, _Open] = {}
                try:
                    while self._take(batch, under_way):
                        told = batch.step()
                        for written in told:
                            self._tell(under_way, written)
                        self.line.progressed(len(told))
                    return
                except BaseException as error:  # the batch is lost; the service goes on
                    LOG.exception("model %s: a batch failed", self.name)
                    for each in under_way.values():
                        each.work.fail(error)
                    self.line.done([each.work for each in under_way.values()])

    def _take(self, batch: TextBatch, under_way: dict[int, _Open]) -> bool:
        """Some leave, and new ones join. False when the line is closed, and all is done."""
        self._give_up(batch, under_way)
        rows = ROWS.get(self.predictor.device.type, ROWS["cpu"])
        full = max(batch.rows / rows, batch.tokens / (ROOM * self.budget))
        works = []
        if full < 1:
            works = self.line.take(self.budget, wait=not under_way, most=rows - batch.rows)
        elif full < 2:
            having = {each.work.caller for each in under_way.values()}
            works = self.line.take(self.budget, wait=False, most=2 * rows - batch.rows, without=having)
        if works:
            self.metrics.took(self.name, works, whole=True)
            self._begin_all(batch, works, under_way)
        return bool(works or under_way)

    def _begin_all(self, batch: TextBatch, works: list[Work], under_way: dict[int, _Open]) -> None:
        ready: list[tuple[Work, Asked]] = []
        for work in works:
            try:
                settings = dict(work.asked.settings)
                [asked] = self.predictor.asked([work.asked.prompt], keys=[work.asked.key], **settings)
                ready.append((work, asked))
            except Exception as error:
                self._fail(work, error)
        self._join(batch, ready, under_way)

    def _join(self, batch: TextBatch, ready: list[tuple[Work, Asked]], under_way: dict[int, _Open]) -> None:
        if not ready:
            return
        try:
            numbers = batch.add([asked for _, asked in ready])
        except Exception as error:
            if len(ready) == 1:
                LOG.exception("model %s: a prompt could not be read", self.name)
                self._fail(ready[0][0], error)
            else:  # the others are not to suffer for what is wrong with one
                for each in ready:
                    self._join(batch, [each], under_way)
            return
        for number, (work, asked) in zip(numbers, ready, strict=True):
            work.begun = True
            under_way[number] = _Open(work, number, asked.rows)

    def _give_up(self, batch: TextBatch, under_way: dict[int, _Open]) -> None:
        """Who has hung up; and who has no more time is given what there is."""
        for each in [*under_way.values()]:
            if each.work.dropped or time.monotonic() > each.work.deadline:
                for written in batch.end(each.number):
                    self._tell(under_way, written)

    def _tell(self, under_way: dict[int, _Open], written: Written) -> None:
        own = under_way.get(written.prompt)
        if own is None:  # another text of the same prompt went wrong
            written.stopped = True
            return
        work = own.work
        work.spent += 1
        if work.tell is not None:
            work.tell(written)
        if written.error is not None:
            del under_way[own.number]
            self._fail(work, written.error)
        elif written.whole is not None:
            own.found[written.sample] = written.whole
            if len(own.found) == own.texts:
                del under_way[own.number]
                work.give([own.found[sample] for sample in sorted(own.found)])
                self.line.done([work])

    def _fail(self, work: Work, error: Exception) -> None:
        work.fail(error)
        self.line.done([work])
