"""The lane of a translator: on a CPU, a thread for each core; each keeps its sentences under way, lets new
ones join, and answers each request when its last sentence is done. A large one goes through in parts, in
whichever thread has room, with the sentences of others between them."""

import threading
import time
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch

from regard.serve.lanes import LOG, Lane
from regard.serve.limits import Limits
from regard.serve.line import LateError, Work
from regard.serve.metrics import Metrics
from regard.tasks.translation.engine import Joining, Options, TorchEngine
from regard.tasks.translation.pieces import Part, Piece, PieceResult, Source, number_sources
from regard.tasks.translation.translator import Translator
from regard.text.terms import Terms, codes

SHARE = 1.0
"""Sentences join when there are so many of them for each that is under way,"""
PATIENCE = 0.3
"""or where none has joined for so many seconds."""
ASKED = 100
"""Ways to ask that are remembered."""
ROWS = 256
"""Hypotheses under way in a thread from which on only new requests join, so that none waits for a long one;
from twice as many on, none does."""


@dataclass(frozen=True, slots=True)
class Translating:
    """What a translator's lane does."""

    texts: tuple[str, ...]
    to: str | None
    options: Options
    terms: Terms | None = None
    """What words must become, for a model that was trained to be told."""
    matches: tuple[str, ...] = ()
    """Of each text, the translation of a near match, for a model that was trained with such."""
    reads: str | None = None
    """The language of all, for a model that is told it; None for what that reads unless it is told."""


@dataclass(slots=True, eq=False)
class _Open:
    """A request under way, in one thread or in several."""

    work: Work
    sources: list[Source]
    waiting: deque[Piece]
    """That have not joined yet."""
    left: int
    """Pieces that are not done."""
    parts: list[list[Part]]
    width: int
    tokens: int = 0
    """Of all its pieces, times the width."""

    def next(self) -> list[Piece]:
        """As many as are granted, and one at least."""
        found, tokens = [self.waiting.popleft()], 0
        while self.waiting and (tokens := tokens + self._cost(found[-1])) < self.work.granted:
            found.append(self.waiting.popleft())
        return found

    @property
    def to_come(self) -> int:
        """The part of its cost that has not joined."""
        return self.work.cost * sum(map(self._cost, self.waiting)) // max(self.tokens, 1)

    def _cost(self, piece: Piece) -> int:
        return len(piece.ids) * self.width


@dataclass(slots=True, eq=False)
class _Joined:
    """What of a request is in one batch."""

    own: _Open
    gone: set[int]
    """Places of the batch for which nobody waits any more."""
    places: range
    """Its own."""
    left: int


