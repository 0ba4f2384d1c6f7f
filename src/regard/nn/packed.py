"""Products in float32 from weights that lie as the processor reads them, for inference on a CPU.

    y = x W^T + b       W once more, in native/linear.c's order; without a compiler, in oneDNN's

The values are those of `F.linear`, up to the order of sums. One token is bound by reading the weights, which
all threads do, in the order in which they lie. The price is memory: each matrix lies there twice.
"""

import copy
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.adapter import LowRank
from regard.nn.embedding import VocabularyHead
from regard.nn.layers import FeedForward, activate
from regard.nn.native import linear as native
from regard.nn.native import recorded
from regard.nn.native.linear import Then

Model = TypeVar("Model", bound=nn.Module)
Product = nn.Linear | VocabularyHead
Weight = Float[Tensor, "outputs inputs"]
Bias = Float[Tensor, "outputs"]


def with_products(
    model: Model, product: Callable[[Product, Then | None], nn.Module], shared: tuple[Tensor, ...] = ()
) -> Model:
    """A copy in which `product` of it, and of what follows it, takes the place of every linear layer and
    vocabulary head, and nothing the place of dropout. `shared` tensors are not copied."""
    then: dict[nn.Module, Then] = {
        part.inner: cast(Then, part.activation)
        for part in model.modules()
        if isinstance(part, FeedForward) and part.activation in get_args(Then)
    }
    # deepcopy takes what it finds here for copied: the weights of products never are.
    done: dict[int, Any] = {id(each): each for each in shared}
    done |= {id(part): product(part, then.get(part)) for part in model.modules() if isinstance(part, Product)}
    done |= {id(part): nn.Identity() for part in model.modules() if isinstance(part, nn.Dropout)}
    copied = copy.deepcopy(model, done)
    for part in copied.modules():
        if isinstance(part, FeedForward):
            part.activated = part.activation in get_args(Then) and not isinstance(part.inner, LowRank)
        # As plain attributes too: a module looks long for its parts and weights.
        vars(part).update(part._modules | part._parameters)
    return copied


def pack(model: Model) -> Model:
    """The same model, faster. Its weights are those of the model given, packed as they are now: it cannot be
    trained."""
    if model.training:
        raise ValueError("the model is in training mode, and packed weights do not change: eval() it first")
    if not torch.backends.mkldnn.is_available():
        raise ValueError("this build of torch has no oneDNN, which packs weights: stay with the plain model")

    def packed(part: Product, then: Then | None) -> nn.Module:
        weight = part.scaled_weight if isinstance(part, VocabularyHead) else part.weight
        return PackedLinear(weight, part.bias, then)

    return with_products(model, packed, tuple(model.parameters()))


class PackedLinear(nn.Module):
    def __init__(self, weight: Weight, bias: Bias | None, then: Then | None = None) -> None:
        """`then` is an activation of the outputs."""
        super().__init__()
        if weight.device.type != "cpu" or weight.dtype != torch.float32:
            raise ValueError(f"{weight.dtype} on {weight.device}: only float32 on the CPU is packed")
        self.training = False
        self.out_features, self.in_features = weight.shape
        self.weight, self.bias = weight, bias
        self._then = then
        self.products = (native.Panels if native.available() else _OneDNN)(weight, bias, then)

    def forward(self, x: Float[Tensor, "*tokens inputs"]) -> Float[Tensor, "*tokens outputs"]:
        if torch.is_grad_enabled() or x.dtype != torch.float32 or recorded():
            return activate(F.linear(x, self.weight, self.bias), self._then)
        return self.products.times(x)

    def train(self, mode: bool = True) -> "PackedLinear":
        if mode:
            raise ValueError("packed weights cannot be trained: train the model that they were packed from")
        return self

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


_FUSED: dict[Then | None, tuple[str, str]] = {
    None: ("none", ""),
    "relu": ("relu", ""),
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
    "swish": ("swish", ""),
}
"""Under oneDNN's names."""


class _OneDNN:
    """What `Panels` is, by torch's operations."""

    def __init__(self, weight: Weight, bias: Bias | None, then: Then | None) -> None:
        self._bias, (self._name, self._kind) = bias, _FUSED[then]
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)

    def times(self, x: Float[Tensor, "*tokens inputs"]) -> Float[Tensor, "*tokens outputs"]:
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, self._name, [], self._kind)
