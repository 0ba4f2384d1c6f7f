"""What stands on an encoder: each head turns states into what one task wants.

    masked         softmax(W norm(gelu(x W_1)) + b) on the masked positions           Devlin et al. 2019, 3.1
    next sentence  two scores from a sequence in one vector                           Devlin et al. 2019, 3.1
    classify       a score for each label, from a sequence in one vector; one label makes it a regressor
    tag            a score for each tag, for each token, or for each word in one vector
    span           two scores for each token: an answer begins here, it ends here     Devlin et al. 2019, 4.2
    embed          a sequence in one vector, of length 1 if wanted
    transform      norm(gelu(W x)) before the scores of any of them                   Warner et al. 2024

Language models score by `regard.nn.embedding.VocabularyHead`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layout import Layout
from regard.models.encoder import Encoder
from regard.nn import Stream
from regard.nn.embedding import VocabularyHead
from regard.nn.initialize import initialize
from regard.nn.layers import activate
from regard.nn.pooling import AttentionPooling, Pooler, pool_ends, pool_first, pool_last, pool_max, pool_mean
from regard.plugins import Registry
from regard.settings.models import (
    ClassifyConfig,
    EmbedConfig,
    MaskedConfig,
    PoolConfig,
    SpanConfig,
    TagConfig,
    TransformConfig,
)
from regard.settings.network import InitialConfig

Vectors = Float[Tensor, "sequences d_model"]


class Pool(nn.Module):
    """Each sequence in one vector; zeros for an empty one (but the pooler gives its tanh(b))."""

    def __init__(self, d_model: int, config: PoolConfig, pooler: Pooler | None = None) -> None:
        """`pooler` is the encoder's, for the kind of that name."""
        super().__init__()
        self.kind = config.kind
        attends = config.kind == "attention"
        self.attention = AttentionPooling(d_model, config.query, config.score) if attends else None
        if config.kind == "pooler" and pooler is None:
            raise ValueError("pool.kind='pooler' takes an encoder that has one: set encoder.pooler=true")
        self.pooler = pooler if config.kind == "pooler" else None

    def forward(self, x: Stream, layout: Layout) -> Vectors:
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
            case "pooler":
                return cast(Pooler, self.pooler)(x, layout)


