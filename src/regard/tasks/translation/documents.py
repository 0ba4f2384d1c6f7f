"""Documents through a translator: segments out, translations in, and a report of what was done.

    carry = Carrier(translator, terms=..., memory=..., flags=...)
    (results,) = carry.translate([opened])
    opened.write(results)

Of each segment, the first that there is: the translation that the file has; that of an older result, or of
the same text elsewhere in these files; an exact match of a memory; nothing, if there are no words in it; the
model. Segments of all files are translated together. Words are aligned only where there are tags to place.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from regard.documents.base import Opened, Result, Segment
from regard.documents.job import LOST, Job
from regard.memory import Recall
from regard.tasks.base.lines import WINDOW
from regard.tasks.base.predictor import Progress
from regard.tasks.translation.lines import SHORTEN
from regard.tasks.translation.result import Translation
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Origin
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


def _key(segment: Segment, more: str) -> _Key:
    """Texts that are written alike mean the same only where they are read in the same way."""
    return segment.block.syntax, segment.source, more


@dataclass(slots=True)
class Work:
    """A text that the model translates, and all segments that have it."""

    job: Job
    segment: Segment
    file: str
    flags: list[str] = field(default_factory=list)
    confidence: float | None = None

    def result(self) -> Result:
        text = self.segment.source if self.job.unchanged else self.job.outputs()[0]
        if self.segment.longest is not None and len(_plain(text)) > self.segment.longest:
            self.flags.append(TOO_LONG)
        flags = tuple(dict.fromkeys(self.flags))
        return Result(text=text, origin="model", confidence=self.confidence, flags=flags)


class Plan:
    """What is to be done about the segments of some documents; knows no translator."""

    def __init__(
        self,
        documents: Sequence[Opened],
        before: Sequence[Opened | None] = (),
        names: Sequence[str] = (),
        *,
        memory: Recall | None = None,
        terms: Terms | None = None,
        flags: Flags | None = None,
    ) -> None:
        """`before` are older results, of each document its own, if there is one; `names` are for errors."""
        self.memory, self.terms, self.flags = memory, terms, flags
        self._works: dict[_Key, Work] = {}
        self._planned: list[list[Result | Work | None]] = []
        known = _known(documents)
        older = before or [None] * len(documents)
        for opened, old, name in zip(documents, older, names or ["document"] * len(documents), strict=True):
            there = {**known, **_known([] if old is None else [old], marked=True)}
            self._planned.append([self._plan(each, name, there) for each in opened.segments])

    @property
    def parts(self) -> list[tuple[Job, Work]]:
        """All that is to be translated, and what each belongs to."""
        return [(part, work) for work in self._works.values() for part in work.job.parts]

    def note(self, part: Job, work: Work, found: Translation) -> None:
        """Of a translation that a part has taken: what is to be said of it."""
        work.confidence = min(work.confidence or 1.0, found.confidence)
        said = {LOST: part.bare, EMPTY: not found.text.strip(), UNFINISHED: not found.finished}
        work.flags += [flag for flag, holds in said.items() if holds]
        work.flags += found.flags or ()
        work.flags += [TERM for use in found.terms or () if use.how == "missed"][:1]
        if self.flags is not None:
            work.flags += self.flags(part.view.text, found.text, found)

    def results(self) -> list[list[Result | None]]:
        """For each segment of each document its translation; None for one that stays as it is."""
        done = {id(work): work.result() for work in self._works.values()}
        return [[done[id(each)] if isinstance(each, Work) else each for each in own] for own in self._planned]

    def _plan(self, segment: Segment, file: str, known: dict[_Key, Result]) -> Result | Work | None:
        if segment.state != "new":
            return None
        if (found := known.get(_key(segment, segment.context))) is not None:
            return found
        job = Job(segment.block, self.terms)
        parts = [*job.parts]
        if not parts:
            return Result(text=segment.source, origin="copy")
        if self.memory is not None and (text := self._remembered(job, parts, self.memory)) is not None:
            return Result(text=text, origin="memory")
        return self._works.setdefault(_key(segment, str(segment.longest)), Work(job, segment, file))

    def _remembered(self, job: Job, parts: Sequence[Job], memory: Recall) -> str | None:
        """What a memory has for exactly this text, as the file writes it. It knows no tags, so a text with
        some is for the model."""
        if memory.use != "exact" or len(parts) > 1 or parts[0].view.nodes:
            return None
        match = next((each for each in memory.search(parts[0].view.text) if each.exact), None)
        return job.outputs()[0] if match is not None and parts[0].remember(match.target) else None


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
        self.settings, self.plan = settings or {}, plan

    def translate(
        self,
        documents: Sequence[Opened],
        before: Sequence[Opened | None] = (),
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


def _known(documents: Sequence[Opened], *, marked: bool = False) -> dict[_Key, Result]:
    """Texts that are translated already, by their context; what counts before drafts. `marked`: with all that
    their file says of them."""
    found: dict[_Key, Result] = {}
    for state in ("final", "draft"):
        for opened in documents:
            for each in opened.segments:
                if each.state == state and each.target:
                    mark = each.mark if marked else None
                    result = Result(text=each.target, origin="file", state=each.state, mark=mark)
                    found.setdefault(_key(each, each.context), result)
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
