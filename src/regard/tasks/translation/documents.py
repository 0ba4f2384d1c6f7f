"""Documents through a translator: segments out, translations in, and a report of what was done.

    carry = Carrier(translator, terms=..., memory=..., flags=...)
    (results,) = carry.translate([opened])
    opened.write(results)

Of each segment, the first that there is: the translation that the file has; that of an older result, first
by its key; that of the same text elsewhere in these files; an exact match of a memory; nothing, if there are
no words in it; the model. Segments of all files are translated together. Words are aligned only where there
are tags to place.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Protocol

from regard.documents.base import Opened, Result, Segment
from regard.documents.earlier import as_written
from regard.documents.job import LOST, Job
from regard.memory import Recall
from regard.tasks.base.lines import WINDOW
from regard.tasks.base.predictor import Progress
from regard.tasks.translation.lines import SHORTEN
from regard.tasks.translation.result import Translation
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Origin
from regard.text.flags import FlagSettings, flagger
from regard.text.scanning import Syntax
from regard.text.terms import Terms

TOO_LONG = "too-long"
"""The flag of a translation that is longer than its file allows."""
EMPTY = "empty"
"""Of one that said nothing: the source stays."""
UNFINISHED = "unfinished"
"""Of one that was stopped at the maximum length."""
_WORD = re.compile(r"\w+")


TERM = "term"
"""Of one that a term of the glossary is missing in."""
Flags = Callable[[str, str, Translation], tuple[str, ...]]
"""(what the model read, what it wrote, all of it) -> what somebody should look at."""


@dataclass(slots=True)
class FileReport:
    file: str = ""
    segments: int = 0
    words: int = 0
    """Of all sources."""
    file_kept: int = 0
    """Translations that the file had."""
    reused: int = 0
    """Of an older result, or of the same text elsewhere."""
    memory: int = 0
    model: int = 0
    copied: int = 0
    """Without words."""
    flagged: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def line(self) -> str:
        """In words."""
        counts = (
            (self.file_kept, "there already"),
            (self.reused, "taken over"),
            (self.memory, "from memory"),
            (self.model, "by the model"),
            (self.copied, "without words"),
            (len(self.flagged), "flagged"),
        )
        told = ", ".join(f"{count:,} {what}" for count, what in counts if count)
        return f"{self.file}: {self.segments:,} segments, {self.words:,} words{': ' if told else ''}{told}"


_Key = tuple[Syntax, str, str]


def _key(segment: Segment) -> _Key:
    """Texts that are written alike mean the same only where they are read in the same way."""
    return segment.block.syntax, segment.source, segment.context


class Older(Protocol):
    """A file that was translated before."""

    @property
    def segments(self) -> Sequence[Segment]: ...


@dataclass(slots=True)
class Work:
    """A text that the model translates, for all segments that have it."""

    job: Job
    segment: Segment
    """The first of them."""
    file: str
    flags: list[str] = field(default_factory=list)
    confidence: float | None = None

    def result(self, segment: Segment, terms: Terms | None = None) -> Result:
        text = segment.source if self.job.unchanged else self._output(segment, terms)
        flags = [*self.flags]
        if segment.longest is not None and len(_plain(text)) > segment.longest:
            flags.append(TOO_LONG)
        return Result(text=text, origin="model", confidence=self.confidence, flags=(*dict.fromkeys(flags),))

    def _output(self, segment: Segment, terms: Terms | None) -> str:
        if segment.block.notation is self.segment.block.notation:
            return self.job.outputs()[0]
        job = Job(segment.block, terms)
        job.take_from(self.job)
        return job.outputs()[0]


class Plan:
    """What is to be done about the segments of some documents; knows no translator."""

    def __init__(
        self,
        documents: Sequence[Opened],
        before: Sequence[Older | None] = (),
        names: Sequence[str] = (),
        *,
        memory: Recall | None = None,
        terms: Terms | None = None,
        flags: Flags | None = None,
        quality: FlagSettings | None = None,
    ) -> None:
        """`before` are older results, of each document its own, if there is one; `names` are for errors.
        `quality` is for what a memory has: what a model writes, its translator has looked at."""
        self.memory, self.terms, self.flags = memory, terms, flags
        self._look = None if quality is None else flagger(quality)
        self._works: dict[tuple[Syntax, str, tuple[str, ...], int | None], Work] = {}
        self._planned: list[list[tuple[Segment, Result | Work | None]]] = []
        known = _known(documents)
        older = before or [None] * len(documents)
        for opened, old, name in zip(documents, older, names or ["document"] * len(documents), strict=True):
            there = _Known(known, () if old is None else old.segments)
            self._planned.append([(each, self._plan(each, name, there)) for each in opened.segments])

    @property
    def parts(self) -> list[tuple[Job, Work]]:
        """All that is to be translated, and what each belongs to."""
        return [(part, work) for work in self._works.values() for part in work.job.parts]

    def note(self, part: Job, work: Work, found: Translation) -> None:
        """Of a translation that a part has taken: what is to be said of it."""
        before = 1.0 if work.confidence is None else work.confidence
        work.confidence = min(before, found.confidence)
        said = {LOST: part.bare, EMPTY: not found.text.strip(), UNFINISHED: not found.finished}
        work.flags += [flag for flag, holds in said.items() if holds]
        work.flags += found.flags or ()
        work.flags += [TERM for use in found.terms or () if use.how == "missed"][:1]
        if self.flags is not None:
            work.flags += self.flags(part.view.text, found.text, found)

    def results(self) -> list[list[Result | None]]:
        """For each segment of each document its translation; None for one that stays as it is."""
        return [
            [each.result(segment, self.terms) if isinstance(each, Work) else each for segment, each in own]
            for own in self._planned
        ]

    def _plan(self, segment: Segment, file: str, known: "_Known") -> Result | Work | None:
        if segment.state != "new":
            return None
        if (found := known.of(segment)) is not None:
            return found
        job = Job(segment.block, self.terms)
        parts = [*job.parts]
        if not parts:
            return Result(text=segment.source, origin="copy")
        if self.memory is not None and (found := self._remembered(job, parts, self.memory)) is not None:
            return found
        texts = tuple(part.view.text for part in parts)
        key = segment.block.syntax, segment.source, texts, segment.longest
        return self._works.setdefault(key, Work(job, segment, file))

    def _remembered(self, job: Job, parts: Sequence[Job], memory: Recall) -> Result | None:
        """What a memory has for exactly this text, as the file writes it. It knows no tags, so a text with
        some is for the model."""
        if memory.use != "exact" or len(parts) > 1 or parts[0].view.nodes:
            return None
        source = parts[0].view.text
        match = next((each for each in memory.search(source) if each.exact), None)
        if match is None or not parts[0].remember(match.target):
            return None
        flags = () if self._look is None else self._look(source, match.target, None)
        return Result(text=job.outputs()[0], origin="memory", flags=flags)


class Carrier:
    """Carries documents through a translator."""

    def __init__(
        self,
        translator: Translator,
        *,
        progress: Progress | None = None,
        window: int = WINDOW,
        settings: Mapping[str, Any] | None = None,
        **plan: Any,
    ) -> None:
        """`settings` are those of `Translator.stream`, `plan` those of `Plan`. `progress` is called with how
        many more texts are done."""
        self.translator, self.window, self.progress = translator, window, progress
        self.settings = settings or {}
        asked = self.settings.get("flags")
        quality = FlagSettings() if asked is True else asked or None
        self.plan = {"quality": quality, **plan}

    def translate(
        self,
        documents: Sequence[Opened],
        before: Sequence[Older | None] = (),
        names: Sequence[str] = (),
    ) -> list[list[Result | None]]:
        """As `Plan.results` gives them."""
        plan = Plan(documents, before, names, **self.plan)
        left = self._through(plan, plan.parts)
        for part, _ in left:
            part.look(bare=True)
        self._through(plan, left, all_aligned=True)
        return plan.results()

    def _through(
        self, plan: Plan, parts: list[tuple[Job, Work]], *, all_aligned: bool = False
    ) -> list[tuple[Job, Work]]:
        """Those that are to be translated once more."""
        left = []
        align = [self._can_align and (all_aligned or part.aligned) for part, _ in parts]
        for (part, work), found in zip(parts, self._stream(parts, align), strict=True):
            if part.take(found):
                plan.note(part, work, found)
            else:
                left.append((part, work))
        return left

    def _stream(self, parts: Sequence[tuple[Job, Work]], align: list[bool]) -> Iterator[Translation]:
        more: Any = {"align": any(align) and align, "progress": self.progress, **self.settings}
        texts = [part.view.text for part, _ in parts]
        try:
            yield from self.translator.stream(texts, window=self.window, **more)
        except DataError as error:
            if error.origin.file != "input":
                raise
            work = parts[error.origin.line - 1][1]
            origin = Origin(work.file, work.segment.line)
            raise DataError(origin, error.reason, error.particulars, SHORTEN) from error

    @cached_property
    def _can_align(self) -> bool:
        """Not every engine can tell which word came from which; then words are taken to keep their order."""
        try:
            self.translator.options(align=True)
        except ValueError:
            return False
        return True


class _Known:
    """Texts that are translated already: in an older result, and in the documents themselves."""

    def __init__(self, elsewhere: Mapping[_Key, Segment], older: Sequence[Segment]) -> None:
        self._elsewhere = elsewhere
        self._by_key = {(each.key, each.source): each for each in _done(older)}
        self._by_text = _by_text(_done(older))

    def of(self, segment: Segment) -> Result | None:
        old = self._by_key.get((segment.key, segment.source)) or self._by_text.get(_key(segment))
        if old is not None:
            return _taken(old, segment, old.mark)
        found = self._elsewhere.get(_key(segment))
        return None if found is None else _taken(found, segment)


def _taken(old: Segment, new: Segment, mark: str | None = None) -> Result:
    """`mark`: with all that the file says of it."""
    text = as_written(old.target, old.block, new.block)
    return Result(text=text, origin="file", state=old.state, mark=mark, forms=old.forms)


def _done(segments: Sequence[Segment]) -> list[Segment]:
    return [each for each in segments if each.state != "new" and each.target]


def _known(documents: Sequence[Opened]) -> dict[_Key, Segment]:
    return _by_text([each for opened in documents for each in _done(opened.segments)])


def _by_text(segments: Sequence[Segment]) -> dict[_Key, Segment]:
    """By context; what counts before drafts."""
    found: dict[_Key, Segment] = {}
    for each in sorted(segments, key=lambda each: each.state != "final"):
        found.setdefault(_key(each), each)
    return found


def report_of(file: str, opened: Opened, results: Sequence[Result | None]) -> FileReport:
    report = FileReport(file=file)
    for segment, result in zip(opened.segments, results, strict=True):
        report.segments += 1
        report.words += len(_WORD.findall(_plain(segment.source)))
        match None if result is None else result.origin:
            case None:
                report.file_kept += 1
            case "file":
                report.reused += 1
            case "memory":
                report.memory += 1
            case "copy":
                report.copied += 1
            case _:
                report.model += 1
        if result is not None and result.flags:
            confidence = None if result.confidence is None else round(result.confidence, 4)
            report.flagged.append(
                {"line": segment.line, "key": segment.key, "flags": [*result.flags], "confidence": confidence}
            )
    return report


def _plain(text: str) -> str:
    """Without tags."""
    return re.sub(r"<[^<>]*>", "", text)
