"""What was written, against what was meant; and that all may read it."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from regard.hub.files import WEIGHTS, HubError


def compare_weights(meant: Mapping[str, Tensor], written: Mapping[str, Tensor]) -> None:
    differ = [
        name
        for name, weight in meant.items()
        if name not in written or not torch.equal(weight.detach().cpu().float(), written[name])
    ]
    if differ or meant.keys() != written.keys():
        raise HubError(f"what was written reads back differently: {differ[:3]}; please report it")


def open_to_all(folder: Path) -> None:
    for path in folder.rglob(WEIGHTS):  # safetensors lets nobody else read its files
        path.chmod((folder / "config.json").stat().st_mode)
