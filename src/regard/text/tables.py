"""Rows of TSV, CSV and JSON lines: the wanted columns of each, with the line where the row starts."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from regard.text.charsets import check_encoding, check_separator
from regard.text.files import COMPRESSED, LONGEST, LineError, did_you_mean, scan
from regard.text.records import DataError, Origin

Format = Literal["tsv", "csv", "jsonl", "parquet", "arrow"]

Column = str | int
"""A column by its name, or by its place, counted from 0."""

_SUFFIXES: dict[str, Format] = {f".{format}": format for format in get_args(Format)} | {".ndjson": "jsonl"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A file of rows, for when its name does not tell how to read it. Blank lines are no rows."""

    path: str | Path
    format: Format | None = None
    """None: known by the suffix, under that of the compression. A folder is a saved Hugging Face data set."""
    separator: str | None = None
    """Between the cells of TSV (where it is a tab) and CSV (a comma)."""
    encoding: str = "utf-8"
    """Of TSV, CSV and JSON lines, as Python calls it."""
    quoted: bool | None = None
    """Whether quotation marks enclose cells, which may then hold separators and newlines. None: in CSV they
    do, in TSV they are text like any other."""
    cells: int | None = None
    """Of a row without quotes: the last takes the rest of the line, separators and all. None: the first row
    tells how many there are."""
    header: bool | None = None
    """Whether the first row of TSV or CSV names the columns. None: it does if a column is given by name."""
    longest: int = LONGEST
    """The most bytes a line may have, and the most characters a quoted row."""

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in get_args(Format):
            raise ValueError(f"format={self.format!r} is unknown: choose from {', '.join(get_args(Format))}")
        object.__setattr__(self, "separator", check_separator(self.separator))
        check_encoding(self.encoding)
        if self.cells is not None and (self.cells < 1 or self.quoted):
            raise ValueError(f"cells={self.cells} must be at least 1, in a table with quoted=False")

    def resolve_format(self) -> Format:
        if self.format is not None:
            return self.format
        path = Path(self.path)
        if path.is_dir():
            return "arrow"
        name = path.with_suffix("") if path.suffix in COMPRESSED else path
        if name.suffix.lower() not in _SUFFIXES:
            remedy = f"pass format=, one of {', '.join(get_args(Format))}"
            raise DataError(Origin(str(path)), "a table of unknown format", remedy=remedy)
        return _SUFFIXES[name.suffix.lower()]


@dataclass(frozen=True, slots=True)
class Row:
    """The wanted cells of a row, in the order wanted."""

    cells: tuple[object, ...]
    origin: Origin
    raw: str = ""
    """All of it, as it stands in its file; with a line feed between its lines."""


def scan_delimited(table: Table, columns: Sequence[Column]) -> Iterator[Row | DataError]:
    """Rows of TSV or CSV; every row must have as many cells as the first."""
    csv = table.resolve_format() == "csv"
    separator = table.separator or ("," if csv else "\t")
    quoted = csv and table.cells is None if table.quoted is None else table.quoted
    lines = scan(table.path, table.longest, encoding=table.encoding)
    if quoted:
        split_rows = split_quoted(lines, str(table.path), separator, longest=table.longest)
    else:
        split_rows = split_plain(lines, str(table.path), separator, cells=table.cells)
    header = any(isinstance(column, str) for column in columns) if table.header is None else table.header

    places: list[int] | None = None
    width = 0
    for row in split_rows:
        if places is None:
            # The first row tells where the columns are: nothing can be read without it.
            if isinstance(row, DataError):
                raise row
            names = [str(cell) for cell in row.cells]
            width = len(names)
            places = [_place(column, names, row.origin, header, separator) for column in columns]
            if header:
                continue
        if isinstance(row, DataError):
            yield row
        elif len(row.cells) != width:
            particulars = f"({len(row.cells)} cells where the first row has {width})"
            yield DataError(row.origin, "ragged row", particulars)
        else:
            cells = row.cells
            yield Row(tuple([cells[place] for place in places]), row.origin)
    if places is None and header:
        remedy = "its first row must name the columns: get the file again"
        raise DataError(Origin(str(table.path)), "no header", remedy=remedy)


