"""The loss of predicted tokens on CUDA, without the scores of all of them ever being in memory.

    loss = log sum_v exp(s_v) - (1 - e) s_y - e / V sum_v s_v        s = W x + b, e of label smoothing
    d s  = softmax(s) - (1 - e) [v = y] - e / V

Some thousand rows at a time, at most half of them: their scores in one product, then one kernel reads each
row twice and writes the gradient in its place; two products make of that what goes to x and to W. Both are
known once the loss is, so the way back only multiplies them. It needs Triton, which torch for CUDA brings
along; import this module only there.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from regard.nn.operators import operator

ROWS = 8192
"""Scored at a time, at most."""
WIDE = 40_000
"""Scores in a row from which twice the threads for it are faster."""
LOG2E = tl.constexpr(1.4426950408889634)
ALIGNED = 128
"""Scores in a row, or a multiple: products are several times slower with rows that begin just anywhere."""


def vocabulary_loss(
    states: Float[Tensor, "tokens d_model"],
    weight: Float[Tensor, "vocab d_model"],
    bias: Float[Tensor, "vocab"] | None,
    labels: Int[Tensor, "tokens"],
    hidden: int,
    label_smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sums over the tokens whose label is not `hidden`: of the loss, and of - log p(y). Products are in the
    precision of the states. The second has no gradient."""
    loss, nll, *_ = _loss_op(states, weight, bias, labels, hidden, label_smoothing)
    return loss, nll


@operator("vocabulary_loss")
def _loss_op(
    states: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, hidden: int, label_smoothing: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    vocabulary = len(weight)
    missing = -vocabulary % ALIGNED
    matrix = F.pad(weight.to(states.dtype), (0, 0, 0, missing))
    added = None if bias is None else F.pad(bias.to(states.dtype), (0, missing))
    sums = torch.zeros(2, len(states), dtype=torch.float32, device=states.device)
    d_states = torch.empty_like(states)
    d_weight = torch.zeros_like(matrix, dtype=torch.float32)
    d_bias = torch.zeros(0 if bias is None else vocabulary, dtype=torch.float32, device=states.device)
    rows = max(1, min(ROWS, -(-len(states) // 2)))
    share = 2 if vocabulary > WIDE else 1
    for start in range(0, len(states), rows):
        own = slice(start, start + rows)
        scores = F.linear(states[own], matrix, added)
        _score[(len(scores),)](
            scores, labels[own], sums[:, own], len(states), vocabulary, vocabulary + missing, hidden,
            label_smoothing, label_smoothing > 0, 2048 * share, num_warps=8 * share,
        )  # fmt: skip
        torch.mm(scores, matrix, out=d_states[own])
        if states.dtype == torch.float32:
            d_weight.addmm_(scores.t(), states[own])
        else:
            torch.addmm(d_weight, scores.t(), states[own], out_dtype=torch.float32, out=d_weight)
        if bias is not None:
            d_bias += scores.sum(dim=0, dtype=torch.float32)[:vocabulary]
        del scores  # before the next ones are there
    return sums[0].sum(), sums[1].sum(), d_states, d_weight[:vocabulary], d_bias


@_loss_op.register_fake
def _(
    states: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, hidden: int, label_smoothing: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    single = torch.float32
    return (
        states.new_empty((), dtype=single),
        states.new_empty((), dtype=single),
        torch.empty_like(states),
        weight.new_empty(weight.shape, dtype=single),
        states.new_empty(0 if bias is None else len(bias), dtype=single),
    )


def _remember(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.biased = inputs[2] is not None
    ctx.save_for_backward(*output[2:])
    ctx.mark_non_differentiable(*output[1:])


def _way_back(ctx, gradient, *_):  # type: ignore[no-untyped-def]
    d_states, d_weight, d_bias = ctx.saved_tensors
    bias = d_bias * gradient if ctx.biased else None
    return (d_states * gradient).to(d_states.dtype), d_weight * gradient, bias, None, None, None


_loss_op.register_autograd(_way_back, setup_context=_remember)


@triton.jit  # type: ignore[untyped-decorator]
def _score(  # type: ignore[no-untyped-def]
    scores,
    labels,
    sums,
    tokens,
    vocabulary,
    width,
    hidden,
    smoothing,
    smoothed: tl.constexpr,
    size: tl.constexpr,
):
    """One row of scores becomes their gradient; its loss and its nll are written down."""
    row = tl.program_id(0)
    own = scores + row.to(tl.int64) * width
    label = tl.load(labels + row)
    if label == hidden:
        for start in range(0, width, size):
            columns = start + tl.arange(0, size)
            zeros = tl.zeros([size], tl.float32).to(scores.dtype.element_ty)
            tl.store(own + columns, zeros, mask=columns < width)
        return
    chosen = tl.load(own + label).to(tl.float32)  # here: it will be overwritten
    # Lane by lane, and put together once: the lanes need not wait for each other in between. Four at a time,
    # so that what a lane has added up is seldom brought to a new maximum.
    lowest = -1e30  # below every score, and still a number
    most, spread = tl.full([size], lowest, tl.float32), tl.zeros([size], tl.float32)
    total = tl.zeros([size], tl.float32)
    for start in range(0, vocabulary, 4 * size):
        one = start + tl.arange(0, size)
        two, three, four = one + size, one + 2 * size, one + 3 * size
        a = tl.load(own + one, mask=one < vocabulary, other=float("-inf")).to(tl.float32)
        b = tl.load(own + two, mask=two < vocabulary, other=float("-inf")).to(tl.float32)
        c = tl.load(own + three, mask=three < vocabulary, other=float("-inf")).to(tl.float32)
        d = tl.load(own + four, mask=four < vocabulary, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(most, tl.maximum(tl.maximum(a, b), tl.maximum(c, d)))
        total *= tl.exp2((most - higher) * LOG2E)
        total += tl.exp2((a - higher) * LOG2E) + tl.exp2((b - higher) * LOG2E)
        total += tl.exp2((c - higher) * LOG2E) + tl.exp2((d - higher) * LOG2E)
        most = higher
        if smoothed:
            spread += tl.where(one < vocabulary, a, 0.0) + tl.where(two < vocabulary, b, 0.0)
            spread += tl.where(three < vocabulary, c, 0.0) + tl.where(four < vocabulary, d, 0.0)
    highest = tl.max(most, 0)
    log = highest + tl.log(tl.sum(total * tl.exp2((most - highest) * LOG2E), 0))
    mean = tl.sum(spread, 0) / vocabulary
    tl.store(sums + row, log - (1 - smoothing) * chosen - smoothing * mean)
    tl.store(sums + tokens + row, log - chosen)
    evenly = smoothing / vocabulary
    for start in range(0, width, size):
        columns = start + tl.arange(0, size)
        there = columns < vocabulary
        each = tl.load(own + columns, mask=there, other=float("-inf")).to(tl.float32)
        change = tl.exp2((each - log) * LOG2E)
        if smoothed:
            change -= tl.where(there, evenly, 0.0)
        change = tl.where(columns == label, change - (1 - smoothing), change)
        tl.store(own + columns, change.to(scores.dtype.element_ty), mask=columns < width)
