"""Files as lines of text: plain, compressed or inside a zip archive, never more than one line in memory.

Only a newline byte ends a line. `str.splitlines` and text mode also break at U+0085, U+2028, form feeds and
lone carriage returns, which real text contains: parallel files would slip out of step.
"""

import bz2
import codecs
import gzip
import io
import lzma
import math
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from regard.text import charsets
from regard.text.records import DataError, Origin

LONGEST = 1_000_000
"""The most bytes a line may have, unless a reader is told otherwise."""
UNPACKED = "REGARD_UNPACKED"
"""In the environment: how many times its own size a compressed file may have, unpacked."""
_TIMES, _HARMLESS = 200, 1 << 28
"""Unless it is set: text is packed to a tenth or so. Below so many bytes any size will do."""
PASSED = "REGARD_PASSED"
"""In the environment: how many bytes of a line that is too long are passed over in what is no file. Unless it
is set, so many as any size will do for: what goes on for longer may have no end."""
_DEVICES = (os.devnull, "/dev/stdin", "/dev/fd/0", "/dev/tty")
"""Those that end."""
_read_once: set[tuple[int, int]] = set()
"""Pipes that were opened: there is nothing more in them."""

_Stream = io.FileIO | IO[bytes] | gzip.GzipFile | lzma.LZMAFile | bz2.BZ2File

COMPRESSED = (".gz", ".xz", ".bz2", ".zst", ".zip")

INVALID = "invalid UTF-8"
"""The reason of a `LineError` whose bytes are of another encoding."""

_BROKEN_STREAM = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
_ADDRESS = re.compile(r"[a-zA-Z][\w+.-]+:/")
"""As `s3://bucket/file`, of which a path has lost a slash."""
_BOM = b"\xef\xbb\xbf"
_STARTS = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}
_FOREIGN_STARTS = {  # longer marks first: that of UTF-32 begins like that of UTF-16
    **charsets.MARKS,
    _STARTS[".gz"]: ".gz",
    _STARTS[".xz"]: ".xz",
    **{b"BZh%d1AY&SY" % level: ".bz2" for level in range(1, 10)},  # BZh alone may be text
    b"PK\x03\x04": ".zip",
    _STARTS[".zst"]: ".zst",
    b"PAR1\x15": "Parquet",
}
_REMEDIES = {
    "tar": "unpack it: tar -xf",
    "Parquet": 'read it as a table, with format="parquet"',
}


class LineError(DataError):
    """A line that cannot be read as text."""

    quotes: int = 0
    """Its quotation marks: in a table, they still tell where the row ends."""


def scan(path: str | Path, longest: int = LONGEST, *, encoding: str = "utf-8") -> Iterator[str | LineError]:
    """The lines of a file without their ends (LF or CR LF); for one that is broken, its error as a value.

    `path` may end in .gz, .xz, .bz2, .zst or .zip, or name a file in an archive: "archive.zip/member". A byte
    order mark at the start is dropped. What makes the whole file unreadable is raised.
    """
    with open_bytes(path) as stream:
        yield from scan_stream(stream, str(path), longest, encoding=encoding)


def scan_stream(
    stream: io.BufferedReader, file: str, longest: int = LONGEST, *, encoding: str = "utf-8", first: int = 1
) -> Iterator[str | LineError]:
    """The same of what is open already; `file` is what errors call it. `first` is the number of the first
    line, where the stream begins further down in its file."""
    recoded = None
    if not charsets.is_utf8(encoding):
        recoded = _Recoded(stream, file, encoding)
        stream = io.BufferedReader(recoded)
    number, others, advice = first - 1, False, ""
    # Two bytes more than a line may have: room for its end.
    while raw := stream.readline(longest + 2):
        number += 1
        if number == 1:
            _refuse_foreign(file, raw)
            if raw.startswith(_BOM):
                # The mark took room from the line, which must not pass for a whole one if cut short.
                raw = raw[3:] if raw.endswith(b"\n") else raw[3:] + stream.readline(3)
                if not raw:
                    return
        line = _without_end(raw)
        if len(line) > longest:
            yield _too_long(stream, raw, Origin(file, number), longest)
        elif b"\0" in line:
            yield _bad_line(line, "NUL", line.index(0), Origin(file, number))
        else:
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                origin = Origin(file, number)
                if recoded is not None:
                    yield recoded.bad_line(line, error.start, origin)
                    continue
                # What comes next tells more; but who types must not be waited for.
                known = advice or not (stream.seekable() and hasattr(stream, "peek"))
                ahead = b"" if known else stream.peek()[: charsets.SAMPLE]
                advice = advice or charsets.remedy(raw + ahead, others=others)
                yield _bad_line(line, INVALID, error.start, origin, advice)
            else:
                others = others or not text.isascii()
                yield text


