"""Out of memory, told the same way by a CPU as by a GPU: torch.OutOfMemoryError."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_SAID = ("can't allocate memory", "not enough memory")
"""By torch's allocator of the CPU, in a RuntimeError; on Linux and on Windows."""


@contextmanager
def memory_errors() -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(said in str(error) for said in _SAID):
            raise
        raise torch.OutOfMemoryError(str(error) or "the machine has no memory left") from error
