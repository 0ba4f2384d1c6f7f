"""Files of documents, from their names to their names: what `regard translate` does with them.

    regard translate MODEL manual.xlf --out manual.de.xlf       what manual.de.xlf has already is taken over
    regard translate MODEL locale/ --out translated/            each document of a folder

Documents of a run are translated together, and each is written when it is whole.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO, get_args

from rich.console import Console

from regard.config import ConfigError
from regard.documents.base import Opened
from regard.documents.registry import FORMATS, format_of, open_document
from regard.memory import Recall
from regard.tasks.base.formats import TABLES, FileOptions, Format, ending
from regard.tasks.base.outputs import Assignment, write_bytes_whole
from regard.tasks.base.sources import Source, existing, source_of
from regard.tasks.base.terminal import counting, say
from regard.tasks.translation.documents import Carrier, FileReport, Flags, report_of
from regard.tasks.translation.languages import same
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Origin
from regard.text.files import open_bytes
from regard.text.terms import Terms

AT_ONCE = 20_000
"""Segments that are translated before their documents are written."""


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


@dataclass(slots=True)
class _Document:
    assignment: Assignment
    opened: Opened
    before: Opened | None
    to: str | None
    """As the model calls it; None where it writes one language."""
    target_language: str | None

    @property
    def name(self) -> str:
        return self.assignment.source.name

    @property
    def new(self) -> int:
        return sum(each.state == "new" for each in self.opened.segments)


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


def translate_files(
    translator: Translator,
    assignments: Sequence[Assignment],
    out: TextIO,
    options: DocumentOptions,
    *,
    to: str | None = None,
    pair: tuple[str | None, str | None] = (None, None),
    **settings: Any,
) -> list[FileReport]:
    """`pair` are the languages that the model reads and writes, as far as they are known. `settings` are
    those of `Translator.stream`."""
    reports: list[FileReport] = []
    broken = 0
    waiting: list[_Document] = []
    console = Console(stderr=True)
    for each in assignments:
        try:
            waiting.append(_opened(each, translator, options, to, pair))
        except DataError as error:
            if len(assignments) == 1:
                raise
            broken += 1
            say(console, f"error: {error}")
        if sum(document.new for document in waiting) >= AT_ONCE:
            reports += _translate(translator, waiting, out, options, pair, settings)
            waiting = []
    reports += _translate(translator, waiting, out, options, pair, settings)
    for report in reports:
        say(console, report.line())
    if options.report is not None:
        plain = json.dumps([each.to_dict() for each in reports], ensure_ascii=False, indent=1)
        write_bytes_whole(options.report, plain.encode() + b"\n")
    if broken:
        raise ConfigError(f"{broken} of {len(assignments)} files could not be read; the others are done")
    return reports


def _opened(
    each: Assignment,
    translator: Translator,
    options: DocumentOptions,
    to: str | None,
    pair: tuple[str | None, str | None],
) -> _Document:
    source = each.source
    told = to or (translator.languages[0] if len(translator.languages) == 1 else pair[1])
    settings: dict[str, object] = {**options.settings, "target_language": told, "numbers": options.numbers}
    opened = open_document(source.name, _read(source), format=source.document, settings=settings)
    before = None
    if each.target is not None and each.target.exists() and not options.fresh:
        before = open_document(each.target, format=source.document, settings=settings)
    if translator.languages:
        wanted = to or opened.target_language
        code = next((own for own in translator.languages if wanted and same(own, wanted)), wanted)
        (own_code,) = translator.languages_of(code, 1)
    else:
        own_code = None
    _check_languages(source.name, opened, pair[0], own_code or told)
    return _Document(each, opened, before, own_code, opened.target_language or own_code or told)


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
    pair: tuple[str | None, str | None],
    settings: dict[str, Any],
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
            raw = each.opened.write(results, each.target_language)
            if each.assignment.target is None:
                out.flush()
                out.buffer.write(raw)
                out.buffer.flush()
            else:
                write_bytes_whole(each.assignment.target, raw)
            reports.append(report_of(each.name, each.opened, results))
    return reports
