"""Files of documents, from their names to their names: what `regard translate` does with them.

    regard translate MODEL manual.xlf --out manual.de.xlf       what manual.de.xlf has already is taken over
    regard translate MODEL page.html --out seite.html           so it is here, by .seite.html.sources
    regard translate MODEL locale/ --out translated/            each document of a folder

Documents of a run are translated together, and each is written when it is whole. One that cannot be read or
written does not stop the others.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO, get_args

from rich.console import Console

from regard.config import ConfigError
from regard.documents.base import Opened, Result, Segment
from regard.documents.earlier import Sources, sources_beside
from regard.documents.registry import FORMATS, format_of, open_document
from regard.memory import Recall
from regard.tasks.base.formats import REFUSED, TABLES, FileOptions, Format, ending
from regard.tasks.base.outputs import Assignment, BrokenFilesError, write_bytes_whole
from regard.tasks.base.sources import Source, existing, source_of
from regard.tasks.base.terminal import counting, say
from regard.tasks.translation.documents import Carrier, FileReport, Flags, Older, report_of
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Origin
from regard.text.files import open_bytes
from regard.text.languages import known, same
from regard.text.terms import Terms

AT_ONCE = 20_000
"""Segments that are translated before their documents are written."""
BYTES_AT_ONCE = 64 * 1024 * 1024
FILES_AT_ONCE = 500
"""Documents that are held until these are full, whatever there is to translate in them."""
_BEFORE_ROOT = re.compile(rb"<!--.*?-->|<\?.*?\?>", re.DOTALL)
_ROOT = re.compile(rb"<(?:!DOCTYPE\s+)?([A-Za-z_][\w:.-]*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentOptions:
    fresh: bool = False
    """Nothing is taken from what is there already."""
    report: Path | None = None
    """A JSON file."""
    numbers: bool = False
    """These stay as they are."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the format."""
    memory: Recall | None = None
    terms: Terms | None = None
    flags: Flags | None = None


@dataclass(frozen=True, slots=True)
class _Earlier:
    """What an earlier run wrote."""

    segments: Sequence[Segment] = ()
    whole: bool = False
    """There is nothing to do: it was made from what is there now."""


@dataclass(slots=True)
class _Document:
    assignment: Assignment
    raw: bytes
    opened: Opened
    before: Older | None
    to: str | None
    """As the model calls it; None where it writes one language."""
    target_language: str | None

    @property
    def name(self) -> str:
        return self.assignment.source.name

    @property
    def new(self) -> int:
        return sum(each.state == "new" for each in self.opened.segments)

    def write(self, results: Sequence[Result | None], out: TextIO) -> None:
        """Where it belongs, and beside it what it was made from, unless it says so itself."""
        target = self.assignment.target
        if isinstance(self.before, _Earlier) and self.before.whole:
            return
        raw = self.opened.write(results, self.target_language)
        if target is None:
            out.flush()
            out.buffer.write(raw)
            out.buffer.flush()
            return
        write_bytes_whole(target, raw)
        if _tells(self.assignment) != "sources" and target.is_file():  # nothing is kept of a pipe
            Sources.of(self.raw, self.opened, results, self.target_language).write(target)


def _tells(each: Assignment) -> str:
    return FORMATS[str(each.source.document)].tells


def read_as(format: str | None, files: FileOptions) -> tuple[FileOptions, str | None]:
    """What --format says: how lines and tables are read, or the format of documents."""
    if format is None:
        return files, None
    if format in get_args(Format):
        return replace(files, format=format), None  # type: ignore[arg-type]
    if format not in FORMATS:
        known = ", ".join([*get_args(Format), *FORMATS])
        raise ConfigError(f"--format {format} is none of {known}")
    return files, format


def source_or_document(file: str, options: FileOptions, document: str | None = None) -> Source:
    """Lines, a table, or a document that is translated as a whole."""
    plain = options.format is not None or ending(file) in TABLES
    document = document or (None if plain or file == "-" else format_of(file))
    if document is None:
        return source_of(file, options)
    return Source(existing(file), "lines", options, document=document)


def is_meant(file: str, reads: str | None) -> bool:
    """Whether a file of a folder is a document, a table or plain text: its name says so, or ends in
    the language that is read. What is refused by name is to be told; XML may be anything."""
    kind, document = ending(file), format_of(file)
    if document == "android":
        return _root(file) in ("resources", None)
    if document is not None or kind in ("", ".txt", ".text") or kind in TABLES or kind in REFUSED:
        return True
    return known(kind[1:]) and (reads is None or same(kind[1:], reads))


def _root(file: str) -> str | None:
    """What the root of an XML file is called; None where that cannot be told."""
    try:
        with open_bytes(file) as stream:
            begins = stream.read(1 << 16).replace(b"\0", b"")
    except (DataError, OSError):
        return None
    found = _ROOT.search(_BEFORE_ROOT.sub(b"", begins))
    return None if found is None else found[1].decode()


def translate_files(
    translator: Translator,
    assignments: Sequence[Assignment],
    out: TextIO,
    options: DocumentOptions,
    *,
    to: str | None = None,
    pair: tuple[str | None, str | None] = (None, None),
    beside: bool = False,
    **settings: Any,
) -> list[FileReport]:
    """`pair` are the languages that the model reads and writes, as far as they are known; `beside`: there are
    other files too. `settings` are those of `Translator.stream`."""
    reports: list[FileReport] = []
    waiting: list[_Document] = []
    console = Console(stderr=True)
    trouble = _Trouble(console, alone=len(assignments) == 1 and not beside)
    for each in assignments:
        with trouble.told():
            waiting.append(_opened(each, translator, options, to, pair, console))
        if _full(waiting):
            reports += _translate(translator, waiting, out, options, settings, trouble)
            waiting = []
    reports += _translate(translator, waiting, out, options, settings, trouble)
    for report in reports:
        say(console, report.line())
    if options.report is not None:
        plain = json.dumps([each.to_dict() for each in reports], ensure_ascii=False, indent=1)
        write_bytes_whole(options.report, plain.encode() + b"\n")
    if trouble.count:
        counts = f"{trouble.count} of {len(assignments)} files"
        raise BrokenFilesError(f"{counts} could not be read or written; the others are done")
    return reports


