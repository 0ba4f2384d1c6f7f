"""Room for large results, used again.

The system gives memory of this size anew each time, page by page, each filled with zeros first: for the
scores of a large vocabulary that took a fifth of a step. So each thread keeps the last such room, and takes
it again when nobody has it any more: neither the tensor that was made of it, nor any view of that.
"""

import math
import threading
import weakref

import numpy as np
import torch
from torch import Tensor

LARGE = 1 << 22
"""Numbers, from where memory comes from the system each time: glibc keeps pieces of 32 MB at most."""


class _Kept(threading.local):
    room: np.ndarray | None = None
    lent: "weakref.ref[np.ndarray] | None" = None
    """The part of it that the last tensor is made of, which lives as long as that or any view of it."""


_kept = _Kept()


def empty(*shape: int) -> Tensor:
    """As `torch.empty`, in float32 on the CPU."""
    count = math.prod(shape)
    if count < LARGE:
        return torch.empty(shape, device="cpu", dtype=torch.float32)
    room = _kept.room
    if room is None or len(room) < count:
        room = _kept.room = np.empty(count, dtype=np.float32)
    elif _kept.lent is not None and _kept.lent() is not None:
        return torch.empty(shape, device="cpu", dtype=torch.float32)
    part = room[:count]
    _kept.lent = weakref.ref(part)
    return torch.from_numpy(part).view(shape)
