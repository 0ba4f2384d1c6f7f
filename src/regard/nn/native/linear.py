"""Linear layers by linear.c: products, bias and activation in one pass, in float32 or in 8 bits."""

import ctypes
import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from regard.nn.native import library
from regard.nn.native.room import empty
from regard.nn.native.structs import Layer

Then = Literal["relu", "gelu", "gelu_tanh", "swish"]
"""Activations that a product may apply to what it writes."""
THENS: dict[Then | None, int] = {None: 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "swish": 4}


def available() -> bool:
    return library() is not None


def bytes_available() -> bool:
    """On processors with AVX-512 VNNI."""
    made: Any = library()
    return made is not None and bool(made.linear_bytes())


class Panels:
    """A linear layer whose weights lie in the order of linear.c."""

    def __init__(
        self,
        weight: Shaped[Tensor, "outputs inputs"],
        bias: Float[Tensor, "outputs"] | None,
        then: Then | None,
        *,
        scales: Float[Tensor, "outputs"] | None = None,
        steps: int = 0,
    ) -> None:
        """In float32; or, with `scales`, of bytes: those times the size of a token are a product's steps, of
        which a token has so many on each side of 0."""
        made: Any = library()
        self.outputs, inputs = weight.shape
        self._inputs = (inputs,)
        panel, fours = made.linear_panel(), 1 if scales is None else 4
        more = -self.outputs % panel
        whole = F.pad(weight.detach(), (0, -inputs % fours, 0, more))
        laid = whole.unflatten(1, (-1, fours)).unflatten(0, (-1, panel)).transpose(1, 2).contiguous()
        shifts = None if scales is None else -128 * whole.sum(dim=1, dtype=torch.int32)
        added = weight.new_zeros(self.outputs, dtype=torch.float32) if bias is None else bias.detach().float()
        self._kept: tuple[Tensor | None, ...] = (
            laid,
            None if scales is None else F.pad(scales, (0, more)),
            shifts,
            F.pad(added, (0, more)).clone(),
        )
        addresses = (None if each is None else each.data_ptr() for each in self._kept)
        self.layer = Layer(inputs, self.outputs, *addresses, THENS[then], steps)
        self.address, self._call = ctypes.addressof(self.layer), made.linear
        pointer = ctypes.c_void_p
        self._call.argtypes = [pointer, pointer, ctypes.c_int64, pointer, ctypes.c_int]

    def __deepcopy__(self, memo: object) -> "Panels":
        return self  # nothing in it ever changes

    def times(self, x: Float[Tensor, "*tokens inputs"]) -> Float[Tensor, "*tokens outputs"]:
        if x.shape[-1:] != self._inputs or x.dtype != torch.float32 or x.device.type != "cpu":
            raise ValueError(
                f"{tuple(x.shape)} in {x.dtype} on {x.device}: this layer takes tokens of {self._inputs[0]} "
                "numbers, in float32 on the CPU"
            )
        x = x.contiguous()
        y = empty(*x.shape[:-1], self.outputs)
        tokens = math.prod(x.shape[:-1])
        if self._call(self.address, x.data_ptr(), tokens, y.data_ptr(), torch.get_num_threads()):
            raise MemoryError(f"no memory for {tokens} tokens of {x.shape[-1]} numbers in 8 bits")
        return y
