"""Pickle programs of state dicts, read and not run.

A state dict's program only names strings and numbers, and asks for three things by name: a dictionary, a
storage, a tensor that is a view of one. So it is read opcode by opcode, by an allow-list; what a name stands
for is never looked up, imported or called. Any other opcode or name ends the reading.

    opcodes      pickletools.genops, which only takes a stream apart
    tensors      views within their storage, and no larger than it
"""

import io
import math
import pickletools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_STEPS = 5_000_000
_TENSORS = 100_000
_LARGEST = 2**48
"""Opcodes of a program, tensors, and what any number of a tensor may be."""
_NAMES, _LITTLE = 4, 2**20
"""Names that one storage may have on the average, and bytes beyond them."""
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


class RefusedError(Exception):
    """Why a program is not read any further."""


@dataclass(frozen=True, slots=True)
class _Name:
    """Something of a module, which stays a name."""

    name: str


@dataclass(frozen=True, slots=True)
class Storage:
    dtype: torch.dtype
    key: str
    count: int

    @property
    def bytes(self) -> int:
        return self.count * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class View:
    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Mark:
    """On the stack: where what is to be gathered begins."""


_MARK = _Mark()


def read_program(stream: io.BytesIO, *, lists: bool = False) -> Any:
    """What the program that begins here would make; the stream then stands behind it. `lists` may be in it
    where no tensors are."""
    try:
        return _Reader(lists=lists).read(stream)
    except (ValueError, IndexError, OverflowError) as error:  # of a stream that is no pickle
        raise RefusedError(f"its pickle cannot be read ({type(error).__name__})") from error


def read_views(stream: io.BytesIO) -> dict[str, View]:
    """The same for a state dict: its tensors by their names. Together they have at most a few times as many
    bytes as their storages: one that is tied has up to four names."""
    found = read_program(stream)
    if not isinstance(found, dict) or not found:
        raise RefusedError(f"no dictionary of tensors, but {_kind(found)}")
    if len(found) > _TENSORS:
        raise RefusedError(f"{len(found):,} tensors, but a model has no more than {_TENSORS:,}")
    for name, each in found.items():
        if not isinstance(each, View):
            raise RefusedError(
                f"{name!r:.60} is no tensor, but {_kind(each)}: only a bare state dict is read"
            )
    storages = {view.storage.key: view.storage for view in found.values()}
    for view in found.values():
        if view.storage != storages[view.storage.key]:
            raise RefusedError(f"storage {view.storage.key} is of two kinds or sizes")
    held = sum(storage.bytes for storage in storages.values())
    shown = sum(math.prod(view.shape) * view.storage.dtype.itemsize for view in found.values())
    if shown > _NAMES * held + _LITTLE:
        raise RefusedError(
            f"its tensors have {shown:,} bytes, made of storages of {held:,}: the same numbers under too "
            "many names"
        )
    return found