def recoded(stream: io.BufferedReader, file: str, encoding: str) -> io.BufferedReader:
    """What is of another encoding as UTF-8; what is not even that encoding's, as what is no UTF-8 either."""
    return io.BufferedReader(_Recoded(stream, file, encoding))


class _Recoded(io.RawIOBase):
    """Bytes of another encoding, as UTF-8: then a newline byte ends a line there too. What is not of that
    encoding becomes what is no UTF-8 either, so that it costs its line and no more."""

    def __init__(self, stream: io.BufferedReader, file: str, encoding: str) -> None:
        self._stream, self._file, self._encoding = stream, file, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
        self._left = b""
        self._lines = 0
        self._sample = b""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            raw = self._stream.read1(1 << 16)
            self._sample = self._sample or raw
            self._left = self._decoded(raw).encode("utf-8", "surrogatepass")
            if not raw:
                break
        part = self._left[: len(buffer)]
        buffer[: len(part)] = part
        self._left = self._left[len(part) :]
        return len(part)

    def bad_line(self, line: bytes, start: int, origin: Origin) -> LineError:
        """For a line of what was read here, whose first broken byte stands at `start`."""
        byte = ord(line[start : start + 3].decode("utf-8", "surrogatepass")) & 0xFF
        before = len(line[:start].decode().encode(self._encoding))
        remedy = charsets.remedy(self._sample, tried=self._encoding)
        error = LineError(origin, f"not {self._encoding}", f"at byte {before + 1} (0x{byte:02x})", remedy)
        error.quotes = line.count(b'"')
        return error

    def _decoded(self, raw: bytes) -> str:
        try:
            text = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:  # nobody knows where the next character begins
            read = error.object[: error.start].decode(self._encoding, errors="replace")
            origin = Origin(self._file, self._lines + read.count("\n") + 1)
            byte = f"(0x{error.object[error.start : error.start + 1].hex()})"
            remedy = charsets.remedy(self._sample, tried=self._encoding)
            raise DataError(origin, f"not {self._encoding}", byte, remedy) from error
        except UnicodeError as error:  # a mark that is not there
            remedy = charsets.remedy(self._sample, tried=self._encoding)
            raise DataError(Origin(self._file), f"not {self._encoding}", f"({error})", remedy) from error
        self._lines += text.count("\n")
        return text


@contextmanager
def open_bytes(path: str | Path) -> Iterator[io.BufferedReader]:
    """The file's content, decompressed by the suffix of its name. That it breaks off is raised where it does,
    which may be far into it."""
    path = Path(path)
    archive = next((part for part in (path, *path.parents) if part.suffix == ".zip" and part.is_file()), None)
    with ExitStack() as stack:
        stream: _Stream
        if archive is None:
            stream = stack.enter_context(_open_plain(path))
        else:
            stream = stack.enter_context(_open_member(archive, path.relative_to(archive).parts))
            if path.suffix not in _STARTS:
                stream = cast(_Stream, _Bounded(stream, path, archive.stat().st_size))
        yield stack.enter_context(unpacked(stream, path, (archive or path).stat().st_size))


