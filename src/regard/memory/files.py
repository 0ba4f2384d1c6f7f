"""Memories as files: TMX, TSV and CSV, in and out; XLIFF and PO in.

A table has a text and its translation in its first two columns or, with a header, under the names `source`
and `target` (or their languages: en, de-DE), and then maybe source_language, target_language, date and
author.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

from regard.config import ConfigError
from regard.disk import full_disk, own_partial
from regard.memory.documents import is_bilingual, scan_document
from regard.memory.rows import ending, scan_rows
from regard.memory.segments import Imported, Segment
from regard.memory.store import Memory
from regard.text.records import DataError, OnError, Origin, Skipped, sift
from regard.text.tmx import (
    MACHINE,
    Tags,
    Unit,
    Variant,
    normal_date,
    normal_language,
    same_language,
    scan_tmx,
    write_tmx,
)

COLUMNS = ("source", "target", "source_language", "target_language", "date", "author")
ENDINGS = (".tmx", ".tsv", ".csv")
_BETWEEN = re.compile(r"[\t\r\n]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportSettings:
    source: str | None = None
    """The source language. Of TMX, unless given, the one that the file names as such."""
    target: str | None = None
    """The target language. Of TMX, unless given, every other."""
    tags: Tags = "drop"
    """Inline tags of TMX: dropped, or kept as the code that they stand for."""
    keep_all: bool = False
    """Keep every translation of a text, not the newest alone."""
    on_error: OnError = "raise"
    """A broken record: stop, and change nothing; or skip it, and count it."""
    encoding: str | None = None
    """Of the file; unless given, UTF-8, or what TMX says itself."""
    separator: str | None = None
    """Between the cells of a table, where it is no tab (TSV) or comma (CSV)."""


@dataclass(slots=True)
class Outcome:
    imported: Imported
    skipped: Skipped = field(default_factory=Skipped)
    left: Counter[str] = field(default_factory=Counter)
    """Translations of a document that a memory cannot have, by the reason."""


def import_file(
    path: str | Path,
    memory: str | Path,
    settings: ImportSettings | None = None,
    *,
    progress: Callable[[int], object] | None = None,
) -> Outcome:
    """All segments of a file into a memory, which is begun if it is not there; in one transaction."""
    settings = settings or ImportSettings()
    left = Counter[str]()
    segments = read_segments(path, settings, left)
    first = [*islice(segments, 1)]  # so that a file that cannot be read begins no memory
    skipped = Skipped()
    with Memory(memory, create=True) as opened, full_disk(memory):
        whole = sift(chain(first, segments), settings.on_error, skipped)
        found = opened.add(whole, keep_all=settings.keep_all, progress=progress)
    return Outcome(found, skipped, left)


def read_segments(
    path: str | Path, settings: ImportSettings, left: Counter[str]
) -> Iterator[Segment | DataError]:
    """Of a TMX, TSV or CSV file, or of a translated document; its name tells which. `left` counts what a
    document has that a memory cannot have."""
    kind = ending(path)
    if kind not in ENDINGS and is_bilingual(str(path)):
        return scan_document(str(path), settings.source, settings.target, left)
    if kind not in ENDINGS:
        raise ConfigError(f"{path}: a memory is read from {', '.join(ENDINGS)}, .xlf and .po (packed or not)")
    return _from_tmx(path, settings) if kind == ".tmx" else _from_table(path, settings)


def _from_tmx(path: str | Path, settings: ImportSettings) -> Iterator[Segment | DataError]:
    present: set[str] = set()
    found = False
    for unit in scan_tmx(path, tags=settings.tags, encoding=settings.encoding):
        if isinstance(unit, DataError):
            yield unit
            continue
        if not (settings.source or unit.source):
            raise DataError(
                unit.origin,
                "the file does not say which language is the source",
                remedy=f"give --source, one of {', '.join(each.language for each in unit.variants)}",
            )
        own = unit.variant(settings.source or unit.source)
        if len(present) < 20:
            present |= {each.language for each in unit.variants if each.language}
        for other in _targets(unit, own, settings.target):
            fault = unit.fault(own, other)
            found = found or fault is not None or other is not None
            if fault is not None:
                yield fault
            elif own is not None and other is not None and MACHINE not in (own.author, other.author):
                date, author = other.date or own.date, other.author or own.author
                yield Segment(own.text, other.text, own.language, other.language, date, author)
    if present and not found:
        languages = f"{settings.source or 'the source language'!r} and {settings.target or 'another'!r}"
        remedy = f"there is {', '.join(sorted(present))}"
        raise DataError(Origin(str(path)), f"no unit has {languages}", remedy=remedy)


def _targets(unit: Unit, own: Variant | None, target: str | None) -> Sequence[Variant | None]:
    """What is to be learned of a unit: its variants of this language or, without one, of all others than the
    source's; None for one that is not there."""
    if own is None or own.fault is not None:
        return (None,)
    others = [
        each for each in unit.variants if normal_language(each.language) != normal_language(own.language)
    ]
    if target is not None:
        return [each for each in others if same_language(each.language, target)] or (None,)
    return [each for each in others if each.language and not same_language(each.language, own.language)]


