"""What a command reads: a file, standard input, or texts of the prompt; as lines, or as a table of rows."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

from regard.tasks.base.files import told
from regard.tasks.base.formats import AS_NAMED, FileOptions, Format, format_of
from regard.tasks.base.lines import WINDOW
from regard.text import DataError, Origin
from regard.text.files import LineError, open_bytes, scan, scan_stream
from regard.text.tables import Row, json_objects, split_plain, split_quoted

Item = TypeVar("Item")

SEPARATORS: dict[Format, str] = {"csv": ",", "tsv": "\t"}


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a table, all of it."""

    names: tuple[str, ...]
    """Of its columns; their numbers, where they have no names."""
    cells: tuple[object, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class Rows:
    """A table that is being read."""

    names: tuple[str, ...]
    """Of the columns; in JSON lines, those of the first object."""
    records: Iterator[Record]


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

    def _scanned(self) -> Iterator[str | LineError]:
        if self.texts is not None:
            return iter([line for text in self.texts for line in text.split("\n")])
        encoding = self.options.encoding
        if self.file == "-":
            return scan_stream(sys.stdin.buffer, self.name, encoding=encoding)  # type: ignore[arg-type]
        return scan(self.file, encoding=encoding)

    def _objects(self) -> Rows:
        found = _whole(json_objects(self._scanned(), self.name))
        records = (Record(tuple(plain), tuple(plain.values()), origin) for plain, origin in found)
        first = next(records, None)
        return Rows((), records) if first is None else Rows(first.names, chain([first], records))

    def _delimited(self) -> Rows:
        split = split_quoted if self.format == "csv" else split_plain
        rows = _whole(split(self._scanned(), self.name, self.separator, blank=True))
        if (first := next(rows, None)) is None:
            if self.options.header:
                remedy = "its first row must name the columns"
                raise DataError(Origin(self.name), "an empty table", remedy=remedy)
            return Rows((), iter(()))
        if self.options.header:
            names = tuple(str(cell).strip() for cell in first.cells)
        else:
            names, rows = tuple(map(str, range(len(first.cells)))), chain([first], rows)
        return Rows(names, _records(rows, names))


def source_of(file: str, options: FileOptions = AS_NAMED) -> Source:
    """A file, or "-" for standard input. What is not supported is refused by name, and what is not there."""
    return Source(existing(file), format_of(file, options.format), options)


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


def _records(rows: Iterator[Row], names: tuple[str, ...]) -> Iterator[Record]:
    for row in rows:
        if len(row.cells) != len(names):
            counts = f"({len(row.cells)} cells where the first row has {len(names)})"
            remedy = "fix the row, or check --separator and --format"
            raise DataError(row.origin, "ragged row", counts, remedy)
        yield Record(names, row.cells, row.origin)
