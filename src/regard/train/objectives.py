"""What training makes small, summed over the predicted tokens of a batch.

    cross-entropy      - log p(y)
    label smoothing    - (1 - e) log p(y) - e / V sum_v log p(v)           Szegedy et al. 2016
    numbers            (score - number)^2
    R-Drop             + a (KL(p || q) + KL(q || p)) / 2, p and q from two passes with other dropout
                                                                          Liang et al. 2021

Sums, not means: the trainer divides by the number of tokens of the whole step, so that parts of a batch add
up to the batch, whatever their sizes.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.nn.embedding import VocabularyHead

_TRITON = torch.backends.cuda.is_built() and find_spec("triton") is not None
if _TRITON:
    from regard.nn.vocabulary_loss import vocabulary_loss

HIDDEN = -100
"""The label of a position that is not predicted."""


class Sums(NamedTuple):
    """Over the predicted tokens of a batch."""

    loss: Float[Tensor, ""]
    """What is made small."""
    nll: Float[Tensor, ""]
    """- log p(y), whatever the loss: its mean is the logarithm of the perplexity."""
    tokens: Float[Tensor, ""]
    """How many are predicted."""


def head_loss(
    head: VocabularyHead,
    states: Float[Tensor, "tokens d_model"],
    labels: Int[Tensor, "tokens"],
    label_smoothing: float,
) -> Sums:
    """Of what the head says about these states. On CUDA its scores are never all in memory."""
    if not _TRITON or not states.is_cuda or not torch.is_grad_enabled():
        return token_loss(head(states), labels, label_smoothing)
    if torch.is_autocast_enabled("cuda"):
        states = states.to(torch.get_autocast_dtype("cuda"))
    loss, nll = vocabulary_loss(head.scaled(states), head.weight, head.bias, labels, HIDDEN, label_smoothing)
    return Sums(loss, nll.detach(), (labels != HIDDEN).sum().float())


def token_loss(
    logits: Float[Tensor, "tokens vocab"], labels: Int[Tensor, "tokens"], label_smoothing: float
) -> Sums:
    return _sums(F.log_softmax(wide(logits), dim=-1), labels, label_smoothing)


def agreeing_loss(
    logits: Float[Tensor, "twice vocab"], labels: Int[Tensor, "tokens"], label_smoothing: float, r_drop: float
) -> Sums:
    """Of two passes over the same tokens, one behind the other."""
    logs = F.log_softmax(wide(logits), dim=-1)
    both = _sums(logs, labels.repeat(2), label_smoothing)
    first, second = logs.chunk(2)
    loss = both.loss / 2 + r_drop * disagreement(first, second, labels)
    return Sums(loss, both.nll / 2, both.tokens / 2)


def wide(logits: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
    """In float32 at least."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _sums(logs: Float[Tensor, "tokens vocab"], labels: Int[Tensor, "tokens"], label_smoothing: float) -> Sums:
    """From log-probabilities, which are the one thing here that takes time: they are computed once."""
    shown = labels != HIDDEN
    nll = F.nll_loss(logs, labels, ignore_index=HIDDEN, reduction="sum")
    loss = nll
    if label_smoothing:
        spread = -torch.where(shown, logs.mean(dim=-1), 0.0).sum()
        loss = (1 - label_smoothing) * nll + label_smoothing * spread
    return Sums(loss, nll.detach(), shown.sum().float())


def disagreement(
    first: Float[Tensor, "tokens vocab"], second: Float[Tensor, "tokens vocab"], labels: Int[Tensor, "tokens"]
) -> Float[Tensor, ""]:
    """Of two sets of log-probabilities: (KL(p || q) + KL(q || p)) / 2, summed over the predicted tokens,
    which is the sum of (p - q)(log p - log q) / 2."""
    each = ((first.exp() - second.exp()) * (first - second)).sum(dim=-1) / 2
    return torch.where(labels != HIDDEN, each, 0.0).sum()


def number_loss(
    scores: Float[Tensor, "rows width"],
    wanted: Float[Tensor, "some width"],
    r_drop: float,
    each: Callable[..., Tensor] = F.mse_loss,
) -> Sums:
    """Of rows with numbers, or with several labels (`each` says how far a score is off): the mean over a
    row, summed over the rows; those whose numbers are NaN are filler. With R-Drop, `scores` are of two
    passes, one behind the other, and their disagreement is their squared difference."""
    first, *second = scores.chunk(2) if r_drop else (scores,)
    shown = ~wanted.isnan()
    known = wanted.nan_to_num()

    def total(values: Tensor) -> Tensor:
        return torch.where(shown, values, 0.0).mean(dim=1).sum()

    loss = total(each(first, known, reduction="none"))
    for other in second:
        loss = (loss + total(each(other, known, reduction="none"))) / 2
        loss = loss + r_drop * total((first - other) ** 2)
    return Sums(loss, loss.detach(), shown[:, 0].sum().float())
