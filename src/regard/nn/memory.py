"""Memory of the CPU: kept while a model is trained; and where there is none left, told the same way as by a
GPU: torch.OutOfMemoryError."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from regard.oom import is_out_of_memory


@contextmanager
def memory_errors() -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise torch.OutOfMemoryError(str(error) or "the machine has no memory left") from error


# of glibc's malloc.h
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4


def _glibc() -> Any:
    """None if it is another library that gives memory."""
    library: Any = None if os.name != "posix" else ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "gnu_get_libc_version") else None


def give_freed_memory_back() -> None:
    """To the system, which may have use for it; where it is asked for again, that takes longer once."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """What is freed is kept for what is asked for next. glibc gives large blocks back at once, and the system
    makes each of their pages anew: a step of training, which asks for the same ones every time, takes half as
    long again. At the end all is given back. Where a user has set malloc's behaviour, or it is not glibc's,
    nothing happens."""
    chosen = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    library = None if chosen else _glibc()
    if library is None:
        yield
        return
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, -1)  # never
    try:
        yield
    finally:
        library.mallopt(_MMAP_MAX, 65_536)
        library.mallopt(_MMAP_THRESHOLD, 32 << 20)  # as far as glibc goes by itself
        library.mallopt(_TRIM_THRESHOLD, 64 << 20)
        library.malloc_trim(0)
