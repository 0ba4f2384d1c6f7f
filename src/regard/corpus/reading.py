"""Records of a corpus, from any place in it: lines, JSON lines, CSV and TSV, Parquet.

A stretch is a run of bytes of a file's stream that begins and ends with a record; of Parquet, a run of rows.
Every record is there, in order: what cannot be read comes as `Bad`, with where it stands.

A file that cannot be sought in (compressed, or of another encoding) is read on from where the last stretch
ended: whoever takes stretches in their order reads such a file once.
"""

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from regard.config import ConfigError
from regard.corpus.addresses import InputFile, opened, opened_as_it_is, seekable
from regard.tasks.base.formats import AS_NAMED, FileOptions
from regard.tasks.base.sources import SEPARATORS, Record, Rows, Source
from regard.tasks.base.tables import Texts, Wanted
from regard.text import DataError, Origin
from regard.text.files import scan_stream
from regard.text.remote import EXTRA
from regard.text.tables import Row, json_objects, split_plain, split_quoted

_ROWS = 4096
"""Of Parquet, made into Python objects at a time."""


@dataclass(frozen=True, slots=True)
class Stretch:
    file: int
    """Which of the input's files, from 0."""
    start: int
    """A byte; of Parquet, a row."""
    length: int
    line: int
    """The number of its first line, or row, from 1."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What is read of a record."""

    id: str
    texts: tuple[Any, ...]
    """A text for each column that the model reads; or a list of words, where there may be one."""
    kept: tuple[Any, ...]
    """As they were: of JSON and Parquet, numbers stay numbers."""
    origin: Origin


@dataclass(frozen=True, slots=True)
class Bad:
    id: str
    reason: str
    origin: Origin

    def plain(self) -> dict[str, object]:
        return {"id": self.id, "file": self.origin.file, "line": self.origin.line, "reason": self.reason}


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is read of each record."""

    wanted: tuple[Wanted, ...]
    id: str | None = None
    """The column of the ids; unless given, the place in the input: FILE:LINE."""
    keep: tuple[str, ...] = ()
    """Columns that are written beside the results."""
    options: FileOptions = AS_NAMED


class CorpusReader:
    """Reads stretches of files."""

    def __init__(self, files: Sequence[InputFile], names: Sequence[tuple[str, ...]], asked: Asked) -> None:
        """`names` are those of the columns of each file."""
        self._files, self._names, self._asked = files, names, asked
        self._columns: dict[int, Columns] = {}
        self._stack = ExitStack()
        self._open: tuple[int, Any, int] = (-1, None, 0)
        """A file, what is open of it, and how far it was read."""

    def close(self) -> None:
        self._stack.close()
        self._open = (-1, None, 0)

    def records(self, stretch: Stretch) -> Iterator[Taken | Bad]:
        file = self._files[stretch.file]
        if stretch.file not in self._columns:
            self._columns = {stretch.file: Columns(file, self._names[stretch.file], self._asked)}
        columns = self._columns[stretch.file]
        for record in self._parsed(file, stretch):
            if isinstance(record, DataError):
                yield Bad(f"{record.origin.file}:{record.origin.line}", _why(record), record.origin)
                continue
            try:
                yield columns.taken(record)
            except DataError as error:
                yield Bad(columns.id(record), _why(error), record.origin)

    def _parsed(self, file: InputFile, stretch: Stretch) -> Iterator[Record | DataError]:
        if file.format == "parquet":
            return self._rows(file, stretch)
        names = self._names[stretch.file]
        raw: Any = io.BytesIO(self._bytes(file, stretch))
        lines = scan_stream(io.BufferedReader(raw), file.address, first=stretch.line)
        match file.format:
            case "lines":
                return (
                    line if isinstance(line, DataError) else Record(names, (line,), Origin(file.address, at))
                    for at, line in enumerate(lines, stretch.line)
                )
            case "jsonl":
                return (
                    found
                    if isinstance(found, DataError)
                    else Record(tuple(found[0]), tuple(found[0].values()), found[1])
                    for found in json_objects(lines, file.address, stretch.line)
                )
            case "csv" | "tsv":
                split: Any = split_quoted if file.format == "csv" else split_plain
                separator = self._asked.options.separator or SEPARATORS[file.format]
                how = {"blank": True, "first": stretch.line, "width": len(names)}
                return (_shaped(row, names) for row in split(lines, file.address, separator, **how))

    def _bytes(self, file: InputFile, stretch: Stretch) -> bytes:
        number, stream, at = self._open
        if number != stretch.file or at > stretch.start:
            self.close()
            stream, at = self._stack.enter_context(opened(file, self._asked.options.encoding)), 0
        if at < stretch.start:
            if seekable(file, self._asked.options.encoding):
                stream.seek(stretch.start)
            else:
                _skip(stream, stretch.start - at, file)
        raw = stream.read(stretch.length)
        self._open = (stretch.file, stream, stretch.start + len(raw))
        if len(raw) < stretch.length:
            raise DataError(
                file.origin, "shorter than it was", remedy="it was changed: start anew with --overwrite"
            )
        return raw

    def _rows(self, file: InputFile, stretch: Stretch) -> Iterator[Record]:
        names, wanted = self._names[stretch.file], self._asked
        number, rows, at = self._open
        if number != stretch.file or at > stretch.start:
            self.close()
            raw = self._stack.enter_context(opened_as_it_is(file))
            used = Columns(file, names, wanted).used
            rows, at = _from_row(parquet_file(raw, file), used, stretch.start), stretch.start
        for _ in range(stretch.start - at):
            next(rows)
        for place in range(stretch.start, stretch.start + stretch.length):
            used, cells = next(rows)
            self._open = (stretch.file, rows, place + 1)
            yield Record(used, cells, Origin(file.address, place + 1))


class Columns:
    """Where in a file's records the wanted columns are."""

    def __init__(self, file: InputFile, names: tuple[str, ...], asked: Asked) -> None:
        source = Source(file.address, "lines" if file.format == "parquet" else file.format, asked.options)
        rows = Rows(names, iter(()))
        self._texts = [Texts(wanted, rows, source) for wanted in asked.wanted]
        self.missing: dict[str, DataError] = {}
        """Columns of ids, and such that are kept, which are not among the names: JSON may have them later."""

        def named(given: str, option: str) -> str:
            if not names:  # and no records
                return given
            try:
                return names[Wanted(given, option).place(rows, source)]
            except DataError as error:
                if file.format != "jsonl":
                    raise
                self.missing[given] = error
                return given

        self._id = None if asked.id is None else named(asked.id, "--id")
        self.keep = tuple(named(name, "--keep") for name in asked.keep)
        """The names of those that are kept, in their order."""
        places = [wanted.place(rows, source) for wanted in asked.wanted] if names else []
        used = [names[place] for place in places] + [*([] if self._id is None else [self._id]), *self.keep]
        self.texts = used[: len(places)]
        self.used = tuple(dict.fromkeys(used))
        """The names of the columns that are read."""

    def taken(self, record: Record) -> Taken:
        texts = tuple(column.of(record) for column in self._texts)
        plain = dict(zip(record.names, record.cells, strict=True)) if self.keep else {}
        return Taken(self.id(record), texts, tuple(map(plain.get, self.keep)), record.origin)

    def id(self, record: Record) -> str:
        place = f"{record.origin.file}:{record.origin.line}"
        if self._id is None:
            return place
        found = record.cells[record.names.index(self._id)] if self._id in record.names else None
        return as_text(found) or place


