"""Several processes that train one model: `torchrun --nproc-per-node=2 -m regard train ...`.

Each rank takes its share of the parts of every step; gradients are added up; all ranks then do the same
update. Files are rank 0's business. One that is lost ends them all (watch.py).
"""

import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from regard.disk import AGAIN
from regard.train.watch import LostRankError, Watch

PATIENCE = timedelta(days=1)
"""Ranks wait so long for the first one, which alone reads the text and validates; torch's own ten minutes
would end a run over a large corpus. One that is lost does not keep them: each watches the others."""

MEETING = timedelta(minutes=10)
"""They start together, and meet within this time."""
_NUMBERS = itertools.count()


def find_device(wanted: str) -> str:
    """auto is the GPU if there is one."""
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind = wanted.partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"device={wanted!r} is not known: choose auto, cpu or cuda")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={wanted!r} is not on this machine: choose cpu, or leave it out")
    return wanted


def _met(rank: int, count: int) -> Store:
    """The store of all ranks, as torchrun's variables say; the n-th training of a process has its own."""
    store, _, _ = next(rendezvous("env://", rank, count, timeout=MEETING))
    store.set_timeout(PATIENCE)
    return PrefixStore(f"regard {next(_NUMBERS)}", store)


@dataclass(frozen=True, slots=True)
class Ranks:
    rank: int
    count: int
    device: torch.device
    watch: Watch | None = None
    """Of the other ranks, where there are some."""

    @classmethod
    def join(cls, device: str = "auto") -> "Ranks":
        """This process alone, or its place among those that torchrun started."""
        count = int(os.environ.get("WORLD_SIZE", "1"))
        local = int(os.environ.get("LOCAL_RANK", "0"))
        kind = find_device(device)
        place = torch.device(f"cuda:{local}" if kind == "cuda" else kind)
        if place.type == "cuda":
            torch.cuda.set_device(place)
        rank = int(os.environ.get("RANK", "0"))
        if count == 1 or dist.is_initialized():
            return cls(rank=rank, count=count, device=place)
        try:
            store = _met(rank, count)
            kind = "nccl" if place.type == "cuda" else "gloo"
            dist.init_process_group(kind, timeout=PATIENCE, store=store, rank=rank, world_size=count)
        except RuntimeError as error:
            said = " ".join(str(error).split())[:200]
            raise LostRankError(
                f"rank {rank} cannot reach the {count - 1} others ({said}); {AGAIN}"
            ) from error
        return cls(rank=rank, count=count, device=place, watch=Watch(store, rank, count))

    @property
    def first(self) -> bool:
        return self.rank == 0

    def add_up(self, tensor: Tensor) -> None:
        """The sum over all ranks, in place."""
        if self.count > 1:
            with self._together():
                dist.all_reduce(tensor)

    def wait(self) -> None:
        """Until all ranks are here."""
        if self.count > 1:
            with self._together():
                dist.barrier()

    def share(self, fact: Any) -> Any:
        """What rank 0 gives, on every rank."""
        if self.count == 1:
            return fact
        facts = [fact]
        with self._together():
            dist.broadcast_object_list(facts, src=0)
        return facts[0]

    @contextmanager
    def _together(self) -> Iterator[None]:
        """What fails here fails because another rank is lost."""
        try:
            yield
        except RuntimeError as error:
            ignore_torchrun()
            raise LostRankError(self.watch.diagnosis(error) if self.watch else str(error)) from error

    def leave(self, error: BaseException | None = None) -> None:
        """At the end, or after this error."""
        if self.watch is not None:
            self.watch.stop("" if error is None else " ".join(str(error).split()) or type(error).__name__)
        if self.count > 1 and dist.is_initialized() and not isinstance(error, LostRankError):
            dist.destroy_process_group()


def ignore_torchrun() -> None:
    """It ends all ranks when one is lost, by SIGTERM, and then by SIGKILL; the time between is enough to say
    what was lost."""
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
