"""A linear layer in 8 bits, by linear.c: products, scales, bias and activation in one pass."""

import ctypes
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8
from torch import Tensor

from regard.nn.native import library
from regard.nn.packed import Then

PANEL = 64
"""Outputs whose weights lie together."""
THENS: dict[Then | None, int] = {None: 0, "relu": 1, "gelu": 2, "gelu_tanh": 3}


def available() -> bool:
    """It is compiled for a processor with VNNI only."""
    return hasattr(library(), "linear")


def _function() -> Any:
    function: Any = getattr(library(), "linear")  # noqa: B009
    pointer = ctypes.c_void_p
    function.argtypes = [pointer, pointer, ctypes.c_int64, pointer, ctypes.c_int]
    return function


class _Layer(ctypes.Structure):
    _fields_ = (
        ("inputs", ctypes.c_int64),
        ("outputs", ctypes.c_int64),
        ("weights", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("shifts", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("then", ctypes.c_int64),
        ("steps", ctypes.c_float),
    )


class Panels:
    """A linear layer's weights in 8 bits, in the order of native.c."""

    def __init__(
        self,
        whole: Int8[Tensor, "outputs inputs"],
        scales: Float[Tensor, "outputs"],
        bias: Float[Tensor, "outputs"] | None,
        steps: int,
        then: Then | None,
    ) -> None:
        self.outputs, inputs = whole.shape
        more = -self.outputs % PANEL
        shifts = -128 * whole.sum(dim=1, dtype=torch.int32)
        by_fours = F.pad(whole, (0, -inputs % 4, 0, more)).unflatten(1, (-1, 4)).unflatten(0, (-1, PANEL))
        self._kept = (
            by_fours.transpose(1, 2).contiguous(),
            F.pad(scales, (0, more)),
            F.pad(shifts, (0, more)),
            F.pad(torch.zeros_like(scales) if bias is None else bias.detach().float(), (0, more)).clone(),
        )
        addresses = (each.data_ptr() for each in self._kept)
        self._layer = _Layer(inputs, self.outputs, *addresses, THENS[then], steps)
        self._address, self._call = ctypes.addressof(self._layer), _function()

    def __deepcopy__(self, memo: object) -> "Panels":
        return self  # nothing in it ever changes

    def times(self, x: Float[Tensor, "*tokens inputs"]) -> Float[Tensor, "*tokens outputs"]:
        x = x.contiguous()
        y = x.new_empty(*x.shape[:-1], self.outputs)
        tokens = y.numel() // self.outputs
        if self._call(self._address, x.data_ptr(), tokens, y.data_ptr(), torch.get_num_threads()):
            raise MemoryError(f"no memory for {tokens} tokens of {x.shape[-1]} numbers in 8 bits")
        return y
