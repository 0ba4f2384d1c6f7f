"""Files that exist whole or not at all; and a full disk, told in one line: which file, and what to do.

What the system says of a full disk names no file, and libraries that write say it in errors of their own.
"""

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""No space, a quota that is used up, a file larger than one may be."""
_SAID = re.compile(r"os error 28\b|os error 122\b|os error 27\b|No space left|\d+ requested and \d+ written")
"""By safetensors; by faiss; by numpy, which writes less than it should and does not say why."""

AGAIN = "give the same command again"
MOST_BYTES = 1 << 28
"""Of a file that is read at once."""


class DiskFullError(OSError):
    """A file for which the disk has no room; the message names it and the remedy."""

    def __init__(self, path: Path | str, why: str, then: str = AGAIN) -> None:
        super().__init__(f"{path}: could not be written ({why}); free some space, then {then}")
        self.path, self.why = path, why

    def __reduce__(self) -> tuple[type["DiskFullError"], tuple[Path | str, str]]:
        return DiskFullError, (self.path, self.why)


def is_full(error: BaseException) -> bool:
    """Whether that is what an error says."""
    return getattr(error, "errno", None) in FULL or bool(_SAID.search(str(error)))


@contextmanager
def full_disk(path: Path | str) -> Iterator[None]:
    """Whatever a full disk raises within is a DiskFullError of this file, unless it names one already."""
    try:
        yield
    except Exception as error:
        if not is_full(error) or type(error).__module__.startswith("regard."):  # which name a file
            raise
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise DiskFullError(path, why) from error


def replace(path: Path, save: Callable[[Path], object], *, partial: Path | None = None) -> None:
    """Have `save(partial)` write a file, then put it in the place of `path`, in one move. Where several
    processes may write the same file, each needs a `partial` of its own, on the same disk. An OSError for a
    folder, a pipe or a device, which stays what it is."""
    check_plain(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial or path.with_name(f"{path.name}.partial")
    try:
        with full_disk(path):
            save(partial)
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            partial.chmod(0o666 & ~_umask())  # safetensors lets nobody else read its files
            partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def cache_folder() -> Path:
    """Where is kept what can be made again: compiled libraries, copies of what has an address."""
    given = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return (given if given.is_absolute() else Path.home() / ".cache") / "regard"


def own_partial(path: Path) -> Path:
    """For a file that is not whole yet, a name that no other process has."""
    return path.with_name(f"{path.name}.{os.getpid()}.partial")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync_folder(folder: Path) -> None:
    """The new name is on the disk only when its folder is. Windows opens no folders."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_plain(path: Path) -> None:
    """Raise an OSError for a device or a pipe, which may never end, or have nobody who writes into it."""
    if path.exists() and not path.is_file():
        why = errno.EISDIR if path.is_dir() else errno.EINVAL
        raise OSError(why, os.strerror(why) if path.is_dir() else "no ordinary file", str(path))


def read_plain(path: Path, most: int = MOST_BYTES, *, encoding: str = "utf-8") -> str:
    """The text of an ordinary file of so many bytes at most; an OSError for any other."""
    check_plain(path)
    with path.open("rb") as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise OSError(errno.EINVAL, f"more than {most:,} bytes, which are all that is read of it", str(path))
    return raw.decode(encoding)


def write_text(path: Path, text: str, *, partial: Path | None = None) -> None:
    """A text file, whole or not at all."""
    replace(path, lambda partial: partial.write_text(text, encoding="utf-8"), partial=partial)