def scan_json_lines(table: Table, columns: Sequence[Column]) -> Iterator[Row | DataError]:
    """Rows of JSON, one object a line."""
    lines = scan(table.path, table.longest, encoding=table.encoding)
    for found in json_objects(lines, str(table.path)):
        yield found if isinstance(found, DataError) else pick(found[0], columns, found[1])


def json_objects(
    lines: Iterable[str | LineError], file: str, first: int = 1
) -> Iterator[tuple[dict[str, object], Origin] | DataError]:
    """The object of each line that is not blank; `first` is the number of the first."""
    for number, line in enumerate(lines, first):
        if isinstance(line, DataError):
            yield line
        elif number == 1 and line.lstrip().startswith("["):
            raise DataError(Origin(file), "a JSON array", remedy="one object a line is needed: jq -c '.[]'")
        elif line.strip():
            origin = Origin(file, number)
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as error:  # also for numbers of thousands of digits
                yield DataError(origin, "invalid JSON", f"({error})")
                continue
            if isinstance(found, dict):
                yield found, origin
            else:
                yield DataError(origin, "not a JSON object", f"but {type(found).__name__}")


def pick(mapping: Mapping[str, object], columns: Sequence[Column], origin: Origin) -> Row | DataError:
    """The wanted values of a row that knows its columns by name."""
    cells = []
    for column in columns:
        if not isinstance(column, str):
            raise ValueError(f"column {column!r} is a place, but {origin.file} has names only: pass a name")
        if column not in mapping:
            remedy = did_you_mean(column, list(mapping)) + '; or pass on_error="skip"'
            return DataError(origin, f"no column {column!r}", remedy=remedy)
        cells.append(mapping[column])
    return Row(tuple(cells), origin)


def _place(column: Column, names: list[str], origin: Origin, header: bool, separator: str) -> int:
    if isinstance(column, int):
        if not 0 <= column < len(names):
            remedy = f"the columns are 0 to {len(names) - 1}: check the number and the separator"
            remedy += _hint(names, separator)
            raise DataError(origin, f"no column {column}", remedy=remedy)
        return column
    if not header:
        raise ValueError(
            f"column {column!r} has a name, but header=False says that there are none: pass its place"
        )
    if column not in names:
        remedy = did_you_mean(column, names) + _hint(names, separator)
        remedy += "; if there is no header, pass a place: 0 is the first"
        raise DataError(origin, f"no column {column!r}", remedy=remedy)
    if names.count(column) > 1:
        raise DataError(origin, f"several columns {column!r}", remedy="pass its place and header=True")
    return names.index(column)


def mark_in(names: Sequence[str], separator: str) -> str | None:
    """What probably parts the cells instead, where there is a single one."""
    if len(names) != 1:
        return None
    return next((mark for mark in "\t;,|" if mark in names[0] and mark != separator), None)


def _hint(names: Sequence[str], separator: str) -> str:
    mark = mark_in(names, separator)
    return "" if mark is None else f"; the cells are parted by {separator!r}: pass separator={mark!r}"


def split_plain(
    lines: Iterable[str | LineError],
    file: str,
    separator: str,
    *,
    cells: int | None = None,
    blank: bool = False,
    first: int = 1,
    width: int = 0,
) -> Iterator[Row | DataError]:
    """All cells of each row, in which quotation marks are text like any other. With `blank`, a blank line
    below a row of one cell is a row too, whose cell is empty. Lines from further down in a file: `first` is
    the number of the first, `width` how many cells the rows above have."""
    most = -1 if cells is None else cells - 1
    for number, line in enumerate(lines, first):
        if isinstance(line, DataError):
            yield line
        elif line or (blank and width == 1):
            row = Row(tuple(line.split(separator, most)), Origin(file, number), line)
            width = width or len(row.cells)
            yield row