def _full(waiting: Sequence[_Document]) -> bool:
    new, size = (sum(each.new for each in waiting), sum(len(each.raw) for each in waiting))
    return new >= AT_ONCE or size >= BYTES_AT_ONCE or len(waiting) >= FILES_AT_ONCE


@dataclass(slots=True)
class _Trouble:
    """Files that could not be read or written: told one by one, unless there is only one anyway."""

    console: Console
    alone: bool
    count: int = 0

    @contextmanager
    def told(self) -> Iterator[None]:
        try:
            yield
        except (DataError, OSError) as error:
            if self.alone:
                raise
            self.count += 1
            say(self.console, f"error: {error}")


def _opened(
    each: Assignment,
    translator: Translator,
    options: DocumentOptions,
    to: str | None,
    pair: tuple[str | None, str | None],
    console: Console,
) -> _Document:
    source, raw = each.source, _read(each.source)
    told = to or (translator.languages[0] if len(translator.languages) == 1 else pair[1])
    settings: dict[str, object] = {**options.settings, "target_language": told, "numbers": options.numbers}
    opened = open_document(source.name, raw, format=source.document, settings=settings)
    if translator.languages:
        wanted = to or opened.target_language
        code = next((own for own in translator.languages if wanted and same(own, wanted)), wanted)
        (own_code,) = translator.languages_of(code, 1)
    else:
        own_code = None
    _check_languages(source.name, opened, pair[0], own_code or told)
    language = opened.target_language or own_code or told
    # what no translation could be written into is told before there is one
    opened.write(
        [Result(text=own.source) if own.state == "new" else None for own in opened.segments], language
    )
    before: Older | None = None
    if each.target is not None and each.target.is_file() and not options.fresh:
        sources = None if _tells(each) == "sources" else Sources.read(each.target)
        if _tells(each) == "sources":
            # what is fuzzy there is what an earlier run wrote, or somebody's mend of it
            kept = {name: value for name, value in settings.items() if name != "fuzzy"}
            before = _old(each.target, source.document, kept)
        elif sources is not None and sources.language == language:
            before = _earlier(each, sources, raw, opened, settings, console)
        else:
            beside = sources_beside(each.target).name
            why = f"no {beside} says what it is made from" if sources is None else "it is in another language"
            say(console, f"{each.target}: nothing is taken from it, {why}")
    return _Document(each, raw, opened, before, own_code, language)


def _old(target: Path, document: str | None, settings: Mapping[str, object]) -> Opened:
    """Somebody may have mended it: what cannot be read is not written over."""
    try:
        return open_document(target, format=document, settings=settings)
    except DataError as error:
        remedy = "mend it, or pass --fresh to write it anew"
        raise DataError(error.origin, error.reason, error.particulars, remedy) from error


def _earlier(
    each: Assignment,
    sources: Sources,
    raw: bytes,
    opened: Opened,
    settings: Mapping[str, object],
    console: Console,
) -> _Earlier:
    target, named = Path(str(each.target)), _tells(each) == "keys"
    if sources.became is not None:
        settings = {**settings, "encoding": sources.became}
    found = sources.paired(_old(target, each.source.document, settings), named=named)
    if sources.whole(raw, opened) and (not named or len(found) == len(sources.rows)):
        there = zip(opened.segments, sources.rows, strict=True)
        return _Earlier([replace(own, target=text, state="final") for own, (*_, text) in there], whole=True)
    if len(found) < len(sources.rows):
        lost = f"{len(sources.rows) - len(found):,} of {len(sources.rows):,} segments"
        say(console, f"{target}: {lost} are not found in it again; they are translated anew")
    return _Earlier(found)


def _read(source: Source) -> bytes:
    if source.file == "-":
        return sys.stdin.buffer.read()
    with open_bytes(source.file) as stream:
        return stream.read()


def _check_languages(file: str, opened: Opened, reads: str | None, writes: str | None) -> None:
    for what, said, model in (
        ("source", opened.source_language, reads),
        ("target", opened.target_language, writes),
    ):
        if said and model and not same(said, model):
            told = f"the file says {said!r}, the model has {model!r}"
            raise DataError(
                Origin(file), f"another {what} language:", told, "take another model, or mend the file"
            )


def _translate(
    translator: Translator,
    documents: Sequence[_Document],
    out: TextIO,
    options: DocumentOptions,
    settings: dict[str, Any],
    trouble: _Trouble,
) -> list[FileReport]:
    reports = []
    for to in dict.fromkeys(each.to for each in documents):
        own = [each for each in documents if each.to == to]
        with counting("texts") as advance:
            carrier = Carrier(
                translator,
                memory=options.memory,
                terms=options.terms,
                flags=options.flags,
                progress=advance,
                settings={**settings, "to": to},
            )
            before = [each.before for each in own]
            found = carrier.translate([each.opened for each in own], before, [each.name for each in own])
        for each, results in zip(own, found, strict=True):
            with trouble.told():
                each.write(results, out)
                reports.append(report_of(each.name, each.opened, results))
                for note in getattr(each.opened, "notes", ()):
                    say(trouble.console, note)
    return reports
