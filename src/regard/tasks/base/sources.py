"""What a command reads: a file, standard input, or texts of the prompt; as lines, or as a table of rows."""

import io
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

from regard.tasks.base.files import told
from regard.tasks.base.formats import AS_NAMED, FileOptions, Format, format_of
from regard.tasks.base.lines import WINDOW
from regard.text import DataError, Origin
from regard.text.charsets import is_utf8
from regard.text.files import LineError, open_bytes, scan, scan_stream
from regard.text.tables import Row, json_objects, mark_in, split_plain, split_quoted

Item = TypeVar("Item")

SEPARATORS: dict[Format, str] = {"csv": ",", "tsv": "\t"}


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a table, all of it."""

    names: tuple[str, ...]
    """Of its columns; their numbers, where they have no names."""
    cells: tuple[object, ...]
    origin: Origin
    raw: str | None = None
    """As it stands in its file, with its line end; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A table that is being read."""

    names: tuple[str, ...]
    """Of the columns; in JSON lines, those of the first object."""
    records: Iterator[Record]
    header: str | None = None
    """The row that names the columns, as it stands in its file; None where there is none."""
    end: str = "\n"
    """Of lines: of the first one."""
    bom: bool = False
    """Whether the file begins with a byte order mark."""


@dataclass(frozen=True, slots=True)
class Source:
    file: str
    """As it was typed; "-" is standard input."""
    format: Format = "lines"
    options: FileOptions = AS_NAMED
    texts: tuple[str, ...] | None = None
    """What was typed itself, instead of a file."""
    document: str | None = None
    """The format of a document that is translated as a whole."""

    @property
    def name(self) -> str:
        """What errors call it."""
        return "the prompt" if self.texts is not None else "standard input" if self.file == "-" else self.file

    @property
    def window(self) -> int:
        """Texts that are read before the first is answered."""
        asked = self.texts is None and self.file == "-" and sys.stdin.isatty()
        return 1 if asked else WINDOW

    @property
    def separator(self) -> str:
        return self.options.separator or SEPARATORS.get(self.format, "")

    def lines(self) -> Iterator[str]:
        try:
            for line in self._scanned():
                if isinstance(line, DataError):
                    raise line
                yield line
        except DataError as error:
            raise told(error, "prompt") from error

    def rows(self) -> Rows:
        """All rows of a table; of lines, each as a table's only cell, which is called text."""
        match self.format:
            case "lines":
                names, numbered = ("text",), enumerate(self.lines(), 1)
                return Rows(names, (Record(names, (line,), Origin(self.name, at)) for at, line in numbered))
            case "jsonl":
                return self._objects()
            case "csv" | "tsv":
                return self._delimited()

    def _scanned(self, ends: "_Ends | None" = None) -> Iterator[str | LineError]:
        if self.texts is not None:
            return iter([line for text in self.texts for line in text.split("\n")])
        encoding = self.options.encoding
        if self.file == "-":
            return scan_stream(sys.stdin.buffer, self.name, encoding=encoding)  # type: ignore[arg-type]
        if ends is not None and is_utf8(encoding):
            return ends.scanned(self.file)
        return scan(self.file, encoding=encoding)

    def _objects(self) -> Rows:
        ends, last = _Ends(), [""]

        def lines() -> Iterator[str | LineError]:
            for line in self._scanned(ends):
                last[0] = str(line)
                yield line

        found = _whole(json_objects(lines(), self.name))
        records = (
            Record(tuple(plain), tuple(plain.values()), origin, ends.of(last[0], origin.line))
            for plain, origin in found
        )
        first = next(records, None)
        if first is None:
            return Rows((), records, None, ends.first, ends.bom)
        return Rows(first.names, chain([first], records), None, ends.first, ends.bom)

    def _delimited(self) -> Rows:
        ends = _Ends()
        split = split_quoted if self.format == "csv" else split_plain
        rows = _whole(split(self._scanned(ends), self.name, self.separator, blank=True))
        if (first := next(rows, None)) is None:
            if self.options.header:
                remedy = "its first row must name the columns"
                raise DataError(Origin(self.name), "an empty table", remedy=remedy)
            return Rows((), iter(()))
        if self.options.header:
            names, header = (
                tuple(str(cell).strip() for cell in first.cells),
                ends.of(first.raw, first.origin.line),
            )
        else:
            names, rows, header = tuple(map(str, range(len(first.cells)))), chain([first], rows), None
        return Rows(names, _records(rows, names, ends), header, ends.first, ends.bom)


class _Ends:
    """Ends of a file's lines, which `scan` leaves out, and its byte order mark."""

    def __init__(self) -> None:
        self.first, self.bom = "\n", False
        self._others: set[int] = set()
        """Lines that end in another way than the first."""

    def scanned(self, file: str) -> Iterator[str | LineError]:
        with open_bytes(file) as stream:
            yield from scan_stream(cast("io.BufferedReader", _Watched(stream, self)), file)

    def note(self, number: int, line: bytes) -> None:
        end = "\r\n" if line.endswith(b"\r\n") else "\n"
        if number == 1:
            self.first, self.bom = end, line.startswith(BOM_UTF8)
        elif end != self.first and line.endswith(b"\n"):  # where the last one has no end, it gets one
            self._others.add(number)

    def of(self, raw: str, number: int) -> str:
        """Lines from this one on, each with its own end."""
        if not self._others and "\n" not in raw:
            return raw + self.first
        other = "\n" if self.first == "\r\n" else "\r\n"
        lines = enumerate(raw.split("\n"), number)
        return "".join([line + (other if at in self._others else self.first) for at, line in lines])


class _Watched:
    """A stream whose lines are noted."""

    def __init__(self, stream: io.BufferedReader, ends: _Ends) -> None:
        self._stream, self._ends, self._number = stream, ends, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def readline(self, size: int = -1) -> bytes:
        line = self._stream.readline(size)
        self._number += 1
        self._ends.note(self._number, line)
        return line


def source_of(file: str, options: FileOptions = AS_NAMED) -> Source:
    """A file, or "-" for standard input. What is not supported is refused by name, and what is not there."""
    return Source(existing(file), format_of(file, options.format), options)


def separator_in(names: Sequence[str], source: Source) -> str | None:
    """What probably parts the cells of a table, where there is a single column."""
    if source.format not in SEPARATORS or source.options.separator is not None:
        return None
    return mark_in(names, source.separator)


def existing(file: str) -> str:
    """The same name, or an error if there is no such file. It is opened only if it seems so: what comes out
    of a pipe could not be read twice."""
    if file != "-" and not Path(file).exists():
        with open_bytes(file):  # raises, unless it is in an archive
            pass
    return file


def _whole(found: Iterator[Item | DataError]) -> Iterator[Item]:
    try:
        for each in found:
            if isinstance(each, DataError):
                raise each
            yield each
    except DataError as error:
        raise told(error, "prompt") from error


def _records(rows: Iterator[Row], names: tuple[str, ...], ends: _Ends) -> Iterator[Record]:
    for row in rows:
        if len(row.cells) != len(names):
            counts = f"({len(row.cells)} cells where the first row has {len(names)})"
            remedy = "fix the row, or check --separator and --format"
            raise DataError(row.origin, "ragged row", counts, remedy)
        yield Record(names, row.cells, row.origin, ends.of(row.raw, row.origin.line))