def _from_table(path: str | Path, settings: ImportSettings) -> Iterator[Segment | DataError]:
    rows = scan_rows(
        path,
        {name: {name} for name in COLUMNS},
        COLUMNS[:2],
        languages=(settings.source, settings.target),
        encoding=settings.encoding or "utf-8",
        separator=settings.separator,
    )
    for row in rows:
        if isinstance(row, DataError):
            yield row
            continue
        cells = row.cells
        languages = cells["source_language"] or settings.source, cells["target_language"] or settings.target
        if not all(languages):
            raise ConfigError(f"{row.origin}: of which languages? Give --source and --target")
        if not (cells["source"] and cells["target"]):
            yield DataError(row.origin, "an empty cell", "where a text and its translation are needed")
            continue
        try:
            date = normal_date(cells["date"])
        except ValueError:
            yield DataError(row.origin, "a date that is not YYYYMMDDTHHMMSSZ", f"({cells['date']!r:.40})")
            continue
        yield Segment(
            cells["source"], cells["target"], str(languages[0]), str(languages[1]), date, cells["author"]
        )


def export_file(
    memory: str | Path, path: str | Path, *, source: str | None = None, target: str | None = None
) -> int:
    """All segments, or those of these languages, into a TMX, TSV or CSV file: whole, or not at all. How
    many."""
    kind = Path(path).suffix.lower()
    if kind not in ENDINGS:
        raise ConfigError(f"{path}: a memory is written to {', '.join(ENDINGS)}")
    with Memory(memory) as opened, _replacing(Path(path)) as out:
        segments = opened.segments(source, target)
        if kind == ".tmx":
            return write_tmx(out, map(_unit, segments), source=normal_language(source) if source else "*all*")
        return _write_table(out, segments, kind)


def _unit(segment: Segment) -> Unit:
    here = Origin("memory")
    variants = (
        Variant(segment.source_language, segment.source, here),
        Variant(segment.target_language, segment.target, here),
    )
    return Unit(variants, here, segment.date, segment.author, segment.source_language)


def _write_table(out: TextIO, segments: Iterator[Segment], kind: str) -> int:
    """CSV holds every text as it is; in TSV, tabs and line breaks inside a text become spaces."""
    written = csv.writer(out, lineterminator="\n")
    count = 0
    if kind == ".csv":
        written.writerow(COLUMNS)
    else:
        out.write("\t".join(COLUMNS) + "\n")
    for count, each in enumerate(segments, 1):  # noqa: B007  # what is counted is what was written
        row = [getattr(each, name) for name in COLUMNS]
        if kind == ".csv":
            written.writerow(row)
        else:
            out.write("\t".join(_BETWEEN.sub(" ", cell) for cell in row) + "\n")
    return count


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    """A file that has its name when it is whole."""
    partial = own_partial(path.with_name(f".{path.name}"))
    try:
        with full_disk(path), partial.open("w", encoding="utf-8", newline="") as out:
            yield out
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
