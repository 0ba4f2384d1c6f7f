"""Text that has an address of fsspec's (s3://bucket/mine.en): copied to this machine once, then read like any
other file.

A copy lies in the cache (`cache_folder()/addresses`), under the address and what its file system says of the
version that is there: a file that was written again is another copy. Within a process an address is always
the same copy, whatever happens there meanwhile.
"""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from regard.config import ConfigError
from regard.disk import cache_folder, full_disk, own_partial, sync_folder
from regard.text.records import DataError, Origin

EXTRA = "pip install 'regard[scale]'"
LOCKS: Any = import_module("fcntl") if find_spec("fcntl") else None
"""Windows has none."""
_BLOCK = 1 << 22
_TELLING = 50_000_000
"""Bytes from which on it is said that something is being copied."""


class NotThereError(DataError):
    """The address can be reached, and there is no such file."""


def placed(root: Path, name: str) -> Path:
    """Where a file, or all of a folder, is read from: of an address the copy, else a path from `root` on."""
    return fetched(name) if "://" in name else root / name


@cache
def fetched(address: str) -> Path:
    with reached(address):
        filesystem, there = fsspec().core.url_to_fs(address)
        filesystem.invalidate_cache()
        whole = filesystem.isdir(there)
        files = [each for each in sorted(filesystem.find(there)) if _is_data(each)] if whole else [there]
        versions = [str(filesystem.ukey(each)) for each in files]
        sizes = [int(filesystem.info(each).get("size") or 0) for each in files]
    if not files:
        raise DataError(Origin(address), "no files there", remedy="check the address")
    facts = chr(0).join([address, *files, *versions])
    folder = cache_folder() / "addresses" / hashlib.sha256(facts.encode()).hexdigest()[:16]
    target = folder / (PurePosixPath(there.rstrip("/")).name or "files")
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    partial = own_partial(target)
    with full_disk(target), _alone(folder):
        if target.exists():  # another process was here before
            return target
        if sum(sizes) >= _TELLING:
            print(f"copying {address}, {sum(sizes) / 1e6:,.0f} MB, to {target}", file=sys.stderr)  # noqa: T201
        for each, size in zip(files, sizes, strict=True):
            copy = partial / PurePosixPath(each).relative_to(there.rstrip("/")) if whole else partial
            copy.parent.mkdir(parents=True, exist_ok=True)
            _copy(filesystem, each, address, copy, size)
        partial.replace(target)
    sync_folder(folder)
    return target


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Ranks of one machine ask for the same: one copies, the others wait."""
    if LOCKS is None:
        yield
        return
    with (folder / ".lock").open("wb") as file:
        LOCKS.flock(file, LOCKS.LOCK_EX)
        yield


def _is_data(path: str) -> bool:
    return not PurePosixPath(path).name.startswith((".", "_"))


def _copy(filesystem: Any, there: str, address: str, copy: Path, size: int) -> None:
    with ExitStack() as stack, copy.open("wb") as file:
        with reached(address):
            stream = stack.enter_context(filesystem.open(there, "rb"))
        while block := _read(stream, address):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        if size and file.tell() != size:
            raise DataError(
                Origin(address), "was cut short", f"({file.tell():,} of {size:,} bytes came)", "try again"
            )


def _read(stream: Any, address: str) -> bytes:
    with reached(address):
        return bytes(stream.read(_BLOCK))


@contextmanager
def reached(address: str) -> Iterator[None]:
    """Whatever fsspec and its implementations raise for an address, in one line that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotThereError(Origin(address), "no such file", remedy="check the address") from error
    except (ConfigError, DataError):
        raise
    except ImportError as error:
        missing = getattr(error.__cause__, "name", None)
        remedy = f": pip install {missing}" if missing else ""
        raise ConfigError(f"{address}: {error}{remedy}") from error
    except Exception as error:  # of botocore, httpx, aiohttp, ...
        why = f"({type(error).__name__}: {' '.join(str(error).split())})"
        remedy = "check the address, the network and the credentials"
        raise DataError(Origin(address), "cannot be reached", why, remedy) from error


def fsspec() -> Any:
    try:
        import_module("fsspec.core")
    except ImportError as error:
        raise ConfigError(f"addresses with :// need fsspec: {EXTRA}") from error
    return import_module("fsspec")
