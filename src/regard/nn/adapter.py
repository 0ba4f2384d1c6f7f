"""Low-rank adapters (Hu et al. 2021, LoRA): what fine-tuning adds to a matrix, as a product of two thin ones.

    y = W x + b + (alpha / rank) U D x        W is fixed; D [rank, inputs] and U [outputs, rank] learn

U starts at zero: an adapter that has not learned is none. `merge` makes W + (alpha / rank) U D one matrix
again, and nothing is left of the adapter but its effect. tests/nn/test_adapter.py holds both equal.
"""

import copy
import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.layers import FeedForward
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.settings.network import AdapterConfig

Model = TypeVar("Model", bound=nn.Module)


class LowRank(nn.Module):
    """A linear layer with an adapter beside it."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.down = nn.Parameter(base.weight.new_empty(rank, base.in_features))
        self.up = nn.Parameter(base.weight.new_zeros(base.out_features, rank))
        nn.init.uniform_(self.down, -1 / math.sqrt(base.in_features), 1 / math.sqrt(base.in_features))

    def forward(self, x: Float[Tensor, "*tokens inputs"]) -> Float[Tensor, "*tokens outputs"]:
        y: Tensor = self.base(x)
        return y + self.scale * F.linear(F.linear(x, self.down), self.up)

    @property
    def whole(self) -> Float[Tensor, "outputs inputs"]:
        """The matrix that it amounts to."""
        return merged_weight(self.base.weight, self.down, self.up, self.scale)


def merged_weight(weight: Tensor, down: Tensor, up: Tensor, scale: float) -> Tensor:
    return weight + scale * (up @ down)


def places(model: nn.Module, config: AdapterConfig) -> Iterator[tuple[str, str, nn.Module]]:
    """Where adapters go: the name of each linear layer in the model, its name in the part that has it, and
    that part."""
    kinds: dict[str, tuple[Any, tuple[str, ...]]] = {
        "attention": (
            SelfAttention | CrossAttention,
            ("project", "project_queries", "project_memory", "output"),
        ),
        "feed_forward": (FeedForward, ("inner", "output")),
    }
    for prefix, part in model.named_modules():
        for matrices in config.matrices:
            kind, names = kinds[matrices]
            if isinstance(part, kind):
                for name in names:
                    if hasattr(part, name):
                        yield f"{prefix}.{name}", name, part


def adapt(model: nn.Module, config: AdapterConfig) -> None:
    """Give the model adapters, which alone learn from now on. Seed torch before."""
    found = [*places(model, config)]
    if not found:
        raise ValueError(
            f"adapter.matrices={list(config.matrices)}, but the model has none of these: adapters are for "
            "Transformers"
        )
    model.requires_grad_(False)
    for _, name, part in found:
        setattr(part, name, LowRank(getattr(part, name), config.rank, config.alpha))


def check_weights(model: nn.Module, config: AdapterConfig, weights: Mapping[str, Tensor]) -> None:
    """That there is one for each place in the model, of its shape, and none besides."""
    wanted: dict[str, tuple[int, int]] = {}
    for path, name, part in places(model, config):
        base = getattr(part, name)
        if not isinstance(base, nn.Linear):
            raise ValueError(
                f"{path} is a {type(base).__name__}: adapters stand beside the weights as they were trained; "
                "load the model in float32 or bfloat16"
            )
        wanted |= {
            f"{path}.down": (config.rank, base.in_features),
            f"{path}.up": (base.out_features, config.rank),
        }
    missing, extra = sorted(wanted.keys() - weights.keys()), sorted(weights.keys() - wanted.keys())
    if missing or extra:
        raise ValueError(
            f"not the adapters of this model: missing {missing[:3]!r:.200}, unknown {extra[:3]!r:.200}"
        )
    for name, shape in wanted.items():
        if tuple(weights[name].shape) != shape:
            raise ValueError(
                f"{name} has the shape {list(weights[name].shape)!r:.60}, where {list(shape)} belongs"
            )


def with_adapters(model: Model, config: AdapterConfig, weights: Mapping[str, Tensor]) -> Model:
    """A model with these adapters; all other weights are those of the model given, not copies of them."""
    check_weights(model, config, weights)
    kept: list[Any] = [*model.parameters(), *model.buffers()]
    copied = copy.deepcopy(model, {id(each): each for each in kept})
    for path, name, part in [*places(copied, config)]:
        base = getattr(part, name)
        own = LowRank(base, config.rank, config.alpha)
        with torch.no_grad():
            own.down.copy_(weights[f"{path}.down"])
            own.up.copy_(weights[f"{path}.up"])
        setattr(part, name, own.requires_grad_(False).train(base.training))
    return copied


def adapters(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Of the weights of an adapted model, those of its adapters."""
    return {
        name: weight
        for name, weight in weights.items()
        if name.endswith((".down", ".up")) and f"{name.rpartition('.')[0]}.base.weight" in weights
    }


def merged_weights(weights: Mapping[str, Tensor], config: AdapterConfig) -> dict[str, Tensor]:
    """The weights of an adapted model, as those of a plain one."""
    own = adapters(weights)
    found = {}
    for name, weight in weights.items():
        if name in own:
            continue
        plain = name.replace(".base.", ".")
        path = name.removesuffix(".base.weight")
        if path != name and f"{path}.up" in own:
            scale = config.alpha / config.rank
            weight = merged_weight(weight, own[f"{path}.down"], own[f"{path}.up"], scale)
        found[plain] = weight
    return found


def merge(model: nn.Module) -> None:
    """Every adapter becomes part of the matrix that it stands beside. A model without any stays as it is."""
    for part in [*model.modules()]:
        for name, inner in [*part.named_children()]:
            if isinstance(inner, LowRank):
                with torch.no_grad():
                    weight = inner.whole
                plain = inner.base
                plain.weight = nn.Parameter(weight, requires_grad=False)
                setattr(part, name, plain)