@contextmanager
def unpacked(stream: _Stream, path: Path, packed: int | None = None) -> Iterator[io.BufferedReader]:
    """The same of what is open already; `path` is its name. `packed`: its size, where what it unpacks to is
    to be bounded by it."""
    with ExitStack() as stack:
        if path.suffix in _STARTS:
            stream = stack.enter_context(_buffered(stream))
            _refuse_unpacked(path, stream.peek(8))
        match path.suffix:
            case ".gz":
                stream = stack.enter_context(gzip.GzipFile(fileobj=stream, mode="rb"))
            case ".xz":
                stream = stack.enter_context(lzma.LZMAFile(cast(IO[bytes], stream)))
            case ".bz2":
                stream = stack.enter_context(bz2.BZ2File(stream))
            case ".zst":
                stream = stack.enter_context(_zstd(stream, path))
        if packed is not None and path.suffix in _STARTS:
            stream = cast(_Stream, _Bounded(stream, path, packed))
        try:
            yield stack.enter_context(_buffered(stream))  # those classes find lines in Python, this in C
        except _BROKEN_STREAM as error:
            raise _broken_off(path, error) from error


def _zstd(stream: _Stream, path: Path) -> Any:
    try:
        from pyarrow import CompressedInputStream
    except ImportError as error:
        raise DataError(
            Origin(str(path)), "zstd data needs pyarrow", remedy="pip install 'regard[scale]'"
        ) from error
    return CompressedInputStream(stream, "zstd")


def did_you_mean(name: str, present: Sequence[str]) -> str:
    """A remedy for a name that is not among those present: the nearest one and the list."""
    nearest = get_close_matches(name, present, n=1)
    listed = ", ".join(repr(other) for other in present[:20]) + (", ..." if len(present) > 20 else "")
    return (f"did you mean {nearest[0]!r}? " if nearest else "") + f"there is {listed or 'nothing'}"


def _buffered(stream: _Stream) -> io.BufferedReader:
    return io.BufferedReader(cast(io.RawIOBase, stream), buffer_size=1 << 17)


def _broken_off(path: Path, why: object) -> DataError:
    return DataError(Origin(str(path)), "breaks off or is corrupt", f"({why})", "get the file again")


def _refuse_unpacked(path: Path, start: bytes) -> None:
    """Raise for a file whose name promises compression that its start does not show."""
    suffix = path.suffix
    if not start:
        raise _broken_off(path, "0 bytes")
    if not start.startswith(_STARTS[suffix][: len(start)]):
        raise DataError(Origin(str(path)), f"not {suffix} data", remedy=f"take {suffix} off its name")


def _open_plain(path: Path) -> io.FileIO:
    whole = Origin(str(path))
    if path.is_dir():
        raise DataError(whole, "a directory, not a file", remedy="name a file in it")
    try:
        _refuse_endless(path)
        return path.open("rb", buffering=0)
    except FileNotFoundError as error:
        beside = sorted(other.name for other in path.parent.iterdir()) if path.parent.is_dir() else []
        nearest = get_close_matches(path.name, beside, n=1)
        remedy = f"did you mean {nearest[0]!r}?" if nearest else "check the path"
        if _ADDRESS.match(str(path)):
            remedy = "addresses are read by regard train and regard corpus: copy it here, and give its path"
        raise DataError(whole, "no such file", remedy=remedy) from error
    except OSError as error:
        raise DataError(whole, "cannot be opened", f"({error.strerror})", "check the path") from error


def _refuse_endless(path: Path) -> None:
    """Devices never end, and a pipe can be read once: what is read again would seem empty."""
    found = path.stat()
    if stat.S_ISCHR(found.st_mode) and str(path) not in _DEVICES:
        raise DataError(Origin(str(path)), "a device, not a file", remedy="name a file")
    if stat.S_ISFIFO(found.st_mode):
        if (found.st_dev, found.st_ino) in _read_once:
            raise _only_once(path)
        _read_once.add((found.st_dev, found.st_ino))


def refuse_pipe(path: Path) -> None:
    """For who reads a file twice: a pipe may have no end, or nobody who writes into it."""
    if os.path.exists(path) and stat.S_ISFIFO(path.stat().st_mode):  # noqa: PTH110  # for names of any length
        raise _only_once(path)


def _only_once(path: Path) -> DataError:
    remedy = "write its content to a file, and name that"
    return DataError(Origin(str(path)), "a pipe, which can be read only once", remedy=remedy)


def _number(name: str, usual: float) -> float:
    """In the environment."""
    try:
        return float(os.environ.get(name, usual))
    except ValueError:
        return usual


