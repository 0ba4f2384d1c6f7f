"""Cells of a table through a translator, with tags and placeholders as documents have them.

    cell     Open <b>%(file)s</b> now         The dog sleeps.
    model    Open %(file)s now                The dog sleeps.

Where there are such, tags are taken out and put back by the alignment of words, placeholders are never lost,
and lines stay lines. A cell of plain text is translated as it stands; so is one that a memory has.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from regard.documents.job import LOST, Job
from regard.memory import Match, Recall
from regard.tasks.base.predictor import Progress
from regard.tasks.translation.alignment import can_align, links_between
from regard.tasks.translation.result import Alternative, Translation
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Origin
from regard.text.markup import read_block
from regard.text.scanning import Syntax

T = TypeVar("T")


def translate_cells(
    translator: Translator,
    cells: Iterable[str],
    *,
    window: int = 1000,
    numbers: bool = False,
    **settings: Any,
) -> Iterator[Translation]:
    """One translation for each, in their order; `settings` are those of `Translator.stream`. With `numbers`,
    these stay as they are."""
    return _Stream(translator, window, numbers, settings).over(cells)


class _Cell:
    def __init__(self, number: int, text: str, syntax: Syntax, recall: Recall | None) -> None:
        self.number, self.text = number, text
        self._job: Job | None = Job(read_block(text, syntax))
        if _plain(self._job) or (recall is not None and _known(text, recall)):
            self._job = None
        self.parts = [_Part(self, None)] if self._job is None else [*self._parts(self._job)]

    def _parts(self, job: Job) -> Iterator["_Part"]:
        return (_Part(self, each) for each in job.parts)

    @property
    def whole(self) -> bool:
        return all(each.found is not None for each in self.parts)

    def result(self) -> Translation:
        found = [each.found for each in self.parts if each.found is not None]
        if self._job is None:
            return found[0]
        text = self._job.outputs()[0]
        best = Alternative(
            text=text,
            score=sum((each.score for each in found), 0.0),
            ranking=sum((each.ranking for each in found), 0.0) / max(len(found), 1),
            finished=all(each.finished for each in found),
            confidence=min((each.confidence for each in found), default=1.0),
        )
        return Translation(
            source=self.text,
            text=text,
            score=best.score,
            ranking=best.ranking,
            finished=best.finished,
            confidence=best.confidence,
            alternatives=(best, *self._others(found)),
            alignment=self._links(found),
            pieces=sum(each.pieces for each in found),
            unknown=sum(each.unknown for each in found),
            terms=_joined([each.terms for each in found]),
            matches=min((each.matches or () for each in found), key=_best, default=()),
            remembered=bool(found) and all(each.remembered for each in found),
            match_given=any(each.match_given for each in found),
            flags=self._flags(found),
        )

    def _others(self, found: Sequence[Translation]) -> Iterator[Alternative]:
        """Of a cell that is translated at once, those that keep its placeholders."""
        for other in found[0].alternatives[1:] if len(found) == 1 else ():
            own = Job(self.parts[0].marks.block)
            if self.parts[0].marks.bare:
                own.look(bare=True)
            if own.take(replace(found[0], text=other.text, alignment=None, alternatives=())):
                yield replace(other, text=own.outputs()[0])

    def _links(self, found: Sequence[Translation]) -> tuple[tuple[int, int], ...] | None:
        """Words are counted as the model reads them, so there are links where these are the cell's."""
        if len(found) != 1 or found[0].source.split() != self.text.split():
            return None
        return found[0].alignment

    def _flags(self, found: Sequence[Translation]) -> tuple[str, ...] | None:
        lost = (LOST,) if any(each.job is not None and each.job.bare for each in self.parts) else ()
        joined = _joined([each.flags for each in found])
        return None if joined is None else (*dict.fromkeys([*lost, *joined]),)


@dataclass(slots=True, eq=False)
class _Part:
    cell: _Cell
    job: Job | None
    """None: the cell as it stands."""
    found: Translation | None = None

    @property
    def marks(self) -> Job:
        if self.job is None:
            raise ValueError("a cell that is translated as it stands has no marks")
        return self.job

    @property
    def text(self) -> str:
        return self.cell.text if self.job is None else self.job.view.text

    @property
    def aligned(self) -> bool:
        return self.job is not None and self.job.aligned

    def take(self, found: Translation) -> bool:
        """Whether it need not be translated again, without its placeholders."""
        if self.job is None or self.job.take(found):
            self.found = found
        return self.found is not None


