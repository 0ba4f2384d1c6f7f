"""A table in, the same table out with more columns: every row as it is, in its order.

    text,stars             text,stars,label,probability
    "Good, really",5       "Good, really",5,positive,0.98
    ,3                     ,3,,

Where a text is empty, so is what is said of it. A column that is there already is never written over: what is
new gets `predicted_` before its name. Lists and objects are JSON in the cells of CSV and TSV, and TSV has a
space where a cell has a tab or a newline. No more than a window of rows is held in memory.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TextIO

from regard.tasks.base.formats import Format
from regard.tasks.base.predictor import Progress
from regard.tasks.base.sources import SEPARATORS, Record, Rows, Source, separator_in
from regard.text import DataError, Origin
from regard.text.files import did_you_mean
from regard.text.readers import check_text

MARK = "predicted_"
"""Before the name of a new column, where a table has one of that name."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A column of texts that a model reads."""

    given: str | None
    """Its name or its number, where that was said."""
    option: str = "--column"
    """How it is said."""
    names: tuple[str, ...] = ("text", "sentence")
    """What it may be called, where nothing is said; or it is the only one."""
    words: bool = False
    """Whether JSON may have a list of words instead of a text."""

    def place(self, rows: Rows, source: Source) -> int:
        names, listed = rows.names, ", ".join(map(repr, rows.names))
        if self.given is not None:
            if names.count(self.given) == 1:
                return names.index(self.given)
            if self.given.isdecimal() and int(self.given) < len(names):
                return int(self.given)
            if names.count(self.given) > 1:
                raise self._error(source, f"several columns {self.given!r}", f"give {self.option} its number")
            raise self._error(source, f"no column {self.given!r}", did_you_mean(self.given, names))
        for name in self.names:
            if names.count(name) == 1:
                return names.index(name)
        if len(names) == 1 and (other := separator_in(names, source)) is not None:
            remedy = f"if {other!r} parts them, give --separator {other!r}; else {self.option} 0"
            raise self._error(source, f"a single column {names[0]!r:.60}", remedy)
        if len(names) == 1:
            return 0
        remedy = f"give {self.option}, one of {listed}, or its number from 0"
        raise self._error(source, f"no column {' or '.join(map(repr, self.names))}", remedy)

    def _error(self, source: Source, reason: str, remedy: str) -> DataError:
        return DataError(Origin(source.name), reason, remedy=remedy)


class Texts:
    """The texts of a table's rows."""

    def __init__(self, wanted: Wanted, rows: Rows, source: Source) -> None:
        self._wanted, self._names = wanted, rows.names
        self._place = wanted.place(rows, source) if rows.names else 0

    @property
    def name(self) -> str:
        """Of the column."""
        return self._names[self._place]

    def of(self, record: Record) -> Any:
        """A text, empty for null; or a list of words, where there may be one."""
        place, name = self._place, self._names[self._place]
        if record.names != self._names:
            if name not in record.names:
                remedy = did_you_mean(name, record.names)
                raise DataError(record.origin, f"no column {name!r}", remedy=remedy)
            place = record.names.index(name)
        cell = record.cells[place]
        if cell is None:
            return ""
        if self._wanted.words and isinstance(cell, list) and all(isinstance(word, str) for word in cell):
            return cell
        try:
            return check_text(cell, record.origin, name)
        except DataError as error:
            remedy = f"fix it, or choose another column with {self._wanted.option}"
            raise DataError(error.origin, error.reason, error.particulars, remedy) from error


