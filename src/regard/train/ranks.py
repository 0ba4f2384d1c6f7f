"""Several processes that train one model: `torchrun --nproc-per-node=2 -m regard train ...`.

Each rank takes its share of the parts of every step; gradients are added up; all ranks then do the same
update. Files are rank 0's business.
"""

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

PATIENCE = timedelta(days=1)
"""Ranks wait so long for the first one, which alone reads the text and validates; torch's own ten minutes
would end a run over a large corpus. One that fails does not keep them: torchrun then ends them all."""


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


@dataclass(frozen=True, slots=True)
class Ranks:
    rank: int
    count: int
    device: torch.device

    @classmethod
    def join(cls, device: str = "auto") -> "Ranks":
        """This process alone, or its place among those that torchrun started."""
        count = int(os.environ.get("WORLD_SIZE", "1"))
        local = int(os.environ.get("LOCAL_RANK", "0"))
        kind = find_device(device)
        place = torch.device(f"cuda:{local}" if kind == "cuda" else kind)
        if place.type == "cuda":
            torch.cuda.set_device(place)
        if count > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if place.type == "cuda" else "gloo", timeout=PATIENCE)
        return cls(rank=int(os.environ.get("RANK", "0")), count=count, device=place)

    @property
    def first(self) -> bool:
        return self.rank == 0

    def add_up(self, tensor: Tensor) -> None:
        """The sum over all ranks, in place."""
        if self.count > 1:
            dist.all_reduce(tensor)

    def wait(self) -> None:
        """Until all ranks are here."""
        if self.count > 1:
            dist.barrier()

    def share(self, fact: Any) -> Any:
        """What rank 0 gives, on every rank."""
        if self.count == 1:
            return fact
        facts = [fact]
        dist.broadcast_object_list(facts, src=0)
        return facts[0]

    def leave(self) -> None:
        if self.count > 1 and dist.is_initialized():
            dist.destroy_process_group()
