"""Attention over packed sequences, from the fastest kernel that can do what is asked.

    equation  `regard.nn.attention.attend`, one sequence after the other
    varlen    flash kernels for variable lengths: CUDA, half precision, no weights ever in memory. Our own
              (regard.nn.flash); for windows and unusual widths of heads, PyTorch's
    grouped   the flash kernel for the CPU, once for each group of like lengths (regard.nn.grouped); C of our
              own in inference (regard.nn.native)
    padded    one `scaled_dot_product_attention` over a padded grid: any device, bias, mask and dropout

All four give the values of the equation; tests/nn/test_kernels.py holds them equal. `choose_kernel` is the
one place that decides, and says why.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.layout import Layout
from regard.nn.attention import attend
from regard.nn.grouped import attend_by_distance, attend_grouped, takes_distances
from regard.nn.masks import FULL, Mask
from regard.settings.network import Kernel

if torch.backends.cuda.is_built():  # it brings torch's compiler along, and with that 1.5 seconds
    from torch.nn.attention.varlen import varlen_attn

    # Until torch 2.13, key heads could be shared without asking.
    _SHARED_HEADS: dict[str, Any] = (
        {"enable_gqa": True} if "enable_gqa" in signature(varlen_attn).parameters else {}
    )

_TRITON = torch.backends.cuda.is_built() and find_spec("triton") is not None
if _TRITON:
    from regard.nn.flash import attend_flash, attend_joined, fits


Queries = Float[Tensor, "queries heads d_head"]
Keys = Float[Tensor, "keys kv_heads d_head"]
Values = Float[Tensor, "keys kv_heads d_value"]
Output = Float[Tensor, "queries heads d_value"]
Bias = Float[Tensor, "heads longest_query longest_key"]
Distances = Float[Tensor, "heads distances"]
DistanceBias = Callable[[Int[Tensor, "rows key"]], Float[Tensor, "heads rows key"]]


@dataclass(frozen=True, slots=True)
class Choice:
    kernel: Kernel
    why: str


def choose_kernel(
    *,
    device: str,
    dtype: torch.dtype,
    d_head: int,
    d_value: int,
    mask: Mask = FULL,
    biased: bool = False,
    compiled: bool = False,
    dropout: float = 0.0,
    wanted: Kernel | Literal["auto"] = "auto",
) -> Choice:
    """The fastest kernel for these facts, or the wanted one if it can do them. `device` is its type:
    "cuda". `compiled` says that the bias goes by distance and that C of our own will take it
    (`takes_distances`)."""
    refusals: dict[Kernel, str] = {}
    if d_head != d_value:
        refusals["varlen"] = refusals["grouped"] = f"d_value={d_value} differs from d_head={d_head}"
    if dropout:
        refusals["varlen"] = refusals["grouped"] = (
            f"attention dropout={dropout} drops weights the kernel never holds"
        )
    if mask.chosen is not None:
        refusals["varlen"] = refusals["grouped"] = "the mask is a free boolean one"
    if biased:
        refusals["varlen"] = "the scores get a bias"
        if not compiled:
            refusals["grouped"] = "the scores get a bias"
    if device != "cpu":
        refusals["grouped"] = f"the tokens are on {device}, not on the CPU"
    if d_head % 8 or d_head > 256:
        refusals["varlen"] = f"d_head={d_head} is not a multiple of 8 up to 256"
    if dtype not in (torch.float16, torch.bfloat16):
        refusals["varlen"] = f"{dtype} is not a half precision"
    if device != "cuda":
        refusals["varlen"] = f"the tokens are on {device}, not on CUDA"
    if wanted == "auto":
        return _fastest(refusals, device, dtype)
    if refusal := refusals.get(wanted):
        raise ValueError(f"kernel={wanted!r} cannot do this: {refusal}; choose 'auto'")
    return Choice(wanted, "it was asked for")


def _fastest(refusals: dict[Kernel, str], device: str, dtype: torch.dtype) -> Choice:
    if "varlen" not in refusals:
        return Choice("varlen", f"{dtype} on CUDA, no bias, no dropout, no free mask")
    if "grouped" not in refusals:
        return Choice("grouped", "on the CPU, no bias, no dropout, no free mask")
    first: Kernel = "varlen" if device == "cuda" else "grouped"
    return Choice("padded", f"not {first}: {refusals[first]}")


def attend_packed(
    queries: Queries,
    keys: Keys,
    values: Values,
    query_layout: Layout,
    key_layout: Layout,
    mask: Mask = FULL,
    *,
    bias: Bias | None = None,
    distances: Distances | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    kernel: Kernel | Literal["auto"] = "auto",
    joined: Float[Tensor, "queries all_heads d_head"] | None = None,
    score: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Output:
    """Each sequence of queries attends to the keys of the same sequence. `bias` is between positions: a
    sequence takes the corner of its own size; or it is by `distances`, key minus query, from 1 - longest to
    longest - 1, the same in every sequence. `dropout` always applies when it is given. `joined` holds
    queries, keys and values side by side, for a kernel that can use it: its gradient is then one piece."""
    for name, tokens, layout in (("queries", queries, query_layout), ("keys", keys, key_layout)):
        if len(tokens) != layout.tokens:
            raise ValueError(f"{len(tokens)} {name} but a layout of {layout.tokens} tokens: they must agree")
    if query_layout.sequences != key_layout.sequences:
        raise ValueError(
            f"{query_layout.sequences} sequences of queries but {key_layout.sequences} of keys: "
            "each sequence of queries asks the keys of one"
        )
    if (
        keys.shape[2] != queries.shape[2]
        or keys.shape[:2] != values.shape[:2]
        or queries.shape[1] % keys.shape[1]
    ):
        shapes = ", ".join(str(tuple(each.shape)) for each in (queries, keys, values))
        raise ValueError(
            f"queries, keys and values of {shapes} do not fit: keys are as wide as queries, each has a "
            "value, and each key head serves equally many query heads"
        )
    keys, values = keys.to(queries.dtype), values.to(queries.dtype)  # autocast may give each its own
    compiled = False
    if distances is not None:
        compiled = bias is None and takes_distances(queries, keys, values, distances)
    if score is not None:  # which no kernel has
        bias = spread(distances) if distances is not None else bias
        parts = (queries, keys, values, query_layout, key_layout, mask, bias, scale, dropout)
        return _each(*parts, score=score)
    scale = queries.shape[-1] ** -0.5 if scale is None else scale
    choice = choose_kernel(
        device=queries.device.type,
        dtype=queries.dtype,
        d_head=queries.shape[-1],
        d_value=values.shape[-1],
        mask=mask,
        biased=bias is not None or distances is not None,
        compiled=compiled,
        dropout=dropout,
        wanted=kernel,
    )
    if choice.kernel != "grouped" and distances is not None:
        bias = spread(distances) if bias is None else bias + spread(distances)
    match choice.kernel:
        case "varlen":
            return _varlen(queries, keys, values, query_layout, key_layout, mask, scale, joined)
        case "grouped":
            before, after = _reach(mask)
            offsets = query_layout.host_offsets, key_layout.host_offsets
            how = (*offsets, before, after, scale)
            if distances is not None:
                return attend_by_distance(queries, keys, values, *how, distances)
            return attend_grouped(queries, keys, values, *how)[0]
        case "padded":
            return _padded(queries, keys, values, query_layout, key_layout, mask, bias, scale, dropout)
        case "equation":
            return _each(queries, keys, values, query_layout, key_layout, mask, bias, scale, dropout)


def spread(distances: Distances) -> Bias:
    """A bias by distance as one between positions: row q of a head is its numbers from that of key 0 on, so
    each row begins one earlier."""
    longest = (distances.shape[1] + 1) // 2
    places = torch.arange(longest, device=distances.device)
    return distances[:, places[None, :] - places[:, None] + (longest - 1)]


def _reach(mask: Mask) -> tuple[int, int]:
    """The kernels' spelling of a mask's reach: -1 for all."""
    return (-1 if mask.before is None else mask.before, -1 if mask.after is None else mask.after)


def _each(
    queries: Queries,
    keys: Keys,
    values: Values,
    query_layout: Layout,
    key_layout: Layout,
    mask: Mask,
    bias: Bias | None,
    scale: float | None,
    dropout: float,
    score: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Output:
    outputs = []
    parts = zip(query_layout.split(queries), key_layout.split(keys), key_layout.split(values), strict=True)
    for sequence, (q, k, v) in enumerate(parts):
        visible = mask.visible(len(q), len(k), sequence, q.device)
        corner = None if bias is None else bias[:, : len(q), : len(k)]
        outputs.append(attend(q, k, v, visible, bias=corner, scale=scale, dropout=dropout, score=score))
    return torch.cat(outputs) if outputs else queries.new_empty(0, queries.shape[1], values.shape[2])


def _varlen(
    queries: Queries,
    keys: Keys,
    values: Values,
    query_layout: Layout,
    key_layout: Layout,
    mask: Mask,
    scale: float,
    joined: Tensor | None,
) -> Output:
    if not _TRITON or not fits(queries.shape[-1]) or mask.before is not None or mask.after not in (None, 0):
        return _torch_varlen(queries, keys, values, query_layout, key_layout, mask, scale)
    causal = mask.after == 0
    offsets, longest = query_layout.offsets, query_layout.longest
    if joined is not None and joined.dtype == queries.dtype:
        return attend_joined(joined, queries.shape[1], offsets, longest, causal=causal, scale=scale)
    keys_of = key_layout.offsets, key_layout.longest
    return attend_flash(queries, keys, values, offsets, longest, *keys_of, causal=causal, scale=scale)


def _torch_varlen(
    queries: Queries,
    keys: Keys,
    values: Values,
    query_layout: Layout,
    key_layout: Layout,
    mask: Mask,
    scale: float,
) -> Output:
    output = varlen_attn(
        queries,
        keys,
        values,
        query_layout.offsets,
        key_layout.offsets,
        query_layout.longest,
        key_layout.longest,
        scale=scale,
        window_size=_reach(mask),
        **(_SHARED_HEADS if queries.shape[1] != keys.shape[1] else {}),
    )
    return cast(Tensor, output)  # it gives more only when more is asked for


def _padded(
    queries: Queries,
    keys: Keys,
    values: Values,
    query_layout: Layout,
    key_layout: Layout,
    mask: Mask,
    bias: Bias | None,
    scale: float,
    dropout: float,
) -> Output:
    """One call over a grid of all sequences. The scores of empty cells are hidden like any other hidden
    score."""
    device = queries.device
    share = queries.shape[1] // keys.shape[1]
    visible = mask.grid(query_layout.lengths, key_layout.lengths, query_layout.longest, key_layout.longest)
    # A row with nothing to see would be NaN: let it see everything, then drop what it saw.
    blind = ~visible.any(dim=-1, keepdim=True)
    shown = (visible | blind).unsqueeze(1)
    if bias is not None:
        corner = bias[:, : query_layout.longest, : key_layout.longest]
        shown = torch.where(shown, corner, torch.tensor(-torch.inf, dtype=bias.dtype, device=device))
        shown = shown.to(queries.dtype)
    grid = _attend_grid(
        query_layout.to_grid(queries).transpose(1, 2),
        key_layout.to_grid(keys.repeat_interleave(share, dim=1)).transpose(1, 2),
        key_layout.to_grid(values.repeat_interleave(share, dim=1)).transpose(1, 2),
        shown,
        dropout=dropout,
        scale=scale,
    )
    return query_layout.from_grid(grid.transpose(1, 2).masked_fill(blind.unsqueeze(-1), 0.0))


def attend_cached(
    queries: Float[Tensor, "rows heads d_head"],
    keys: Float[Tensor, "rows kv_heads key d_head"],
    values: Float[Tensor, "rows kv_heads key d_value"],
    places: Int[Tensor, "rows"] | None,
    *,
    before: int | None = None,
    bias: DistanceBias | None = None,
    score: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Float[Tensor, "rows heads d_value"]:
    """One query in each row asks that row's cached keys, itself included. `places` are the queries'
    positions: row r has keys up to places[r], and what its buffer holds behind them is hidden. None says
    that every row is full. `bias` is a function of the distance between key and query."""
    rows, kv_heads, columns = keys.shape[:3]
    shown: Tensor | None = None
    if places is not None or before is not None or bias is not None:
        if places is None:
            places = torch.full((rows,), columns - 1, device=keys.device)
        shown = shown_keys(places, columns, kv_heads, keys.dtype, before=before, bias=bias)
    if score is not None:
        return _each_row(queries, keys, values, shown, score)
    return attend_shown(queries, keys, values, shown)


def _each_row(
    queries: Float[Tensor, "rows heads d_head"],
    keys: Float[Tensor, "rows kv_heads key d_head"],
    values: Float[Tensor, "rows kv_heads key d_value"],
    shown: Tensor | None,
    score: Callable[[Tensor, Tensor], Tensor],
) -> Float[Tensor, "rows heads d_value"]:
    """By the equation, one row after the other. What is hidden is hidden by the mask, with a bias too: a
    score need not be a number where a row holds no key."""
    outputs = []
    for row, query in enumerate(queries):
        visible, bias = None, None
        if shown is not None and shown.dtype == torch.bool:
            visible = shown[row].flatten(0, 1)[:1]
        elif shown is not None:
            bias = shown[row].flatten(0, 1).unsqueeze(1)
            visible = (bias > -torch.inf).any(dim=0)
        k, v = (each[row].transpose(0, 1).to(query.dtype) for each in (keys, values))
        outputs.append(attend(query.unsqueeze(0), k, v, visible, bias=bias, score=score))
    return torch.cat(outputs)


def shown_keys(
    places: Int[Tensor, "rows"],
    columns: int,
    kv_heads: int,
    dtype: torch.dtype,
    *,
    before: int | None = None,
    bias: DistanceBias | None = None,
) -> Shaped[Tensor, "rows key_heads share columns"]:
    """What the queries at these places see of so many cached keys: True or False; or, with a bias, what is
    added to each score."""
    distance = torch.arange(columns, device=places.device) - places[:, None]
    visible = distance <= 0
    if before is not None:
        visible = visible & (distance >= -before)
    if bias is None:
        return visible[:, None, None, :]
    biases = bias(distance).masked_fill(~visible, -torch.inf).to(dtype)
    return biases.transpose(0, 1).unflatten(1, (kv_heads, -1))


def attend_shown(
    queries: Float[Tensor, "rows heads d_head"],
    keys: Float[Tensor, "rows kv_heads key d_head"],
    values: Float[Tensor, "rows kv_heads key d_value"],
    shown: Shaped[Tensor, "rows #kv_heads #share key"] | None,
) -> Float[Tensor, "rows heads d_value"]:
    """The same with what is seen of the keys worked out before; None for all of them."""
    # The queries that share a key head are a query axis to the kernel: the cache is never repeated.
    grid = queries.to(keys.dtype).unflatten(1, (keys.shape[1], -1))
    return _attend_grid(grid, keys, values, shown).flatten(1, 2).to(queries.dtype)


_NO_PLANS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def _attend_grid(
    queries: Float[Tensor, "rows heads query d_head"],
    keys: Float[Tensor, "rows heads key d_head"],
    values: Float[Tensor, "rows heads key d_value"],
    shown: Shaped[Tensor, "..."] | None,
    *,
    dropout: float = 0.0,
    scale: float | None = None,
) -> Float[Tensor, "rows heads query d_value"]:
    """PyTorch's own choice of kernels, but for cuDNN's: that one makes a plan for every new size, and here
    sizes change from step to step."""

    def attend_all() -> Tensor:
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=shown, dropout_p=dropout, scale=scale
        )

    if not queries.is_cuda:
        return attend_all()
    with sdpa_kernel(_NO_PLANS):
        return attend_all()
