"""The weights of a `pytorch_model.bin`, without unpickling it.

Such a file is a zip: `data.pkl`, a program for Python's pickle machine, and a file of bytes for each storage.
A state dict's program only names strings and numbers, and asks for three things by name: a dictionary, a
storage, a tensor that is a view of one. So the program is not run but read, opcode by opcode, by an
allow-list; what a name stands for is never looked up, imported or called. Any other opcode or name ends the
reading.

    opcodes      pickletools.genops, which only takes a stream apart
    storages     the zip's bytes, uncompressed, exactly as many as the storage has
    tensors      views within their storage, and no larger than it

(`torch.load(weights_only=True)` does much the same in a machine that calls what it allows; it has been got
round.) tests/hub/test_pickles.py holds the tensors equal to torch.load's, and feeds it what is hostile.
"""

import io
import math
import pickletools
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.hub.files import HubError, check_plain, inside, read_table

PICKLE = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"

_PROGRAM = 64 * 2**20
_STEPS = 20_000_000
_ENTRIES = 100_000
_LARGEST = 2**48
"""Bytes of a program, its opcodes, files in a zip, and what any number of a tensor may be."""
_DTYPES = {
    "torch DoubleStorage": torch.float64,
    "torch FloatStorage": torch.float32,
    "torch HalfStorage": torch.float16,
    "torch BFloat16Storage": torch.bfloat16,
    "torch LongStorage": torch.int64,
    "torch IntStorage": torch.int32,
    "torch ShortStorage": torch.int16,
    "torch CharStorage": torch.int8,
    "torch ByteStorage": torch.uint8,
    "torch BoolStorage": torch.bool,
}
_TENSOR, _PARAMETER = "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter"
_DICTIONARY = "collections OrderedDict"
_TRUST = "do not use this file unless you know who made it"


class _RefusedError(Exception):
    """Why a program is not read any further."""


@dataclass(frozen=True, slots=True)
class _Name:
    """Something of a module, which stays a name."""

    name: str


@dataclass(frozen=True, slots=True)
class _Storage:
    dtype: torch.dtype
    key: str
    count: int


@dataclass(frozen=True, slots=True)
class _View:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Mark:
    """On the stack: where what is to be gathered begins."""