class TableWriter:
    """Rows as they were, and behind them the columns that are new."""

    def __init__(self, out: TextIO, format: Format, source: Source, rows: Rows, added: Sequence[str]) -> None:
        self._out, self._format, self._names = out, format, rows.names
        self._same = source.format == format
        self._end = rows.end if self._same else "\n"
        if rows.bom and self._same:
            out.write("\ufeff")
        self.added: tuple[str, ...] = ()
        """What the new columns are called."""
        for name in added:
            self.added += (free_name(name, {*rows.names, *self.added}),)
        self._cells: Any = None
        if format in SEPARATORS:
            separator = source.separator if source.format == format else SEPARATORS[format]
            how: Any = {"quoting": csv.QUOTE_NONE, "quotechar": None} if format == "tsv" else {}
            self._breaks = re.compile(rf"\r\n|[\r\n{re.escape(separator)}]")
            self._cells = csv.writer(out, delimiter=separator, lineterminator=self._end, **how)
            if source.options.header or source.format not in SEPARATORS:
                self._write(rows.names, self.added, rows.header)
        elif len({*rows.names}) < len(rows.names):
            twice = next(name for name in rows.names if rows.names.count(name) > 1)
            remedy = "JSON cannot have both: rename one, or write CSV"
            raise DataError(Origin(source.name), f"several columns {twice!r}", remedy=remedy)

    def write(self, record: Record, results: Sequence[object]) -> None:
        both = [name for name in self.added if name in record.names]
        if both:
            remedy = "rename it: what is new is called so"
            raise DataError(record.origin, f"a column {both[0]!r} that the first row has not", remedy=remedy)
        if self._cells is None:
            self._write_object(record, dict(zip(self.added, results, strict=True)))
            return
        cells = record.cells
        if record.names != self._names:
            plain = dict(zip(record.names, record.cells, strict=True))
            if more := [name for name in record.names if name not in self._names]:
                remedy = "write JSONL, or give all rows the same columns"
                raise DataError(record.origin, f"a column {more[0]!r} that the first row has not", "", remedy)
            cells = tuple(plain.get(name) for name in self._names)
        self._write(cells, results, record.raw)

    def _write_object(self, record: Record, added: dict[str, object]) -> None:
        if record.raw is None or not self._same:
            plain = {**dict(zip(record.names, record.cells, strict=True)), **added}
            self._out.write(json.dumps(plain, ensure_ascii=False) + self._end)
            return
        body = record.raw.rstrip()
        end = record.raw[len(body) :]
        body, more = body[:-1], json.dumps(added, ensure_ascii=False)[1:]  # without the braces between them
        self._out.write(body.rstrip() + (", " if record.names else "") + more + end)

    def _write(self, cells: Sequence[object], added: Sequence[object], raw: str | None) -> None:
        """A row as it stands in its file, where that is of the same format, and what is new behind it."""
        plain = [_cell(each) for each in (*cells, *added)]
        if self._format == "tsv":
            plain = [self._breaks.sub(" ", each) for each in plain]
        if raw is None or not self._same:
            self._cells.writerow(plain)
            return
        whole, end = raw.removesuffix("\n"), "\n"
        if whole.endswith("\r"):
            whole, end = whole[:-1], "\r\n"
        page = io.StringIO()
        csv.writer(page, self._cells.dialect, lineterminator=end).writerow(["", *plain[len(cells) :]])
        self._out.write(whole + page.getvalue())


def free_name(name: str, taken: set[str]) -> str:
    """What a new column is called where these are there already."""
    for each in (name, MARK + name):
        if each not in taken:
            return each
    number = 2
    while f"{MARK}{name}_{number}" in taken:
        number += 1
    return f"{MARK}{name}_{number}"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def annotate(
    source: Source,
    out: TextIO,
    format: Format,
    *,
    added: Sequence[str],
    wanted: Sequence[Wanted],
    work: Callable[..., Sequence[Sequence[object]]],
    window: int | None = None,
    progress: Progress | None = None,
) -> int:
    """Write a table with what `work` says of its rows: it is given a list of texts for each wanted column,
    and gives the values of the `added` columns for each. How many rows there were."""
    rows = source.rows()
    columns = [Texts(each, rows, source) for each in wanted]
    writer = TableWriter(out, format, source, rows, added)
    count = 0
    while chunk := list(islice(rows.records, window or source.window)):
        texts = [tuple(column.of(record) for column in columns) for record in chunk]
        full = [number for number, own in enumerate(texts) if all(map(says_something, own))]
        results: list[Sequence[object]] = [[None] * len(added)] * len(chunk)
        if full:
            with named([chunk[number].origin for number in full]):
                found = work(*([texts[number][place] for number in full] for place in range(len(columns))))
            for number, each in zip(full, found, strict=True):
                results[number] = each
        for record, each in zip(chunk, results, strict=True):
            writer.write(record, each)
        out.flush()
        count += len(chunk)
        if progress is not None:
            progress(len(chunk))
    return count


def says_something(text: str | Sequence[str]) -> bool:
    """Whether there is anything in it but space, or any word."""
    return bool(text.strip() if isinstance(text, str) else text)


@contextmanager
def named(origins: Sequence[Origin]) -> Iterator[None]:
    """A text that a model refuses is reported with where it stands."""
    try:
        yield
    except DataError as error:
        if error.origin.file != "input":
            raise
        raise DataError(
            origins[error.origin.line - 1], error.reason, error.particulars, error.remedy
        ) from error
