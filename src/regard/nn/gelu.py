"""GELU for compilers, in half precision: x Phi(x), with less arithmetic than the library's functions.

    Phi(x) = 1 - h for x >= 0, h for x < 0      h = t (a1 + t (a2 + ... a5)) exp(-x^2 / 2) / 2
                                                t = 1 / (1 + p |x| / sqrt 2)
                                                Abramowitz and Stegun 7.1.26: wrong by 1.5e-7 at most
    tanh's form    1 + tanh(u) = 2 sigmoid(2 u), the same function

A feed-forward network's GELU reads and writes the largest tensors there are; with `erf` and `tanh` as torch
compiles them a GPU computes for longer than that takes. The error is far below what half precision rounds
away. The gradient is written down too: it needs what is there already. tests/nn/test_gelu.py holds both equal
to torch's.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

_P = 0.3275911 / math.sqrt(2)
_A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_CUBE, _TWICE = 0.044715, 2 * math.sqrt(2 / math.pi)


def gelu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    found: Tensor = _Gelu.apply(x)  # type: ignore[no-untyped-call]
    return found


def gelu_tanh(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    found: Tensor = _GeluTanh.apply(x)  # type: ignore[no-untyped-call]
    return found


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        wide = x.float()
        return (wide * _below(wide, _bell(wide))).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        wide = x.float()
        bell = _bell(wide)
        slope = _below(wide, bell) + wide * bell / math.sqrt(2 * math.pi)
        return (gradient.float() * slope).to(x.dtype)


class _GeluTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        wide = x.float()
        return (wide * torch.sigmoid(_TWICE * wide * (1 + _CUBE * wide * wide))).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        wide = x.float()
        square = _CUBE * wide * wide
        share = torch.sigmoid(_TWICE * wide * (1 + square))
        slope = share + share * (1 - share) * _TWICE * wide * (1 + 3 * square)
        return (gradient.float() * slope).to(x.dtype)


def _bell(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x * x)


def _below(x: Tensor, bell: Tensor) -> Tensor:
    """Phi, the share of a normal distribution that lies below."""
    t = 1 / (1 + _P * x.abs())
    tail = torch.zeros_like(t)
    for each in reversed(_A):
        tail = (tail + each) * t
    tail = 0.5 * tail * bell
    return torch.where(x < 0, tail, 1 - tail)
