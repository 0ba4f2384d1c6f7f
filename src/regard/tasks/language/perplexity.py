"""How well a language model predicts a text: - log p of every token, given those before it in a window.

    windows      |-----------|
                       |-----------|
                             |-----------|
    scored       |===========|=====|=====|       the last `stride` of each, and all of the first

    loss               mean - log p of a token             perplexity = exp(loss)
    bits_per_byte      whatever the tokenizer              sum - log2 p / bytes
    word_perplexity    exp(sum - log p / words), line ends counted as words, as for WikiText's word models

A token sees at least context - stride tokens before it, but near the beginning.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.decoder import Decoder
from regard.tasks.base.feed import in_pieces
from regard.tasks.base.predictor import Progress
from regard.tasks.language.data import block_batch
from regard.train.objectives import HIDDEN

BUDGET = {"cpu": 2048, "cuda": 32_768}
"""Tokens that are read at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    starts: np.ndarray
    lengths: np.ndarray
    """Tokens read."""
    scored: np.ndarray
    """How many of them, at the end, are scored."""

    @classmethod
    def over(cls, begin: int, end: int, size: int, stride: int) -> "Windows":
        """All tokens from `begin` to `end` but the first, which nothing predicts, are scored once."""
        read = end - begin - 1  # tokens that predict another
        if read < 1:
            return cls(*(np.zeros(0, dtype=np.int64) for _ in range(3)))
        ends = np.unique(np.append(np.arange(min(size, read), read, stride), read))
        starts = np.maximum(ends - size, 0)
        return cls(begin + starts, ends - starts, np.diff(ends, prepend=0))

    @classmethod
    def of(cls, bounds: np.ndarray, size: int, stride: int) -> "Windows":
        """Over each stretch between these bounds."""
        every = [cls.over(int(begin), int(end), size, stride) for begin, end in itertools.pairwise(bounds)]
        names = ("starts", "lengths", "scored")
        return cls(*(np.concatenate([getattr(each, name) for each in every]) for name in names))

    def spread(self, tokens: int) -> "Windows":
        """As many of them as score about so many tokens, evenly from the first to the last."""
        total = int(self.scored.sum())
        if total <= tokens:
            return self
        count = max(len(self.starts) * tokens // total, 1)
        chosen = np.arange(count) * len(self.starts) // count
        return Windows(self.starts[chosen], self.lengths[chosen], self.scored[chosen])


def nll(
    model: Decoder,
    ids: np.ndarray,
    windows: Windows,
    *,
    bfloat16: bool = False,
    progress: Progress | None = None,
    learned: np.ndarray | None = None,
) -> tuple[float, int]:
    """The sum of - log p over the scored tokens, and how many these are; of dialogues, over those that are
    `learned`."""
    device = next(model.parameters()).device
    budget = max(BUDGET[device.type], int(windows.lengths.max(initial=1)))

    @torch.no_grad()
    def totals(split: int) -> Tensor:
        total = torch.zeros((), dtype=torch.float64, device=device)
        most = max(budget // split // int(windows.lengths.max(initial=1)), 1)
        for first in range(0, len(windows.starts), most):
            own = slice(first, first + most)
            batch = block_batch(ids, windows.starts[own], windows.lengths[own], None, learned)
            skipped = windows.lengths[own] - windows.scored[own]
            before = np.repeat(skipped, windows.lengths[own])
            labels = batch.labels.where(batch.text.layout.positions >= torch.from_numpy(before), HIDDEN)
            text = batch.text.to(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
                states = model(text.ids, text.layout)
                kept = (labels != HIDDEN).nonzero()[:, 0]
                logits = model.head(states.index_select(0, kept.to(device)))
            total += F.cross_entropy(logits.float(), labels[kept].to(device), reduction="sum").double()
            if progress is not None:
                progress(len(kept))
        return total

    return float(in_pieces(totals)), scored_tokens(windows, learned)


def scored_tokens(windows: Windows, learned: np.ndarray | None) -> int:
    if learned is None:
        return int(windows.scored.sum())
    ends = windows.starts + windows.lengths + 1
    return sum(int(learned[end - count : end].sum()) for end, count in zip(ends, windows.scored, strict=True))


def figures(total: float, tokens: int, *, size: int = 0, words: int = 0) -> dict[str, float]:
    """Of a text with so many bytes and words, if they are known."""
    loss = total / max(tokens, 1)
    found = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
    if size:
        found["bits_per_byte"] = total / math.log(2) / size
    if words:
        found["word_perplexity"] = math.exp(min(total / words, 700.0))
    return found
