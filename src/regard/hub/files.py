"""Files of strangers: what is read of a folder, and what is never done with it.

JSON, text and safetensors are read, each up to a size. Nothing is unpickled, imported or executed. The files
that the user named a folder for may be links, as they are in the cache of the Hugging Face hub; names that
come out of a file must be plain, and must not lead out of the folder.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.disk import full_disk
from regard.oom import memory_told

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

_JSON_LIMIT = 16 * 2**20
_TEXT_LIMIT = 256 * 2**20
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")
_READ = "regard import FOLDER OUT --pickle reads its weights without running it, for a folder that is opened"
_CONVERT = (
    "convert it, in a place where you trust it, with transformers: "
    "AutoModel.from_pretrained(FOLDER).save_pretrained(OUT, safe_serialization=True), or with the "
    "AutoModelFor... of its head"
)


class HubError(ValueError):
    """A folder that cannot be read or written; the message names the file and the remedy."""


class HubWarning(UserWarning):
    """Something of a folder that was left out."""


def read_text(path: Path, limit: int = _TEXT_LIMIT) -> str:
    try:
        check_plain(path)
        size = path.stat().st_size
        if size > limit:
            raise HubError(f"{path}: {size:,} bytes, but at most {limit:,} are read; is it the right file?")
        with memory_told(path):
            return path.read_text(encoding="utf-8")
    except OSError as error:
        raise HubError(f"{path}: {error.strerror or error}; copy the folder anew") from error
    except UnicodeDecodeError as error:
        raise HubError(f"{path}: no UTF-8 ({error}); copy the folder anew") from error


def read_bytes(path: Path, limit: int) -> bytes:
    check_plain(path)
    try:
        if (size := path.stat().st_size) > limit:
            raise HubError(f"{path}: {size:,} bytes, but at most {limit:,} are read; is it the right file?")
        with memory_told(path):
            return path.read_bytes()
    except OSError as error:
        raise HubError(f"{path}: {error.strerror or error}; copy the folder anew") from error


def check_plain(path: Path) -> None:
    """A device or a pipe may never end."""
    if path.exists() and not path.is_file():
        raise HubError(f"{path}: no ordinary file; copy the folder anew")


def read_json(path: Path, limit: int = _JSON_LIMIT) -> Any:
    text = read_text(path, limit)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HubError(
            f"{path}: not JSON ({error}); the file may be cut short: copy the folder anew"
        ) from error


def read_table(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise HubError(f"{path}: {type(content).__name__} instead of a table with keys; copy the folder anew")
    return content


def read_table_if_there(path: Path) -> dict[str, Any]:
    return read_table(path) if path.exists() else {}


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def inside(folder: Path, name: Any, source: Path) -> Path:
    """The path of a name that the file `source` gives: plain, and in the folder (or where the hub's cache
    keeps what it links to)."""
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise HubError(
            f"{source}: {name!r:.60} is no plain file name, and nothing outside the folder is read: do not "
            "use this folder unless you know who made it"
        )
    path = folder / name
    home, cache = folder.resolve(), (folder / ".." / ".." / "blobs").resolve()
    target = path.resolve()
    if not (target.is_relative_to(home) or target.is_relative_to(cache)):
        raise HubError(
            f"{source}: {name!r:.60} leads out of the folder, to {target}: do not use this folder unless you "
            "know who made it"
        )
    return path


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of `model.safetensors`, or of the shards that its index names."""
    if (folder / WEIGHTS).exists():
        return _read_file(folder / WEIGHTS)
    if (folder / INDEX).exists():
        return _read_shards(folder)
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickles:
        raise HubError(
            f"{folder}: the weights are in {pickles[0]}, a pickle, which can run any code when it is opened, "
            f"so it is not opened here; {_READ if pickles[0].startswith('pytorch_model') else _CONVERT}"
        )
    raise HubError(f"{folder}: no {WEIGHTS} in it; copy the folder anew, with its weights")


def _read_shards(folder: Path) -> dict[str, Tensor]:
    index = folder / INDEX
    places = read_table(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise HubError(f"{index}: no 'weight_map' in it; copy the folder anew")
    tensors: dict[str, Tensor] = {}
    for shard in sorted({str(place) for place in places.values()}):
        path = inside(folder, shard, index)
        if path.suffix != ".safetensors":
            raise HubError(
                f"{index}: {shard!r:.60} is no safetensors file, so it is not opened here; {_CONVERT}"
            )
        held = _read_file(path)
        for name in (name for name, place in places.items() if place == shard):
            if name not in held:
                raise HubError(
                    f"{path}: no tensor {name!r:.60}, where {INDEX} places it; copy the folder anew"
                )
            tensors[name] = held[name]
    return tensors


def _read_file(path: Path) -> dict[str, Tensor]:
    try:
        check_plain(path)
        with path.open("rb") as file:
            start = file.read(4)
        if start[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK"):
            raise HubError(
                f"{path}: a pickle or an archive under the name of safetensors; it is not opened. Do not use "
                "this folder unless you know who made it"
            )
        with memory_told(path), safe_open(path, framework="pt") as held:
            return {name: held.get_tensor(name) for name in cast(Iterator[str], held.keys())}
    except OSError as error:
        raise HubError(f"{path}: {error.strerror or error}; copy the folder anew") from error
    except SafetensorError as error:
        raise HubError(
            f"{path}: no whole safetensors file ({error}); it may be cut short: copy the folder anew"
        ) from error


def as_float32(tensor: Tensor, name: str, where: Path) -> Tensor:
    if tensor.dtype not in _DTYPES:
        raise HubError(
            f"{where}: {name} is {tensor.dtype}, but a weight is one of {', '.join(map(str, _DTYPES))}: "
            "save the model unquantised"
        )
    return tensor.float()


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    whole = {name: tensor.detach().cpu().float().contiguous().clone() for name, tensor in tensors.items()}
    with full_disk(path):
        save_file(whole, path, {"format": "pt"})