class _Stream:
    def __init__(self, translator: Translator, window: int, numbers: bool, settings: dict[str, Any]) -> None:
        self._translator, self._window, self._settings = translator, window, settings
        self._syntax = Syntax(kind="text", tags=True, numbers=numbers)
        self._recall: Recall | None = settings.get("memory")
        self._align = bool(settings.get("align"))
        self._can_align = self._align or can_align(translator)
        self._progress: Progress | None = settings.get("progress")
        self._cells: deque[_Cell] = deque()
        """Those that are not given out yet."""
        self._parts: deque[_Part] = deque()
        """Those that are not translated yet."""
        self._done = 0
        """Parts that are translated."""
        self._surplus = 0
        """Parts beyond one for each cell: they are no progress."""
        self._aligned: deque[bool] = deque()

    def over(self, cells: Iterable[str]) -> Iterator[Translation]:
        align = iter(self._aligned.popleft, None) if self._can_align else False
        progress = None if self._progress is None else self._count
        told = {**self._settings, "align": align, "progress": progress}
        stream = self._translator.stream(self._read(cells), window=self._window, **told)
        found: list[Translation] | None = None
        while found is None or found:
            with self._named():
                found = [*islice(stream, self._window)]
            parts = [self._parts.popleft() for _ in found]
            self._done += len(found)
            pairs = zip(parts, found, strict=True)
            self._once_more([part for part, each in pairs if not part.take(self._linked(part, each))])
            while self._cells and self._cells[0].whole:
                yield self._cells.popleft().result()

    def _read(self, cells: Iterable[str]) -> Iterator[str]:
        for number, text in enumerate(cells, 1):
            cell = _Cell(number, text, self._syntax, self._recall)
            self._cells.append(cell)
            self._surplus += len(cell.parts) - 1
            for part in cell.parts:
                self._parts.append(part)
                self._aligned.append(self._align or part.aligned)
                yield part.text

    def _linked(self, part: _Part, found: Translation) -> Translation:
        """Tags go to the words of what a memory has, too."""
        if not (found.remembered and part.aligned and self._can_align):
            return found
        how = {name: self._settings.get(name) for name in ("to", "source_language")}
        return replace(found, alignment=links_between(self._translator, found.source, found.text, **how))

    def _once_more(self, parts: Sequence[_Part]) -> None:
        """Without their placeholders."""
        if not parts:
            return
        for part in parts:
            part.marks.look(bare=True)
        told = {**self._settings, "align": self._can_align, "progress": None}
        stream = self._translator.stream([part.text for part in parts], window=len(parts), **told)
        for part, found in zip(parts, islice(stream, len(parts)), strict=True):  # so that it warns once
            part.take(found)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """What is refused is a part, but told is the cell's number."""
        try:
            yield
        except DataError as error:
            if error.origin.file != "input":
                raise
            cell = self._parts[error.origin.line - 1 - self._done].cell
            origin = Origin("input", cell.number)
            raise DataError(origin, error.reason, error.particulars, error.remedy) from error

    def _count(self, done: int) -> None:
        held = min(self._surplus, done)
        self._surplus -= held
        if self._progress is not None and done > held:
            self._progress(done - held)


def _plain(job: Job) -> bool:
    """Whether a model may read it as it stands."""
    view = job.view
    return not (view.nodes or view.names or job.block.inside) and view.text == job.block.raw.strip()


def _known(text: str, recall: Recall) -> bool:
    return recall.use == "exact" and bool(text.strip()) and any(each.exact for each in recall.search(text))


def _best(matches: Sequence[Match]) -> int:
    return matches[0].score if matches else -1


def _joined(each: Sequence[tuple[T, ...] | None]) -> tuple[T, ...] | None:
    """None where nothing was asked for."""
    return None if None in each else tuple(one for own in each if own is not None for one in own)
