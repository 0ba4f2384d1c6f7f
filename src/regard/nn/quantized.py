"""Products in 8 bits, for inference on a CPU: weights take a quarter of the memory and of the time to read.

    y_j = s_x s_j sum_i [x_i / s_x] [w_ij / s_j] + b_j      [ ] rounds to a whole number from -127 to 127
    s_x = max_i |x_i| / 127                                 a scale for each token, found on the spot
    s_j = max_i |w_ij| / 127                                a scale for each output, found once

A token's scale is its own, so its output does not depend on its company. The sums are exact; each rounding
is off by at most half a step, which bounds the error: tests/nn/test_quantized.py. Everything between the
products stays as it is.

Processors multiply unsigned bytes by signed ones, so tokens are stored 128 higher, and that is taken back.
Where they can add such products in 32 bits (VNNI), and there is a C compiler, native/linear.c does all of it
in one pass; elsewhere the same sums come from torch by way of oneDNN. On a processor without VNNI pairs of
products are added in 16 bits: there tokens get 63 steps, so that they fit.
"""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import torch
from jaxtyping import Float, Int8, UInt8
from torch import Tensor, nn

from regard.nn.embedding import VocabularyHead
from regard.nn.in_place import activate_
from regard.nn.native import linear as native
from regard.nn.native.linear import Then
from regard.nn.packed import Bias, Product, Weight, with_products

Model = TypeVar("Model", bound=nn.Module)
STEPS = 127
"""Of weights, on each side of 0."""
SMALL = 2**16
"""Below so many numbers, fewer calls are faster than fewer numbers read."""
WHOLE = 2.0**23
"""Where float32 begins to have whole numbers only: what is added is rounded, and lies in the lowest bits."""
BLOCK = 256
"""Outputs whose weights are rounded at a time: what that takes is little beside a matrix."""


def token_steps() -> int:
    """Of tokens, on this machine."""
    return 127 if torch.cpu._is_vnni_supported() else 63


def quantize(
    model: Model, values: Callable[[Tensor], Tensor] = lambda weight: weight, shared: tuple[Tensor, ...] = ()
) -> Model:
    """A copy whose linear layers and vocabulary heads compute in 8 bits. It can be neither trained nor
    stored: quantize what was loaded.

    values  of a weight of a product, if the model's own are not there; they are asked for one by one
    shared  weights of everything else that are not copied
    """
    if model.training:
        raise ValueError("the model is in training mode, and 8 bits are for inference: eval() it first")
    if not torch.backends.mkldnn.is_available():
        raise ValueError("this build of torch has no oneDNN, which 8 bits need: stay with float32")

    def quantized(part: Product, then: Then | None) -> nn.Module:
        bias = None if part.bias is None else values(part.bias)
        weight = values(part.weight)
        if isinstance(part, VocabularyHead) and part.scale != 1:
            weight = weight * part.scale
        return QuantizedLinear(weight, bias, then)

    return with_products(model, quantized, shared).requires_grad_(False)


class QuantizedLinear(nn.Module):
    def __init__(
        self, weight: Weight, bias: Bias | None, then: Then | None = None, *, steps: int | None = None
    ) -> None:
        """`then` is an activation of the outputs. `steps` of tokens: as the machine can, unless given."""
        super().__init__()
        if weight.device.type != "cpu":
            raise ValueError(f"weights on {weight.device}, but 8 bits are for the CPU: move the model")
        self.training = False
        self.out_features, self.in_features = weight.shape
        steps = steps or token_steps()
        weight = weight.detach().float()
        most = torch.maximum(weight.amax(dim=1), weight.amin(dim=1).neg_())
        scales = STEPS / most.clamp(min=torch.finfo(torch.float32).tiny)
        whole = torch.empty(weight.shape, dtype=torch.int8, device="cpu")
        for rows, scale, into in zip(*(each.split(BLOCK) for each in (weight, scales, whole)), strict=True):
            into.copy_((rows * scale[:, None]).round_())
        kind = native.Panels if native.bytes_available() else _OneDNN
        # A plain attribute, no buffers: its order belongs to this machine.
        self.products = kind(whole, bias, then, scales=most / (STEPS * steps), steps=steps)

    def forward(self, x: Float[Tensor, "*tokens inputs"]) -> Float[Tensor, "*tokens outputs"]:
        if x.dtype == torch.float32:
            return self.products.times(x)
        return self.products.times(x.float()).to(x.dtype)

    def train(self, mode: bool = True) -> "QuantizedLinear":
        if mode:
            raise ValueError("8 bits cannot be trained: train the model that this one was made from")
        return self

    def _save_to_state_dict(self, *_: Any) -> NoReturn:
        raise ValueError("a model in 8 bits is not stored: store the one that it was made from")

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class _OneDNN:
    """What `Panels` is, by torch's operations."""

    def __init__(
        self,
        whole: Int8[Tensor, "outputs inputs"],
        bias: Bias | None,
        then: Then | None,
        *,
        scales: Float[Tensor, "outputs"],
        steps: int,
    ) -> None:
        self._packed = torch.ops.onednn.qlinear_prepack(whole, None)
        self._scales, self._then, self._steps = scales, then, steps
        self._bias = None if bias is None else bias.detach().float().clone()
        self._zeros = torch.zeros(len(scales), dtype=torch.int64, device="cpu")
        self._most_steps = torch.tensor(float(steps), device="cpu")
        # In a row: with a single number, the kernel is half as fast.
        self._middle = torch.full((whole.shape[1],), WHOLE + steps + 1, device="cpu")

    @torch.no_grad()
    def times(self, x: Float[Tensor, "*tokens inputs"]) -> Float[Tensor, "*tokens outputs"]:
        # A token of zeros is divided by 0; what comes of that is multiplied by 0.
        if x.numel() < SMALL:
            most = x.abs().amax(dim=-1, keepdim=True)
        else:
            most = torch.maximum(x.amax(dim=-1, keepdim=True), x.amin(dim=-1, keepdim=True).neg_())
        scale = torch.div(self._most_steps, most)
        sums = self._sums(torch.addcmul(self._middle, x, scale).view(torch.int32).to(torch.uint8))
        scaled = sums.mul_(most) if self._bias is None else torch.addcmul(self._bias, sums, most, out=sums)
        return activate_(scaled, self._then)

    def _sums(self, whole: UInt8[Tensor, "*tokens inputs"]) -> Float[Tensor, "*tokens outputs"]:
        found: Tensor = torch.ops.onednn.qlinear_pointwise(
            whole, 1.0, self._steps + 1, self._packed, self._scales, self._zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return found
