"""Random masks on CUDA: which elements dropout keeps.

A call of Philox (Salmon et al. 2011) gives four numbers of 32 bits, which are eight of 16: each decides about
one element. It needs Triton, which torch for CUDA brings along; import this module only there.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from regard.nn.operators import operator

CHANCES, GROUP = 2**16, 8
"""Probabilities are multiples of 1 / CHANCES. A mask's elements come in groups."""
_SIZE = 512


def draw_kept(like: Shaped[Tensor, "..."], seed: Int[Tensor, "1"], dropped: int) -> Bool[Tensor, "..."]:
    """True for elements that stay, each by itself; False for `dropped` of CHANCES."""
    return _draw_op(like, seed, dropped)


@operator("draw_kept")
def _draw_op(like: Tensor, seed: Tensor, dropped: int) -> Tensor:
    mask = torch.empty(like.shape, dtype=torch.bool, device=like.device)
    groups = mask.numel() // GROUP
    _draw[(triton.cdiv(groups, _SIZE),)](mask.view(-1).view(torch.int64), seed, groups, dropped, _SIZE)
    return mask


@_draw_op.register_fake
def _(like: Tensor, seed: Tensor, dropped: int) -> Tensor:
    return like.new_empty(like.shape, dtype=torch.bool)


@triton.jit  # type: ignore[untyped-decorator]
def _draw(mask, seed, groups, dropped, size: tl.constexpr):  # type: ignore[no-untyped-def]
    places = tl.program_id(0) * size + tl.arange(0, size)
    one, two, three, four = tl.randint4x(tl.load(seed), places)
    found = (
        _pair(one, dropped, 0)
        | _pair(two, dropped, 16)
        | _pair(three, dropped, 32)
        | _pair(four, dropped, 48)
    )
    tl.store(mask + places, found, mask=places < groups)


@triton.jit  # type: ignore[untyped-decorator]
def _pair(number, dropped, shift: tl.constexpr):  # type: ignore[no-untyped-def]
    """Two decisions, a byte each."""
    number = number.to(tl.uint32, bitcast=True)
    low = ((number & 0xFFFF).to(tl.int32) >= dropped).to(tl.int64)
    high = ((number >> 16).to(tl.int32) >= dropped).to(tl.int64)
    return (low << shift) | (high << (shift + 8))
