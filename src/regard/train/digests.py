"""Digests of model folders and checkpoints: what is read is what was written, to the byte.

    model.safetensors   in its own metadata: a digest of its header (names, types, shapes), and one of all its
                        tensors; so file and digests are of one moment, whenever a run is killed
    checkpoint          in its metadata: one of its facts and all its tensors
    config.json         under "digests": one of itself without that one, and one of tokenizer.json
    metrics.json        under "digests": one of all else in it; and so data.json

They find damage, not forgery: whoever changes a file can change its digest. What has none (older folders) is
taken as it is.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

KEY = "digests"
"""In config.json, and in the metadata of the weights."""
TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
    "BOOL": torch.bool,
}  # fmt: skip
"""What weights and buffers may be of, by the names of safetensors."""
_NAMES = {dtype: name for name, dtype in TYPES.items()}


class Slot(NamedTuple):
    """What a header says of a tensor."""

    type: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> "Slot":
        return cls(_NAMES.get(tensor.dtype, str(tensor.dtype)), tuple(tensor.shape))


def of_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def of_config(config: Mapping[str, Any]) -> str:
    """Whatever the order of the keys and the white space of the file."""
    others = {name: digest for name, digest in config.get(KEY, {}).items() if name != "config.json"}
    return of_text(json.dumps({**config, KEY: others}, sort_keys=True))


def of_table(table: Mapping[str, Any]) -> str:
    """Without its digest, and as it comes back from a file: keys are text there."""
    others = {key: value for key, value in table.items() if key != KEY}
    return of_text(json.dumps(json.loads(json.dumps(others)), sort_keys=True))


def of_header(slots: Mapping[str, Slot]) -> str:
    return of_text(json.dumps([[name, *slots[name]] for name in sorted(slots)]))


def of_content(names: Iterable[str], read: Callable[[str], Tensor]) -> str:
    """Of the tensors in the order of their names; each is read when its turn comes, and then let go."""
    sha = hashlib.sha256()
    for name in sorted(names):
        tensor = read(name)
        sha.update(json.dumps([name, *Slot.of(tensor)]).encode("utf-8"))
        sha.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


def of_weights(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The metadata of a file of weights. One entry: of several, the order would change from file to file."""
    header = of_header({name: Slot.of(tensor) for name, tensor in tensors.items()})
    return {KEY: f"{header} {of_content(tensors, tensors.__getitem__)}"}