class _Reader:
    """A pickle program, read. Every value is a string, a number, a tuple, a dictionary, or a name."""

    def __init__(self, *, lists: bool) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.steps: dict[str, Callable[[Any], None]] = {
            "PROTO": self._protocol,
            "MARK": lambda _: self.stack.append(_MARK),
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
        if lists:
            self.steps["EMPTY_LIST"] = lambda _: self.stack.append([])
            self.steps["APPEND"] = lambda _: self._extend(self._last(1))
            self.steps["APPENDS"] = lambda _: self._extend(self._gathered())

    def read(self, stream: io.BytesIO) -> Any:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if count > _STEPS:
                raise RefusedError(f"its pickle has more than {_STEPS:,} opcodes")
            if opcode.name == "STOP":
                if len(self.stack) != 1:
                    raise RefusedError("its pickle leaves more than one value")
                return self._pop()
            if opcode.name not in self.steps:
                raise RefusedError(f"its pickle has the opcode {opcode.name}, which no state dict needs")
            self.steps[opcode.name](argument)
        raise RefusedError("its pickle has no end")

    def _protocol(self, version: int) -> None:
        if version != 2:
            raise RefusedError(f"its pickle is of protocol {version}, but torch writes 2")

    def _pop(self) -> Any:
        value = self.stack.pop()
        if isinstance(value, _Mark):
            raise RefusedError("its pickle takes a mark for a value")
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
            raise RefusedError(f"its pickle recalls {place}, which was never kept")
        self.stack.append(self.memo[place])

    def _set(self, items: Sequence[Any]) -> None:
        table = self.stack[-1]
        if not isinstance(table, dict) or len(items) % 2:
            raise RefusedError("its pickle sets items of what is no dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):  # whose hash costs nothing
                raise RefusedError(f"its pickle has a key that is no string, but {_kind(key)}")
            table[key] = value

    def _extend(self, items: Sequence[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise RefusedError("its pickle appends to what is no list")
        self.stack[-1].extend(items)

    def _build(self) -> None:
        """What torch keeps of a model's modules, their versions: passed over."""
        state = self._pop()
        if not isinstance(self.stack[-1], dict) or not isinstance(state, dict) or {*state} != {"_metadata"}:
            raise RefusedError("its pickle gives a state to something that has none here")


def _storage(wanted: Any) -> Storage:
    match wanted:
        case ("storage", _Name(name=name), str() as key, str(), count, *views) if name in _DTYPES:
            if views not in ([], [None]):  # torch before 1.6 has one more, for views of storages
                raise RefusedError("a storage is a view of another, which no newer torch writes")
            if not re.fullmatch(r"\d{1,20}", key, re.ASCII):
                raise RefusedError(f"a storage is called {key!r:.60}, which is no number")
            return Storage(_DTYPES[name], key, _number(count))
        case ("storage", _Name(name=name), *_):
            raise RefusedError(f"a storage of {name!r:.60}, which holds no numbers that are read here")
        case _:
            raise RefusedError("something that lies outside its pickle is no storage")


def _made(function: Any, arguments: Any) -> Any:
    """What a call would give, of the three that there may be."""
    if not isinstance(function, _Name) or function.name not in (_TENSOR, _PARAMETER, _DICTIONARY):
        raise RefusedError(f"its pickle calls {_kind(function)}; nothing of it was called")
    match function.name, arguments:
        case name, () if name == _DICTIONARY:
            return {}
        case name, (View() as view, bool(), dict() as hooks) if name == _PARAMETER and not hooks:
            return view
        case name, (
            Storage() as storage,
            offset,
            tuple() as shape,
            tuple() as strides,
            bool(),
            dict() as more,
        ):
            if name == _TENSOR and not more:
                return _view(storage, offset, shape, strides)
    raise RefusedError(f"its pickle calls {function.name!r} with what it does not take")


def _view(storage: Storage, offset: Any, shape: tuple[Any, ...], strides: tuple[Any, ...]) -> View:
    if len(shape) != len(strides) or len(shape) > 64:
        raise RefusedError(f"a tensor has {len(shape)} sizes and {len(strides)} strides")
    sizes, steps = tuple(map(_number, shape)), tuple(map(_number, strides))
    numbers = math.prod(sizes)
    last = _number(offset) + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    if numbers > storage.count or (numbers and last >= storage.count) or offset > storage.count:
        raise RefusedError(
            f"a tensor {list(sizes)!r:.100} with strides {list(steps)!r:.100} from {offset} on does not lie "
            f"in its storage {storage.key} of {storage.count:,} numbers"
        )
    if math.prod(max(size, 1) for size in sizes) > _LARGEST:  # though there are none, if one is 0
        raise RefusedError(f"a tensor has the sizes {list(sizes)!r:.100}, which are beyond all bounds")
    return View(storage, offset, sizes, steps)


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise RefusedError("a size, stride or offset is no whole number from 0 on, or beyond all bounds")
    return value


def _kind(value: Any) -> str:
    """In words; never its content, which may unfold without end."""
    return f"{value.name!r:.60}" if isinstance(value, _Name) else f"a {type(value).__name__.strip('_')}"
