"""A model is a folder: raw text in, raw text out, and nothing outside it is needed.

    config.json         the task, the model's configuration, and what its use needs to know
    model.safetensors   the weights
    tokenizer.json      the tokenizer
    recipe.toml         what trained it, every value written out
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
from torch.overrides import TorchFunctionMode

from regard.config import ConfigError
from regard.nn.packed import Product
from regard.nn.quantized import quantize
from regard.plugins import LOADED, load_installed, needed
from regard.text import Tokenizer
from regard.train.checkpoint import CheckpointError, replace, write_text
from regard.train.trainer import CHECKPOINT

Model = TypeVar("Model", bound=nn.Module)
FORMAT = 1
WEIGHTS = "model.safetensors"
METRICS = "metrics.json"
EXPORTED = "regard.json"
"""In a folder that was exported for another engine."""


class FolderError(ValueError):
    """A folder that is no model; the message names it and the remedy."""


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FolderError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise FolderError(
            f"{path}: not JSON ({error}); the file may be cut short: copy the folder anew"
        ) from error


def write_weights(folder: Path, weights: Mapping[str, Tensor]) -> None:
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights.items()}
    path = folder / WEIGHTS
    try:
        replace(path, lambda partial: save_file(whole, partial))
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path}: the weights could not be written ({error}); free some space, then --resume"
        ) from error


def read_config(folder: Path) -> dict[str, Any]:
    """What config.json says, checked to be ours."""
    if not (folder / "config.json").exists():
        raise FolderError(
            f"{folder}: no model folder, it has no config.json; give the --out folder of a training"
        )
    config = read_json(folder / "config.json")
    if config.get("format") != FORMAT:
        raise FolderError(
            f"{folder}/config.json: format {config.get('format')!r} is not known here, only {FORMAT}; "
            "is it a model of another tool, or of another version?"
        )
    for plugin in config.get("plugins", []):
        if plugin not in LOADED:
            load_installed()
        if plugin not in LOADED:
            raise FolderError(
                f"{folder}: it needs the plugin {plugin!r}, and a model folder brings no code: name it with "
                f"regard --plugin {plugin}.py, or regard.load_plugin('{plugin}.py'), or install its package"
            )
    return config


def require_task(folder: Path, task: str) -> None:
    """Refuse a folder that holds no model of this task."""
    if not folder.is_dir():
        raise FolderError(f"{folder}: no such folder; give the --out folder of a training")
    if "model_type" in read_json(folder / "config.json"):
        raise FolderError(f"{folder}: a folder of Hugging Face's, and none for the task {task!r}")
    found = read_config(folder).get("task")
    if found != task:
        raise FolderError(f"{folder}: a model for the task {found!r}, not {task!r}")


def write_config(folder: Path, task: str, about: Mapping[str, Any]) -> None:
    """config.json, with the plugins that it takes, if any."""
    config = {"format": FORMAT, "task": task, **about}
    plugins = needed(config)
    write_json(folder / "config.json", {**config, **({"plugins": plugins} if plugins else {})})


def clear(folder: Path) -> None:
    """Make room for a run that takes the place of the one there."""
    for name in (CHECKPOINT, WEIGHTS, METRICS):
        (folder / name).unlink(missing_ok=True)


def settled_tokenizer(folder: Path, wanted: str, *, begun: bool, make: Callable[[], Tokenizer]) -> Tokenizer:
    """The tokenizer in the folder if it is of this text and these settings, whose fingerprint is `wanted`; or
    else a new one, unless the run is `begun`."""
    mark = folder / "tokens.of"
    if mark.exists() and mark.read_text(encoding="utf-8") == wanted and (folder / "tokenizer.json").exists():
        return Tokenizer.load(folder)
    if begun:
        raise ConfigError(
            f"{folder}: begun with other text, or other settings of [data] or [tokenizer]; resume with the "
            "recipe that began it, or choose another --out"
        )
    tokenizer = make()
    folder.mkdir(parents=True, exist_ok=True)
    mark.unlink(missing_ok=True)  # it is of the one before
    tokenizer.save(folder / "tokenizer.json")
    write_text(mark, wanted)
    return tokenizer


def whole(model: nn.Module) -> dict[str, Tensor]:
    """All that makes up a model, by name: its parameters, tied ones once, and the buffers that are kept."""
    saved = model.state_dict().keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved}
    return {**dict(model.named_parameters()), **buffers}


def load_weights(folder: Path, model: nn.Module) -> None:
    """Into a model of the same shape; every weight must be there, and none besides."""
    own = whole(model)
    with _reading(folder, own) as read, torch.no_grad():
        for name, weight in own.items():
            weight.copy_(read(name))


def load_quantized(folder: Path, build: Callable[[], Model]) -> Model:
    """The model in 8 bits. Its weights are read one after the other: the matrices of products are never there
    in float32 all at once, and do not stay."""
    with torch.device("meta"), _NoValues():  # where weights take no room
        model = build().eval()
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


class _NoValues(TorchFunctionMode):
    """On the meta device there are none to draw. torch's own way to find that out is written in Python, and
    takes 65 MB of it."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is nn.init.normal_:
            return kwargs["tensor"]
        return torch.empty(*args, **kwargs) if func is torch.randn else func(*args, **kwargs)


def weights_path(folder: Path) -> Path:
    path = folder / WEIGHTS
    if not path.exists():
        raise FolderError(
            f"{path}: not there; if training has begun here, continue with regard train --resume --out "
            f"{folder}, else copy the folder anew"
        )
    return path


@contextmanager
def _reading(folder: Path, own: Mapping[str, Tensor]) -> Iterator[Callable[[str], Tensor]]:
    """What reads a weight in the file by its name; there must be one for each of a model's own, and none
    besides."""
    path = weights_path(folder)

    def read(name: str) -> Tensor:
        with safe_open(path, framework="pt") as file:  # anew: what was read of an open file stays in memory
            found: Tensor = file.get_tensor(name)
        if found.shape != own[name].shape:
            raise FolderError(
                f"{path}: cannot be read ({name} has the shape {list(found.shape)}, where "
                f"{list(own[name].shape)} belongs); copy the folder anew"
            )
        return found

    try:
        with safe_open(path, framework="pt") as file:
            names = set(file.keys())
        if names != own.keys():
            missing, extra = sorted(own.keys() - names)[:3], sorted(names - own.keys())[:3]
            raise FolderError(
                f"{path}: not the weights of config.json: missing {missing}, unknown {extra}; "
                "copy the folder anew"
            )
        yield read
    except (OSError, SafetensorError) as error:
        raise FolderError(f"{path}: cannot be read ({error}); copy the folder anew") from error
