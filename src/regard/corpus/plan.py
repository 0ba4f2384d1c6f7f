"""Which records belong to which shard: a function of the input and of the size of a shard, of nothing else.

Text is what costs time: a shard is cut where it has so many bytes of text, about four to a token. So shards
take about equally long, and workers that take one after the other end at about the same time. What is written
of a record takes memory, however short it is: so each weighs some bytes more (`RECORD`), and a million lines
of one word are many shards. One pass over the input finds the cuts; its bytes are hashed on the way.

    plan.jsonl      {"bytes": 2000123, "stretches": [[file, start, length, line], ...]}     one shard a line
"""

import hashlib
import io
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from regard.config import ConfigError
from regard.corpus.addresses import InputFile, content_hash, opened, opened_as_it_is
from regard.corpus.reading import Asked, Columns, Stretch, parquet_file
from regard.tasks.base.formats import FileOptions
from regard.tasks.base.sources import SEPARATORS
from regard.text import DataError
from regard.text.files import LONGEST, scan_stream
from regard.text.tables import Row, json_objects, numbered_quoted, split_plain

BYTES_A_TOKEN = 4
"""About, of text in UTF-8; what was read is counted later."""
RECORD = 64
"""What a record weighs beside its text, in bytes of text."""
_CHUNK = 1 << 20
_FAR = 64 * LONGEST
"""No line is as long as this."""