class Transform(nn.Module):
    """norm(activation(W x)), for each row."""

    def __init__(self, d_model: int, config: TransformConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.dense = nn.Linear(d_model, d_model, bias=False)
        self.norm = nn.LayerNorm(d_model, eps=config.eps, bias=False)

    def forward(self, x: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows d_model"]:
        return self.norm(activate(self.dense(x), self.activation))


def _transform(d_model: int, config: TransformConfig | None) -> nn.Module:
    return nn.Identity() if config is None else Transform(d_model, config)


class MaskedHead(nn.Module):
    """Give it the states of the masked positions only."""

    def __init__(
        self,
        vocabulary: int,
        d_model: int,
        config: MaskedConfig,
        *,
        embedding: nn.Embedding,
        pooler: Pooler | None = None,
        initial: InitialConfig | None = None,
    ) -> None:
        """`embedding` is the one that it shares, if it is tied; `pooler` is for the next sentence."""
        super().__init__()
        self.activation = config.activation
        self.dense = nn.Linear(d_model, d_model, bias=config.bias)
        self.norm = nn.LayerNorm(d_model, eps=config.eps, bias=config.bias)
        self.vocabulary = VocabularyHead(
            vocabulary, d_model, bias=True, tied=embedding if config.tied else None
        )
        self.next_sentence = (
            ClassifyHead(
                d_model, ClassifyConfig(labels=2, pool=PoolConfig(kind="pooler"), dropout=0.0), pooler
            )
            if config.next_sentence
            else None
        )
        _initialize_apart(self, pooler, initial)

    def forward(self, x: Stream) -> Float[Tensor, "tokens vocab"]:
        return self.vocabulary(self.before(x))

    def before(self, x: Stream) -> Stream:
        """What the scores are made of."""
        return self.norm(activate(self.dense(x), self.activation))

    def follows(self, x: Stream, layout: Layout) -> Float[Tensor, "sequences 2"]:
        """Does the second sentence follow the first? Score 0 says that it does, as in BERT."""
        if self.next_sentence is None:
            raise ValueError("this model was trained without next sentences: set head.next_sentence=true")
        return self.next_sentence(x, layout)


class ClassifyHead(nn.Module):
    """A score for each label."""

    def __init__(
        self,
        d_model: int,
        config: ClassifyConfig,
        pooler: Pooler | None = None,
        *,
        initial: InitialConfig | None = None,
    ) -> None:
        super().__init__()
        self.inner = config.inner
        self.pool = Pool(d_model, config.pool, pooler)
        self.dense = None if config.inner == "none" else nn.Linear(d_model, d_model)
        self.transform = _transform(d_model, config.transform)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(d_model, config.labels)
        _initialize_apart(self, pooler, initial)

    def forward(self, x: Stream, layout: Layout) -> Float[Tensor, "sequences labels"]:
        return self.scores(self.pool(x, layout))

    def scores(self, vectors: Vectors) -> Float[Tensor, "sequences labels"]:
        """Of sequences that are pooled already."""
        if self.dense is not None:
            inner = self.dense(vectors)
            vectors = torch.tanh(inner) if self.inner == "tanh" else F.relu(inner)
        return self.output(self.dropout(self.transform(vectors)))


class TagHead(nn.Module):
    """A score for each tag, for each row it is given."""

    def __init__(self, d_model: int, config: TagConfig, *, initial: InitialConfig | None = None) -> None:
        super().__init__()
        self.words = config.words
        self.transform = _transform(d_model, config.transform)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(d_model, config.tags)
        initialize(self, initial or InitialConfig(scheme="normal"))

    def forward(self, x: Stream, places: Int[Tensor, "tokens"] | None = None) -> Float[Tensor, "rows tags"]:
        """Row by row; with `places`, the row of the word that each token belongs to, a row for each word: the
        mean of its tokens. There are as many rows as tokens; those past the last word are zeros' scores."""
        return self.output(self.dropout(self.transform(x if places is None else _word_means(x, places))))


def _word_means(x: Stream, places: Int[Tensor, "tokens"]) -> Stream:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    sums = torch.zeros_like(wide).index_add(0, places, wide)
    counts = torch.zeros_like(wide[:, 0]).index_add(0, places, torch.ones_like(wide[:, 0]))
    return (sums / counts.clamp(min=1).unsqueeze(1)).to(x.dtype)


class SpanHead(nn.Module):
    """For each token two scores: that an answer begins here, and that it ends here."""

    def __init__(self, d_model: int, config: SpanConfig, *, initial: InitialConfig | None = None) -> None:
        super().__init__()
        self.transform = _transform(d_model, config.transform)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(d_model, 2)
        initialize(self, initial or InitialConfig(scheme="normal"))

    def forward(self, x: Stream) -> Float[Tensor, "tokens 2"]:
        return self.output(self.dropout(self.transform(x)))


class EmbedHead(nn.Module):
    """Each sequence in one vector."""

    def __init__(
        self,
        d_model: int,
        config: EmbedConfig,
        pooler: Pooler | None = None,
        *,
        initial: InitialConfig | None = None,
    ) -> None:
        super().__init__()
        self.normalised = config.normalised
        self.pool = Pool(d_model, config.pool, pooler)
        self.project = nn.Linear(d_model, config.project) if config.project else None
        _initialize_apart(self, pooler, initial)

    def forward(self, x: Stream, layout: Layout) -> Float[Tensor, "sequences width"]:
        vectors = self.pool(x, layout)
        if self.project is not None:
            vectors = torch.tanh(self.project(vectors))
        return F.normalize(vectors.float(), dim=-1).to(vectors.dtype) if self.normalised else vectors


Head = MaskedHead | ClassifyHead | TagHead | SpanHead | EmbedHead


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSpec:
    """What a model needs to know about a kind of head.

    >>> from dataclasses import dataclass
    >>> from typing import Literal
    >>> @dataclass(frozen=True, kw_only=True, slots=True)
    ... class NormConfig:
    ...     kind: Literal["norms"] = "norms"
    >>> class NormHead(torch.nn.Module):
    ...     def forward(self, states):
    ...         return states.norm(dim=-1, keepdim=True)
    >>> norms = regard.HeadSpec(name="norms", config=NormConfig, build=lambda *_: NormHead(), rows="tokens")
    >>> regard.register(norms)
    """

    name: str
    """The `kind` of its configuration."""
    config: type[Any]
    """A frozen dataclass with a `kind`."""
    build: Callable[[Any, Encoder], nn.Module]
    """From its configuration, on this encoder."""
    rows: Literal["tokens", "sequences"]
    """What `forward` gives a row for: tokens, forward(states); or sequences, forward(states, layout)."""
    pooler: Callable[[Any], bool] = lambda config: False
    """Whether it stands on the encoder's pooler."""
    transfers: bool = False
    """A model that starts from another takes the head over too, where it fits: it has no labels."""


HEADS: Registry[HeadSpec] = Registry(key="head.kind")
HEADS.settle(
    HeadSpec,
    HeadSpec(
        name="masked",
        config=MaskedConfig,
        build=lambda config, encoder: MaskedHead(
            encoder.embedding.tokens.num_embeddings,
            encoder.config.d_model,
            config,
            embedding=encoder.embedding.tokens,
            pooler=encoder.pooler,
            initial=encoder.config.initial,
        ),
        rows="tokens",
        pooler=lambda config: config.next_sentence,
        transfers=True,
    ),
    HeadSpec(
        name="classify",
        config=ClassifyConfig,
        build=lambda config, encoder: ClassifyHead(
            encoder.config.d_model, config, encoder.pooler, initial=encoder.config.initial
        ),
        rows="sequences",
        pooler=lambda config: config.pool.kind == "pooler",
    ),
    HeadSpec(
        name="tag",
        config=TagConfig,
        build=lambda config, encoder: TagHead(encoder.config.d_model, config, initial=encoder.config.initial),
        rows="tokens",
    ),
    HeadSpec(
        name="span",
        config=SpanConfig,
        build=lambda config, encoder: SpanHead(
            encoder.config.d_model, config, initial=encoder.config.initial
        ),
        rows="tokens",
        transfers=True,
    ),
    HeadSpec(
        name="embed",
        config=EmbedConfig,
        build=lambda config, encoder: EmbedHead(
            encoder.config.d_model, config, encoder.pooler, initial=encoder.config.initial
        ),
        rows="sequences",
        pooler=lambda config: config.pool.kind == "pooler",
        transfers=True,
    ),
)


def _initialize_apart(head: nn.Module, pooler: Pooler | None, initial: InitialConfig | None) -> None:
    """First values for a head, but not for the encoder's pooler, which may be trained already."""
    kept = None if pooler is None else [parameter.detach().clone() for parameter in pooler.parameters()]
    initialize(head, initial or InitialConfig(scheme="normal"))
    if pooler is not None and kept is not None:
        with torch.no_grad():
            for parameter, value in zip(pooler.parameters(), kept, strict=True):
                parameter.copy_(value)
