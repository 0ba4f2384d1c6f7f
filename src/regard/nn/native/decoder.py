"""A pass through all layers of a decoder, by decoder.c."""

import ctypes
from collections.abc import Sequence
from threading import local
from typing import Any, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.nn.native import library
from regard.nn.native.attention import Asking
from regard.nn.native.structs import Asked, Decoder, DecoderLayer, Norm

NORMS: dict[Literal["layer", "rms"], int] = {"layer": 1, "rms": 2}


def norm_of(
    kind: Literal["layer", "rms"],
    weight: Float[Tensor, "d_model"],
    bias: Float[Tensor, "d_model"] | None,
    eps: float,
) -> Norm:
    """The weights must outlive it."""
    return Norm(NORMS[kind], len(weight), weight.data_ptr(), None if bias is None else bias.data_ptr(), eps)


def normed(norm: Norm, x: Float[Tensor, "tokens d_model"]) -> Float[Tensor, "tokens d_model"]:
    """As a pass does it."""
    made: Any = library()
    pointer = ctypes.c_void_p
    made.norm.argtypes = [pointer, pointer, ctypes.c_int64, pointer]
    x = x.contiguous()
    y = torch.empty_like(x)
    made.norm(ctypes.addressof(norm), x.data_ptr(), len(x), y.data_ptr())
    return y


class Grids:
    """Where the keys and values of a search lie, layer by layer, [groups, room, kv_heads, d] each."""

    def __init__(self, own: Sequence[tuple[Tensor, Tensor]], other: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Those of its own tokens, and those of its sources; they must outlive it."""
        grids = [grid for four in zip(own, other, strict=True) for pair in four for grid in pair]
        if not all(grid.is_contiguous() for grid in grids):
            raise ValueError("keys and values must lie side by side: copy them by contiguous()")
        self.half = own[0][0].dtype == torch.float16
        self.own_room, self.other_room = own[0][0].shape[1], other[0][0].shape[1]
        self.addresses = (ctypes.c_void_p * len(grids))(*(grid.data_ptr() for grid in grids))


def asked(
    owners: Int64[Tensor, "rows"],
    slots: Int64[Tensor, "rows"],
    back: Asking,
    across: Asking,
    grids: Grids,
) -> Asked:
    """All that is given must outlive it."""
    return Asked(
        len(owners), grids.half, owners.data_ptr(), slots.data_ptr(), back.address, across.address,
        grids.own_room, grids.other_room, ctypes.addressof(grids.addresses),
    )  # fmt: skip


class Passes:
    """Passes through the layers that are described. Several threads may make them at the same time."""

    def __init__(
        self, layers: "ctypes.Array[DecoderLayer]", last: Norm, *, pre: bool, widest: int, found: int
    ) -> None:
        """Whatever the layers point at must outlive it. `last` is a `Norm()` where none is."""
        made: Any = library()
        self._each = layers
        self.d_model = layers[0].own_norm.width
        self._decoder = Decoder(len(layers), self.d_model, pre, widest, found, ctypes.addressof(layers), last)
        self.address, self._room, self._call = (
            ctypes.addressof(self._decoder), made.decoder_room, made.decoder_pass,
        )  # fmt: skip
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self._room.argtypes, self._room.restype = [pointer, number], number
        self._call.argtypes = [pointer, pointer, number, number, pointer, pointer, ctypes.c_int]
        self._own = local()

    def through(
        self, x: Float[Tensor, "rows d_model"], searches: Sequence[Asked]
    ) -> Float[Tensor, "rows d_model"]:
        """The rows of all searches, one behind the other."""
        rows = sum(search.rows for search in searches)
        if x.shape != (rows, self.d_model) or x.dtype != torch.float32 or x.device.type != "cpu":
            raise ValueError(
                f"{tuple(x.shape)} in {x.dtype} on {x.device}: {rows} rows of {self.d_model} numbers are "
                "asked for, in float32 on the CPU"
            )
        y = x.clone(memory_format=torch.contiguous_format)
        addresses = (ctypes.c_void_p * len(searches))(*map(ctypes.addressof, searches))
        room = self.working_room(self._room(self.address, rows))
        threads = torch.get_num_threads()
        if self._call(self.address, addresses, len(searches), rows, y.data_ptr(), room.data_ptr(), threads):
            raise MemoryError(f"no memory for a step of {rows} rows")
        return y

    def working_room(self, floats: int) -> Float[Tensor, "floats"]:
        """Of this thread; the next pass has it again."""
        room: Tensor | None = getattr(self._own, "room", None)
        if room is None or len(room) < floats:
            room = self._own.room = torch.empty(floats, device="cpu")
        return room
