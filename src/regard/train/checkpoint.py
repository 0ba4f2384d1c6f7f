"""A checkpoint is one file, and exists whole or not at all.

It is written beside its place, brought to the disk, then renamed over the one before: whoever is killed on
the way, or meets a full disk, leaves the last checkpoint as it was. Vectors are safetensors; the rest (the
step, the best figures so far) is JSON in their header. Nothing is ever pickled.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.disk import DiskFullError, full_disk
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


def replace(path: Path, save: Callable[[Path], object]) -> None:
    """Have `save(partial)` write a file, then put it in the place of `path`, in one move."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    try:
        with full_disk(path):
            save(partial)
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            partial.chmod(0o666 & ~_umask())  # safetensors lets nobody else read its files
            partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """The new name is on the disk only when its folder is. Windows opens no folders."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all."""
    replace(path, lambda partial: partial.write_text(text, encoding="utf-8"))


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
