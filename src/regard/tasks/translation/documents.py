"""Documents through a translator: segments out, translations in, and a report of what was done.

    carry = Carrier(translator, terms=..., memory=..., flags=...)
    (results,) = carry.translate([opened])
    opened.write(results)

Of each segment, the first that there is: the translation that the file has; that of an older result, first
by its key; that of the same text elsewhere in these files; nothing, if there are no words in it; an exact
match of a memory, whose tags go where its words went; the model, which is given near matches, if it was
trained so. Segments of all files are translated together. Words are aligned only where there are tags to
place.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Protocol

from regard.documents.base import Opened, Result, Segment
from regard.documents.earlier import as_written
from regard.documents.job import LOST, Job
from regard.memory import Match, Recall
from regard.tasks.base.lines import WINDOW
from regard.tasks.base.predictor import Progress
from regard.tasks.translation.aids import Aids, looked_at, recalled
from regard.tasks.translation.alignment import can_align, links_between
from regard.tasks.translation.lines import SHORTEN
from regard.tasks.translation.result import TermUse, Translation
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Origin
from regard.text.placing import Links
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
FindLinks = Callable[[str, str], Links | None]
"""(a text, its translation) -> which word came from which; None where that cannot be told."""


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
    near: list[dict[str, Any]] = field(default_factory=list)
    """The best near match of a memory, of each that the model translated, and whether it was given that."""
    terms: dict[str, int] = field(default_factory=dict)
    """Of the glossary: how many there are, by what became of them (`TermUse.how`)."""

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
            (self.terms.get("missed", 0), "terms missed"),
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
    terms: list[TermUse] = field(default_factory=list)
    near: Match | None = None
    """The best near match of a memory."""
    near_given: bool = False

    def result(self, segment: Segment, terms: Terms | None = None) -> Result:
        text = segment.source if self.job.unchanged else self._output(segment, terms)
        flags = [*self.flags]
        if segment.longest is not None and len(_plain(text)) > segment.longest:
            flags.append(TOO_LONG)
        told: dict[str, Any] = {"terms": tuple(self.terms)}
        if self.near is not None:
            own = {name: getattr(self.near, name) for name in ("score", "source", "target")}
            told["near"] = {**own, "given": self.near_given}
        unique = (*dict.fromkeys(flags),)
        return Result(text=text, origin="model", confidence=self.confidence, flags=unique, told=told)

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
        aids: Aids | None = None,
        find_links: FindLinks | None = None,
    ) -> None:
        """`before` are older results, of each document its own, if there is one; `names` are for errors.
        `aids` are for what a memory has: what a model writes, its translator has looked at. `find_links`
        tells which word of what it has came from which; without, it is not asked for texts with tags."""
        self.memory, self.terms, self.flags = memory, terms, flags
        self._aids, self._find_links = aids or Aids(), find_links
        self._matches: dict[str, Sequence[Match]] = {}
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
        work.flags += _missing(found.terms)
        work.terms += found.terms or ()
        work.near_given |= found.match_given
        for best in (found.matches or ())[:1]:
            work.near = max(work.near or best, best, key=lambda match: match.score)
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
        if (found := self._remembered(segment)) is not None:
            return found
        texts = tuple(part.view.text for part in parts)
        key = segment.block.syntax, segment.source, texts, segment.longest
        return self._works.setdefault(key, Work(job, segment, file))

    def _remembered(self, segment: Segment) -> Result | None:
        """What a memory has for exactly this text, as the file writes it. It knows no tags: where there are
        some, they are put into what it has, and somebody has to look at that."""
        if self.near is None or self.near.use != "exact":
            return None
        job = Job(segment.block)
        tagged, flags, terms = False, list[str](), list[TermUse]()
        for part in job.parts:
            found = recalled(part.view.text, Recall(self._search))
            if not found.remembered or (part.view.nodes and self._find_links is None):
                return None
            links = None
            if part.view.nodes and self._find_links is not None:
                tagged, links = True, self._find_links(found.source, found.text)
            if not part.remember(found.text, links):
                return None
            looked = looked_at(found, self._aids)
            flags += [*(looked.flags or ()), *_missing(looked.terms)]
            terms += looked.terms or ()
        return Result(
            text=job.outputs()[0],
            origin="memory",
            flags=(*dict.fromkeys(flags),),
            state="draft" if tagged else None,
            told={"terms": tuple(terms)},
        )

    @property
    def near(self) -> Recall | None:
        """The memory as a model is given it: texts that it has are taken already, where that could be."""
        if self.memory is None or self.memory.use != "exact":
            return self.memory
        return Recall(lambda text: [each for each in self._search(text) if not each.exact])

    def _search(self, text: str) -> Sequence[Match]:
        if text not in self._matches:
            self._matches[text] = () if self.memory is None else self.memory.search(text)
        return self._matches[text]


def _missing(terms: Sequence[TermUse] | None) -> list[str]:
    return [TERM for use in terms or () if use.how == "missed"][:1]


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
        aids = Aids.of(
            self.settings.get("glossary"),
            self.settings.get("inflected", True),
            None,
            self.settings.get("flags", False),
        )
        self.plan = {"aids": aids, "find_links": self._find_links, **plan}

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
        for (part, work), found in zip(parts, self._stream(plan, parts, align), strict=True):
            if part.take(found):
                plan.note(part, work, found)
            else:
                left.append((part, work))
        return left

    def _stream(
        self, plan: Plan, parts: Sequence[tuple[Job, Work]], align: list[bool]
    ) -> Iterator[Translation]:
        more: Any = {"align": any(align) and align, "progress": self.progress, **self.settings}
        if plan.near is not None:
            more["memory"] = plan.near
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
        return can_align(self.translator)

    def _find_links(self, source: str, target: str) -> Links | None:
        if not self._can_align:
            return None
        how = {name: self.settings.get(name) for name in ("to", "source_language")}
        return links_between(self.translator, source, target, **how)


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
        if result is None:
            continue
        place = {"line": segment.line, "key": segment.key}
        terms: Sequence[TermUse] = result.told.get("terms", ())
        for use in terms:
            report.terms[use.how] = report.terms.get(use.how, 0) + 1
        if near := result.told.get("near"):
            report.near.append({**place, **near})
        if result.flags:
            confidence = None if result.confidence is None else round(result.confidence, 4)
            flagged = {**place, "flags": [*result.flags], "confidence": confidence}
            if missed := [asdict(use) for use in terms if use.how == "missed"]:
                flagged["terms"] = missed
            report.flagged.append(flagged)
    return report


def _plain(text: str) -> str:
    """Without tags."""
    return re.sub(r"<[^<>]*>", "", text)