@dataclass(frozen=True, slots=True)
class Shard:
    number: int
    bytes: int
    """Of the input."""
    stretches: tuple[Stretch, ...]

    def line(self) -> str:
        stretches = [[each.file, each.start, each.length, each.line] for each in self.stretches]
        return json.dumps({"bytes": self.bytes, "stretches": stretches})

    @classmethod
    def parse(cls, number: int, line: str) -> "Shard":
        plain = json.loads(line)
        return cls(number, plain["bytes"], tuple(Stretch(*each) for each in plain["stretches"]))


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """What planning has found out of a file."""

    file: InputFile
    names: tuple[str, ...]
    """Of its columns."""
    sha256: str


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of a file."""

    stretch: Stretch
    bytes: int
    records: int

    @property
    def weight(self) -> int:
        return self.bytes + RECORD * self.records


class Planner:
    """Cuts files into shards; `files` grows as they are read."""

    def __init__(self, asked: Asked, shard_tokens: int) -> None:
        if shard_tokens < 1:
            raise ConfigError(f"--shard-tokens {shard_tokens}: give 1 or more")
        self._asked, self._goal = asked, shard_tokens * BYTES_A_TOKEN
        self.files: list[PlannedFile] = []
        self._found, self._missing = set[str](), dict[str, DataError]()

    def shards(
        self, files: Sequence[InputFile], progress: Callable[[int, int], None] | None = None
    ) -> Iterator[Shard]:
        """`progress` is told how many files were read to their end, and of how many bytes of text more it is
        known where they belong."""
        self._count = len(files)
        stretches: list[Stretch] = []
        size = weight = number = 0
        for place, file in enumerate(files):
            cut = {"parquet": self._rows, "csv": self._quoted}.get(file.format, self._lines)
            for part in cut(place, file, lambda: self._goal - weight):  # noqa: B023  # called at once
                stretches.append(part.stretch)
                size, weight = size + part.bytes, weight + part.weight
                if progress is not None:
                    progress(place, part.bytes)
                if weight >= self._goal:
                    yield Shard(number, size, tuple(stretches))
                    stretches, size, weight, number = [], 0, 0, number + 1
        self._refuse_missing()
        if stretches:
            yield Shard(number, size, tuple(stretches))

    def _lines(self, place: int, file: InputFile, room: Callable[[], int]) -> Iterator[_Part]:
        """Stretches of a file, each about as large as there is room."""
        with opened(file, self._asked.options.encoding) as stream:
            cuts = _Cuts(stream, file)
            names: tuple[str, ...] = ()
            if cuts.head(1):  # an empty file has no columns and no records
                names = _names(file, cuts, self._asked)
                self._check(file, names)
                if place + 1 == self._count:
                    self._refuse_missing()
            start, line = cuts.at, 1 + cuts.lines
            while cuts.cut(room()):
                size = cuts.at - start
                yield _Part(Stretch(place, start, size, line), size, cuts.lines + 1 - line)
                start, line = cuts.at, 1 + cuts.lines
        self.files.append(PlannedFile(file, names, cuts.sha256.hexdigest()))

    def _quoted(self, place: int, file: InputFile, room: Callable[[], int]) -> Iterator[_Part]:
        """The same of CSV, whose quotes may hide newlines: read as it will be, so that a cut is where a row
        begins, whatever quotes there are above it."""
        with opened(file, self._asked.options.encoding) as stream:
            tape = _Tape(stream)
            lines = scan_stream(io.BufferedReader(tape, _CHUNK), file.address)
            separator = self._asked.options.separator or SEPARATORS["csv"]
            rows = numbered_quoted(lines, file.address, separator, blank=True)
            first = next(rows, None)
            names = () if first is None else _header(first[1], self._asked.options)
            if first is not None:
                self._check(file, names)
            start = begun = count = 0
            for line, _ in rows if first is None or self._asked.options.header else chain([first], rows):
                at = tape.begins(line)
                if begun and at - start + RECORD * count >= room():
                    yield _Part(Stretch(place, start, at - start, begun), at - start, count)
                    begun = 0
                if not begun:
                    start, begun, count = at, line, 0
                count += 1
            if begun:
                yield _Part(Stretch(place, start, tape.size - start, begun), tape.size - start, count)
        self.files.append(PlannedFile(file, names, tape.sha256.hexdigest()))

    def _rows(self, place: int, file: InputFile, room: Callable[[], int]) -> Iterator[_Part]:
        with opened_as_it_is(file) as raw:
            table = parquet_file(raw, file)
            names = tuple(table.schema_arrow.names)
            columns = self._check(file, names)
            texts = [*dict.fromkeys(columns.texts)]
            kept = [name for name in dict.fromkeys(columns.keep) if name not in texts]
            start = row = size = 0
            for batch in table.iter_batches(columns=texts + kept):
                for length in _lengths(batch, texts, kept, file):
                    row, size = row + 1, size + length
                    if size + RECORD * (row - start) >= room():
                        yield _Part(Stretch(place, start, row - start, start + 1), size, row - start)
                        start, size = row, 0
            if row > start:
                yield _Part(Stretch(place, start, row - start, start + 1), size, row - start)
        self.files.append(PlannedFile(file, names, content_hash(file)))

    def _check(self, file: InputFile, names: tuple[str, ...]) -> Columns:
        """That the columns are there, before anything is computed."""
        columns = Columns(file, names, self._asked)
        self._missing = columns.missing | self._missing
        self._found.update({*self._asked.keep, self._asked.id or ""} - columns.missing.keys())
        return columns

    def _refuse_missing(self) -> None:
        """Raise for a column that no file has, as far as its beginning says."""
        for name, error in self._missing.items():
            if name not in self._found:
                raise error


class _Cuts:
    """A stream, cut between its lines."""

    def __init__(self, stream: Any, file: InputFile) -> None:
        self._stream, self._file = stream, file
        self._ahead = b""
        self.sha256 = hashlib.sha256()
        """Of what was read so far."""
        self.at = self.lines = 0
        """Where the last cut was made: so many bytes and lines are before it."""

    def head(self, size: int = 1 << 16) -> bytes:
        """What comes next, of about this size, up to the end of a record; nothing at the end."""
        while len(self._ahead) < size and self._more():
            pass
        return self._ahead[: self._end(min(size, len(self._ahead)))]

    def cut(self, weight: int) -> bool:
        """Go on by whole records until they have this weight; False where there is nothing more."""
        while len(self._ahead) < weight and self._more():
            pass
        if not self._ahead:
            return False
        first = np.frombuffer(self._ahead, np.uint8, count=min(weight, len(self._ahead)))
        ends = np.flatnonzero(first == ord("\n"))
        heavy = int(np.searchsorted(ends + 1 + RECORD * np.arange(1, len(ends) + 1), weight))
        end = int(ends[heavy]) + 1 if heavy < len(ends) else self._end(weight + 1)
        part = self._ahead[:end]
        self._ahead = self._ahead[end:]
        self.at += end
        self.lines += part.count(b"\n") + (not part.endswith(b"\n"))
        return True

    def _end(self, size: int) -> int:
        """Where the first line ends that ends at `size` or later."""
        while (newline := self._ahead.find(b"\n", size - 1)) < 0:
            if len(self._ahead) > size + _FAR:
                particulars = f"(from byte {self.at + size:,} on)"
                why = f"no line ends within {_FAR:,} bytes"
                raise DataError(self._file.origin, why, particulars, "is it text at all?")
            if not self._more():
                return len(self._ahead)
        return newline + 1

    def _more(self) -> bool:
        chunk = self._stream.read(_CHUNK)
        self.sha256.update(chunk)
        self._ahead += chunk
        return bool(chunk)


def _names(file: InputFile, cuts: _Cuts, asked: Asked) -> tuple[str, ...]:
    """The columns of a file; past its header, where it has one. Of JSON, those of all objects that it begins
    with. What is no text at all is refused."""
    options = asked.options
    raw: Any = io.BytesIO(cuts.head())
    lines = scan_stream(io.BufferedReader(raw), file.address)
    match file.format:
        case "jsonl":
            found = (each for each in json_objects(lines, file.address) if not isinstance(each, DataError))
            names = tuple(dict.fromkeys(name for plain, _ in found for name in plain))
            return names or tuple(each.given or each.names[0] for each in asked.wanted)
        case "tsv":
            first = next(split_plain(lines, file.address, options.separator or SEPARATORS["tsv"]), None)
            names = () if first is None else _header(first, options)
            while options.header and first is not None and cuts.lines < first.origin.line:
                cuts.cut(1)  # blank lines may stand above it
            return names
        case _:
            next(lines, None)
            return ("text",)


def _header(first: Row | DataError, options: FileOptions) -> tuple[str, ...]:
    """The columns of a table, from its first row."""
    if isinstance(first, DataError):
        raise first
    if not options.header:
        return tuple(map(str, range(len(first.cells))))
    return tuple(str(cell).strip() for cell in first.cells)


class _Tape(io.RawIOBase):
    """A stream while it is read: its bytes are hashed, and it is known where its lines begin."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._line, self._begins = 1, deque([0])
        """The first line that may still be asked for; where it begins, and all after it that were read."""
        self.size = 0
        """Bytes that were read."""
        self.sha256 = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._stream.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self.sha256.update(chunk)
        ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
        self._begins.extend((ends + self.size + 1).tolist())
        self.size += len(chunk)
        return len(chunk)

    def begins(self, line: int) -> int:
        """The byte; of lines that are asked for in their order."""
        while self._line < line:
            self._begins.popleft()
            self._line += 1
        return self._begins[0]


