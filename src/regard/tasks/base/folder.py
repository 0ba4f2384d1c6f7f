"""A model is a folder: raw text in, raw text out, and nothing outside it is needed.

    config.json         the task, the model's configuration, and what its use needs to know
    model.safetensors   the weights
    tokenizer.json      the tokenizer
    recipe.toml         what trained it, every value written out
    recipe.next.toml    of a run that takes its place, until its text has been read
    metrics.json        how good it is, with the signatures of the metrics
    data.json           what it learned from: files, counts

No pickle is ever read or written.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.config import from_dict
from regard.disk import replace, sync_folder, write_text
from regard.nn.packed import Product
from regard.nn.quantized import quantize
from regard.oom import memory_told
from regard.plugins import LOADED, load_installed, needed
from regard.tasks.base.guards import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    FolderError,
    check_depth,
    check_finite,
    damaged,
    folder_errors,
    own_file,
    read_own_table,
    read_own_text,
    read_words,
)
from regard.tasks.base.header import check_fits, check_small, read_header, sketched, whole
from regard.text import Tokenizer
from regard.train import resume
from regard.train.digests import KEY, of_config, of_table, of_text, of_weights

__all__ = [
    "DATA",
    "EXPORTED",
    "FORMAT",
    "METRICS",
    "NEXT",
    "RECIPE",
    "WEIGHTS",
    "FolderError",
    "check_backed",
    "check_tokenizer",
    "clear",
    "load_quantized",
    "load_weights",
    "read_config",
    "read_json",
    "read_metrics",
    "read_sealed",
    "read_shape",
    "read_tokenizer",
    "require_task",
    "whole",
    "write_config",
    "write_digested",
    "write_json",
    "write_sealed",
    "write_weights",
]

Model = TypeVar("Model", bound=nn.Module)
Shape = TypeVar("Shape")
FORMAT = 1
METRICS = "metrics.json"
RECIPE, DATA = "recipe.toml", "data.json"
NEXT = "recipe.next.toml"
EXPORTED = "regard.json"
"""In a folder that was exported for another engine."""


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    return read_own_table(path.parent, path.name)


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """metrics.json or data.json, with its digest."""
    content = {name: each for name, each in content.items() if name != KEY}
    write_json(path, {**content, KEY: {path.name: of_table(content)}})


def read_sealed(folder: Path, name: str) -> dict[str, Any]:
    """metrics.json or data.json, which is what was written, as far as it says what that was."""
    found = read_own_table(folder, name)
    digests = found.get(KEY)
    if digests is not None and digests != {name: of_table(found)}:
        raise damaged(folder / name)
    return found


def read_metrics(folder: Path) -> dict[str, Any]:
    """What metrics.json says; the figures of the validation are there."""
    found = read_sealed(folder, METRICS)
    if not isinstance(found.get("valid"), dict):
        raise FolderError(f"{folder / METRICS}: no table 'valid' in it; copy the folder anew")
    return found


def write_weights(folder: Path, weights: Mapping[str, Tensor]) -> None:
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights.items()}
    path = folder / WEIGHTS
    replace(path, lambda partial: save_file(whole, partial, of_weights(whole)))


def read_config(folder: Path) -> dict[str, Any]:
    """What config.json says, checked to be ours and to be what was written."""
    path = own_file(folder, CONFIG)
    if not path.exists():
        raise FolderError(
            f"{folder}: no model folder, it has no config.json; give the --out folder of a training"
        )
    config = read_own_table(folder, CONFIG)
    if config.get("format") != FORMAT:
        raise FolderError(
            f"{folder}/config.json: format {config.get('format')!r:.60} is not known here, only {FORMAT}; "
            "is it a model of another tool, or of another version?"
        )
    with folder_errors(path):
        if KEY in config and config[KEY]["config.json"] != of_config(config):
            raise damaged(path)
        check_finite(config)
        plugins = read_words(config, "plugins") if "plugins" in config else ()
    for plugin in plugins:
        if plugin not in LOADED:
            load_installed()
        if plugin not in LOADED:
            raise FolderError(
                f"{folder}: it needs the plugin {plugin!r}, and a model folder brings no code: name it with "
                f"regard --plugin {plugin}.py, or regard.load_plugin('{plugin}.py'), or install its package"
            )
    return {key: value for key, value in config.items() if key != KEY}


def read_tokenizer(folder: Path, vocabulary: int) -> Tokenizer:
    """The tokenizer of a model that has vectors for so many ids."""
    path = own_file(folder, TOKENIZER)
    digests = read_own_table(folder, CONFIG).get(KEY, {})
    with folder_errors(path):
        text = read_own_text(folder, TOKENIZER, digests.get(TOKENIZER))
        tokenizer = Tokenizer.parse(text, path, vocabulary)
        if not 0 < len(tokenizer) <= vocabulary:
            raise ValueError(
                f"{len(tokenizer)} ids, but the model has vectors for {vocabulary}; copy it anew"
            )
    return tokenizer


def check_tokenizer(folder: Path) -> None:
    """Of a folder in which a run goes on: is the tokenizer the one that it began with?"""
    if own_file(folder, CONFIG).exists():
        read_config(folder)
        digest = read_own_table(folder, CONFIG).get(KEY, {}).get(TOKENIZER)
        if digest is not None:
            read_own_text(folder, TOKENIZER, digest)


def read_shape(folder: Path, config: Mapping[str, Any], kind: type[Shape]) -> Shape:
    """The model's configuration, if the weights can be of such a one."""
    check_depth(config["model"], len(read_header(folder).slots))
    return from_dict(kind, config["model"], "model")


