"""A checkpoint is one file, and exists whole or not at all.

It is written beside its place, brought to the disk, then renamed over the one before: whoever is killed on
the way, or meets a full disk, leaves the last checkpoint as it was. Vectors are safetensors; the rest (the
step, the best figures so far) is JSON in their header. Nothing is ever pickled.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.disk import DiskFullError, replace
from regard.train.digests import of_content, of_text

FORMAT = "regard checkpoint 1"


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or read; the message names the file and the remedy."""


def write(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    whole = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    about = {"format": FORMAT, "facts": json.dumps(facts)}
    about["digest"] = _digest(about["facts"], whole)
    try:
        replace(path, lambda partial: save_file(whole, partial, about))
    except (OSError, SafetensorError) as error:
        last = "the one written before is intact" if path.exists() else "there is none yet"
        if isinstance(error, DiskFullError):
            raise DiskFullError(path, f"{error.why}; {last}") from error
        raise CheckpointError(f"{path}: the checkpoint could not be written ({error}); {last}") from error


def has_digest(path: Path) -> bool:
    """Whether a checkpoint that can be read says what was written."""
    with safe_open(path, framework="pt") as file:
        return "digest" in (file.metadata() or {})


def _digest(facts: str, tensors: Mapping[str, Tensor]) -> str:
    return of_text(f"{of_text(facts)} {of_content(tensors, tensors.__getitem__)}")


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        if path.exists() and not path.is_file():  # a pipe may never end
            raise OSError("no ordinary file")
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            if about.get("format") != FORMAT:
                raise CheckpointError(
                    f"{path}: {about.get('format', 'no')!r} is no checkpoint of this version; "
                    "start again in a new folder"
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = json.loads(about.get("facts", ""))
        if about.get("digest") not in (None, _digest(about["facts"], tensors)):
            raise ValueError("damaged: its content is not what was written")
        if not isinstance(facts, dict):
            raise ValueError(f"its facts are {type(facts).__name__} instead of a table")
        return tensors, facts
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); start again in a new folder") from error
