"""Attention over packed sequences on CUDA, forward and backward, for sequences of any length.

    S = Q K^T / sqrt(d),  P = softmax(S),  O = P V                       Dao 2023, algorithms 1 and 2
    dV = P^T dO,  dS = P (dO V^T - rowsum(dO O)),  dQ = dS K,  dK = dS^T Q

Weights are never in memory: a block of queries goes through its keys block by block, and the way back
computes them again from the logarithm of each row's sum. PyTorch's kernel for this takes blocks of 128
tokens; sentences are shorter, so most of its work is on nothing. Here the blocks go by the lengths. Sums are
in float32. It needs Triton, which torch for CUDA brings along; import this module only there.
"""

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor

from regard.nn.flash_kernels import backward, forward, row_sums
from regard.nn.operators import operator

LOG2E = 1.4426950408889634


def fits(d_head: int) -> bool:
    """Whether heads have a size that the kernels can compute."""
    return d_head in (16, 32, 64, 128)


def attend_flash(
    queries: Float[Tensor, "queries heads d_head"],
    keys: Float[Tensor, "keys kv_heads d_head"],
    values: Float[Tensor, "keys kv_heads d_head"],
    query_offsets: Int[Tensor, "bounds"],
    longest_query: int,
    key_offsets: Int[Tensor, "bounds"],
    longest_key: int,
    *,
    causal: bool,
    scale: float,
) -> Float[Tensor, "queries heads d_head"]:
    """Each sequence of queries asks the keys of the same sequence; `causal`: each its own place and those
    before, the last query at the last key."""
    out, _ = _apart_op(
        queries, keys, values, query_offsets, key_offsets, longest_query, longest_key, causal, scale
    )
    return out


def attend_joined(
    joined: Float[Tensor, "tokens all_heads d_head"],
    heads: int,
    offsets: Int[Tensor, "bounds"],
    longest: int,
    *,
    causal: bool,
    scale: float,
) -> Float[Tensor, "tokens heads d_head"]:
    """The same where queries, keys and values lie side by side in one tensor, in this order: so many heads of
    queries, half of the rest each. Its gradient is written in one piece."""
    out, _ = _joined_op(joined, heads, offsets, longest, causal, scale)
    return out


def forward_blocks(mean: float) -> tuple[int, int, int, int]:
    """Queries and keys of a block, warps and stages, as measured on an H200."""
    return 64, 32 if mean <= 40 else 64, 4, 3


def backward_blocks(mean: float, longest: int, causal: bool) -> tuple[int, int, int, int]:
    """Tokens of a block and of the blocks that it goes through, warps and stages."""
    if longest <= 128:
        return (128, 128, 8, 1) if mean > 40 else (64, 64, 4, 1)
    if mean > 200:
        return (64, 64, 4, 1) if causal else (128, 32, 4, 3)
    return 64, 32, 4, 1


