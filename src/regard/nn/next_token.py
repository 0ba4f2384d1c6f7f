"""One new token a row, on CUDA: its key and value go into the cache, and its query asks all of that.

    out = softmax(q [K k]^T / sqrt(d)) [V v]        for each row and head, over the row's own length

PyTorch's kernels read all the room there is, and a mask as long. This one reads a row's keys up to its
length, which only the device knows. Sums are in float32. It needs Triton, which torch for CUDA brings along;
import this module only there.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 64
"""Keys that are read at a time."""


def fits(d_head: int, d_value: int) -> bool:
    """Whether heads have sizes that the kernel can compute."""
    return all(16 <= size <= 256 and size & (size - 1) == 0 for size in (d_head, d_value))


def attend_next(
    queries: Float[Tensor, "rows heads d_head"],
    keys: Float[Tensor, "rows kv_heads d_head"],
    values: Float[Tensor, "rows kv_heads d_value"],
    cached_keys: Float[Tensor, "rows kv_heads room d_head"],
    cached_values: Float[Tensor, "rows kv_heads room d_value"],
    lengths: Int[Tensor, "rows"],
    before: int | None = None,
) -> Float[Tensor, "rows heads d_value"]:
    """Keys and values are written behind the lengths, for which there must be room. `before`: no key further
    back is seen."""
    rows, heads, d_head = queries.shape
    d_value = values.shape[2]
    out = torch.empty(rows, heads, d_value, dtype=queries.dtype, device=queries.device)
    _attend[(rows, heads)](
        queries,
        keys,
        values,
        cached_keys,
        cached_values,
        out,
        lengths,
        *queries.stride()[:2],
        *keys.stride()[:2],
        *values.stride()[:2],
        *cached_keys.stride()[:2],
        *cached_values.stride()[:2],
        d_head**-0.5,
        0 if before is None else before,
        heads // keys.shape[1],
        d_head,
        d_value,
        before is not None,
        BLOCK,
    )
    return out


@triton.jit  # type: ignore[untyped-decorator]
def _attend(  # type: ignore[no-untyped-def]
    queries, keys, values, cached_keys, cached_values, out, lengths,
    query_row, query_head, key_row, key_head, value_row, value_head,
    cached_key_row, cached_key_head, cached_value_row, cached_value_head,
    scale, before,
    share: tl.constexpr, d_head: tl.constexpr, d_value: tl.constexpr,
    window: tl.constexpr, size: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    shared = head // share
    d, e = tl.arange(0, d_head), tl.arange(0, d_value)
    length = tl.load(lengths + row)
    old_keys = cached_keys + row * cached_key_row + shared * cached_key_head
    old_values = cached_values + row * cached_value_row + shared * cached_value_head
    query = tl.load(queries + row * query_row + head * query_head + d).to(tl.float32) * scale
    key = tl.load(keys + row * key_row + shared * key_head + d).to(cached_keys.dtype.element_ty)
    value = tl.load(values + row * value_row + shared * value_head + e).to(cached_values.dtype.element_ty)
    if head % share == 0:
        tl.store(old_keys + length * d_head + d, key)
        tl.store(old_values + length * d_value + e, value)
    # The new token first, from registers: nobody waits for the write.
    most = tl.sum(query * key.to(tl.float32), 0)
    total = most * 0.0 + 1.0
    sums = value.to(tl.float32)
    first = length * 0
    if window:
        first = tl.maximum(length - before, 0)
    for start in range(first, length, size):
        places = start + tl.arange(0, size)
        seen = places < length
        block = tl.load(old_keys + places[:, None] * d_head + d[None, :], mask=seen[:, None], other=0.0)
        scores = tl.sum(block.to(tl.float32) * query[None, :], 1)
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(most, tl.max(scores, 0))
        shares = tl.exp(scores - higher)
        fade = tl.exp(most - higher)
        block = tl.load(old_values + places[:, None] * d_value + e[None, :], mask=seen[:, None], other=0.0)
        sums = sums * fade + tl.sum(shares[:, None] * block.to(tl.float32), 0)
        total = total * fade + tl.sum(shares, 0)
        most = higher
    place = out + (row * tl.num_programs(1) + head) * d_value + e
    tl.store(place, (sums / total).to(out.dtype.element_ty))
