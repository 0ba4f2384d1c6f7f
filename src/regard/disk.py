"""A full disk, told in one line: which file could not be written, and what to do.

What the system says of a full disk names no file, and libraries that write say it in errors of their own.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""No space, a quota that is used up, a file larger than one may be."""
_SAID = re.compile(r"os error 28\b|os error 122\b|os error 27\b|No space left|\d+ requested and \d+ written")
"""By safetensors; by faiss; by numpy, which writes less than it should and does not say why."""

AGAIN = "give the same command again"


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
