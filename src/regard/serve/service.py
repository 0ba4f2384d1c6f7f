"""What doors ask: a model does something with texts, together with whatever else is waiting for it."""

import asyncio
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from regard.decode import DecodeConfig
from regard.memory import Memory
from regard.memory.recall import Use
from regard.serve.aside import Aside
from regard.serve.detect import load_identifier
from regard.serve.glossaries import Glossaries
from regard.serve.lanes import LOG, Reading
from regard.serve.languages import own_code
from regard.serve.limits import Limits
from regard.serve.line import ClosedError, LateError, RefusedError, Work, in_time
from regard.serve.metrics import Metrics
from regard.serve.models import Bases, Models, Named, Served, serve, stamp_of, with_pairs
from regard.serve.remembering import Remembering
from regard.serve.translating import Translating, TranslatorLane
from regard.serve.writing import Writing
from regard.tasks.base.faster import Precision
from regard.tasks.base.reading import ReadingWarning
from regard.tasks.language.continuation import GenerationWarning, Written
from regard.tasks.translation.aids import given_match
from regard.tasks.translation.result import Translation, TranslationWarning
from regard.text.terms import Terms

LETTERS = 3
"""Characters of a token, about, at the least."""
METHODS = {
    "embed": "embed",
    "classify": "classify",
    "tag": "tag",
    "answer": "answer",
    "pretrain": "fill",
    "rerank": "scores",
}
"""What predictors that read are asked, by task."""
LEAVING = 20.0
"""Seconds for what is under way when a model is replaced, or at the end."""


CUTTING = 10.0
"""Seconds behind a deadline, in which a lane must have given what it has."""
Found = TypeVar("Found")