@operator("attend_flash")
def _apart_op(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    longest_query: int,
    longest_key: int,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    return _run_forward(queries, keys, values, query_offsets, key_offsets, longest_query, causal, scale)


@_apart_op.register_fake
def _(queries: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
    tokens, heads, d_head = queries.shape
    return queries.new_empty(tokens, heads, d_head), queries.new_empty(heads, tokens, dtype=torch.float32)


@operator("attend_flash_backward")
def _apart_back_op(
    gradients: Tensor,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    out: Tensor,
    logs: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    longest_query: int,
    longest_key: int,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    into = queries.new_empty(queries.shape), keys.new_empty(keys.shape), values.new_empty(values.shape)
    longest = max(longest_query, longest_key)
    asked = queries, keys, values
    _run_backward(gradients, asked, out, logs, query_offsets, key_offsets, longest, causal, scale, into)
    return into


@_apart_back_op.register_fake
def _(
    gradients: Tensor, queries: Tensor, keys: Tensor, values: Tensor, *rest: object
) -> tuple[Tensor, Tensor, Tensor]:
    return queries.new_empty(queries.shape), keys.new_empty(keys.shape), values.new_empty(values.shape)


def _remember_apart(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    queries, keys, values, query_offsets, key_offsets, *rest = inputs
    ctx.save_for_backward(queries, keys, values, *output, query_offsets, key_offsets)
    ctx.rest = rest


def _apart_back(ctx, gradients, _):  # type: ignore[no-untyped-def]
    found = _apart_back_op(gradients.contiguous(), *ctx.saved_tensors, *ctx.rest)
    return *found, None, None, None, None, None, None


_apart_op.register_autograd(_apart_back, setup_context=_remember_apart)


@operator("attend_joined")
def _joined_op(
    joined: Tensor, heads: int, offsets: Tensor, longest: int, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    return _run_forward(*_cut(joined, heads), offsets, offsets, longest, causal, scale)


@_joined_op.register_fake
def _(joined: Tensor, heads: int, *rest: object) -> tuple[Tensor, Tensor]:
    tokens, _, d_head = joined.shape
    return joined.new_empty(tokens, heads, d_head), joined.new_empty(heads, tokens, dtype=torch.float32)


@operator("attend_joined_backward")
def _joined_back_op(
    gradients: Tensor,
    joined: Tensor,
    out: Tensor,
    logs: Tensor,
    offsets: Tensor,
    heads: int,
    longest: int,
    causal: bool,
    scale: float,
) -> Tensor:
    found = joined.new_empty(joined.shape)
    asked, into = _cut(joined, heads), _cut(found, heads)
    _run_backward(gradients, asked, out, logs, offsets, offsets, longest, causal, scale, into)
    return found


@_joined_back_op.register_fake
def _(gradients: Tensor, joined: Tensor, *rest: object) -> Tensor:
    return joined.new_empty(joined.shape)


def _remember_joined(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    joined, heads, offsets, *rest = inputs
    ctx.save_for_backward(joined, *output, offsets)
    ctx.rest = [heads, *rest]


def _joined_back(ctx, gradients, _):  # type: ignore[no-untyped-def]
    found = _joined_back_op(gradients.contiguous(), *ctx.saved_tensors, *ctx.rest)
    return found, None, None, None, None, None


_joined_op.register_autograd(_joined_back, setup_context=_remember_joined)

Three = tuple[Tensor, Tensor, Tensor]


def _cut(joined: Tensor, heads: int) -> Three:
    shared = (joined.shape[1] - heads) // 2
    queries, keys, values = joined.split([heads, shared, shared], dim=1)
    return queries, keys, values


def _run_forward(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    longest: int,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    tokens, heads, d_head = queries.shape
    sequences = len(query_offsets) - 1
    out = queries.new_empty(queries.shape)
    logs = queries.new_empty(heads, tokens, dtype=torch.float32)
    rows, columns, warps, stages = forward_blocks(tokens / max(sequences, 1))
    forward[(triton.cdiv(longest, rows), heads, sequences)](
        queries, keys, values, out, logs, query_offsets, key_offsets,
        *queries.stride()[:2], *keys.stride()[:2], *values.stride()[:2], *out.stride()[:2],
        tokens, scale * LOG2E, heads // keys.shape[1], d_head, causal, rows, columns,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out, logs


def _run_backward(
    gradients: Tensor,
    asked: Three,
    out: Tensor,
    logs: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    longest: int,
    causal: bool,
    scale: float,
    into: Three,
) -> None:
    tokens, heads, d_head = out.shape
    kv_heads, sequences = asked[1].shape[1], len(query_offsets) - 1
    size, step, warps, stages = backward_blocks(tokens / max(sequences, 1), longest, causal)
    alone = longest <= size and heads == kv_heads
    sums = torch.empty_like(logs)
    if not alone:
        row_sums[(triton.cdiv(tokens, 64), heads)](
            gradients, out, sums, *gradients.stride()[:2], tokens, d_head, 64
        )
    strides = [stride for each in (gradients, *asked, *into) for stride in each.stride()[:2]]
    backward[(triton.cdiv(longest, size), heads, sequences)](
        gradients, *asked, out, logs, sums, *into, query_offsets, key_offsets, *strides,
        heads, kv_heads, tokens, scale, scale * LOG2E, d_head, causal, alone, size, step,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
