"""Weights in groups of 32 with 4 or 8 bits each, as GGUF files have them, and products with them by groups.c.

    Q4_1    w = s q + m      q from 0 to 15      s, m: halves, for each group
    Q4_0    w = s (q - 8)    q from 0 to 15
    Q8_0    w = s q          q from -127 to 127

Rounding goes as in ggml, so what was such a weight before stays what it was. Tokens are rounded to 8 bits by
groups of 32 too, so a product is off by at most

    |y - W x|  <=  sum over groups of  s_x / 2 sum_i |w_i|          s_x = max |x_i| / 127

and by float32's own rounding: tests/nn/native/test_native_groups.py.
"""

import ctypes
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.nn.native import library
from regard.nn.native.structs import Grouped as Struct

GROUP, PANEL = 32, 16
Kind = Literal["q4_1", "q4_0", "q8_0"]
KINDS: dict[Kind, int] = {"q4_1": 0, "q4_0": 1, "q8_0": 2}
Weight = Float[Tensor, "outputs inputs"]


def rounded(weight: Weight, kind: Kind) -> tuple[Tensor, Tensor, Tensor | None]:
    """Codes [outputs, groups, 32] from 0 on, scales [outputs, groups] and, of q4_1, what is added; the latter
    two in half precision."""
    blocks = weight.detach().float().unflatten(1, (-1, GROUP))
    if kind == "q4_1":
        least, most = blocks.amin(dim=2), blocks.amax(dim=2)
        scale = (most - least) / 15
        codes = ((blocks - least[..., None]) * _inverse(scale) + 0.5).trunc().clamp_(0, 15)
        return codes.to(torch.uint8), scale.half(), least.half()
    if kind == "q4_0":
        places = blocks.abs().argmax(dim=2, keepdim=True)
        scale = (blocks.gather(2, places) / -8).squeeze(2)
        codes = (blocks * _inverse(scale) + 8.5).trunc().clamp_(0, 15)
        return codes.to(torch.uint8), scale.half(), None
    scale = blocks.abs().amax(dim=2) / 127
    codes = (blocks * _inverse(scale)).round_() + 128
    return codes.to(torch.uint8), scale.half(), None


def _inverse(scale: Tensor) -> Tensor:
    return torch.where(scale == 0, 0, 1 / scale)[..., None]


def restored(weight: Weight, kind: Kind) -> Weight:
    """What is left of a weight."""
    codes, scale, least = rounded(weight, kind)
    middle = {"q4_1": 0, "q4_0": 8, "q8_0": 128}[kind]
    values = (codes.float() - middle) * scale.float()[..., None]
    return (values if least is None else values + least.float()[..., None]).flatten(1)


def is_made_of(weight: Weight, kind: Kind) -> bool:
    """Whether rounding to this changes nothing."""
    return torch.equal(restored(weight, kind), weight.detach().float())


def fits(weight: Weight) -> bool:
    """Whether its inputs are whole groups."""
    return weight.shape[1] % GROUP == 0


class GroupedWeight:
    """A matrix as groups.c reads it, and its bias."""

    def __init__(self, weight: Weight, bias: Float[Tensor, "outputs"] | None, kind: Kind) -> None:
        if not fits(weight):
            raise ValueError(f"{weight.shape[1]} inputs are no whole groups of {GROUP}")
        self.outputs, self.inputs = weight.shape
        codes, scale, least = rounded(weight, kind)
        more = -self.outputs % PANEL
        laid = _panels(F.pad(codes, (0, 0, 0, 0, 0, more)), kind)
        parts = [scale] if least is None else [scale, least]
        scales = [F.pad(each, (0, 0, 0, more)).unflatten(0, (-1, PANEL)).transpose(1, 2) for each in parts]
        self._kept = (
            laid,
            torch.stack(scales, dim=2).contiguous(),
            None if bias is None else bias.detach().float().contiguous().clone(),
        )
        addresses = (None if each is None else each.data_ptr() for each in self._kept)
        self.struct = Struct(KINDS[kind], self.inputs, self.outputs, *addresses)

    @property
    def address(self) -> int:
        return ctypes.addressof(self.struct)

    @property
    def bytes(self) -> int:
        return sum(each.nbytes for each in self._kept if each is not None)

    def times(
        self, x: Float[Tensor, "tokens inputs"], *, plain: bool = False, made: Any = None
    ) -> Float[Tensor, "tokens outputs"]:
        """`plain`: one number after the other, by the same library; `made` is another one."""
        made = made or library()
        x = x.float().contiguous()
        y = torch.empty(len(x), self.outputs, device="cpu")
        whole, pointer = ctypes.c_int64, ctypes.c_void_p
        made.grouped.argtypes, made.grouped.restype = [pointer, pointer, whole, pointer, whole, whole], whole
        if made.grouped(self.address, x.data_ptr(), len(x), y.data_ptr(), torch.get_num_threads(), plain):
            raise MemoryError(f"no memory for {len(x)} tokens")
        return y


def _panels(codes: Tensor, kind: Kind) -> Tensor:
    """[panels, groups, chunks of four inputs, 16 outputs, 4 inputs]; of 4 bits, two chunks in one."""
    laid = codes.unflatten(0, (-1, PANEL)).unflatten(3, (-1, 4)).permute(0, 2, 3, 1, 4)
    if kind == "q8_0":
        return laid.contiguous()
    return (laid[:, :, :4] | laid[:, :, 4:] << 4).contiguous()
