"""Products in 8 bits, for inference on a CPU: weights take a quarter of the memory and of the time to read.

    y_j = s_x s_j sum_i [x_i / s_x] [w_ij / s_j] + b_j      [ ] rounds to a whole number from -127 to 127
    s_x = max_i |x_i| / 127                                 a scale for each token, found on the spot
    s_j = max_i |w_ij| / 127                                a scale for each output, found once

A token's scale is its own, so its output does not depend on its company. The sums are exact; each rounding
is off by at most half a step, which bounds the error: tests/nn/test_quantized.py. Everything between the
products stays as it is.

oneDNN multiplies unsigned bytes by signed ones, so tokens are stored 128 higher, and it takes that back. On
a processor without VNNI it adds pairs of products in 16 bits: there tokens get 63 steps, so that they fit.

Several tokens are multiplied by packed weights. Preparing that costs as much as multiplying a single token by
a matrix of usual size: so where a single one comes, such matrices are unpacked once and for all, for the same
sums by a plainer call.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import torch
from jaxtyping import Float, Int8, UInt8
from torch import Tensor, nn

from regard.nn.packed import Product, with_products

Model = TypeVar("Model", bound=nn.Module)
STEPS = 127
"""Of weights, on each side of 0."""
PLAIN = 2**22
"""Larger matrices take so long to read that the packed order, read faster, pays for a single token too."""
SMALL = 2**16
"""Below so many numbers, fewer calls are faster than fewer numbers read."""
WHOLE, SIGNED = 2.0**23, 1.5 * 2.0**23
"""Where float32 begins to have whole numbers only: what is added is rounded, and lies in the lowest bits. The
second leaves room below too: the lowest byte is then a signed one."""


def token_steps() -> int:
    """Of tokens, on this machine."""
    return 127 if torch.cpu._is_vnni_supported() else 63


BLOCK = 256
"""Outputs whose weights are rounded at a time: what that takes is little beside a matrix."""


def quantize(
    model: Model,
    values: Callable[[Tensor], Tensor] = lambda weight: weight,
    shared: tuple[Tensor, ...] = (),
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

    def quantized(part: Product) -> nn.Module:
        return QuantizedLinear(values(part.weight), None if part.bias is None else values(part.bias))

    return with_products(model, quantized, shared).requires_grad_(False)


class QuantizedLinear(nn.Module):
    def __init__(
        self,
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, "outputs"] | None,
        *,
        steps: int | None = None,
    ) -> None:
        """`steps` of tokens: as the machine can, unless given."""
        super().__init__()
        if weight.device.type != "cpu":
            raise ValueError(f"weights on {weight.device}, but 8 bits are for the CPU: move the model")
        self.training = False
        self.out_features, self.in_features = weight.shape
        self.steps = steps or token_steps()
        weight = weight.detach().float()
        most = torch.maximum(weight.amax(dim=1), weight.amin(dim=1).neg_())
        scales = STEPS / most.clamp(min=torch.finfo(torch.float32).tiny)
        whole = torch.empty(weight.shape, dtype=torch.int8, device="cpu")
        for rows, scale, into in zip(*(each.split(BLOCK) for each in (weight, scales, whole)), strict=True):
            into.copy_((rows * scale[:, None]).round_())
        # Plain attributes, no buffers: the packed form belongs to this machine.
        self._packed = torch.ops.onednn.qlinear_prepack(whole, None)
        # Signed bytes by signed ones fit only where sums are in 32 bits throughout.
        exact = self.steps == STEPS and torch.cpu._is_vnni_supported()
        self._unpacks = exact and whole.numel() <= PLAIN
        self._scales = most / (STEPS * self.steps)
        self._zeros = torch.zeros(len(most), dtype=torch.int64, device="cpu")
        self._bias = None if bias is None else bias.detach().float().clone()
        self._most_steps = torch.tensor(float(self.steps), device="cpu")
        # In a row: with a single number, the kernel is half as fast.
        self._middle = torch.full((self.in_features,), WHOLE + self.steps + 1, device="cpu")
        self._zero = torch.full((self.in_features,), SIGNED, device="cpu") if self._unpacks else None

    def forward(self, x: Float[Tensor, "*tokens inputs"]) -> Float[Tensor, "*tokens outputs"]:
        exact = x.dtype == torch.float32
        tokens = x.detach() if x.requires_grad else x
        tokens = tokens if exact else tokens.float()
        # A token of zeros is divided by 0; what comes of that is multiplied by 0.
        if tokens.numel() < SMALL:
            most = tokens.abs().amax(dim=-1, keepdim=True)
        else:
            most = torch.maximum(tokens.amax(dim=-1, keepdim=True), tokens.amin(dim=-1, keepdim=True).neg_())
        scale = torch.div(self._most_steps, most)
        if self._zero is not None and tokens.shape == (1, self.in_features):
            whole = torch.addcmul(self._zero, tokens, scale).view(torch.int32).to(torch.int8)
            sums = torch._int_mm(whole, self._plain) * self._scales
        else:
            whole = torch.addcmul(self._middle, tokens, scale).view(torch.int32).to(torch.uint8)
            sums = self._products(whole)
        scaled = sums.mul_(most) if self._bias is None else torch.addcmul(self._bias, sums, most, out=sums)
        return scaled if exact else scaled.to(x.dtype)

    def _products(self, whole: UInt8[Tensor, "*tokens inputs"]) -> Float[Tensor, "*tokens outputs"]:
        found: Tensor = torch.ops.onednn.qlinear_pointwise(
            whole,
            1.0,
            self.steps + 1,
            self._packed,
            self._scales,
            self._zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return found

    @cached_property
    def _plain(self) -> Int8[Tensor, "inputs outputs"]:
        return self._packed.to_dense().t().contiguous().t()

    def train(self, mode: bool = True) -> "QuantizedLinear":
        if mode:
            raise ValueError("8 bits cannot be trained: train the model that this one was made from")
        return self

    def _save_to_state_dict(self, *_: Any) -> NoReturn:
        raise ValueError("a model in 8 bits is not stored: store the one that it was made from")

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"
