"""Several processes that train one model: `torchrun --nproc-per-node=2 -m regard train ...`.

Each rank takes its share of the parts of every step; gradients are added up; all ranks then do the same
update. Files are rank 0's business; where other machines do not see them, the first rank of each has its own
tokenizer and token stores there. One that is lost ends them all (watch.py), and torchrun may start them anew.
"""

import itertools
import os
import secrets
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from regard.config import ConfigError
from regard.disk import AGAIN
from regard.train.meeting import meet
from regard.train.watch import LostRankError, Watch

PATIENCE = timedelta(days=1)
"""Ranks wait so long for the first one, which alone reads the text and validates; torch's own ten minutes
would end a run over a large corpus. One that is lost does not keep them: each watches the others."""

MEETING = timedelta(minutes=10)
"""They start together, and meet within this time."""
SEEN_AFTER = 20
"""Tenths of a second until a new file is seen by other machines, if it ever is."""
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
    return meet(PrefixStore(f"regard {next(_NUMBERS)}", store), rank, count, MEETING)


@dataclass(frozen=True, slots=True)
class Ranks:
    rank: int
    count: int
    device: torch.device
    watch: Watch | None = None
    """Of the other ranks, where there are some."""
    local: int = 0
    """Its number among those of its machine."""
    builds: bool | None = None
    """Whether it makes what others of its machine wait for and read; None: the first does."""
    shared: bool = True
    """Whether all see the folder of the first."""

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
            return cls(rank=rank, count=count, device=place, local=local)
        try:
            store = _met(rank, count)
            kind = "nccl" if place.type == "cuda" else "gloo"
            dist.init_process_group(kind, timeout=PATIENCE, store=store, rank=rank, world_size=count)
        except RuntimeError as error:
            said = " ".join(str(error).split())[:200]
            raise LostRankError(
                f"rank {rank} cannot reach the {count - 1} others ({said}); {AGAIN}"
            ) from error
        return cls(rank=rank, count=count, device=place, watch=Watch(store, rank, count), local=local)

    def reaching(self, folder: Path) -> "Ranks":
        """The same, knowing what its machine sees of this folder of the first rank: where that is nothing,
        the first of each machine builds for it what the first of all does for its own."""
        if self.count == 1:
            return self
        name = self.share(f"rank-0.{secrets.token_hex(8)}")
        if self.first:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        self.wait()
        sees = _sees(folder / name)
        shared = self.agreed(sees)
        if self.first:
            (folder / name).unlink(missing_ok=True)
        return replace(self, builds=self.first or (self.local == 0 and not sees), shared=shared)

    def agreed(self, fact: bool) -> bool:
        """Whether it is so for all ranks."""
        against = torch.tensor(float(not fact), device=self.device)
        self.add_up(against)
        return float(against) == 0

    def check_same(self, what: str, own: str) -> None:
        """What all ranks must have alike, or else they would not train one model."""
        wanted = self.share(own)
        if own != wanted:
            raise ConfigError(
                f"rank {self.rank} on {socket.gethostname()} has other {what} than rank 0: give every "
                "machine the same files, settings and versions"
            )

    @property
    def builder(self) -> bool:
        return self.first if self.builds is None else self.builds

    def form_group(self) -> None:
        """torch's own group of all ranks, where there is none: of a process alone."""
        if not dist.is_initialized():
            kind = "nccl" if self.device.type == "cuda" else "gloo"
            dist.init_process_group(
                kind, store=cast(Any, dist).HashStore(), rank=self.rank, world_size=self.count
            )

    @property
    def first(self) -> bool:
        return self.rank == 0

    def add_up(self, tensor: Tensor) -> None:
        """The sum over all ranks, in place."""
        if self.count > 1:
            with self._together():
                dist.all_reduce(tensor)

    def copy_first(self, tensor: Tensor) -> None:
        """What rank 0 has in it, in place."""
        if self.count > 1:
            with self._together():
                dist.broadcast(tensor, src=0)

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

    def gathered(self, fact: Any) -> list[Any]:
        """What each rank gives, on every rank."""
        if self.count == 1:
            return [fact]
        facts: list[Any] = [None] * self.count
        with self._together():
            dist.all_gather_object(facts, fact)
        return facts

    @contextmanager
    def _together(self) -> Iterator[None]:
        """What fails here fails because another rank is lost."""
        try:
            yield
        except RuntimeError as error:
            ignore_torchrun()
            raise LostRankError(self.watch.diagnosis(error) if self.watch else str(error)) from error

    @contextmanager
    def talking(self) -> Iterator[None]:
        """What fails here may fail because another rank is lost, while torch gathers or writes."""
        try:
            yield
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            found = None if self.watch is None else self.watch.soon_lost()
            if found is None:
                raise
            ignore_torchrun()
            raise LostRankError(found) from error

    def leave(self, error: BaseException | None = None) -> None:
        """At the end, or after this error."""
        if self.watch is not None:
            self.watch.stop("" if error is None else " ".join(str(error).split()) or type(error).__name__)
        if dist.is_initialized() and not isinstance(error, LostRankError):
            dist.destroy_process_group()


def restarted() -> bool:
    """Whether torchrun has started this process in the place of one that was lost."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def _sees(path: Path) -> bool:
    """Folders over a network may be some moments behind."""
    for _ in range(SEEN_AFTER):
        if path.exists():
            return True
        with suppress(OSError):
            os.listdir(path.parent)  # has some of them look again  # noqa: PTH208
        time.sleep(0.1)
    return False


def ignore_torchrun() -> None:
    """It ends all ranks when one is lost, by SIGTERM, and then by SIGKILL; the time between is enough to say
    what was lost."""
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
