"""All layers of a translator's decoder in one call of C, for inference on a CPU.

`DecoderPasses.of` says for which stacks, `serve` when. Everything else goes layer by layer, as `Stack` is
written to be read: a hundred calls of modules for each new token, which take a quarter of the time in 8 bits
and hold Python's lock. The values are the same to the last bit, but for the norms: those add up in another
order than torch's, and are off by rounding. tests/decode/test_passes.py holds the two equal.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, Literal, cast
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from regard.nn.layers import FeedForward, LayerNorm, Residual, RMSNorm, TransformerLayer
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.native import decoder as native
from regard.nn.native import recorded
from regard.nn.native.linear import Panels
from regard.nn.native.structs import Asked, DecoderLayer, Heads, Norm
from regard.nn.packed import PackedLinear
from regard.nn.quantized import QuantizedLinear
from regard.nn.stacks import Stack

EVERYWHERE = (
    hooks._global_forward_hooks,
    hooks._global_forward_pre_hooks,
)
"""Hooks of all modules."""


_known: "WeakKeyDictionary[Stack, DecoderPasses]" = WeakKeyDictionary()
"""Described once, and again when a part or a weight has been replaced."""


class DecoderPasses:
    def __init__(self, stack: Stack) -> None:
        """Of a stack that has a counterpart in C: see `of`."""
        modules = [*stack.modules()]
        products = [each for each in modules if isinstance(each, PackedLinear | QuantizedLinear)]
        heads = [each for each in modules if isinstance(each, SelfAttention | CrossAttention)]
        layers, last = _described(stack)
        self.described = bytes(layers), bytes(last)
        norms = [each for each in modules if isinstance(each, LayerNorm | RMSNorm)]
        # What must outlive its address. `double()` gives a parameter other memory; what was detached stays.
        self._kept = (
            [each.products for each in products],
            [weight.detach() for norm in norms for weight in norm.parameters()],
        )
        self.passes = native.Passes(
            layers,
            last,
            pre=stack.each[0].attention_residual.place == "pre",
            widest=max(each.out_features for each in products),
            found=max(each.heads * each.d_value for each in heads),
        )
        self._hooks = [
            *EVERYWHERE,
            *(each._forward_hooks for each in modules),
            *(each._forward_pre_hooks for each in modules),
        ]

    @classmethod
    def of(cls, stack: Stack) -> "DecoderPasses | None":
        """None if it has a part without a counterpart in C."""
        if not _has_counterpart(stack):
            return None
        layers, last = _described(stack)
        known = _known.get(stack)
        if known is None or known.described != (bytes(layers), bytes(last)):
            known = _known[stack] = cls(stack)
        return known

    def serve(self, x: Float[Tensor, "rows d_model"]) -> bool:
        """Whether nobody would miss what happens inside: a hook, a gradient, a tracer or a compiler."""
        return x.dtype == torch.float32 and self.unseen()

    def unseen(self) -> bool:
        return not torch.is_grad_enabled() and not any(self._hooks) and not recorded()

    def through(
        self, x: Float[Tensor, "rows d_model"], searches: Sequence[Asked]
    ) -> Float[Tensor, "rows d_model"]:
        """The layers and the final norm; the rows of all searches, one behind the other."""
        return self.passes.through(x, searches)


def _has_counterpart(stack: Stack) -> bool:
    """Not if a product was not packed for C, if attention knows positions or has a score or a scale of its
    own, if the feed-forward layer has a gate, the norm is that of batches, dropout drops, or a part has
    another class."""
    norms: list[Any] = [] if stack.final_norm is None else [stack.final_norm]
    products: list[Any] = []
    dropped: list[nn.Module] = []
    for layer in stack.each:
        own, other, inner = layer.attention, layer.cross_attention, layer.feed_forward
        residuals = (layer.attention_residual, layer.cross_residual, layer.feed_forward_residual)
        classes = (TransformerLayer, SelfAttention, CrossAttention, FeedForward, *[Residual] * 3)
        if (*map(type, (layer, own, other, inner, *residuals)),) != classes or other is None:
            return False
        if any(each is not None for each in (own.rotary, own.bias, own.score, own.query_norm, other.score)):
            return False
        if own.rescale != 1 or other.rescale != 1:
            return False
        if not inner.activated:  # by the product itself
            return False
        products += [own.project, own.output, other.project_queries, other.output, inner.inner, inner.output]
        norms += [residual.norm for residual in residuals if residual is not None]
        dropped += [inner.dropout, *(residual.dropout for residual in residuals if residual is not None)]
    return (
        type(stack) is Stack
        and len({layer.attention_residual.place for layer in stack.each}) == 1
        and all(type(each) in (PackedLinear, QuantizedLinear) for each in products)
        and all(isinstance(each.products, Panels) for each in products)
        and all(type(each) in (LayerNorm, RMSNorm) for each in norms)
        and all(each.weight is not None and readable(each.weight) for each in norms)
        and all(readable(bias) for each in norms if (bias := getattr(each, "bias", None)) is not None)
        and not any(each.training for each in dropped if not isinstance(each, nn.Identity))
    )


def readable(weight: Tensor) -> bool:
    return weight.dtype == torch.float32 and weight.device.type == "cpu" and weight.is_contiguous()


def _described(stack: Stack) -> tuple["ctypes.Array[DecoderLayer]", Norm]:
    """By addresses, which are others as soon as anything is replaced: what a description has is kept."""
    layers = (DecoderLayer * len(stack.each))(*map(_layer, stack.each))
    return layers, Norm() if stack.final_norm is None else _norm(stack.final_norm)


def _layer(layer: TransformerLayer) -> DecoderLayer:
    own, other = layer.attention, cast(CrossAttention, layer.cross_attention)
    residuals = (layer.attention_residual, cast(Residual, layer.cross_residual), layer.feed_forward_residual)
    return DecoderLayer(
        _heads(own, own.project),
        _heads(other, other.project_queries),
        _product(layer.feed_forward.inner),
        _product(layer.feed_forward.output),
        *(_norm(residual.norm) for residual in residuals),
    )


def _heads(attention: SelfAttention | CrossAttention, project: nn.Module) -> Heads:
    sizes = attention.heads, attention.kv_heads, attention.d_head, attention.d_value
    return Heads(*sizes, _product(project), _product(attention.output))


def _product(part: Any) -> int:
    """Where its description lies."""
    found: int = part.products.address
    return found


def _norm(part: Any) -> Norm:
    kind: Literal["layer", "rms"] = "rms" if isinstance(part, RMSNorm) else "layer"
    return native.norm_of(kind, part.weight, getattr(part, "bias", None), part.eps)