def as_text(value: object) -> str | None:
    """Itself, or JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _shaped(row: Row | DataError, names: tuple[str, ...]) -> Record | DataError:
    if isinstance(row, DataError):
        return row
    if len(row.cells) != len(names):
        counts = f"({len(row.cells)} cells where the first row has {len(names)})"
        return DataError(row.origin, "ragged row", counts)
    return Record(names, row.cells, row.origin)


def _why(error: DataError) -> str:
    return f"{error.reason} {error.particulars}".strip()


def _skip(stream: Any, count: int, file: InputFile) -> None:
    while count:
        piece = stream.read(min(count, 1 << 20))
        if not piece:
            raise DataError(file.origin, "shorter than it was", remedy="start anew with --overwrite")
        count -= len(piece)


def parquet_file(raw: Any, file: InputFile) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ConfigError(f"{file.address}: Parquet needs pyarrow: {EXTRA}") from error
    try:
        return parquet.ParquetFile(raw)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(file.origin, "not whole Parquet data", f"({error})", "get the file again") from error


def _from_row(
    table: Any, names: tuple[str, ...], start: int
) -> Iterator[tuple[tuple[str, ...], tuple[object, ...]]]:
    """The rows of these columns, from one on: whole row groups before it are not read."""
    groups: list[int] = []
    before = 0
    for number in range(table.num_row_groups):
        rows = table.metadata.row_group(number).num_rows
        if groups or before + rows > start:
            groups.append(number)
        else:
            before += rows
    left = start - before
    for batch in table.iter_batches(batch_size=_ROWS, row_groups=groups, columns=[*names]):
        if left >= batch.num_rows:
            left -= batch.num_rows
            continue
        cells = [batch.column(name).to_pylist()[left:] for name in names]
        left = 0
        for row in zip(*cells, strict=True):
            yield names, row