class _Bounded(io.RawIOBase):
    """What a compressed file unpacks to, up to a limit: a few bytes can stand for all of a disk."""

    def __init__(self, stream: _Stream, path: Path, packed: int) -> None:
        self._stream, self._path, self._packed, self._read = stream, path, packed, 0
        self._times = _number(UNPACKED, _TIMES)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(len(buffer))
        self._read += len(piece)
        if self._read > max(_HARMLESS, self._times * self._packed):
            raise DataError(
                Origin(str(self._path)),
                f"unpacks to more than {self._times:g} times its size",
                f"({self._packed:,} bytes, {self._read:,} so far)",
                f"is it what you think it is? if so, set {UNPACKED} higher",
            )
        buffer[: len(piece)] = piece
        return len(piece)


@contextmanager
def _open_member(archive: Path, inside: Sequence[str]) -> Iterator[IO[bytes]]:
    whole = Origin(str(archive))
    try:
        opened = zipfile.ZipFile(archive)
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(whole, "not a whole zip archive", f"({error})", "get the file again") from error
    with opened:
        names = [entry.filename for entry in opened.infolist() if not entry.is_dir()]
        if not inside and len(names) != 1:
            example = f", as in {archive / names[0]}" if names else ""
            raise DataError(whole, f"holds {len(names)} files", f"({', '.join(names)})", f"name one{example}")
        name = "/".join(inside) or names[0]
        if name not in names:
            raise DataError(whole, f"holds no file {name!r}", remedy=did_you_mean(name, names))
        try:
            stream = opened.open(name)
        except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
            raise DataError(whole, f"{name!r} cannot be unpacked", f"({error})", "pack it plainly") from error
        with stream:
            yield stream


def _refuse_foreign(file: str, first: bytes) -> None:
    """Raise for a file that begins like something other than lines of UTF-8 text."""
    what = "tar" if first[257:262] == b"ustar" else None
    what = what or next((what for start, what in _FOREIGN_STARTS.items() if first.startswith(start)), None)
    if what is None and b"\0" in first:
        what = charsets.wide(first)
    if what is None and b"\n" not in first and b"\r" in first[:-1]:
        remedy = "give it newlines: tr '\\r' '\\n'"
        raise DataError(Origin(file), "ends its lines as old Macs did", "(with carriage returns)", remedy)
    if what is None:
        return
    if what in COMPRESSED:
        raise DataError(Origin(file), f"holds {what} data", remedy=f"end its name in {what}")
    if what in _REMEDIES:
        raise DataError(Origin(file), f"holds {what} data", remedy=_REMEDIES[what])
    remedy = f"pass encoding='{what}', or convert it to UTF-8"
    raise DataError(Origin(file, 1), "not UTF-8 text", f"but probably {what}", remedy)


def _without_end(line: bytes) -> bytes:
    return line[:-2] if line[-2:] == b"\r\n" else line[:-1] if line[-1:] == b"\n" else line


def _bad_line(
    line: bytes, reason: str, place: int, origin: Origin, remedy: str = 'fix the file or pass on_error="skip"'
) -> LineError:
    error = LineError(origin, reason, f"at byte {place + 1} (0x{line[place]:02x})", remedy)
    error.quotes = line.count(b'"')
    return error


def _is_file(stream: Any) -> bool:
    """Which has an end."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:  # in memory, or packed
        return False


def _too_long(stream: BinaryIO, start: bytes, origin: Origin, longest: int) -> LineError:
    """Pass over the rest of a line, a piece at a time."""
    size, quotes, end = len(start), start.count(b'"'), start
    most = math.inf if _is_file(stream) else _number(PASSED, _HARMLESS)
    while not end.endswith(b"\n") and (piece := stream.readline(1 << 16)):
        size += len(piece)
        quotes += piece.count(b'"')
        end = end[-1:] + piece
        if size > most:
            remedy = f"is it text? if so, set {PASSED} higher"
            raise DataError(origin, "a line without an end", f"({size:,} bytes so far)", remedy)
    size -= len(end) - len(_without_end(end))
    remedy = 'fix the file, raise longest= or pass on_error="skip"'
    error = LineError(origin, "line too long", f"({size} bytes where longest={longest})", remedy)
    error.quotes = quotes
    return error
