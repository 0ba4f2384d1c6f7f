"""What a corpus is read from: files, folders, globs, and whatever fsspec has an address for.

Files come in the order in which they are named; those of a folder or a glob in that of their names. What is
opened is a stream of UTF-8 bytes, unpacked and recoded; a place in a file is a byte of that stream.
"""

import glob
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from regard.config import ConfigError
from regard.tasks.base.formats import FileOptions, Format, ending, format_of
from regard.text import DataError, Origin
from regard.text.charsets import is_utf8
from regard.text.files import COMPRESSED, open_bytes, recoded, unpacked
from regard.text.remote import NotThereError, fsspec, reached

InputFormat = Format | Literal["parquet"]

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


def found_files(
    given: Sequence[str],
    options: FileOptions,
    but: Path | None = None,
    told: Callable[[str], object] = lambda line: None,
) -> list[InputFile]:
    """All of them. `but` is a folder whose files are left out: what is written. Of folders and globs, so are
    hidden files and empty ones, as Spark leaves them beside its own; `told` is how many were empty."""
    but = but and but.resolve()
    found = [file for each in given for file in _found(each, options, but)]
    files = [file for file in found if file is not None]
    if empty := len(found) - len(files):
        told(f"{empty:,} empty files are left out")
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


def _found(given: str, options: FileOptions, but: Path | None) -> Iterator[InputFile | None]:
    """None for an empty one."""
    if "://" in given:
        yield from _remote(given, options, but)
        return
    path = Path(given)
    if path.is_dir():
        inside = (each for each in path.rglob("*") if each.is_file())
        yield from _listed(sorted(inside), path, options, but)
    elif not path.exists() and any(sign in given for sign in _MAGIC):
        matches = sorted(glob.glob(given, recursive=True))  # noqa: PTH207  # Path.glob wants a root
        if not matches:
            raise DataError(Origin(given), "matches no file", remedy="check the pattern")
        yield from _listed((Path(each) for each in matches if Path(each).is_file()), None, options, but)
    else:
        if not path.exists():
            with open_bytes(given):  # raises, unless it is in an archive
                pass
        _refuse_own(path, given, but)
        yield _local(path, options)


def _listed(
    paths: Iterable[Path], root: Path | None, options: FileOptions, but: Path | None
) -> Iterator[InputFile | None]:
    for each in paths:
        parts = (each.name,) if root is None else each.relative_to(root).parts
        if is_data(parts) and not _below(each, but):
            yield _local(each, options) if each.stat().st_size else None


def is_data(parts: Sequence[str]) -> bool:
    """Whether a file of a folder is read; these are the parts of its name. What begins with a dot or an
    underscore (_SUCCESS, _temporary) is no data, as for Spark, unless it is a partition (_year=2020)."""
    hidden = any(part[:1] == "." or (part[:1] == "_" and "=" not in part) for part in parts)
    return not hidden and not parts[-1].endswith(".partial")


def _below(path: Path, folder: Path | None) -> bool:
    return folder is not None and path.resolve().is_relative_to(folder)


def _refuse_own(path: Path, given: str, but: Path | None) -> None:
    if _below(path, but):
        raise ConfigError(f"{given} lies in {but}, where the output goes: name another folder for that")


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
        with reached(file.address):
            filesystem, there = fsspec().core.url_to_fs(file.address)
            filesystem.invalidate_cache()
            return str(filesystem.ukey(there))
    except (FileNotFoundError, NotThereError):
        return None


def _remote(given: str, options: FileOptions, but: Path | None) -> Iterator[InputFile | None]:
    with reached(given):
        filesystem, path = fsspec().core.url_to_fs(given)
        if any(sign in path for sign in _MAGIC):
            found = sorted(each for each in filesystem.glob(path) if filesystem.isfile(each))
            paths = [each for each in found if is_data((PurePosixPath(each).name,))]
        elif filesystem.isdir(path):
            root = path.rstrip("/")
            found = sorted(filesystem.find(path))
            paths = [each for each in found if is_data(PurePosixPath(each.removeprefix(root)).parts[1:])]
        else:
            found, paths = [], [path]
        if not paths:
            raise DataError(Origin(given), "no files there", remedy="check the address")
        here = "file" in _protocols(filesystem)
        for each in paths:
            if here and _below(Path(each), but):
                if not found:
                    _refuse_own(Path(each), given, but)
                continue
            address = filesystem.unstrip_protocol(each)
            with reached(address):
                size = int(filesystem.info(each).get("size") or 0)
                stamp = str(filesystem.ukey(each))
            if found and not size:
                yield None
                continue
            yield InputFile(address, _format(address, options), size, stamp, address)


def _protocols(filesystem: Any) -> tuple[str, ...]:
    own = filesystem.protocol
    return (own,) if isinstance(own, str) else tuple(own)


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
    with ExitStack() as stack:
        with reached(file.address):
            stream = stack.enter_context(fsspec().open(file.address, "rb"))
        yield stream


def seekable(file: InputFile, encoding: str) -> bool:
    """Whether a place in it can be gone to at once."""
    suffix = Path(file.address).suffix
    return suffix not in COMPRESSED and ".zip/" not in file.address and is_utf8(encoding)


def content_hash(file: InputFile) -> str:
    """SHA-256 of its bytes, as they lie there."""
    with opened_as_it_is(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
