"""The equalities, on one model: two ways to the same numbers.

attention    fused kernels, and the equation one sequence after the other; gradients too
packed       a batch, and each of its texts alone
cached       steps that remember keys and values, and the whole prefix anew
int8         each product in 8 bits, and in float32
groups       each product of a language model in groups of 4 and 8 bits by C, and with the rounded weights
native       inference in C, and in a process without it (REGARD_NATIVE=0)
cuda         on the GPU, and on the CPU
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.machine.results import Result, apart, judged, skipped
from regard.machine.subjects import Decoding, Subject, numbers, outputs, steppers
from regard.models import Decoder
from regard.nn.embedding import VocabularyHead
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.native import library
from regard.nn.native.groups import GROUP, KINDS, GroupedWeight, fits, restored
from regard.nn.quantized import STEPS, QuantizedLinear, token_steps

ROUNDING = 1e-4
"""Of the greatest number. float32 has 24 bits, so a sum of n products is off by sqrt(n) 2^-24 as a rule and
by n 2^-24 at most: for 1,000 of them 2e-6 and 6e-5. Norms keep it from growing, so layers add up: 1e-7 to
6e-6 were seen, of 1 to 6 layers. One key of 23 that is forgotten changes 6e-3 to 0.1."""
HALF = 0.1
"""The same in bfloat16, whose 8 bits round by 2^-9 = 2e-3 each time: 1e-2 for a layer of half a dozen
products in a row, and the worst of thousands of numbers is some times that: 6e-3 to 4e-2 were seen. This one
finds gross mistakes only; float32 on the same device finds the others."""
HALF_STEP = 1.001
"""A product in 8 bits is off by half a step of each factor at most, in exact numbers: that is the bound. Both
sides are computed in float32, which is a thousandth of it and less."""

ATTENTION = "fused attention = the equation"
PACKED = "a packed batch = each text alone"
CACHED = "cached decoding = the whole prefix anew"
INT8 = "int8 = float32, within half a step"
GROUPS = "4 and 8 bits in groups = rounded weights, within half a step"
NATIVE = "the compiled C = torch"
CUDA, CUDA_HALF = "CUDA = CPU, float32", "CUDA in bfloat16 = CPU"


def check_attention(subject: Subject) -> Result:
    parts = [
        part
        for part in subject.model.modules()
        if isinstance(part, SelfAttention | CrossAttention) and part.score is None
    ]
    if not parts:
        return skipped(ATTENTION, subject.name, "it has no attention with a fused kernel")
    weight = next(part.project.weight for part in parts if isinstance(part, SelfAttention))
    found: dict[str, tuple[Tensor, ...]] = {}
    for kernel in ("equation", "auto", "padded"):
        with _by(kernel, parts):
            with torch.no_grad():
                inference = outputs(subject.model, subject.rows, subject.sources)
            found[kernel] = (*inference, _gradient(subject, weight))
    pairs = [
        pair for kernel in ("auto", "padded") for pair in zip(found[kernel], found["equation"], strict=True)
    ]
    return judged(ATTENTION, subject.name, apart(pairs, ROUNDING), why="gradients too")


@contextmanager
def _by(kernel: Any, parts: Sequence[Any]) -> Iterator[None]:
    """Attention by this kernel."""
    before = [part.kernel for part in parts]
    for part in parts:
        part.kernel = kernel
    try:
        yield
    finally:
        for part, own in zip(parts, before, strict=True):
            part.kernel = own


@torch.enable_grad()
def _gradient(subject: Subject, weight: Tensor) -> Tensor:
    """Of the first layer's projection, which all layers above have a part in; of the scores by fixed random
    numbers, since vectors of length 1 would give none by their squares."""
    wanted = weight.requires_grad
    weight.requires_grad_(True)
    try:
        scores = outputs(subject.model, subject.rows, subject.sources)[-1]
        by = torch.randn(scores.shape, generator=torch.Generator().manual_seed(0))
        (found,) = torch.autograd.grad((scores * by).sum(), [weight])
    finally:
        weight.requires_grad_(wanted)
    return found


@torch.no_grad()
def check_packed(subject: Subject) -> Result:
    together = outputs(subject.fast, subject.rows, subject.sources)
    each = [
        outputs(subject.fast, [row], [source])
        for row, source in zip(subject.rows, subject.sources, strict=True)
    ]
    alone = (torch.cat(parts) for parts in zip(*each, strict=True))
    return judged(PACKED, subject.name, apart(zip(together, alone, strict=True), ROUNDING))


@torch.no_grad()
def check_cached(subject: Subject) -> Result:
    if not subject.writes:
        return skipped(CACHED, subject.name, "an encoder decodes nothing")
    decoding, model = Decoding.of(subject), subject.fast
    whole, ways = decoding.whole(model), steppers(model)
    pairs = [(decoding.stepped(model, stepper), whole) for stepper in ways.values()]
    return judged(CACHED, subject.name, apart(pairs, ROUNDING), why=" and ".join(ways))


@torch.no_grad()
def check_int8(subject: Subject) -> Result:
    """Each product with the tokens that it gets from this model."""
    if not torch.backends.mkldnn.is_available():
        return skipped(INT8, subject.name, "this build of torch has no oneDNN, which 8 bits need")
    found: list[tuple[int, float, float]] = []

    def compare(part: Any, given: tuple[Tensor, ...], product: Tensor) -> None:
        x = given[0].flatten(0, -2)
        weight = part.scaled_weight if isinstance(part, VocabularyHead) else part.weight
        rough = QuantizedLinear(weight, part.bias)(x)
        gaps = (rough - product.flatten(0, -2)).abs()
        bounds = product_bound(x, weight)
        worst = int((gaps / bounds.clamp(min=torch.finfo(torch.float32).tiny)).argmax())
        found.append((gaps.numel(), float(gaps.flatten()[worst]), float(bounds.flatten()[worst])))

    with _listening(subject.model, compare):
        outputs(subject.model, subject.rows, subject.sources)
    return judged(INT8, subject.name, found, slack=HALF_STEP)


@torch.no_grad()
def check_groups(subject: Subject) -> Result:
    """Each product with the tokens that it gets from this model; a token is rounded group by group."""
    if not isinstance(subject.model, Decoder):
        return skipped(GROUPS, subject.name, "only language models are in groups")
    if library() is None:
        return skipped(GROUPS, subject.name, "there is no C")
    found: list[tuple[int, float, float]] = []

    def compare(part: Any, given: tuple[Tensor, ...], product: Tensor) -> None:
        x, bias = given[0].flatten(0, -2), 0.0 if part.bias is None else part.bias.double()
        for kind in KINDS if fits(part.weight) else ():
            left = restored(part.weight, kind).double()
            exact = x.double() @ left.T + bias
            gaps = (GroupedWeight(part.weight, part.bias, kind).times(x) - exact).abs()
            steps = x.double().unflatten(1, (-1, GROUP)).abs().amax(dim=2) / 127
            bounds = steps @ left.abs().unflatten(1, (-1, GROUP)).sum(dim=2).T / 2
            bounds += ROUNDING / 10 * (1 + exact.abs())
            worst = int((gaps / bounds).argmax())
            found.append((gaps.numel(), float(gaps.flatten()[worst]), float(bounds.flatten()[worst])))

    with _listening(subject.model, compare):
        outputs(subject.model, subject.rows, subject.sources)
    if not found:
        return skipped(GROUPS, subject.name, f"no width is a multiple of {GROUP}")
    return judged(GROUPS, subject.name, found)


@contextmanager
def _listening(model: nn.Module, compare: Callable[..., None]) -> Iterator[None]:
    """To every product."""
    products = [part for part in model.modules() if isinstance(part, nn.Linear | VocabularyHead)]
    hooks = [part.register_forward_hook(compare) for part in products]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def product_bound(x: Tensor, weight: Tensor) -> Tensor:
    """How far a product in 8 bits may be from the exact one: half a step of each factor, times the other."""
    step_x = x.abs().amax(dim=1, keepdim=True) / (2 * token_steps())
    step_w = weight.abs().amax(dim=1) / (2 * STEPS)
    alone = step_x * weight.abs().sum(dim=1) + x.abs().sum(dim=1, keepdim=True) * step_w
    return alone + x.shape[1] * step_x * step_w


def check_native(subject: Subject, without: Mapping[str, Tensor]) -> Result:
    """`without` C: the same `numbers` from another process."""
    found = numbers(subject)
    if found.keys() != without.keys():
        raise ValueError(f"{', '.join(found)} here, but {', '.join(without)} without C")
    return judged(NATIVE, subject.name, apart([(found[name], without[name]) for name in found], ROUNDING))


@torch.no_grad()
def check_cuda(subject: Subject, *, half: bool, device: str = "cuda") -> Result:
    expected = outputs(subject.model, subject.rows, subject.sources)
    twin = copy.deepcopy(subject.model).to(device)
    with torch.autocast(device, torch.bfloat16, enabled=half):
        found = outputs(twin, subject.rows, subject.sources, device)
    check, bound = (CUDA_HALF, HALF) if half else (CUDA, ROUNDING)
    return judged(check, subject.name, apart(zip(found, expected, strict=True), bound))
