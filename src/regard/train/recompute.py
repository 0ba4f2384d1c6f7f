"""Layers compiled; and layers whose activations are not kept, but computed once more on the way back.

Activation checkpointing (Chen et al. 2016): of a layer only its input stays in memory. Losses and gradients
are the same to the bit, dropout included; a step costs one more pass forward, which is a third.
"""

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.nn.layers import TransformerLayer


class Recomputed:
    """A layer's pass, of which nothing is kept."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __call__(self, *given: Any) -> Any:
        return checkpoint(self.inner, *given, use_reentrant=False)


def _layers(model: nn.Module) -> Iterator[Any]:
    return (cast(Any, part) for part in model.modules() if isinstance(part, TransformerLayer))


def recompute_layers(model: nn.Module) -> int:
    """From now on, in training; how many layers there are."""
    layers = [*_layers(model)]
    for layer in layers:
        layer.forward = Recomputed(layer.forward)
    return len(layers)


def compile_layers(model: nn.Module, *, hooked: bool = False) -> None:
    """One by one: all that are alike share one compilation. Of `hooked` ones, whose weights are gathered
    before and let go after, only what is between; and a pass that is done twice is compiled once."""
    for layer in _layers(model):
        if isinstance(layer.forward, Recomputed):
            layer.forward.inner = torch.compile(layer.forward.inner, fullgraph=True, dynamic=False)
        elif hooked:
            layer.forward = torch.compile(layer.forward, fullgraph=True, dynamic=False)
        else:
            layer.compile(fullgraph=True, dynamic=False)