def stream_hash(file: InputFile, encoding: str) -> str:
    """SHA-256 of what is planned from: the unpacked stream; of Parquet, the file."""
    if file.format == "parquet":
        return content_hash(file)
    sha = hashlib.sha256()
    with opened(file, encoding) as stream:
        while chunk := stream.read(_CHUNK):
            sha.update(chunk)
    return sha.hexdigest()


def _lengths(batch: Any, names: Sequence[str], kept: Sequence[str], file: InputFile) -> list[int]:
    """Bytes of text of each row; of columns that are kept beside it, about as many as they take."""
    import pyarrow
    from pyarrow import compute, types

    total: Any = 0
    for name in names:
        column = batch.column(name)
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if types.is_list(kind) or types.is_large_list(kind):
            lengths = compute.multiply(compute.list_value_length(column), BYTES_A_TOKEN)
        elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            lengths = compute.binary_length(column.cast(pyarrow.large_string()))
        else:
            raise DataError(
                file.origin, f"column {name!r} holds {kind}, not text", remedy="name another, --column"
            )
        total = compute.add(compute.fill_null(lengths, 0), total)
    for name in kept:
        column = batch.column(name)
        if types.is_string(column.type) or types.is_large_string(column.type):
            total = compute.add(compute.fill_null(compute.binary_length(column), 0), total)
        else:
            total = compute.add(total, column.nbytes // max(len(column), 1))
    return [each + 1 for each in total.to_pylist()]
