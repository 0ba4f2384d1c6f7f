"""Attention in inference, by attention.c: packed tokens, or new ones that ask a cache."""

import ctypes
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from regard.nn.native import library
from regard.nn.native.structs import Attention

REGISTER = 16
"""Floats that C reads at once, at most."""


def available() -> bool:
    return library() is not None


class Asking:
    """Which queries ask which keys: the same in all layers."""

    def __init__(
        self,
        bounds: Int64[Tensor, "_bounds"],
        starts: Int64[Tensor, "sequences"] | None,
        counts: Int64[Tensor, "sequences"],
        *,
        sees: Bool[np.ndarray, "queries room"] | None = None,
        before: int = -1,
        after: int = -1,
        distances: Float[Tensor, "heads distances"] | None = None,
    ) -> None:
        """The queries of sequence s are those from bounds[s] to bounds[s + 1], its keys counts[s] from
        starts[s] on, if they are packed. `sees` hides those where it is False; a query also sees no further
        than `before` and `after` its place, -1 for all. `distances` is added to scores: for each head the
        bias of every distance, key minus query, from 1 - n to n - 1, where no sequence has more than n
        keys."""
        made: Any = library()
        if made is None:
            raise ValueError("attention.c was not compiled: ask whether it is available first")
        self._call = made.attend
        self._call.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self._counts = counts
        if distances is not None:
            if not distances.shape[1] % 2 or distances.shape[1] < 2 * self.longest - 1:
                raise ValueError(f"{distances.shape[1]} distances for sequences of {self.longest} keys")
            distances = F.pad(distances, (0, REGISTER)).contiguous()  # whole registers are read
        self._biases = distances
        self._kept = (bounds, starts, sees)  # they must outlive the addresses
        self._fields = Attention(
            sequences=len(counts),
            asking=bounds.data_ptr(),
            starts=None if starts is None else starts.data_ptr(),
            counts=counts.data_ptr(),
            sees=None if sees is None else sees.ctypes.data,
            seen_token=0 if sees is None else sees.strides[0],
            before=before,
            after=after,
            bias=None if distances is None else distances.data_ptr(),
            bias_head=0 if distances is None else distances.shape[1],
            bias_middle=0 if distances is None else (distances.shape[1] - REGISTER) // 2,
        )
        self.address = ctypes.addressof(self._fields)

    @property
    def longest(self) -> int:
        """The most keys of a sequence."""
        return int(self._counts.max()) if len(self._counts) else 0

    def attend(
        self,
        queries: Float[Tensor, "queries heads d_head"],
        keys: Float[Tensor, "*places d_head"],
        values: Float[Tensor, "*places d_value"],
        output: Float[Tensor, "queries heads d_value"],
        scale: float,
    ) -> None:
        """Keys and values lie [tokens, kv_heads, d] if packed, [sequences, room, kv_heads, d] in a cache. The
        numbers of a head lie side by side, and the heads of a query. The output is written. All in float32;
        keys and values may be in float16."""
        _check((queries, output), (keys, values))
        fields = self._fields
        _, fields.heads, fields.d_head = queries.shape
        if self._biases is not None and len(self._biases) != fields.heads:
            raise ValueError(f"biases of {len(self._biases)} heads for queries of {fields.heads}")
        *_, fields.kv_heads, fields.d_value = values.shape
        fields.queries, fields.query_token = queries.data_ptr(), queries.stride(0)
        fields.keys, fields.values = keys.data_ptr(), values.data_ptr()
        fields.half = keys.dtype == torch.float16
        fields.output, fields.scale = output.data_ptr(), scale
        if keys.ndim == 3:
            fields.key_token, fields.key_head, _ = keys.stride()
            fields.value_token, fields.value_head, _ = values.stride()
        else:
            fields.key_sequence, fields.key_token, fields.key_head, _ = keys.stride()
            fields.value_sequence, fields.value_token, fields.value_head, _ = values.stride()
        if self._call(self.address, torch.get_num_threads()):
            raise MemoryError(f"no memory for the keys of {self.longest} tokens")


def keep(
    x: Float[Tensor, "tokens heads d"],
    owners: Int64[Tensor, "tokens"],
    slots: Int64[Tensor, "tokens"],
    cache: Float[Tensor, "sequences room heads d"],
) -> None:
    """Each token's keys, or values, into a slot of the sequence that owns it; in float32 or float16."""
    _check((x,), (cache,))
    made: Any = library()
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    made.keep.argtypes = [*[number] * 3, pointer, number, *[pointer] * 3, number, number]
    made.keep(
        *x.shape, x.data_ptr(), x.stride(0), owners.data_ptr(), slots.data_ptr(),
        cache.data_ptr(), cache.stride(0), cache.dtype == torch.float16,
    )  # fmt: skip


def _check(computed: tuple[Tensor, ...], kept: tuple[Tensor, ...]) -> None:
    """C takes what lies at an address for what it expects there, and reads past its end if it is smaller."""
    kind = kept[0].dtype
    right = (kind == torch.float32 or kind == torch.float16) and all(each.dtype == kind for each in kept)
    if not right or not all(each.dtype == torch.float32 for each in computed):
        kinds = ", ".join(str(each.dtype) for each in (*computed, *kept))
        raise ValueError(
            f"attention in C computes in float32 and remembers in float32 or float16, not in {kinds}: leave "
            "autocast, or convert them"
        )
    if not all(each.is_cpu for each in (*computed, *kept)):
        raise ValueError("attention in C is for the CPU: move the tensors there")
