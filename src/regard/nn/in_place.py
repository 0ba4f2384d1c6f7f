"""Sums and activations that are written where one of their inputs was: new memory costs more than adding.

    x + update          takes the place of the update
    ReLU, GELU          take the place of what they are given

The values are the same, bit for bit, but whoever kept an input, as a forward hook may, would see it change.
So no model does this by itself: `in_place` makes a copy that does, for inference, where nobody listens.
Functions that end in _ change what they are given.
"""

import copy
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn import Stream
from regard.nn.layers import FeedForward, Residual, activate

Model = TypeVar("Model", bound=nn.Module)
Writer = Residual | FeedForward


def in_place(model: Model) -> Model:
    """The same model, in place. Only the parts that hold a residual or a feed-forward layer are copied: all
    others, and all weights, are the model's own. One that has none is given back as it is."""
    shared: list[Any] = [*model.parameters(), *model.buffers()]
    shared += [
        part for part in model.modules() if not any(isinstance(each, Writer) for each in part.modules())
    ]
    # deepcopy takes what it finds here for copied.
    copied = copy.deepcopy(model, {id(each): each for each in shared})
    for part in copied.modules():
        match part:
            case Residual():
                part.add = add_
            case FeedForward():
                part.activate = activate_
    return copied


def add_(x: Stream, update: Stream) -> Stream:
    """(Under autocast the update may be in half precision; the sum is not.)"""
    return update.add_(x) if update.dtype == x.dtype else x + update


def activate_(inner: Float[Tensor, "*tokens d_inner"], kind: str | None) -> Float[Tensor, "*tokens d_ff"]:
    match kind:
        case "relu":
            return torch.relu_(inner)
        case "gelu":
            return torch.ops.aten.gelu_(inner)
        case _:
            return activate(inner, kind)
