"""No memory left: how the system and libraries say so. Imports no torch."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SAID = re.compile(r"(can't|cannot) allocate memory|not enough memory|std::bad_alloc", re.IGNORECASE)
"""By torch's allocator of the CPU, on Linux and on Windows; by what maps files into memory."""


class NoMemoryError(MemoryError):
    """No memory for a file, which is not at fault; the message names it."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether that is what an error says, of the CPU's memory or of a GPU's."""
    kind = type(error)
    if isinstance(error, MemoryError) or kind.__name__ == "OutOfMemoryError":
        return True
    if kind.__module__.startswith("regard."):  # they say what they mean
        return False
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM or (error.errno is None and bool(_SAID.search(str(error))))
    told = isinstance(error, RuntimeError) or kind.__name__ == "SafetensorError"
    return told and bool(_SAID.search(str(error)))


@contextmanager
def memory_told(path: Path) -> Iterator[None]:
    """Where there is no memory left for a file, that is a NoMemoryError, whoever says so."""
    try:
        yield
    except Exception as error:
        if isinstance(error, NoMemoryError) or not is_out_of_memory(error):
            raise
        line = " ".join(str(error).split())[:200] or "the machine has none left"
        raise NoMemoryError(line if line.startswith(f"{path}: ") else f"{path}: {line}") from error