def read_pickled(folder: Path) -> dict[str, Tensor]:
    """All tensors of `pytorch_model.bin`, or of the shards that its index names."""
    if (folder / PICKLE).exists():
        return read_pickle(folder / PICKLE)
    if not (folder / INDEX).exists():
        raise HubError(
            f"{folder}: no {PICKLE} in it, so there is nothing to read with --pickle; leave that out"
        )
    index = folder / INDEX
    places = read_table(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise HubError(f"{index}: no 'weight_map' in it; copy the folder anew")
    tensors: dict[str, Tensor] = {}
    for shard in sorted({str(place) for place in places.values()}):
        path = inside(folder, shard, index)
        held = read_pickle(path)
        for name in (name for name, place in places.items() if place == shard):
            if name not in held:
                raise HubError(
                    f"{path}: no tensor {name!r:.60}, where {INDEX} places it; copy the folder anew"
                )
            tensors[name] = held[name]
    return tensors


def read_pickle(path: Path) -> dict[str, Tensor]:
    """The tensors of one file by their names; those that share a storage share it here."""
    check_plain(path)
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start != b"PK\x03\x04":
            raise HubError(
                f"{path}: no zip: torch before 1.6 wrote such files, or it is of another make; save it anew "
                "with a newer torch, in a place where you trust it"
            )
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            entries, root = _entries(archive, size)
            program = archive.read(entries[f"{root}/data.pkl"])
            views = _views(program)
            return _tensors(archive, entries, root, views, size)
    except _RefusedError as error:
        raise HubError(f"{path}: {error}; {_TRUST}") from error
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise HubError(
            f"{path}: no whole zip ({error}); it may be cut short: copy the folder anew"
        ) from error
    except OSError as error:
        raise HubError(f"{path}: {error.strerror or error}; copy the folder anew") from error


def _entries(archive: zipfile.ZipFile, size: int) -> tuple[dict[str, zipfile.ZipInfo], str]:
    """The files of the zip, and the folder that all are in."""
    listed = archive.infolist()
    if len(listed) > _ENTRIES:
        raise _RefusedError(f"{len(listed):,} files in the zip, but a model has no more than {_ENTRIES:,}")
    entries = {each.filename: each for each in listed}
    if len(entries) != len(listed):
        raise _RefusedError("two files in the zip have one name")
    programs = [name for name in entries if name.endswith("/data.pkl")]
    if len(programs) != 1 or programs[0].count("/") != 1:
        raise _RefusedError("not one data.pkl in the zip, in one folder")
    root = programs[0].partition("/")[0]
    for name, entry in entries.items():
        if not name.startswith(f"{root}/") or ".." in name.split("/") or "\\" in name:
            raise _RefusedError(f"{name!r:.60} in the zip lies outside its folder {root!r:.60}")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise _RefusedError(f"{name!r:.60} in the zip is compressed, which torch does not do")
        if entry.flag_bits & 1 or entry.file_size > size:
            raise _RefusedError(f"{name!r:.60} in the zip is encrypted, or larger than the zip")
    if entries[programs[0]].file_size > _PROGRAM:
        raise _RefusedError(f"data.pkl has more than {_PROGRAM:,} bytes")
    order = entries.get(f"{root}/byteorder")
    if order is not None and (order.file_size > 16 or archive.read(order) != b"little"):
        raise _RefusedError("the bytes of its numbers are not in little-endian order")
    return entries, root


def _tensors(
    archive: zipfile.ZipFile,
    entries: Mapping[str, zipfile.ZipInfo],
    root: str,
    views: Mapping[str, _View],
    size: int,
) -> dict[str, Tensor]:
    used = {view.storage.key: view.storage for view in views.values()}
    total = 0
    for view in views.values():
        if view.storage != used[view.storage.key]:
            raise _RefusedError(f"storage {view.storage.key} is of two kinds or sizes")
    for storage in used.values():
        entry = entries.get(f"{root}/data/{storage.key}")
        wanted = storage.count * storage.dtype.itemsize
        if entry is None or entry.file_size != wanted:
            there = "missing" if entry is None else f"{entry.file_size:,} bytes"
            raise _RefusedError(f"storage {storage.key} should have {wanted:,} bytes, but is {there}")
        total += wanted
    if total > size:
        raise _RefusedError(f"its storages have {total:,} bytes, more than the file: they overlap")
    held = {key: _bytes(archive.read(entries[f"{root}/data/{key}"]), each) for key, each in used.items()}
    return {
        name: torch.as_strided(held[view.storage.key], view.shape, view.strides, view.offset)
        for name, view in views.items()
    }


def _bytes(content: bytes, storage: _Storage) -> Tensor:
    if not content:
        return torch.empty(0, dtype=storage.dtype)
    if storage.dtype == torch.bool:
        return torch.frombuffer(bytearray(content), dtype=torch.uint8).ne(0)
    return torch.frombuffer(bytearray(content), dtype=storage.dtype)


def _views(program: bytes) -> dict[str, _View]:
    """What the program would make: a dictionary of tensors."""
    try:
        found = _Reader().read(program)
    except (ValueError, IndexError, OverflowError) as error:  # of a stream that is no pickle
        raise _RefusedError(f"data.pkl cannot be read ({type(error).__name__})") from error
    if not isinstance(found, dict) or not found:
        raise _RefusedError(f"no dictionary of tensors, but {_kind(found)}")
    for name, each in found.items():
        if not isinstance(each, _View):
            raise _RefusedError(
                f"{name!r:.60} is no tensor, but {_kind(each)}: only a bare state dict is read"
            )
    return found


class _Reader:
    """A pickle program, read. Every value is a string, a number, a tuple, a dictionary, or a name."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.steps: dict[str, Callable[[Any], None]] = {
            "PROTO": self._protocol,
            "MARK": lambda _: self.stack.append(_Mark()),
            "NONE": lambda _: self.stack.append(None),
            "NEWTRUE": lambda _: self.stack.append(True),
            "NEWFALSE": lambda _: self.stack.append(False),
            "EMPTY_DICT": lambda _: self.stack.append({}),
            "EMPTY_TUPLE": lambda _: self.stack.append(()),
            "TUPLE": lambda _: self.stack.append(tuple(self._gathered())),
            "TUPLE1": lambda _: self.stack.append(self._last(1)),
            "TUPLE2": lambda _: self.stack.append(self._last(2)),
            "TUPLE3": lambda _: self.stack.append(self._last(3)),
            "GLOBAL": lambda name: self.stack.append(_Name(name)),
            "BINPUT": self._keep,
            "LONG_BINPUT": self._keep,
            "BINGET": self._recall,
            "LONG_BINGET": self._recall,
            "SETITEM": lambda _: self._set(self._last(2)),
            "SETITEMS": lambda _: self._set(self._gathered()),
            "BINPERSID": lambda _: self.stack.append(_storage(self._pop())),
            "REDUCE": lambda _: self.stack.append(_made(*self._last(2))),
            "BUILD": lambda _: self._build(),
        }
        for plain in ("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINUNICODE"):
            self.steps[plain] = self.stack.append

    def read(self, program: bytes) -> Any:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(io.BytesIO(program))):
            if count > _STEPS:
                raise _RefusedError(f"data.pkl has more than {_STEPS:,} opcodes")
            if opcode.name == "STOP":
                if len(self.stack) != 1:
                    raise _RefusedError("data.pkl leaves more than one value")
                return self._pop()
            if opcode.name not in self.steps:
                raise _RefusedError(f"data.pkl has the opcode {opcode.name}, which no state dict needs")
            self.steps[opcode.name](argument)
        raise _RefusedError("data.pkl has no end")

    def _protocol(self, version: int) -> None:
        if version != 2:
            raise _RefusedError(f"data.pkl is of protocol {version}, but torch writes 2")

    def _pop(self) -> Any:
        value = self.stack.pop()
        if isinstance(value, _Mark):
            raise _RefusedError("data.pkl takes a mark for a value")
        return value

    def _last(self, count: int) -> tuple[Any, ...]:
        return tuple([self._pop() for _ in range(count)][::-1])

    def _gathered(self) -> list[Any]:
        found: list[Any] = []
        while not isinstance(value := self.stack.pop(), _Mark):
            found.append(value)
        return found[::-1]

    def _keep(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def _recall(self, place: int) -> None:
        if place not in self.memo:
            raise _RefusedError(f"data.pkl recalls {place}, which was never kept")
        self.stack.append(self.memo[place])

    def _set(self, items: Sequence[Any]) -> None:
        table = self.stack[-1]
        if not isinstance(table, dict) or len(items) % 2:
            raise _RefusedError("data.pkl sets items of what is no dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):  # whose hash costs nothing
                raise _RefusedError(f"data.pkl has a key that is no string, but {_kind(key)}")
            table[key] = value

    def _build(self) -> None:
        """What torch keeps of a model's modules, their versions: passed over."""
        state = self._pop()
        if not isinstance(self.stack[-1], dict) or not isinstance(state, dict) or {*state} != {"_metadata"}:
            raise _RefusedError("data.pkl gives a state to something that has none here")


def _storage(wanted: Any) -> _Storage:
    match wanted:
        case ("storage", _Name(name=name), str() as key, str(), count) if name in _DTYPES:
            if not re.fullmatch(r"\d{1,9}", key, re.ASCII):
                raise _RefusedError(f"a storage is called {key!r:.60}, which is no number")
            return _Storage(_DTYPES[name], key, _number(count))
        case ("storage", _Name(name=name), *_):
            raise _RefusedError(f"a storage of {name!r:.60}, which holds no numbers that are read here")
        case _:
            raise _RefusedError("something that lies outside data.pkl is no storage")


def _made(function: Any, arguments: Any) -> Any:
    """What a call would give, of the three that there may be."""
    if not isinstance(function, _Name) or function.name not in (_TENSOR, _PARAMETER, _DICTIONARY):
        raise _RefusedError(f"data.pkl calls {_kind(function)}; nothing of it was called")
    match function.name, arguments:
        case name, () if name == _DICTIONARY:
            return {}
        case name, (_View() as view, bool(), dict() as hooks) if name == _PARAMETER and not hooks:
            return view
        case name, (
            _Storage() as storage,
            offset,
            tuple() as shape,
            tuple() as strides,
            bool(),
            dict() as more,
        ):
            if name == _TENSOR and not more:
                return _view(storage, offset, shape, strides)
    raise _RefusedError(f"data.pkl calls {function.name!r} with what it does not take")


def _view(storage: _Storage, offset: Any, shape: tuple[Any, ...], strides: tuple[Any, ...]) -> _View:
    if len(shape) != len(strides) or len(shape) > 64:
        raise _RefusedError(f"a tensor has {len(shape)} sizes and {len(strides)} strides")
    sizes, steps = tuple(map(_number, shape)), tuple(map(_number, strides))
    numbers = math.prod(sizes)
    last = _number(offset) + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    if numbers > storage.count or (numbers and last >= storage.count) or offset > storage.count:
        raise _RefusedError(
            f"a tensor {list(sizes)} with strides {list(steps)} from {offset} on does not lie in its storage "
            f"{storage.key} of {storage.count:,} numbers"
        )
    return _View(storage, offset, sizes, steps)


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise _RefusedError("a size, stride or offset is no whole number from 0 on, or beyond all bounds")
    return value


def _kind(value: Any) -> str:
    """In words; never its content, which may unfold without end."""
    return f"{value.name!r:.60}" if isinstance(value, _Name) else f"a {type(value).__name__.strip('_')}"
