"""What a file of weights says of itself, believed only as far as it is looked at.

The header is read, and held against the size of the file, before any tensor is; a model of the shape that
config.json says is first built without memory, and compared with the header. So there is no room made for a
shape that no weights back.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.oom import is_out_of_memory
from regard.tasks.base.guards import CONFIG, WEIGHTS, FolderError, damaged, folder_errors, own_file
from regard.train.digests import KEY, TYPES, Slot, of_content, of_header

Model = TypeVar("Model", bound=nn.Module)
SMALL = 64 * 2**20
"""Bytes of weights up to which loading compares their digest; `regard check` always does."""


class Header(NamedTuple):
    """What a file of weights says of itself."""

    path: Path
    slots: dict[str, Slot]
    digests: list[str]
    """Of the header, and of the tensors; or none."""


def weights_path(folder: Path) -> Path:
    path = own_file(folder, WEIGHTS)
    if not path.exists():
        raise FolderError(
            f"{path}: not there; if training has begun here, continue with regard train --resume --out "
            f"{folder}, else copy the folder anew"
        )
    return path


def read_header(folder: Path) -> Header:
    """safetensors holds it against the size of the file; its digest is compared here."""
    path = weights_path(folder)
    # not by torch, which would map all of the file once more
    with folder_errors(path), safe_open(path, framework="numpy") as file:
        names = cast(Iterator[str], file.keys())
        parts = {name: file.get_slice(name) for name in names}
        slots = {name: Slot(part.get_dtype(), tuple(part.get_shape())) for name, part in parts.items()}
        digests = (file.metadata() or {}).get(KEY, "").split()
    if digests and (len(digests) != 2 or digests[0] != of_header(slots)):
        raise damaged(path)
    return Header(path, slots, digests)


def check_content(header: Header) -> None:
    """All the tensors, if they have a digest."""
    if not header.digests:
        return
    with folder_errors(header.path), safe_open(header.path, framework="pt") as file:
        if header.digests[1] != of_content(header.slots, file.get_tensor):
            raise damaged(header.path)


def check_small(header: Header) -> None:
    """The same of a file that is read at once."""
    if header.path.stat().st_size <= SMALL:
        check_content(header)


def check_fits(header: Header, own: Mapping[str, Tensor]) -> None:
    """A weight in the file for each of a model's own, of the same shape, and none besides."""
    names = header.slots.keys()
    if names != own.keys():
        missing, extra = sorted(own.keys() - names)[:3], sorted(names - own.keys())[:3]
        raise FolderError(
            f"{header.path}: not the weights of config.json: missing {missing}, unknown {extra}; "
            "copy the folder anew"
        )
    for name, (type_, shape) in header.slots.items():
        wanted = own[name]
        if shape != tuple(wanted.shape):
            raise FolderError(
                f"{header.path}: cannot be read ({name} has the shape {list(shape)}, where "
                f"{list(wanted.shape)} belongs); copy the folder anew"
            )
        found = TYPES.get(type_)
        if found != wanted.dtype and not (
            found is not None and found.is_floating_point and wanted.is_floating_point()
        ):
            raise FolderError(
                f"{header.path}: cannot be read ({name} is of {type_}, where {wanted.dtype} belongs); "
                "copy the folder anew"
            )


def whole(model: nn.Module) -> dict[str, Tensor]:
    """All that makes up a model, by name: its parameters, tied ones once, and the buffers that are kept."""
    saved = model.state_dict().keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved}
    return {**dict(model.named_parameters()), **buffers}


def sketched(folder: Path, build: Callable[[], Model]) -> Model:
    """A model without values, which takes no room whatever its shape."""
    with folder_errors(folder / CONFIG), torch.device("meta"), _NoValues():
        try:
            return build()
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise ValueError(f"no room for what it says ({error}); copy the folder anew") from None


def unfilled(build: Callable[[], Model]) -> Model:
    """A model whose parameters will all be read from a file: their first values, which take longer to draw
    than a file to read, are left out."""
    with _NoFirstValues():
        return build()


_DRAWN = {nn.init.normal_, nn.init.uniform_, nn.init.trunc_normal_, nn.init.kaiming_uniform_}


class _NoFirstValues(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _DRAWN:
            tensor: Tensor = kwargs["tensor"] if "tensor" in kwargs else args[0]
            if isinstance(tensor if tensor._base is None else tensor._base, nn.Parameter):
                return tensor
        return func(*args, **kwargs)


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
