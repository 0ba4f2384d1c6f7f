"""From ids to vectors, and back to scores over the vocabulary.

    x = W_emb[id] (* sqrt(d_model)) + position (+ segment)      then norm where asked for, then dropout

A lookup of rows learned with the rest, equal to one-hot(id) @ W_emb. The paper scales by sqrt(d_model)
(3.4) so that tied weights of size d_model^-0.5 meet positions of size 1; BERT does not, and normalises the
sum instead. The way back:

    logits = x W^T (+ b)        W a matrix of its own, or W_emb again: tied (Press and Wolf 2017)
             x / sqrt(d_model)  in the place of x, in T5 (Raffel et al. 2020), where they are tied
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn import Ids
from regard.nn.dropout import Dropout
from regard.settings.network import EmbeddingConfig


class Embedding(nn.Module):
    def __init__(
        self,
        vocabulary: int,
        d_model: int,
        config: EmbeddingConfig,
        *,
        positions: nn.Module | None,
        norm: nn.Module | None,
    ) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model) if config.scaled else 1.0
        self.tokens = nn.Embedding(vocabulary, d_model)
        self.segments = nn.Embedding(config.segments, d_model) if config.segments else None
        self.positions = positions
        self.norm = norm
        self.dropout = Dropout(config.dropout)

    def forward(
        self, ids: Ids, positions: Int[Tensor, "tokens"], longest: int, segments: Ids | None = None
    ) -> Float[Tensor, "tokens d_model"]:
        """`longest` bounds the positions. Without `segments`, every token is in segment 0."""
        if len(ids) != len(positions):
            raise ValueError(f"{len(ids)} ids but a layout of {len(positions)} tokens: they must agree")
        x = self.tokens(ids)
        if self.scale != 1:
            x = x * self.scale
        if self.positions is not None:
            x = x + self.positions(positions, longest, x.dtype)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        elif segments is not None:
            raise ValueError("segments were given to an embedding without any: set embedding.segments=2")
        if self.norm is not None:
            x = self.norm(x)
        if torch.is_autocast_enabled(x.device.type):  # sums of two halves are rounded once, here or there
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return self.dropout(x)


class VocabularyHead(nn.Module):
    """Scores over the vocabulary. Works on whatever rows it is given: give it predicted positions only."""

    def __init__(
        self,
        vocabulary: int,
        d_model: int,
        *,
        bias: bool,
        tied: nn.Embedding | None,
        scaled: bool = False,
    ) -> None:
        """`tied` is the embedding whose matrix it shares, if it shares one. With `scaled`, states are divided
        by sqrt(d_model) before it."""
        super().__init__()
        self.tied = tied is not None
        self.weight = nn.Parameter(torch.randn(vocabulary, d_model)) if tied is None else tied.weight
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None
        self.scale = d_model**-0.5 if scaled else 1.0

    def forward(self, x: Float[Tensor, "tokens d_model"]) -> Float[Tensor, "tokens vocab"]:
        return F.linear(self.scaled(x), self.weight, self.bias)

    def scaled(self, x: Float[Tensor, "tokens d_model"]) -> Float[Tensor, "tokens d_model"]:
        """What is multiplied by the matrix."""
        return x if self.scale == 1 else x * self.scale

    @property
    def scaled_weight(self) -> Float[Tensor, "vocab d_model"]:
        """For those who multiply states by the matrix themselves: it is scaled in their place."""
        return self.weight if self.scale == 1 else self.weight * self.scale