class Service:
    def __init__(
        self,
        named: Sequence[Named],
        *,
        limits: Limits | None = None,
        device: str = "auto",
        precision: Precision | None = None,
        memory: Path | None = None,
        memory_use: Use = "exact",
    ) -> None:
        """`memory` is a file of translations and terms (regard memory), which answers where it can."""
        for each in (ReadingWarning, GenerationWarning, TranslationWarning):
            warnings.simplefilter("ignore", each)  # requests are told by their answers
        self.limits, self.metrics = limits or Limits(), Metrics()
        self.memory = None if memory is None else Remembering(memory, memory_use, self.limits.waiting)
        self.glossaries = Glossaries(None if memory is None else Memory(memory))
        named = with_pairs(named)
        self._bases = Bases(named, device, precision)
        self._named = {each.name: each for each in named}
        self.models = Models([self._serve(each) for each in named])
        self.aside = Aside(self.limits.waiting)
        """Where documents and markup are read and written, and languages told."""
        self.ready = True
        """False once it is about to end; it may still take requests then."""
        self._stopped = False
        self._held: set[object] = set()

    def _serve(self, named: Named) -> Served:
        return serve(named, self.limits, self.metrics, self._bases)

    def warm(self) -> None:
        """Two small requests to each model: the first makes what is made once, the second shows how quick it
        is. And what tells languages is loaded, where there are translators."""
        if self.models.translators():
            load_identifier()
        for served in [*self.models] * 2:
            self._greet(served)

    def _greet(self, served: Served) -> None:
        served.lane.line.put(work := self._greeting(served))
        with suppress(Exception):  # what is wrong with a model is told to those who ask it
            work.answer.result(timeout=600)

    def _greeting(self, served: Served) -> Work:
        words = ("The quick brown fox jumps over the lazy dog.",)
        asked: Any = Reading(METHODS.get(served.task, "embed"), (words,))
        match served.task:
            case "translate":
                to = next(iter(served.predictor.languages), None)
                reads = None if served.predictor.source_language else next(iter(served.reads), None)
                asked = Translating(words, to, served.predictor.options(), reads=reads)
            case "language":
                asked = Writing(words[0], (("max_tokens", 4),))
            case "answer":
                asked = Reading("answer", (words, words))
            case "rerank":
                asked = Reading("scores", (words, words), (("raw", True),))
            case "pretrain":
                asked = Reading("fill", (("[MASK]",),))
        return Work(asked, None, _tokens(words[0]), "", time.monotonic() + 600)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A request, from when it is accepted until it is answered: it may ask models several times, and none
        of them is closed meanwhile."""
        if self._stopped:
            raise ClosedError("this service is ending")
        self._held.add(own := object())
        try:
            yield
        finally:
            self._held.discard(own)

    def reload(self, *, warm: bool = False) -> list[str]:
        """Models whose files have changed are opened beside the old ones, which finish what they have, and
        asked before others ask them, if `warm`. One that cannot be opened goes on as it is."""
        changed = []
        for each in [*self.models]:
            try:
                if each.stamp == stamp_of(each.folder, each.adapter):
                    continue
                opened = self._serve(self._named[each.name])
                for _ in range(2 if warm else 0):
                    self._greet(opened)
                before = self.models.swap(opened)
            except Exception:
                LOG.exception("model %s could not be opened again; the old one goes on", each.name)
                continue
            changed.append(each.name)
            accepted, until = {*self._held}, time.monotonic() + 2 * self.limits.seconds
            while accepted & {*self._held} and time.monotonic() < until:
                time.sleep(0.02)
            before.lane.close(LEAVING)
        return changed

    @property
    def busy(self) -> bool:
        return bool(self._held) or any(each.lane.line.tokens for each in self.models)

    def stop(self) -> None:
        """Accepts no more requests; those that are accepted are still done."""
        self.ready, self._stopped = False, True

    def close(self, seconds: float = LEAVING) -> None:
        self.stop()
        for each in self.models:
            each.lane.close(seconds)
        self.aside.close()
        if self.memory is not None:
            self.memory.close()
            self.glossaries.close()

    async def read(
        self,
        served: Served,
        caller: str,
        method: str,
        *lists: Sequence[Any],
        deadline: float | None = None,
        **settings: Any,
    ) -> list[Any]:
        """A method of the predictor on parallel lists: one result for each."""
        asked = Reading(method, lists, tuple(sorted(settings.items())))
        cost = sum(_tokens(item) for items in lists for item in items)
        if not all(lists):
            return []
        return await self._ask(served, Work(asked, asked.kind, cost, caller, self._deadline(deadline)))

    async def translate(
        self,
        served: Served,
        caller: str,
        texts: Sequence[str],
        *,
        to: str | None = None,
        source: str | None = None,
        decoding: dict[str, Any] | None = None,
        terms: Terms | None = None,
        matches: Sequence[str] = (),
        deadline: float | None = None,
        **settings: Any,
    ) -> list[Translation]:
        """`source` counts for a model that is told what it reads; `settings` are those of
        `Translator.translate`: align, split, suppressed, too_long. A model that
        was trained so is told `terms`, and given `matches`, one for each text; no other has them."""
        predictor = served.predictor
        own: DecodeConfig = predictor.decoding
        given = {key: value for key, value in (decoding or {}).items() if value is not None}
        if given.get("n_best", 1) > given.get("beam", own.beam):
            given["beam"] = given["n_best"]
        try:
            options = cast(TranslatorLane, served.lane).options(given, settings)
            to = own_code(predictor.languages, to) if to and predictor.languages else None
            predictor.languages_of(to, 1)
            reads = own_code(served.reads, source) if source and served.reads else None
            predictor.reads(reads)
        except (ValueError, TypeError) as error:
            raise RefusedError(str(error)) from error
        asked = Translating(tuple(texts), to, options, terms, tuple(matches), reads)
        cost = sum(map(_tokens, texts)) * options.decoding.width
        work = Work(asked, options, cost, caller, self._deadline(deadline), size=len(texts))
        return await self._ask(served, work)

    async def translate_remembering(
        self,
        served: Served,
        caller: str,
        texts: Sequence[str],
        *,
        source: str | None,
        target: str | None,
        deadline: float | None = None,
        **settings: Any,
    ) -> list[Translation]:
        """The same, where the memory has no answer; with its matches, as `Translator.translate` has them."""
        how: Any = {"to": target, "source": source, "deadline": self._deadline(deadline), **settings}
        known = None
        if self.memory is not None:
            known = await self.memory.look_up(served, caller, texts, source, target, how["deadline"])
        if self.memory is None or known is None:
            return await self.translate(served, caller, texts, **how)
        left = [i for i, each in enumerate(known) if not each.remembered]
        fuzzy = served.predictor.fuzzy
        matches = [given_match(self.memory.use, known[i].matches or (), fuzzy) for i in left]
        if left:
            made = await self.translate(served, caller, [texts[i] for i in left], matches=matches, **how)
            for i, each in zip(left, made, strict=True):
                known[i] = replace(each, matches=known[i].matches)
        return known

    async def generate(
        self,
        served: Served,
        caller: str,
        prompt: str,
        *,
        key: int = 0,
        deadline: float | None = None,
        **settings: Any,
    ) -> list[Any]:
        """At the deadline, what is written by then."""
        work = self._writing(prompt, caller, key, deadline, settings)
        served.lane.line.put(work)
        answer = asyncio.wrap_future(work.answer)
        try:
            return await _in_time_or_cut(work, lambda: asyncio.shield(answer))
        finally:
            served.lane.line.leave(work)

    async def stream(
        self,
        served: Served,
        caller: str,
        prompt: str,
        *,
        key: int = 0,
        deadline: float | None = None,
        **settings: Any,
    ) -> AsyncIterator[Written]:
        """Tokens as they come, until the deadline."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Written | None]()
        work = self._writing(prompt, caller, key, deadline, settings)
        work.tell = lambda written: _soon(loop, queue.put_nowait, written)
        work.answer.add_done_callback(lambda _: _soon(loop, queue.put_nowait, None))
        served.lane.line.put(work)
        try:
            while (written := await _in_time_or_cut(work, queue.get)) is not None:
                yield written
            work.answer.result()
        finally:
            served.lane.line.leave(work)

    def _writing(
        self, prompt: str, caller: str, key: int, deadline: float | None, settings: dict[str, Any]
    ) -> Work:
        own = tuple(sorted(settings.items()))
        follow = settings.get("max_tokens") or 16
        samples = settings.get("samples", 1)
        cost = (_tokens(prompt) + follow) * samples
        return Work(Writing(prompt, own, key), None, cost, caller, self._deadline(deadline), size=samples)

    def _deadline(self, own: float | None) -> float:
        """A request's own, or as far from now as any."""
        return time.monotonic() + self.limits.seconds if own is None else own

    async def _ask(self, served: Served, work: Work) -> list[Any]:
        served.lane.line.put(work)
        try:
            return await in_time(asyncio.wrap_future(work.answer), work.deadline)
        finally:
            served.lane.line.leave(work)  # a caller that has hung up is dropped, from its batch too


async def _in_time_or_cut(work: Work, coming: Callable[[], Awaitable[Found]]) -> Found:
    """What comes of a text by its deadline, at which it is cut: the lane may be in the middle of a step."""
    try:
        return await in_time(coming(), work.deadline)
    except LateError:
        if not work.begun:
            raise
    return await in_time(coming(), work.deadline + CUTTING)


def _tokens(item: Any) -> int:
    return (len(item) if isinstance(item, str) else sum(map(len, item))) // LETTERS + 2


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *values: Any) -> None:
    """On the loop's own thread; a loop that has ended needs nothing."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(call, *values)
