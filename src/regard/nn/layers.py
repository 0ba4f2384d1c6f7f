"""The parts around attention: feed-forward, norm, residual, and the layer they make.

    feed-forward   ReLU(x W_1 + b_1) W_2 + b_2, for each token alone     Vaswani et al. 2017, 3.3
    swish          x sigmoid(x) for ReLU(x)                              Ramachandran et al. 2017
    GEGLU, SwiGLU  (act(x W_g) * (x W_1)) W_2                            Shazeer 2020
    LayerNorm      gamma (x - mean) / sqrt(var + eps) + beta             Ba et al. 2016
    RMSNorm        gamma x / sqrt(mean(x^2) + eps)                       Zhang and Sennrich 2019
    BatchNorm      LayerNorm's, but mean and var are each element's      Ioffe and Szegedy 2015
                   own, over all tokens of the batch
    post-norm      norm(x + dropout(layer(x)))                           the paper
    pre-norm       x + dropout(layer(norm(x)))                           Xiong et al. 2020

LayerNorm and RMSNorm look at one token's vector only, so an example's output cannot depend on its batch.
BatchNorm mixes the examples while it learns, and a decoder's tokens with those that come after them; it is
here to be compared with. tests/nn/test_layers.py holds the layer equal to torch.nn.TransformerEncoderLayer
and DecoderLayer.
"""

import operator
from collections.abc import Callable
from functools import partial
from typing import Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.layout import Layout
from regard.nn import Stream
from regard.nn.dropout import Dropout
from regard.nn.gelu import gelu, gelu_tanh
from regard.nn.masks import Mask
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.state import CrossCache, Memory, SelfCache
from regard.settings.network import FeedForwardConfig, NormConfig


class LayerNorm(nn.LayerNorm):
    """In the precision of its weights; the stream keeps its own."""

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        if x.dtype == self.weight.dtype:
            return super().forward(x)
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


class RMSNorm(nn.RMSNorm):
    """The same of the other norm."""

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


class BatchNorm(nn.Module):
    """In training by the tokens at hand; after it by the running mean and variance that they leave. A batch
    that is not finite leaves nothing in those: the trainer skips its step."""

    PACE = 0.1
    """How far the running figures follow each batch."""

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_variance", torch.ones(d_model))

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        wide = x.to(self.weight.dtype)
        mean, variance = cast(Tensor, self.running_mean), cast(Tensor, self.running_variance)
        if self.training:
            tokens = wide.flatten(0, -2)
            variance, mean = torch.var_mean(tokens, dim=0, correction=0)
            self._follow(mean.detach(), variance.detach() * (len(tokens) / max(len(tokens) - 1, 1)))
        scaled = (wide - mean) * torch.rsqrt(variance + self.eps)
        return (self.weight * scaled + self.bias).to(x.dtype)

    def _follow(self, mean: Float[Tensor, "d_model"], variance: Float[Tensor, "d_model"]) -> None:
        finite = torch.isfinite(mean + variance)
        for running, new in ((self.running_mean, mean), (self.running_variance, variance)):
            kept = cast(Tensor, running)
            kept.lerp_(torch.where(finite, new, kept).to(kept.dtype), self.PACE)


def build_norm(config: NormConfig, d_model: int) -> nn.Module:
    match config.kind:
        case "layer":
            return LayerNorm(d_model, eps=config.eps, bias=config.bias)
        case "rms":
            return RMSNorm(d_model, eps=config.eps)
        case "batch":
            return BatchNorm(d_model, eps=config.eps)


GATED = ("geglu", "geglu_tanh", "swiglu")
"""Activations with a third matrix."""