class TranslatorLane(Lane):
    predictor: Translator

    def __init__(self, predictor: Translator, name: str, limits: Limits, metrics: Metrics) -> None:
        on_cpu = predictor.device.type == "cpu"
        threads = torch.get_num_threads() if on_cpu else 1
        super().__init__(predictor, name, limits, metrics, threads=threads)
        self._counting = threading.Lock()
        self._options: dict[Hashable, Options] = {}

    def options(self, decoding: Mapping[str, Any], settings: Mapping[str, Any]) -> Options:
        """What a request asks for, checked. Most ask for what others did."""
        key = (*sorted(decoding.items()), *sorted(settings.items()))
        if key not in self._options:
            own = replace(self.predictor.decoding, **decoding) if decoding else None
            found = self.predictor.options(own, **settings)
            if len(self._options) >= ASKED:
                self._options.clear()
            self._options[key] = found
        return self._options[key]

    def _run(self) -> None:
        engine = self.predictor.engine
        with self.predictor.ready():
            while True:
                under_way: list[_Joined] = []
                try:
                    if isinstance(engine, TorchEngine):
                        engine.keep_up(self._coming(under_way))
                    else:
                        for batch in filter(None, self._coming(under_way)):
                            for pieces, results in engine.search(batch.pieces, batch.options):
                                for piece, result in zip(pieces, results, strict=True):
                                    batch.done(batch.pieces.index(piece), result)
                    return
                except BaseException as error:  # the batch is lost; the service goes on
                    LOG.exception("model %s: a batch failed", self.name)
                    for each in under_way:
                        each.own.work.fail(error)
                        self.line.done([each.own.work])

    def _coming(self, under_way: list[_Joined]) -> Iterator[Joining | None]:
        """What joins next; None while nothing does but some are under way."""
        joined = 0.0
        while True:
            self._give_up(under_way)
            under_way[:] = [each for each in under_way if each.left]
            rows = sum(each.left * each.own.width for each in under_way)
            works: list[Work] = []
            if not under_way or (rows < 2 * ROWS and not self._too_few(under_way, joined)):
                works = self.line.take(self.budget, wait=not under_way, fresh=rows >= ROWS)
                joined = time.monotonic() if works else joined
            if works:
                yield from self._joining(works, under_way)
            elif under_way:
                self.line.progressed(rows)  # a token each
                yield None
            else:
                return

    def _joining(self, works: list[Work], under_way: list[_Joined]) -> Iterator[Joining]:
        self.metrics.took(self.name, works)
        batch: list[_Joined] = []
        pieces: list[Piece] = []
        gone: set[int] = set()
        for work in works:
            if own := self._opened(work):
                found = own.next()
                places = range(len(pieces), len(pieces) + len(found))
                batch.append(_Joined(own, gone, places, len(found)))
                pieces += found
                if own.waiting:
                    self.line.give_back(work, own.to_come, len(own.waiting))
        under_way += batch
        self._give_up(batch)  # some may have hung up while it was made
        if pieces:
            owners = [each for each in batch for _ in each.places]
            yield Joining(pieces, works[0].asked.options, partial(self._done, owners, pieces), gone)

    def _give_up(self, under_way: list[_Joined]) -> None:
        """What is too late, and what nobody waits for any more."""
        for each in under_way:
            if time.monotonic() > each.own.work.deadline:
                each.own.work.fail(LateError("the translation was not there in time"))
            if each.own.work.dropped:
                each.gone.update(each.places)
                self.line.done([each.own.work])

    def _too_few(self, under_way: list[_Joined], joined: float) -> bool:
        """Whether those that wait had better wait for more: sentences that are read together take less time
        in all, and so do those that begin together."""
        some = sum(each.left for each in under_way)
        return time.monotonic() - joined < PATIENCE and self.line.size < SHARE * some

    def _opened(self, work: Work) -> _Open | None:
        """None if there is nothing to do for it, or if nothing can be done."""
        if work.state is not None:
            return cast(_Open, work.state)
        asked: Translating = work.asked
        try:
            languages = self.predictor.languages_of(asked.to, len(asked.texts))
            blank = [""] * len(asked.texts)
            sources = number_sources(asked.texts, languages, blank, None, 1, asked.reads)
            sources = [*self._helped(sources, asked)]
            pieces = self.predictor.plan(sources, asked.options)
        except Exception as error:
            work.fail(error)
            self.line.done([work])
            return None
        width = asked.options.decoding.width
        tokens = sum(len(piece.ids) for piece in pieces) * width
        own = _Open(work, sources, deque(pieces), len(pieces), [[] for _ in sources], width, tokens)
        if work.dropped:  # meanwhile
            self.line.done([work])
            return None
        if not pieces:  # blank texts
            self._finish(own)
            return None
        work.state = own
        return own

    def _helped(self, sources: list[Source], asked: Translating) -> Iterator[Source]:
        matches = asked.matches or [""] * len(sources)
        terms = asked.terms if self.predictor.inline is not None else None
        for source, match in zip(sources, matches, strict=True):
            told = () if terms is None else tuple(terms.find(source.text, codes(source.text)))
            yield replace(source, match=match, terms=told)

    def _done(self, owners: list[_Joined], pieces: list[Piece], place: int, result: PieceResult) -> None:
        owners[place].left -= 1
        own, piece = owners[place].own, pieces[place]
        with self._counting:
            own.parts[piece.number].append((piece, result))
            own.left -= 1
            own.work.spent += (len(result.hypotheses[0].ids) + 1) * own.width if result.hypotheses else 0
            whole = own.left == 0
        if whole:
            self._finish(own)

    def _finish(self, own: _Open) -> None:
        options: Options = own.work.asked.options
        try:
            pairs = zip(own.sources, own.parts, strict=True)
            found = [self.predictor.assembled(source, parts, options) for source, parts in pairs]
            own.work.give(found)
        except Exception as error:
            own.work.fail(error)
        self.line.done([own.work])
