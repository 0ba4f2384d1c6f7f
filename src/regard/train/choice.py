"""Which way a model is trained: whole on every rank, or cut over all of them."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import nn

from regard.settings.training import AverageConfig, TrainConfig
from regard.train.objectives import Sums
from regard.train.ranks import Ranks
from regard.train.scaling import is_too_large, memory_of
from regard.train.workload import Workload


def is_sharded(
    config: TrainConfig, average: AverageConfig, ranks: Ranks, work: Callable[[], Workload]
) -> bool:
    """`work` is what one part of a step asks of a rank: parts come one after the other. All ranks must ask
    together, and decide alike, whatever room each has."""
    if config.fsdp != "auto" or ranks.count == 1 or ranks.device.type != "cuda":
        return config.fsdp == "yes"
    again = config.activation_checkpointing
    whole = memory_of(work(), "ddp", ranks.count, average=average, recomputed=again)
    return is_too_large(whole, min(ranks.gathered(room_of(ranks.device))), ranks.count)


def room_of(device: torch.device) -> int:
    """Bytes of a GPU that a process can use."""
    return torch.cuda.get_device_properties(device).total_memory


def sharded_engine(model: nn.Module, loss: Callable[[Any], Sums], **settings: Any) -> Any:
    """Imported where it is needed: FSDP takes seconds."""
    return import_module("regard.train.sharded").ShardedEngine(model, loss, **settings)
