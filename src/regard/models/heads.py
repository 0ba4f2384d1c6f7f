"""What stands on an encoder: each head turns states into the scores of one task.

    masked         softmax(W norm(gelu(x W_1)) + b) on the masked positions           Devlin et al. 2019, 3.1
    next sentence  two scores from a sequence in one vector                           Devlin et al. 2019, 3.1
    classify       a score for each label, from a sequence in one vector
    regress        one number for each sequence
    tag            a score for each tag, for each token

Language models score by `regard.nn.embedding.VocabularyHead`.
"""

from dataclasses import dataclass
from typing import Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.config import check_choices
from regard.layout import Layout
from regard.nn import Stream
from regard.nn.embedding import VocabularyHead
from regard.nn.initialize import InitialConfig, initialize
from regard.nn.pooling import AttentionPooling, pool_ends, pool_first, pool_last, pool_max, pool_mean

Vectors = Float[Tensor, "sequences d_model"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolConfig:
    kind: Literal["first", "last", "ends", "mean", "max", "attention"] = "first"
    """How a sequence becomes one vector. First is [CLS] where there is one; ends is the last state of each
    direction of a bidirectional recurrent encoder."""
    query: Literal["trained", "fixed"] = "trained"
    """What an attention pool asks with."""
    dense: bool = False
    """tanh(W x + b) after it, as BERT's pooler has."""

    def __post_init__(self) -> None:
        check_choices(self)


class Pool(nn.Module):
    """Each sequence in one vector; zeros for an empty one."""

    def __init__(self, d_model: int, config: PoolConfig) -> None:
        super().__init__()
        self.kind = config.kind
        self.attention = AttentionPooling(d_model, config.query) if config.kind == "attention" else None
        self.dense = nn.Linear(d_model, d_model) if config.dense else None

    def forward(self, x: Stream, layout: Layout) -> Vectors:
        vectors = self.gather(x, layout)
        return vectors if self.dense is None else torch.tanh(self.dense(vectors))

    def gather(self, x: Stream, layout: Layout) -> Vectors:
        match self.kind:
            case "first":
                return pool_first(x, layout)
            case "last":
                return pool_last(x, layout)
            case "ends":
                return pool_ends(x, layout)
            case "mean":
                return pool_mean(x, layout)
            case "max":
                return pool_max(x, layout)
            case "attention":
                return cast(AttentionPooling, self.attention)(x, layout)


class MaskedHead(nn.Module):
    """Give it the states of the masked positions only."""

    def __init__(
        self,
        vocabulary: int,
        d_model: int,
        *,
        tied: nn.Embedding | None,
        eps: float = 1e-12,
        initial: InitialConfig | None = None,
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.norm = nn.LayerNorm(d_model, eps=eps)
        self.vocabulary = VocabularyHead(vocabulary, d_model, bias=True, tied=tied)
        initialize(self, initial or InitialConfig(scheme="normal"))

    def forward(self, x: Stream) -> Float[Tensor, "tokens vocab"]:
        return self.vocabulary(self.norm(F.gelu(self.dense(x))))


class ClassifyHead(nn.Module):
    """A score for each label. Two labels and a dense [CLS] make the next-sentence head."""

    def __init__(
        self,
        labels: int,
        d_model: int,
        pool: PoolConfig,
        *,
        dropout: float = 0.1,
        initial: InitialConfig | None = None,
    ) -> None:
        super().__init__()
        self.pool = Pool(d_model, pool)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(d_model, labels)
        initialize(self, initial or InitialConfig(scheme="normal"))

    def forward(self, x: Stream, layout: Layout) -> Float[Tensor, "sequences labels"]:
        return self.output(self.dropout(self.pool(x, layout)))


class RegressHead(nn.Module):
    """One number for each sequence."""

    def __init__(
        self, d_model: int, pool: PoolConfig, *, dropout: float = 0.1, initial: InitialConfig | None = None
    ) -> None:
        super().__init__()
        self.classify = ClassifyHead(1, d_model, pool, dropout=dropout, initial=initial)

    def forward(self, x: Stream, layout: Layout) -> Float[Tensor, "sequences"]:
        return self.classify(x, layout).squeeze(1)


class TagHead(nn.Module):
    """A score for each tag, for each token it is given."""

    def __init__(
        self, tags: int, d_model: int, *, dropout: float = 0.1, initial: InitialConfig | None = None
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(d_model, tags)
        initialize(self, initial or InitialConfig(scheme="normal"))

    def forward(self, x: Stream) -> Float[Tensor, "tokens tags"]:
        return self.output(self.dropout(x))


def next_sentence_head(d_model: int, initial: InitialConfig | None = None) -> ClassifyHead:
    """Does b follow a? From [CLS] through a dense layer; label 0 says it does, as in BERT."""
    return ClassifyHead(2, d_model, PoolConfig(kind="first", dense=True), dropout=0.0, initial=initial)