def split_quoted(
    lines: Iterable[str | LineError],
    file: str,
    separator: str,
    *,
    longest: int = LONGEST,
    blank: bool = False,
    first: int = 1,
    width: int = 0,
) -> Iterator[Row | DataError]:
    """All cells of each row, which may be quoted, and then may hold newlines; `blank`, `first` and `width` as
    in `split_plain`.

    A stray quote swallows what follows: up to the limit, or up to the next quote, where text behind it or a
    wrong number of cells gives it away. Then only the line that opened it counts as broken, and reading goes
    on with the next one.
    """
    numbered = numbered_quoted(lines, file, separator, longest=longest, blank=blank, first=first, width=width)
    return (found for _, found in numbered)


def numbered_quoted(
    lines: Iterable[str | LineError],
    file: str,
    separator: str,
    *,
    longest: int = LONGEST,
    blank: bool = False,
    first: int = 1,
    width: int = 0,
) -> Iterator[tuple[int, Row | DataError]]:
    """The same, each with the number of the line that it begins in."""
    numbered = enumerate(lines, first)
    again: deque[tuple[int, str | LineError]] = deque()

    def following() -> tuple[int, str | LineError] | None:
        return again.popleft() if again else next(numbered, None)

    while (opening_line := following()) is not None:
        number, line = opening_line
        if line == "" and not (blank and width == 1):
            continue
        row = _QuotedRow(separator, Origin(file, number))
        row.add(line)
        opening, row.error, row.misplaced = row.error, None, False
        size = _size(line)
        swallowed = []
        while row.open and size <= longest and (more := following()) is not None:
            row.add(more[1])
            size += _size(more[1])
            swallowed.append(more)
        width = width or len(row.cells)
        error = opening or row.error
        ragged = not isinstance(error, LineError) and len(row.cells) != width
        if row.open:
            again.extendleft(reversed(swallowed))
            yield number, opening or DataError(row.origin, "a quote that never closes")
        elif swallowed and (ragged or row.misplaced):
            again.extendleft(reversed(swallowed))
            last = f"(on line {swallowed[-1][0]})"
            yield number, opening or DataError(row.origin, "a quote that closes in the wrong place", last)
        else:
            raw = "\n".join([str(each) for _, each in (opening_line, *swallowed)]) if swallowed else str(line)
            yield number, error or Row(tuple(row.cells), row.origin, raw)


class _QuotedRow:
    """A row that takes lines until no quote is open."""

    def __init__(self, separator: str, origin: Origin) -> None:
        self.separator, self.origin = separator, origin
        self.cells: list[str] = []
        self.open: list[str] = []
        """The lines so far of the cell whose quote is open."""
        self.misplaced = False
        """Whether there is text behind a closing quote."""
        self.error: DataError | None = None

    def add(self, line: str | LineError) -> None:
        if isinstance(line, LineError):
            self.error = self.error or line
            if line.quotes % 2:
                self.open = [] if self.open else [""]
        elif self.open or '"' in line:
            self._add_quoted(line)
        else:
            self.cells = line.split(self.separator)

    def _add_quoted(self, line: str) -> None:
        start = 0
        while start <= len(line):
            opens = not self.open and line.startswith('"', start)
            if self.open or opens:
                start += opens
                close = _find_closing_quote(line, start)
                if close < 0:
                    self.open.append(line[start:])
                    return
                self.cells.append("\n".join([*self.open, line[start:close]]).replace('""', '"'))
                self.open = []
                end = _find(line, self.separator, close + 1)
                if end > close + 1:
                    self.misplaced = True
                    problem = f"in cell {len(self.cells)}"
                    self.error = self.error or DataError(self.origin, "text after a closing quote", problem)
            else:
                end = _find(line, self.separator, start)
                self.cells.append(line[start:end])
            start = end + 1


def _find(line: str, separator: str, start: int) -> int:
    """The next separator, or the line's end."""
    found = line.find(separator, start)
    return len(line) if found < 0 else found


def _find_closing_quote(line: str, start: int) -> int:
    """The first quotation mark that is not doubled; -1 if there is none."""
    found = line.find('"', start)
    while found >= 0 and line.startswith('"', found + 1):
        found = line.find('"', found + 2)
    return found


def _size(line: str | LineError) -> int:
    return len(line) + 1 if isinstance(line, str) else 1000  # about what an error takes in memory