def require_task(folder: Path, task: str) -> None:
    """Refuse a folder that holds no model of this task."""
    if not folder.is_dir():
        raise FolderError(f"{folder}: no such folder; give the --out folder of a training")
    if "model_type" in read_json(folder / "config.json"):
        raise FolderError(f"{folder}: a folder of Hugging Face's, and none for the task {task!r}")
    found = read_config(folder).get("task")
    if found != task:
        raise FolderError(f"{folder}: a model for the task {found!r:.60}, not {task!r}")


def write_config(folder: Path, task: str, about: Mapping[str, Any]) -> None:
    """config.json, with the plugins that it takes, if any; tokenizer.json must be there before."""
    config = {"format": FORMAT, "task": task, **about}
    plugins = needed(config)
    write_digested(folder, {**config, **({"plugins": plugins} if plugins else {})})


def write_digested(folder: Path, config: Mapping[str, Any]) -> None:
    """config.json with the digests of itself and of tokenizer.json as they are now."""
    plain = {key: value for key, value in json.loads(json.dumps(config)).items() if key != KEY}
    digests = {}
    if (folder / TOKENIZER).exists():
        digests[TOKENIZER] = of_text(read_own_text(folder, TOKENIZER))
    digests[CONFIG] = of_config({**plain, KEY: digests})
    write_json(folder / CONFIG, {**plain, KEY: digests})


def clear(folder: Path) -> None:
    """Make room for a run that takes the place of the one there, and put its recipe there."""
    resume.clear(folder)
    for name in (WEIGHTS, METRICS):
        (folder / name).unlink(missing_ok=True)
    if (folder / NEXT).exists():
        (folder / NEXT).replace(folder / RECIPE)
        sync_folder(folder)


def check_backed(folder: Path, build: Callable[[], nn.Module]) -> None:
    """Whether the weights are those of such a model, before any memory is taken for one."""
    header = read_header(folder)
    try:
        sketch = sketched(folder, build)
    except FolderError:
        if read_config(folder).get("plugins"):  # whose parts need not know how to be built without memory
            return
        raise
    check_fits(header, whole(sketch))


def load_weights(folder: Path, model: nn.Module) -> None:
    """Into a model of the same shape; every weight must be there, and none besides."""
    own = whole(model)
    with _reading(folder, own) as read, torch.no_grad():
        for name, weight in own.items():
            weight.copy_(read(name))


def load_quantized(folder: Path, build: Callable[[], Model]) -> Model:
    """The model in 8 bits. Its weights are read one after the other: the matrices of products are never there
    in float32 all at once, and do not stay."""
    model = sketched(folder, build).eval()
    own = whole(model)
    names = {weight: name for name, weight in own.items()}
    found: dict[Tensor, Tensor] = {}
    with _reading(folder, own) as read, torch.no_grad():
        for part in model.modules():
            if isinstance(part, Product):
                continue
            for name, weight in [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]:
                if weight in names and weight not in found:
                    values = read(names[weight]).to(weight.dtype, copy=True)
                    found[weight] = nn.Parameter(values) if isinstance(weight, nn.Parameter) else values
                setattr(part, name, found.get(weight, weight))
        return quantize(
            model,
            lambda weight: found[weight] if weight in found else read(names[weight]),
            shared=tuple(found.values()),
        )


@contextmanager
def _reading(folder: Path, own: Mapping[str, Tensor]) -> Iterator[Callable[[str], Tensor]]:
    """What reads a weight in the file by its name; there must be one for each of a model's own, and none
    besides."""
    header = read_header(folder)
    check_fits(header, own)
    check_small(header)

    def read(name: str) -> Tensor:
        # anew: what was read of an open file stays in memory
        with safe_open(header.path, framework="pt") as file:
            return file.get_tensor(name)

    try:
        with memory_told(header.path):
            yield read
    except (OSError, SafetensorError) as error:
        raise FolderError(f"{header.path}: cannot be read ({error}); copy the folder anew") from error
