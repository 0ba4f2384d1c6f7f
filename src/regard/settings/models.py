"""Whole models: encoders, decoders, translators, and what stands on an encoder."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config import check_choices
from regard.settings.network import (
    POSITIONS,
    EmbeddingConfig,
    InitialConfig,
    PositionsConfig,
    RecurrentConfig,
    TransformerConfig,
)

Score = Literal["additive", "dot", "scaled"]


Query = Literal["trained", "fixed", "ones"]
"""What a pool asks with: a vector that learns, one that keeps its first random value, or ones."""


Body = TransformerConfig | RecurrentConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderConfig:
    vocabulary: int
    """Entries of the vocabulary."""
    d_model: int = 512
    """Width of the residual stream."""
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    positions: PositionsConfig = field(default_factory=PositionsConfig)
    body: Body = field(default_factory=TransformerConfig)
    pooler: bool = False
    """BERT's tanh(W x_first + b), for the heads that want a sequence in that one vector."""
    initial: InitialConfig = field(default_factory=InitialConfig)

    def __post_init__(self) -> None:
        check_widths(self.vocabulary, self.d_model, self.positions, self.body)


def check_widths(vocabulary: int, d_model: int, positions: PositionsConfig, body: Body) -> None:
    """What the parts cannot know by themselves."""
    if vocabulary < 1:
        raise ValueError(f"vocabulary={vocabulary} must be at least 1")
    if d_model < 1:
        raise ValueError(f"d_model={d_model} must be at least 1")
    if isinstance(body, TransformerConfig):
        body.attention.width(d_model)
    elif positions.kind != "none" and (POSITIONS[positions.kind].rotary or POSITIONS[positions.kind].bias):
        raise ValueError(
            f"positions.kind={positions.kind!r} acts inside attention, which a recurrent body has not"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoderConfig:
    vocabulary: int
    """Entries of the vocabulary."""
    d_model: int = 512
    """Width of the residual stream."""
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    positions: PositionsConfig = field(default_factory=PositionsConfig)
    body: TransformerConfig | RecurrentConfig = field(default_factory=TransformerConfig)
    tied: bool = True
    """The output matrix is the embedding's."""
    head_bias: bool = False
    """A bias for each entry of the vocabulary."""
    head_scaled: bool = False
    """Divide the states by sqrt(d_model) before the output matrix, as T5 does where that is the embedding."""
    initial: InitialConfig = field(default_factory=InitialConfig)

    def __post_init__(self) -> None:
        check_widths(self.vocabulary, self.d_model, self.positions, self.body)


@dataclass(frozen=True, kw_only=True, slots=True)
class Seq2SeqConfig:
    encoder: EncoderConfig
    decoder: DecoderConfig
    shared: bool = True
    """Source and target share one vocabulary and one embedding matrix."""

    def __post_init__(self) -> None:
        ours = (self.encoder.vocabulary, self.encoder.d_model)
        theirs = (self.decoder.vocabulary, self.decoder.d_model)
        if self.shared and ours != theirs:
            raise ValueError(
                f"shared=true needs one vocabulary and one width, but the encoder has {ours[0]} x {ours[1]} "
                f"and the decoder {theirs[0]} x {theirs[1]}: make them equal or set shared=false"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolConfig:
    kind: Literal["first", "last", "ends", "mean", "max", "attention", "pooler"] = "first"
    """How a sequence becomes one vector. First is [CLS] where there is one; ends is the last state of each
    direction of a bidirectional recurrent encoder; pooler is the encoder's own, tanh(W x_first + b), as BERT
    has it."""
    query: Query = "trained"
    """What an attention pool asks with: a vector that learns, one that stays as it was drawn, or ones."""
    score: Score = "scaled"
    """How an attention pool compares its query with the tokens: scaled is q . x / sqrt(d), dot is q . x,
    additive is v . tanh(W q + U x)."""

    def __post_init__(self) -> None:
        check_choices(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformConfig:
    """norm(activation(W x)) before the scores, as ModernBERT has it in all its heads. No biases."""

    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"
    """Of the dense layer."""
    eps: float = 1e-5
    """Of the norm."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.eps <= 0:
            raise ValueError(f"head.transform.eps={self.eps} must be greater than 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedConfig:
    kind: Literal["masked"] = "masked"
    next_sentence: bool = False
    """Also tell whether the second sentence follows the first, from the encoder's pooler."""
    tied: bool = True
    """The output matrix is the embedding."""
    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"
    """Of the dense layer."""
    eps: float = 1e-12
    """Of the norm."""
    bias: bool = True
    """Biases of the dense layer and of the norm; ModernBERT has none there."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.eps <= 0:
            raise ValueError(f"head.eps={self.eps} must be greater than 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifyConfig:
    kind: Literal["classify"] = "classify"
    labels: int = 2
    """How many there are to choose from; 1 for a number."""
    pool: PoolConfig = field(default_factory=PoolConfig)
    inner: Literal["none", "tanh", "relu"] = "none"
    """A dense layer before the scores, with this activation (RoBERTa: tanh; DistilBERT: relu)."""
    transform: TransformConfig | None = None
    """In the place of `inner`: a dense layer and a norm."""
    dropout: float = 0.1
    """Share of the vector dropped in training."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.labels < 1:
            raise ValueError(f"head.labels={self.labels} must be at least 1")
        if self.transform is not None and self.inner != "none":
            raise ValueError(f"head.inner={self.inner!r} beside head.transform: choose one of the two")
        _check_dropout(self.dropout)


@dataclass(frozen=True, kw_only=True, slots=True)
class TagConfig:
    kind: Literal["tag"] = "tag"
    tags: int = 2
    """How many there are to choose from."""
    words: Literal["first", "mean"] = "first"
    """What speaks for a word: its first token, or the mean of its tokens."""
    transform: TransformConfig | None = None
    """A dense layer and a norm before the scores."""
    dropout: float = 0.1
    """Share of each vector dropped in training."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.tags < 1:
            raise ValueError(f"head.tags={self.tags} must be at least 1")
        _check_dropout(self.dropout)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanConfig:
    kind: Literal["span"] = "span"
    transform: TransformConfig | None = None
    """A dense layer and a norm before the scores."""
    dropout: float = 0.0
    """Share of each vector dropped in training."""

    def __post_init__(self) -> None:
        _check_dropout(self.dropout)


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptConfig:
    name: str
    """What it is asked for by: query, passage."""
    text: str
    """What stands before a text: "query: "."""


Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedConfig:
    kind: Literal["embed"] = "embed"
    pool: PoolConfig = field(default_factory=lambda: PoolConfig(kind="mean"))
    project: int = 0
    """Width of a dense layer with tanh behind the pool; 0: there is none."""
    normalised: bool = True
    """Vectors of length 1, so that a dot product is the cosine."""
    prompts: tuple[PromptConfig, ...] = ()
    """What may be set before a text, as the model was trained with it."""
    default_prompt: str = ""
    """The name of the prompt that is set unless another is asked for; none, if empty."""
    dimensions: int = 0
    """So many of a vector's first numbers are taken, unless others are asked for; 0: all."""
    similarity: Similarity = "cosine"
    """What its vectors were trained to be compared by."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.project < 0:
            raise ValueError(f"head.project={self.project} must be 0 or more")
        if self.dimensions < 0:
            raise ValueError(f"head.dimensions={self.dimensions} must be 0 or more")
        names = [prompt.name for prompt in self.prompts]
        if len({*names}) < len(names) or not all(names):
            raise ValueError(f"head.prompts={names}: give each a name of its own")
        if self.default_prompt and self.default_prompt not in names:
            raise ValueError(
                f"head.default_prompt={self.default_prompt!r} is none of the prompts: {', '.join(names)}"
            )


HeadConfig = MaskedConfig | ClassifyConfig | TagConfig | SpanConfig | EmbedConfig


def _check_dropout(dropout: float) -> None:
    if not 0 <= dropout < 1:
        raise ValueError(f"head.dropout={dropout} must be in [0, 1)")