class FeedForward(nn.Module):
    """The same small network for each token by itself."""

    def __init__(self, d_model: int, config: FeedForwardConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.gated = config.activation in GATED
        self.activated = False
        """Whether `inner` does that itself."""
        d_ff = config.d_ff or 4 * d_model
        # With a gate, both its matrix and W_1 in one: [gate ; inner].
        self.inner = nn.Linear(d_model, 2 * d_ff if self.gated else d_ff, bias=config.bias)
        self.output = nn.Linear(d_ff, d_model, bias=config.bias)
        self.dropout = Dropout(config.dropout)
        self.activate = activate

    def forward(self, x: Stream) -> Stream:
        inner = self.inner(x)
        return self.output(self.dropout(inner if self.activated else self.activate(inner, self.activation)))


def activate(inner: Float[Tensor, "*tokens d_inner"], kind: str | None) -> Float[Tensor, "*tokens d_ff"]:
    """None: as it is."""
    match kind:
        case "relu":
            return F.relu(inner)
        case "gelu" | "gelu_tanh" if torch.compiler.is_compiling() and inner.dtype.itemsize == 2:
            return gelu(inner) if kind == "gelu" else gelu_tanh(inner)
        case "gelu":
            return F.gelu(inner)
        case "gelu_tanh":
            return F.gelu(inner, approximate="tanh")
        case "swish":
            return F.silu(inner)
        case "geglu":
            gate, inner = inner.chunk(2, dim=-1)
            return F.gelu(gate) * inner
        case "geglu_tanh":
            gate, inner = inner.chunk(2, dim=-1)
            return F.gelu(gate, approximate="tanh") * inner
        case "swiglu":
            gate, inner = inner.chunk(2, dim=-1)
            return F.silu(gate) * inner
        case _:
            return inner


Sublayer = Callable[[Stream], Stream]
Add = Callable[[Stream, Stream], Stream]


class Residual(nn.Module):
    """x + layer(x), with the norm where the configuration puts it."""

    def __init__(self, norm: nn.Module, place: Literal["post", "pre"], dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.place = place
        self.dropout = Dropout(dropout)
        self.add: Add = operator.add

    def forward(self, x: Stream, layer: Sublayer) -> Stream:
        match self.place:
            case "post":
                return self.norm(self.add(x, self.dropout(layer(x))))
            case "pre":
                return self.add(x, self.dropout(layer(self.norm(x))))


class TransformerLayer(nn.Module):
    """Self-attention, cross-attention where there is a memory to look at, feed-forward; each in a residual.
    One class for encoders and decoders: what a token may see is the mask's business."""

    def __init__(
        self,
        *,
        attention: SelfAttention,
        cross_attention: CrossAttention | None,
        feed_forward: FeedForward,
        residual: Callable[[], Residual],
        first: Residual | None = None,
    ) -> None:
        """`first` is the residual of the attention, where it is not like the others."""
        super().__init__()
        self.attention = attention
        self.attention_residual = residual() if first is None else first
        self.cross_attention = cross_attention
        self.cross_residual = None if cross_attention is None else residual()
        self.feed_forward = feed_forward
        self.feed_forward_residual = residual()

    def forward(self, x: Stream, layout: Layout, mask: Mask, memory: Memory | None = None) -> Stream:
        across = None if memory is None else partial(self._across, layout=layout, memory=memory)
        return self.through(x, lambda x: self.attention(x, layout, mask), across)

    def prefill(
        self, x: Stream, layout: Layout, mask: Mask, cache: SelfCache, cross: CrossCache | None
    ) -> Stream:
        """The same for whole prefixes, sequence r for row r; what is needed for further steps is kept."""
        across = (
            None if cross is None else partial(self._ask, layout=cross.sources.queries(layout), cross=cross)
        )
        return self.through(x, lambda x: self.attention.prefill(x, layout, mask, cache), across)

    def step(
        self, x: Float[Tensor, "rows d_model"], mask: Mask, cache: SelfCache, cross: CrossCache | None
    ) -> Float[Tensor, "rows d_model"]:
        """The same for one new token in each row, everything before it taken from the cache."""
        across = None if cross is None else partial(self._ask, layout=cross.sources.asking, cross=cross)
        return self.through(x, lambda x: self.attention.step(x, mask, cache), across)

    def through(self, x: Stream, look: Sublayer, look_across: Sublayer | None) -> Stream:
        """The layer, whatever way it looks back, and across."""
        x = self.attention_residual(x, look)
        if self.cross_residual is not None:
            if look_across is None:
                raise ValueError("this layer has cross-attention: give it the encoder's memory")
            x = self.cross_residual(x, look_across)
        elif look_across is not None:
            raise ValueError("a memory was given, but this layer has no cross-attention to look at it")
        return self.feed_forward_residual(x, self.feed_forward)

    def _across(self, x: Stream, *, layout: Layout, memory: Memory) -> Stream:
        return cast(CrossAttention, self.cross_attention)(x, layout, memory.states, memory.layout)

    def _ask(self, x: Stream, *, layout: Layout, cross: CrossCache) -> Stream:
        attention = cast(CrossAttention, self.cross_attention)
        return attention.ask(x, layout, cross.keys, cross.values, cross.sources.layout)
