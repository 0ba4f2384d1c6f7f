"""What a corpus is read from: files, folders, globs, and whatever fsspec has an address for.

Files come in the order in which they are named; those of a folder or a glob in that of their names. What is
opened is a stream of UTF-8 bytes, unpacked and recoded; a place in a file is a byte of that stream.
"""

import glob
import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from regard.config import ConfigError
from regard.tasks.base.formats import FileOptions, Format, ending, format_of
from regard.text import DataError, Origin
from regard.text.charsets import is_utf8
from regard.text.files import COMPRESSED, open_bytes, recoded, unpacked

InputFormat = Format | Literal["parquet"]

EXTRA = "pip install 'regard[scale]'"
_MAGIC = "*?["
_ADDRESS = re.compile(r"([a-zA-Z][\w+.-]+):/")


@dataclass(frozen=True, slots=True)
class InputFile:
    address: str
    """As it was given; ids and errors say it."""
    format: InputFormat
    size: int
    """In bytes, as it lies there."""
    stamp: str
    """Another one when the file was written again, whether or not that changed it."""
    path: str
    """Where it lies, from whatever folder that is asked; of what is remote, its address."""

    @property
    def remote(self) -> bool:
        return "://" in self.address

    @property
    def origin(self) -> Origin:
        return Origin(self.address)


def found_files(given: Sequence[str], options: FileOptions, but: Path | None = None) -> list[InputFile]:
    """All of them. `but` is a folder whose files are left out: what is written."""
    files = [file for each in given for file in _found(each, options, but)]
    if not files:
        raise ConfigError(f"{', '.join(given)}: no files in it that are read")
    seen = set[str]()
    for file in files:
        if file.address in seen:
            raise ConfigError(f"{file.address} is named twice: name each file once")
        seen.add(file.address)
    return files


def refuse_address(out: Path | str) -> None:
    """Raise for an output that is no path: files are renamed and locked, which takes a file system. A path
    that was made of an address has lost a slash."""
    found = _ADDRESS.match(str(out))
    if found:
        raise ConfigError(
            f"{out}: what is written must be a path of this machine, not an address ({found[1]}://): write "
            "to a local or mounted folder, then copy it there"
        )


def _found(given: str, options: FileOptions, but: Path | None) -> Iterator[InputFile]:
    if "://" in given:
        yield from _remote(given, options)
        return
    path = Path(given)
    if path.is_dir():
        inside = sorted(each for each in path.rglob("*") if each.is_file())
        for each in inside:
            hidden = any(part.startswith(".") for part in each.relative_to(path).parts)
            if not hidden and each.suffix != ".partial" and not (but and each.is_relative_to(but)):
                yield _local(each, options)
    elif not path.exists() and any(sign in given for sign in _MAGIC):
        matches = sorted(glob.glob(given, recursive=True))  # noqa: PTH207  # Path.glob wants a root
        if not matches:
            raise DataError(Origin(given), "matches no file", remedy="check the pattern")
        yield from (_local(Path(each), options) for each in matches if Path(each).is_file())
    else:
        if not path.exists():
            with open_bytes(given):  # raises, unless it is in an archive
                pass
        yield _local(path, options)


def _local(path: Path, options: FileOptions) -> InputFile:
    size, stamp = _stamped(path)
    return InputFile(str(path), _format(str(path), options), size, stamp, str(path.absolute()))


def _stamped(path: Path) -> tuple[int, str]:
    there = _lying(path).stat()
    return there.st_size, f"{there.st_size} {there.st_mtime_ns} {there.st_ctime_ns} {there.st_ino}"


def stamp_of(file: InputFile) -> str | None:
    """What a file's stamp is now; None where it is gone."""
    try:
        if not file.remote:
            path = Path(file.path)
            return None if _lying(path).is_dir() else _stamped(path)[1]
        filesystem, there = _fsspec().core.url_to_fs(file.address)
        filesystem.invalidate_cache()
        return str(filesystem.ukey(there))
    except FileNotFoundError:
        return None


def _remote(given: str, options: FileOptions) -> Iterator[InputFile]:
    filesystem, path = _fsspec().core.url_to_fs(given)
    if any(sign in path for sign in _MAGIC):
        paths = sorted(each for each in filesystem.glob(path) if filesystem.isfile(each))
    elif filesystem.isdir(path):
        paths = sorted(filesystem.find(path))
    else:
        paths = [path]
    if not paths:
        raise DataError(Origin(given), "no files there", remedy="check the address")
    for each in paths:
        address = filesystem.unstrip_protocol(each)
        try:
            about = filesystem.info(each)
            stamp = str(filesystem.ukey(each))
        except FileNotFoundError as error:
            raise DataError(Origin(address), "no such file", remedy="check the address") from error
        yield InputFile(address, _format(address, options), int(about.get("size") or 0), stamp, address)


def _fsspec() -> Any:
    try:
        import_module("fsspec.core")
    except ImportError as error:
        raise ConfigError(f"addresses with :// need fsspec: {EXTRA}") from error
    return import_module("fsspec")


def _format(name: str, options: FileOptions) -> InputFormat:
    if options.format is None and ending(name) == ".parquet":
        return "parquet"
    return format_of(name, options.format)


@contextmanager
def opened(file: InputFile, encoding: str = "utf-8") -> Iterator[io.BufferedReader]:
    """Unpacked, as UTF-8."""
    with ExitStack() as stack:
        if file.remote:
            raw = stack.enter_context(_opened_remote(file))
            stream = stack.enter_context(unpacked(raw, Path(file.address), file.size or None))
        else:
            stream = stack.enter_context(open_bytes(file.path))
        yield stream if is_utf8(encoding) else recoded(stream, file.address, encoding)


@contextmanager
def opened_as_it_is(file: InputFile) -> Iterator[Any]:
    """Its bytes, which can be sought in."""
    if file.remote:
        with _opened_remote(file) as stream:
            yield stream
    else:
        with _lying(Path(file.path)).open("rb") as stream:
            yield stream


def _lying(path: Path) -> Path:
    """The file itself, or the archive that it is in."""
    return next(part for part in (path, *path.parents) if part.exists())


@contextmanager
def _opened_remote(file: InputFile) -> Iterator[Any]:
    try:
        with _fsspec().open(file.address, "rb") as stream:
            yield stream
    except FileNotFoundError as error:
        raise DataError(file.origin, "no such file", remedy="check the address") from error


def seekable(file: InputFile, encoding: str) -> bool:
    """Whether a place in it can be gone to at once."""
    suffix = Path(file.address).suffix
    return suffix not in COMPRESSED and ".zip/" not in file.address and is_utf8(encoding)


def content_hash(file: InputFile) -> str:
    """SHA-256 of its bytes, as they lie there."""
    with opened_as_it_is(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
