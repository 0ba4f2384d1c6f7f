"""Which records belong to which shard: a function of the input and of the size of a shard, of nothing else.

Text is what costs time, not rows: a shard is cut where it has so many bytes of text, about four to a token,
whatever the number of records. So shards take about equally long, and workers that take one after the other
end at about the same time. One pass over the input finds the cuts; its bytes are hashed on the way.

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


class Planner:
    """Cuts files into shards; `files` grows as they are read."""

    def __init__(self, asked: Asked, shard_tokens: int) -> None:
        if shard_tokens < 1:
            raise ConfigError(f"--shard-tokens {shard_tokens}: give 1 or more")
        self._asked, self._goal = asked, shard_tokens * BYTES_A_TOKEN
        self.files: list[PlannedFile] = []

    def shards(
        self, files: Sequence[InputFile], progress: Callable[[int, int], None] | None = None
    ) -> Iterator[Shard]:
        """`progress` is told how many files were read to their end, and of how many bytes of text more it is
        known where they belong."""
        stretches: list[Stretch] = []
        size = number = 0
        for place, file in enumerate(files):
            cut = {"parquet": self._rows, "csv": self._quoted}.get(file.format, self._lines)
            for stretch, weight in cut(place, file, lambda: self._goal - size):  # noqa: B023  # called at once
                stretches.append(stretch)
                size += weight
                if progress is not None:
                    progress(place, weight)
                if size >= self._goal:
                    yield Shard(number, size, tuple(stretches))
                    stretches, size, number = [], 0, number + 1
        if stretches:
            yield Shard(number, size, tuple(stretches))

    def _lines(self, place: int, file: InputFile, room: Callable[[], int]) -> Iterator[tuple[Stretch, int]]:
        """Stretches of a file, each about as large as there is room, and how large it is."""
        with opened(file, self._asked.options.encoding) as stream:
            cuts = _Cuts(stream, file)
            names = _names(file, cuts, self._asked.options)
            self._check(file, names)
            start, line = cuts.at, 1 + cuts.lines
            while cuts.cut(room()):
                yield Stretch(place, start, cuts.at - start, line), cuts.at - start
                start, line = cuts.at, 1 + cuts.lines
        self.files.append(PlannedFile(file, names, cuts.sha256.hexdigest()))

    def _quoted(self, place: int, file: InputFile, room: Callable[[], int]) -> Iterator[tuple[Stretch, int]]:
        """The same of CSV, whose quotes may hide newlines: read as it will be, so that a cut is where a row
        begins, whatever quotes there are above it."""
        with opened(file, self._asked.options.encoding) as stream:
            tape = _Tape(stream)
            lines = scan_stream(io.BufferedReader(tape, _CHUNK), file.address)
            separator = self._asked.options.separator or SEPARATORS["csv"]
            rows = numbered_quoted(lines, file.address, separator, blank=True)
            first = next(rows, None)
            names = _header(file, None if first is None else first[1], self._asked.options)
            self._check(file, names)
            start = begun = 0
            for line, _ in rows if first is None or self._asked.options.header else chain([first], rows):
                at = tape.begins(line)
                if begun and at - start >= room():
                    yield Stretch(place, start, at - start, begun), at - start
                    begun = 0
                if not begun:
                    start, begun = at, line
            if begun:
                yield Stretch(place, start, tape.size - start, begun), tape.size - start
        self.files.append(PlannedFile(file, names, tape.sha256.hexdigest()))

    def _rows(self, place: int, file: InputFile, room: Callable[[], int]) -> Iterator[tuple[Stretch, int]]:
        with opened_as_it_is(file) as raw:
            table = parquet_file(raw, file)
            names = tuple(table.schema_arrow.names)
            columns = self._check(file, names)
            texts = list(columns.used[: len(self._asked.wanted)])
            start = row = size = 0
            for batch in table.iter_batches(columns=texts):
                for weight in _weights(batch, texts, file):
                    row, size = row + 1, size + weight
                    if size >= room():
                        yield Stretch(place, start, row - start, start + 1), size
                        start, size = row, 0
            if row > start:
                yield Stretch(place, start, row - start, start + 1), size
        self.files.append(PlannedFile(file, names, content_hash(file)))

    def _check(self, file: InputFile, names: tuple[str, ...]) -> Columns:
        """That the columns are there, before anything is computed."""
        return Columns(file, names, self._asked)


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

    def cut(self, size: int) -> bool:
        """Go to the end of the record that is behind so many bytes; False where there is nothing more."""
        while len(self._ahead) < size and self._more():
            pass
        if not self._ahead:
            return False
        end = self._end(max(size, 1))
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


def _names(file: InputFile, cuts: _Cuts, options: FileOptions) -> tuple[str, ...]:
    """The columns of a file; past its header, where it has one. What is no text at all is refused."""
    raw: Any = io.BytesIO(cuts.head())
    lines = scan_stream(io.BufferedReader(raw), file.address)
    match file.format:
        case "jsonl":
            found = (each for each in json_objects(lines, file.address) if not isinstance(each, DataError))
            return tuple(next(found, ({}, None))[0])
        case "tsv":
            first = next(split_plain(lines, file.address, options.separator or SEPARATORS["tsv"]), None)
            names = _header(file, first, options)
            while options.header and first is not None and cuts.lines < first.origin.line:
                cuts.cut(1)  # blank lines may stand above it
            return names
        case _:
            next(lines, None)
            return ("text",)


def _header(file: InputFile, first: Row | DataError | None, options: FileOptions) -> tuple[str, ...]:
    """The columns of a table, from its first row."""
    if isinstance(first, DataError):
        raise first
    if first is None:
        raise DataError(file.origin, "an empty table", remedy="its first row must name the columns")
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


def _weights(batch: Any, names: Sequence[str], file: InputFile) -> list[int]:
    """Bytes of text of each row."""
    import pyarrow
    from pyarrow import compute

    total: Any = 0
    for name in names:
        column = batch.column(name)
        if pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type):
            lengths = compute.multiply(compute.list_value_length(column), BYTES_A_TOKEN)
        elif pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
            lengths = compute.binary_length(column)
        else:
            raise DataError(
                file.origin, f"column {name!r} holds {column.type}, not text", remedy="name another, --column"
            )
        total = compute.add(compute.fill_null(lengths, 0), total)
    return [each + 1 for each in total.to_pylist()]
