"""What fine-tuning by adapters leaves: the whole model, and beside it what was learned alone.

    OUT/                 a model like any other: the adapters are part of its matrices
    OUT/adapter/         config.json, adapter.safetensors: small, for many that share one base

An adapter names its base by a digest of the base's weights, and is refused by any other.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.config import from_dict, to_dict
from regard.disk import replace
from regard.nn.adapter import adapters, check_weights, merged_weights
from regard.settings.network import AdapterConfig
from regard.tasks.base.folder import FolderError, read_config, whole, write_config, write_weights
from regard.tasks.base.guards import CONFIG, folder_errors, own_file
from regard.train.digests import KEY, of_content, of_weights

FOLDER, ADAPTER = "adapter", "adapter.safetensors"


@dataclass(frozen=True, slots=True)
class Adapter:
    config: AdapterConfig
    base: str
    """The digest of the weights that it was learned beside."""
    weights: Mapping[str, Tensor]
    told: Mapping[str, Any] = field(default_factory=dict)
    """What its task says of it besides."""
    digested: bool = False
    """Whether its file has a digest, which is then what it should be."""


def is_adapter(folder: Path) -> bool:
    """Whether it is the folder of an adapter, whole or not, and not of a model that has one beside it."""
    if os.path.lexists(folder / ADAPTER):
        return True
    with suppress(FolderError):
        return (folder / CONFIG).is_file() and {"adapter", "base"} <= read_config(folder).keys()
    return False


def has_adapter(folder: Path) -> bool:
    """Whether there is one beside the model of this folder, or part of one."""
    return any(os.path.lexists(folder / FOLDER / name) for name in (ADAPTER, CONFIG))


def digest(model: nn.Module) -> str:
    """Of a model's weights."""
    weights = {name: weight.detach().cpu() for name, weight in whole(model).items()}
    return of_content(weights, weights.__getitem__)


def write_adapted(
    folder: Path,
    weights: Mapping[str, Tensor],
    *,
    task: str,
    config: AdapterConfig,
    base: str,
    told: Mapping[str, Any] | None = None,
) -> None:
    """The weights of an adapted model: merged, and what was learned by itself."""
    write_weights(folder, merged_weights(weights, config))
    own = {name: each.detach().cpu().contiguous().clone() for name, each in adapters(weights).items()}
    beside = folder / FOLDER
    beside.mkdir(parents=True, exist_ok=True)
    replace(beside / ADAPTER, lambda partial: save_file(own, partial, of_weights(own)))
    write_config(beside, task, {"adapter": to_dict(config), "base": base, **(told or {})})


def clear_adapter(folder: Path) -> None:
    """Make room for a run that takes the place of the one there, and may have none."""
    for name in (CONFIG, ADAPTER):
        (folder / FOLDER / name).unlink(missing_ok=True)


def read_adapter(folder: Path, task: str) -> Adapter:
    """From its folder, or from that of the model that was trained with it."""
    folder = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    if not folder.is_dir() or not own_file(folder, ADAPTER).exists():
        raise FolderError(
            f"{folder}: no {ADAPTER} there; give the --out folder of a training with model.adapter.rank, or "
            f"the folder {FOLDER} in it"
        )
    config = read_config(folder)
    if config.get("task") != task:
        raise FolderError(f"{folder}: an adapter for the task {config.get('task')!r:.60}, not {task!r}")
    with folder_errors(folder / CONFIG):
        settings, base = from_dict(AdapterConfig, config["adapter"], "adapter"), str(config["base"])
    path = own_file(folder, ADAPTER)
    with folder_errors(path):
        with safe_open(path, framework="pt") as file:
            shapes = [(name, file.get_slice(name).get_shape()) for name in file.keys()]  # noqa: SIM118
            told = (file.metadata() or {}).get(KEY)
        for name, shape in shapes:  # before anything is read
            if len(shape) != 2 or settings.rank not in shape:
                raise ValueError(f"{name} of shape {shape} is no adapter of rank {settings.rank}")
        weights = load_file(path)
        if told not in (None, of_weights(weights)[KEY]):
            raise ValueError("damaged: its content is not what was written; copy the folder anew")
        if not all(torch.isfinite(weight).all() for weight in weights.values()):
            raise ValueError("it holds numbers that are none; copy the folder anew")
    return Adapter(settings, base, weights, config, digested=told is not None)


def check_base(adapter: Adapter, model: nn.Module, folder: Path) -> None:
    """That it was learned beside this model, and is whole."""
    if adapter.base != digest(model):
        raise FolderError(
            f"{folder}: it was learned beside the weights of another model: open the one that the training "
            "started from"
        )
    with folder_errors(folder):
        check_weights(model, adapter.config, adapter.weights)
