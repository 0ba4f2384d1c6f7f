"""What may come next: from a model's scores to the log-probabilities of the tokens that are allowed.

A forbidden token has log-probability -inf, and its probability goes to nobody. Functions that end in _ change
the scores in place. A history holds the tokens of each row, right-aligned, NOTHING before the first. A first
token that is no text is START there: to the rules it has not come.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.config import DecodeConfig
from regard.nn.native import best as native

NOTHING = -1
"""No token, in a history whose rows differ in length."""
START = -2
"""What stands before a text, whatever its id."""

Scores = Float[Tensor, "rows vocab"]
History = Int[Tensor, "rows time"]


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    config: DecodeConfig
    ends: Int[Tensor, "ends"]
    suppressed: Int[Tensor, "suppressed"]
    """Both on the device of the scores."""

    def __call__(self, logits: Scores, history: History, length: int) -> Scores:
        """Log-probabilities in float32 or better; `length` tokens have been generated so far."""
        config = self.config
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if config.repetition_penalty != 1 or config.no_repeat:
            history = history.to(logits.device)
        if config.repetition_penalty != 1:
            logits = penalize(logits, history, config.repetition_penalty)
        scores = native.log_softmax(logits) if native.serves(logits) else logits.log_softmax(dim=1)
        if len(self.suppressed):
            suppress_(scores, self.suppressed)
        if length < config.minimum:
            suppress_(scores, self.ends)
        if config.no_repeat:
            forbid_repeats_(scores, history, config.no_repeat)
        return scores

    def best(
        self, logits: Scores, length: int, count: int
    ) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]] | None:
        """What `top` finds in the log-probabilities, on the host and in one pass in C; None where that is not
        to be had: on another device, or if what is allowed depends on the history."""
        config = self.config
        if config.repetition_penalty != 1 or config.no_repeat or count >= logits.shape[1]:
            return None
        if not native.serves(logits):
            return None
        hidden = self.suppressed
        if length < config.minimum:
            hidden = torch.cat([hidden, self.ends]).unique()
        return native.best(logits, count, hidden)


def suppress_(scores: Scores, ids: Int[Tensor, "ids"]) -> Scores:
    return scores.index_fill_(1, ids, -torch.inf)


def penalize(logits: Scores, history: History, penalty: float) -> Scores:
    """Logits of tokens in the history are divided by the penalty, or multiplied if negative."""
    if history.shape[1] == 0:
        return logits
    ids = history.where(history >= 0, history[:, -1:])  # repeats write the same value twice
    present, ids = ids >= 0, ids.clamp(min=0)
    before = logits.gather(1, ids)
    after = torch.where(before > 0, before / penalty, before * penalty)
    return logits.scatter(1, ids, after.where(present, before))


def forbid_repeats_(scores: Scores, history: History, size: int) -> Scores:
    """Forbid every token that would complete an n-gram of this size which the history holds."""
    if history.shape[1] < size:
        return scores
    grams = history.unfold(1, size, 1)  # [rows, places, size]
    tail = history[:, history.shape[1] - (size - 1) :]
    again = (grams[:, :, :-1] == tail.unsqueeze(1)).all(dim=2) & (grams >= 0).all(dim=2)
    limits = torch.where(again, -torch.inf, torch.inf).to(scores.dtype)
    return scores.scatter_reduce_(1, grams[:, :, -1].clamp(min=0), limits, "amin")


def merge_ends_(scores: Scores, ends: Int[Tensor, "ends"]) -> Scores:
    """The likeliest of several ends takes the place of the first, and the others go: the same tokens with
    another end are no other hypothesis."""
    if len(ends) > 1:
        best = scores.index_select(1, ends).amax(dim=1)
        suppress_(scores, ends)[:, ends[0]] = best
    return scores


def top(scores: Scores, count: int) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """The best of each row and their ids, in the order of the ids; of equals, the lower ids.

    `topk` leaves open which of equals it takes. So one more is asked for: only where it equals the last one
    taken must rows be sorted.
    """
    vocab = scores.shape[1]
    if count >= vocab:
        return scores, torch.arange(vocab, device=scores.device).expand(scores.shape)
    values, ids = _topk(scores, count + 1)
    open_rows = (values[:, count - 1] == values[:, count]) & (values[:, count] > -torch.inf)
    ids = ids[:, :count]
    if bool(open_rows.any()):
        ids[open_rows] = scores[open_rows].sort(dim=1, descending=True, stable=True).indices[:, :count]
    ids = ids.sort(dim=1).values
    return scores.gather(1, ids), ids


def likeliest(scores: Scores) -> Int[Tensor, "rows"]:
    """The best of each row; of equals, the lowest id."""
    if scores.device.type != "cpu" or scores.dtype == torch.bfloat16:
        return scores.argmax(dim=1)
    return torch.from_numpy(scores.detach().numpy().argmax(axis=1))  # twenty times as fast


BLOCK = 64
"""Maxima of so many neighbours each are found many times as fast, on a CPU, as their places: so the maxima
say which blocks to look into. Of the n best tokens none is outside the n best blocks."""


def _in_blocks(scores: Scores) -> Float[Tensor, "rows blocks block"]:
    """All but the last few tokens."""
    whole = scores.shape[1] // BLOCK * BLOCK
    return scores[:, :whole].unflatten(1, (-1, BLOCK))


def _topk(scores: Scores, count: int) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """`topk`, which must look at a part of the vocabulary only."""
    blocks = _in_blocks(scores)
    if blocks.shape[1] < 4 * count:
        return scores.topk(count, dim=1)
    chosen = blocks.amax(dim=2).topk(count, dim=1, sorted=False).indices
    inside = blocks[torch.arange(len(scores), device=scores.device).unsqueeze(1), chosen].flatten(1)
    rest = scores[:, blocks.shape[1] * BLOCK :]
    values, places = torch.cat([inside, rest], dim=1).topk(count, dim=1)
    block = chosen.gather(1, (places // BLOCK).clamp(max=count - 1))
    behind = places + (blocks.shape[1] - count) * BLOCK
    return values, torch.where(places < count * BLOCK, block * BLOCK + places % BLOCK, behind)
