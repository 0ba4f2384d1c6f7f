"""The lane of a translator: on a CPU, a thread for each core; each keeps its sentences under way, lets new
ones join, and answers each request when its last sentence is done."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from regard.serve.lanes import LOG, Lane
from regard.serve.limits import Limits
from regard.serve.line import LateError, Work
from regard.serve.metrics import Metrics
from regard.tasks.translation.engine import Joining, Options, TorchEngine
from regard.tasks.translation.pieces import Part, Piece, PieceResult, Source, assemble, number_sources
from regard.tasks.translation.translator import Translator
from regard.text.terms import Terms

SHARE = 1.0
"""Sentences join when there are so many of them for each that is under way,"""
PATIENCE = 0.3
"""or after so many seconds."""


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


@dataclass(slots=True, eq=False)
class _Open:
    """A request under way."""

    work: Work
    sources: list[Source]
    left: int
    """Pieces that are not done."""
    gone: set[int]
    """Places of the batch for which nobody waits any more."""
    parts: list[list[Part]]
    places: list[int] = field(default_factory=list)
    """Of its pieces in the batch."""


class TranslatorLane(Lane):
    predictor: Translator

    def __init__(self, predictor: Translator, name: str, limits: Limits, metrics: Metrics) -> None:
        on_cpu = predictor.device.type == "cpu"
        threads = torch.get_num_threads() if on_cpu else 1
        super().__init__(predictor, name, limits, metrics, threads=threads)

    def _run(self) -> None:
        engine = self.predictor.engine
        with self.predictor.ready():
            while True:
                under_way: list[_Open] = []
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
                        if each.left:
                            each.work.fail(error)
                            self._leave(each)

    def _coming(self, under_way: list[_Open]) -> Iterator[Joining | None]:
        """What joins next; None while nothing waits but some are under way."""
        joined = 0.0
        while True:
            self._give_up(under_way)
            under_way[:] = [each for each in under_way if each.left]
            if under_way and self._too_few(sum(each.left for each in under_way), joined):
                yield None
                continue
            works = self.line.take(self.budget, wait=not under_way)
            joined = time.monotonic()
            if not works:
                if not under_way:
                    return
                yield None
                continue
            self.metrics.took(self.name, works)
            owners: list[_Open] = []
            pieces: list[Piece] = []
            gone: set[int] = set()
            for work in works:
                for piece, own in self._begun(work, gone):
                    own.places.append(len(pieces))
                    pieces.append(piece)
                    owners.append(own)
            under_way += dict.fromkeys(owners)
            self._give_up(under_way)  # some may have hung up while it was made
            if pieces:
                yield Joining(pieces, works[0].asked.options, partial(self._done, owners, pieces), gone)

    def _give_up(self, under_way: list[_Open]) -> None:
        """What is too late, and what nobody waits for any more."""
        for each in under_way:
            if time.monotonic() > each.work.deadline:
                each.work.fail(LateError("the translation was not there in time"))
            if each.work.dropped:
                each.gone.update(each.places)

    def _too_few(self, under_way: int, joined: float) -> bool:
        """Whether those that wait had better wait for more: sentences that are read together take less time
        in all, and so do those that begin together."""
        return len(self.line) < SHARE * under_way and time.monotonic() - joined < PATIENCE

    def _begun(self, work: Work, gone: set[int]) -> Iterator[tuple[Piece, _Open]]:
        asked: Translating = work.asked
        try:
            languages = self.predictor.languages_of(asked.to, len(asked.texts))
            sources = number_sources(asked.texts, languages, [""] * len(asked.texts), None, 1)
            sources = [*self._helped(sources, asked)]
            pieces = self.predictor.plan(sources, asked.options)
        except Exception as error:
            work.fail(error)
            self.line.done([work])
            return
        if work.dropped:  # meanwhile
            self.line.done([work])
            return
        own = _Open(work, sources, len(pieces), gone, [[] for _ in sources])
        work.answer.add_done_callback(lambda found: gone.update(own.places if found.cancelled() else ()))
        if not pieces:  # blank texts
            self._finish(own)
        yield from ((piece, own) for piece in pieces)

    def _helped(self, sources: list[Source], asked: Translating) -> Iterator[Source]:
        matches = asked.matches or [""] * len(sources)
        terms = asked.terms if self.predictor.inline is not None else None
        for source, match in zip(sources, matches, strict=True):
            told = () if terms is None else tuple(terms.find(source.text))
            yield replace(source, match=match, terms=told)

    def _done(self, owners: list[_Open], pieces: list[Piece], place: int, result: PieceResult) -> None:
        own, piece = owners[place], pieces[place]
        own.parts[piece.number].append((piece, result))
        own.left -= 1
        if own.left == 0:
            self._finish(own)

    def _finish(self, own: _Open) -> None:
        options: Options = own.work.asked.options
        try:
            found: list[Any] = []
            for source, parts in zip(own.sources, own.parts, strict=True):
                parts.sort(key=lambda part: part[0].span)
                found.append(
                    assemble(
                        self.predictor.tokenizer, source.text, parts, options.decoding, align=options.align
                    )
                )
            own.work.give(found)
        except Exception as error:
            own.work.fail(error)
        self._leave(own)

    def _leave(self, own: _Open) -> None:
        own.left = 0
        self.line.done([own.work])
