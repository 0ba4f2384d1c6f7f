"""Log-probabilities by best.c: those of all tokens, or of the best of each row. They are the same numbers."""

import ctypes
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.nn.native import library, recorded


@cache
def _functions() -> tuple[Any, Any]:
    made: Any = library()
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    made.best.argtypes = [pointer, *[number] * 4, pointer, number, pointer, pointer, ctypes.c_int]
    made.log_softmax.argtypes = [pointer, *[number] * 3, pointer, ctypes.c_int]
    return made.best, made.log_softmax


def serves(scores: Float[Tensor, "rows vocab"]) -> bool:
    return (
        scores.dtype == torch.float32
        and scores.device.type == "cpu"
        and scores.stride(1) == 1
        and not (scores.requires_grad and torch.is_grad_enabled())
        and not recorded()
        and library() is not None
    )


def best(
    scores: Float[Tensor, "rows vocab"], count: int, hidden: Int64[Tensor, "hidden"]
) -> tuple[Float[Tensor, "rows count"], Int64[Tensor, "rows count"]]:
    """Log-probabilities, in float64, and ids of the best tokens of each row, in the order of the ids; of
    equals, the lower ids. Those that are `hidden`, which go up, are left out. Where there are too few others:
    -inf and some id."""
    rows, vocabulary = scores.shape
    if not 0 < count <= vocabulary:
        raise ValueError(f"count={count} of {vocabulary} tokens: choose 1 to all of them")
    values = torch.empty(rows, count, dtype=torch.float64, device="cpu")
    ids = torch.empty(rows, count, dtype=torch.int64, device="cpu")
    _functions()[0](
        scores.data_ptr(), rows, scores.stride(0), vocabulary, count, hidden.data_ptr(), len(hidden),
        values.data_ptr(), ids.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return values, ids


def log_softmax(scores: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
    """Of all tokens, in float32."""
    rows, vocabulary = scores.shape
    values = torch.empty(rows, vocabulary, device="cpu")
    _functions()[1](
        scores.data_ptr(), rows, scores.stride(0), vocabulary, values.data_ptr(), torch.get_num_threads()
    )
    return values
