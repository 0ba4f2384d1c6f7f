"""The grouped kernel: packed attention on the CPU, forward and backward.

Sequences of like lengths share one dense call of PyTorch's flash kernel. Neighbours of equal lengths are
views of the packed tensors: nothing is copied, nothing padded. Others are gathered into a small grid whose
empty cells are hidden, when the scores wasted on those cost less than another call would; long sequences
stay alone.

It is one operator, so that a compiler sees a single node whatever the lengths are, and autograd keeps one
node instead of one for each call. In inference, native/attention.c takes each sequence as it
lies, in float32 and if it was compiled: short sequences take half or a quarter of the time.

It knows reach masks and grouped-query heads, and in inference a bias by distance; other biases, dropout and
second derivatives are the padded kernel's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from regard.nn.masks import Mask
from regard.nn.native import attention as native
from regard.nn.native import recorded
from regard.nn.operators import operator

CALL = 1 << 18
"""What a call costs, in products of one query's number with one key's: about 0.1 ms on one core."""


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The queries, or the keys, of a group: `length` tokens in each of its sequences."""

    tokens: slice | Tensor
    """Where they lie: neighbours, or the index of each cell's token (in an empty cell: of a real one)."""
    length: int
    cells: Tensor | None
    """The cells that are not empty, if any is."""

    def dense(self, x: Tensor, heads: int, clean: bool = False) -> Tensor:
        """[sequences, heads, length, width]; key heads are shared out to the query heads. Empty cells hold
        another token's numbers, or zeros if they must be `clean`."""
        if isinstance(self.tokens, slice):
            flat = x[self.tokens]
        elif clean and self.cells is not None:
            flat = x.new_zeros(len(self.tokens), *x.shape[1:])
            flat.index_copy_(0, self.cells, x.index_select(0, self.tokens[self.cells]))
        else:
            flat = x.index_select(0, self.tokens)
        if flat.stride(-1) != 1:  # the kernel would read past it
            flat = flat.contiguous()
        grid = flat.view(-1, self.length, *flat.shape[1:]).transpose(1, 2)
        if x.shape[1] != heads:
            grid = grid.repeat_interleave(heads // x.shape[1], dim=1)
        return grid

    def store(self, dense: Tensor, whole: Tensor) -> None:
        """The inverse; what lies in empty cells is dropped."""
        if dense.shape[1] != whole.shape[1]:  # a shared key head gathers from all its query heads
            dense = dense.unflatten(1, (whole.shape[1], -1)).sum(dim=2)
        grid = dense.transpose(1, 2)
        if isinstance(self.tokens, slice):
            whole[self.tokens].view(grid.shape).copy_(grid)
        elif self.cells is None:
            whole.index_copy_(0, self.tokens, grid.flatten(0, 1))
        else:
            whole.index_copy_(0, self.tokens[self.cells], grid.flatten(0, 1).index_select(0, self.cells))


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Sequences that share one dense call."""

    queries: _Side
    keys: _Side
    causal: bool
    hidden: Tensor | None
    """-inf where a key is hidden and 0 elsewhere, unless the causal flag says it all."""


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    each: list[_Group]
    whole: bool
    """Every token takes part: no sequence has queries and no keys, or keys and no queries."""

    def blank(self, x: Tensor) -> Tensor:
        """To be written to by the groups; zeros stay where none writes."""
        make = torch.empty_like if self.whole else torch.zeros_like
        return make(x, memory_format=torch.contiguous_format)


Bounds = tuple[int, ...]


@lru_cache(maxsize=16)  # the layers of a model, and their backward passes, ask for the same groups
def _groups(query_bounds: Bounds, key_bounds: Bounds, before: int, after: int, width: int) -> _Groups:
    """`before` and `after` are a mask's reach, -1 for all; `width` is that of all heads together."""
    sizes = _sizes(query_bounds, key_bounds)
    groups = _alike(sizes, range(len(sizes)), width)
    return _Groups(
        each=[_group(sorted(group), sizes, query_bounds, key_bounds, before, after) for group in groups],
        whole=all(bool(q) == bool(k) for q, k in sizes),
    )


def _sizes(query_bounds: Bounds, key_bounds: Bounds) -> list[tuple[int, int]]:
    return [
        (q_end - q, k_end - k)
        for (q, q_end), (k, k_end) in zip(pairwise(query_bounds), pairwise(key_bounds), strict=True)
    ]


def _alike(sizes: list[tuple[int, int]], places: Iterable[int], width: int) -> list[list[int]]:
    busy = sorted((*sizes[place], place) for place in places if all(sizes[place]))
    groups: list[list[int]] = []
    members: list[int] = []
    tallest = widest = 0
    for q, k, place in busy:
        taller, wider = max(tallest, q), max(widest, k)
        waste = taller * wider * (len(members) + 1) - tallest * widest * len(members) - q * k
        if members and waste * width > CALL:
            groups.append(members)
            members, taller, wider = [], q, k
        members.append(place)
        tallest, widest = taller, wider
    return [*groups, members] if members else groups


def _group(
    members: list[int],
    sizes: list[tuple[int, int]],
    query_bounds: Bounds,
    key_bounds: Bounds,
    before: int,
    after: int,
) -> _Group:
    queries = _side(members, [sizes[place][0] for place in members], query_bounds)
    keys = _side(members, [sizes[place][1] for place in members], key_bounds)
    mask = Mask(None if before < 0 else before, None if after < 0 else after)
    if queries.cells is None and keys.cells is None:
        if mask.before is None and mask.after is None:
            return _Group(queries, keys, causal=False, hidden=None)
        if mask.before is None and mask.after == 0 and queries.length == keys.length:
            return _Group(queries, keys, causal=True, hidden=None)
    lengths = torch.tensor([sizes[place] for place in members], device="cpu")
    visible = mask.grid(lengths[:, 0], lengths[:, 1], queries.length, keys.length)
    hidden = torch.zeros(visible.shape, device="cpu").masked_fill_(~visible, -torch.inf).unsqueeze(1)
    return _Group(queries, keys, causal=False, hidden=hidden)


def _side(members: list[int], lengths: list[int], bounds: Bounds) -> _Side:
    longest = max(lengths)
    even = min(lengths) == longest
    if even and members[-1] - members[0] == len(members) - 1:
        return _Side(slice(bounds[members[0]], bounds[members[-1] + 1]), longest, None)
    starts = torch.tensor([bounds[place] for place in members], device="cpu")[:, None]
    columns, ends = torch.arange(longest, device="cpu"), torch.tensor(lengths, device="cpu")[:, None]
    tokens = starts + torch.minimum(columns, ends - 1)
    cells = None if even else (columns < ends).flatten().nonzero().squeeze(1)
    return _Side(tokens.flatten(), longest, cells)


def _bounds(offsets: Tensor) -> Bounds:
    return tuple(offsets.tolist())


_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def attend_grouped(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    before: int,
    after: int,
    scale: float,
) -> tuple[Tensor, ...]:
    """The output and, if there will be a backward pass, what that needs. `before` and `after` are a mask's
    reach, -1 for all; the offsets are on the CPU like everything else."""
    every = (queries, keys, values)
    plain = not recorded() and all(type(each) is Tensor for each in every)
    learned = torch.is_grad_enabled() and any(each.requires_grad for each in every)
    whole = all(each.stride(-1) == 1 for each in every) and queries.stride(1) == queries.shape[2]
    right = all(each.dtype == torch.float32 and each.device.type == "cpu" for each in every)
    if not (plain and whole and right and native.available()) or learned:
        return _attend_grouped(*every, query_offsets, key_offsets, before, after, scale)
    return (_by_c(*every, query_offsets, key_offsets, before, after, scale),)


def _by_c(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    before: int,
    after: int,
    scale: float,
    distances: Tensor | None = None,
) -> Tensor:
    """`distances` are added to the scores."""
    bounds = key_offsets.long()
    asking = native.Asking(
        query_offsets.long(), bounds[:-1], bounds.diff(), before=before, after=after, distances=distances
    )
    output = queries.new_empty(len(queries), queries.shape[1], values.shape[2])
    asking.attend(queries, keys, values, output, scale)
    return output


def takes_distances(*tensors: Tensor) -> bool:
    """Whether C adds a bias by distance to the scores of these: in inference, in float32, on the CPU."""
    right = all(
        type(each) is Tensor
        and each.dtype == torch.float32
        and each.device.type == "cpu"
        and each.stride(-1) == 1
        for each in tensors[:3]
    )
    learned = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    return right and not learned and not recorded() and native.available()


def attend_by_distance(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    before: int,
    after: int,
    scale: float,
    distances: Tensor,
) -> Tensor:
    """The same in C alone, with what is added to each score by the distance, key minus query: [heads, 2 n -
    1] for n the longest. `takes_distances` must have said so."""
    queries = queries if queries.stride(1) == queries.shape[2] else queries.contiguous()
    offsets = query_offsets, key_offsets
    return _by_c(queries, keys, values, *offsets, before, after, scale, distances.float())


@operator("attend_grouped", "cpu")
def _attend_grouped(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    before: int,
    after: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """The output and, for the backward pass, each query's log of its softmax denominator."""
    heads = queries.shape[1]
    groups = _groups(_bounds(query_offsets), _bounds(key_offsets), before, after, heads * queries.shape[2])
    output = groups.blank(queries)
    # float32 for half precisions: what the kernel accumulates in
    normalisers = queries.new_zeros(
        queries.shape[:2], dtype=torch.promote_types(queries.dtype, torch.float32)
    )
    for group in groups.each:
        dense, normaliser = _flash(
            group.queries.dense(queries, heads),
            group.keys.dense(keys, heads),
            group.keys.dense(values, heads),
            0.0,
            group.causal,
            attn_mask=None if group.hidden is None else group.hidden.to(queries.dtype),
            scale=scale,
        )
        group.queries.store(dense, output)
        group.queries.store(normaliser, normalisers)
    return output, normalisers


@_attend_grouped.register_fake
def _(queries: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
    output = torch.empty_like(queries, memory_format=torch.contiguous_format)
    return output, queries.new_empty(
        queries.shape[:2], dtype=torch.promote_types(queries.dtype, torch.float32)
    )


@operator("attend_grouped_backward", "cpu")
def _attend_grouped_backward(
    gradient: Tensor,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    output: Tensor,
    normalisers: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    before: int,
    after: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    heads = queries.shape[1]
    groups = _groups(_bounds(query_offsets), _bounds(key_offsets), before, after, heads * queries.shape[2])
    gradients = [groups.blank(x) for x in (queries, keys, values)]
    for group in groups.each:
        # clean: an empty cell must not teach the keys anything
        dense = _flash_backward(
            group.queries.dense(gradient, heads, clean=True),
            group.queries.dense(queries, heads),
            group.keys.dense(keys, heads),
            group.keys.dense(values, heads),
            group.queries.dense(output, heads),
            group.queries.dense(normalisers, heads).contiguous(),
            0.0,
            group.causal,
            attn_mask=None if group.hidden is None else group.hidden.to(queries.dtype),
            scale=scale,
        )
        for side, part, whole in zip((group.queries, group.keys, group.keys), dense, gradients, strict=True):
            side.store(part, whole)
    return gradients[0], gradients[1], gradients[2]


@_attend_grouped_backward.register_fake
def _(
    gradient: Tensor, queries: Tensor, keys: Tensor, values: Tensor, *rest: object
) -> tuple[Tensor, Tensor, Tensor]:
    empty = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in (queries, keys, values)]
    return empty[0], empty[1], empty[2]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    queries, keys, values, query_offsets, key_offsets, *ctx.settings = inputs
    ctx.save_for_backward(queries, keys, values, *output, query_offsets, key_offsets)


def _differentiate(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    gradients = _attend_grouped_backward(gradient.contiguous(), *ctx.saved_tensors, *ctx.settings)
    return *gradients, None, None, None, None, None


_attend_grouped.register_autograd(_differentiate, setup_context=_keep)
