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
from regard.train.workload import workload_of


def is_sharded(
    model: nn.Module, config: TrainConfig, average: AverageConfig, ranks: Ranks, *, tokens: int
) -> bool:
    """For steps of so many `tokens`, all ranks together."""
    if config.fsdp != "auto" or ranks.count == 1 or ranks.device.type != "cuda":
        return config.fsdp == "yes"
    work = workload_of(model, name="", tokens=-(-tokens // ranks.count))
    again = config.activation_checkpointing
    whole = memory_of(work, "ddp", ranks.count, average=average, recomputed=again)
    room = torch.cuda.get_device_properties(ranks.device).total_memory
    return is_too_large(whole, room, ranks.count)


def sharded_engine(model: nn.Module, loss: Callable[[Any], Sums], **settings: Any) -> Any:
    """Imported where it is needed: FSDP takes seconds."""
    return import_module("regard.train.sharded").ShardedEngine(model, loss, **settings)
