"""The recipe of a tagger: its tables, and the values that suit its sentences."""

from dataclasses import dataclass, field
from typing import Any, Literal

from regard.config import check_choices
from regard.data import BatchConfig
from regard.models.shape import EncoderShape
from regard.tasks.encoders.recipe import as_list, refuse_tokenizer, suited_encoder
from regard.tasks.encoders.tagged import TaggedConfig
from regard.tasks.recipe import Kind, Tables
from regard.text import TokenizerConfig
from regard.train.average import AverageConfig
from regard.train.optim import OptimizerConfig
from regard.train.trainer import TrainConfig

Decode = Literal["valid", "greedy"]
"""Which tags a sentence gets, where they mark spans. valid: the likeliest of all well-formed sequences;
greedy: the likeliest of each word."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TagHeadConfig:
    words: Literal["first", "mean"] = "first"
    """What speaks for a word: its first token, or the mean of its tokens."""
    decode: Decode = "valid"
    """Which tags a sentence gets, where they mark spans. valid: the likeliest of all well-formed sequences;
    greedy: the likeliest of each word."""
    dropout: float = 0.1
    """Share of each vector dropped in training."""

    def __post_init__(self) -> None:
        check_choices(self)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} must be in [0, 1)")


@dataclass(frozen=True, kw_only=True, slots=True)
class TagLossConfig:
    label_smoothing: float = 0.0
    """Share of the probability that is spread over all tags."""
    r_drop: float = 0.0
    """Weight of the disagreement between two passes with other dropout. 0: one pass, half the time."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing={self.label_smoothing} must be in [0, 1)")
        if not 0 <= self.r_drop < float("inf"):
            raise ValueError(f"r_drop={self.r_drop} must be 0 or more, and finite")


@dataclass(frozen=True, kw_only=True, slots=True)
class TagValidConfig:
    metric: Literal["auto", "f1", "precision", "recall", "accuracy", "loss"] = "auto"
    """Which figure says that a model is better. auto: f1 of spans where tags mark some, else accuracy."""

    def __post_init__(self) -> None:
        check_choices(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class TagRecipe:
    task: Literal["tag"] = "tag"
    data: TaggedConfig
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: EncoderShape = field(default_factory=EncoderShape)
    head: TagHeadConfig = field(default_factory=TagHeadConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    loss: TagLossConfig = field(default_factory=TagLossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    average: AverageConfig = field(default_factory=AverageConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    valid: TagValidConfig = field(default_factory=TagValidConfig)

    def metric(self, *, spans: bool) -> str:
        """`spans`: whether the tags mark some."""
        metric = self.valid.metric
        if metric == "auto":
            return "f1" if spans else "accuracy"
        if not spans and metric in ("f1", "precision", "recall"):
            raise ValueError(
                f"valid.metric={metric!r} is about spans, but these tags mark none: choose accuracy or loss, "
                "or check data.tag and data.scheme"
            )
        return metric


def _plain(plain: dict[str, Any]) -> dict[str, Any]:
    refuse_tokenizer(plain)
    return as_list(plain, "train", "valid", "test")


def _suited(
    recipe: TagRecipe, plain: dict[str, Any], examples: int, words: int, *, cuda: bool, ranks: int
) -> Tables:
    return suited_encoder(
        recipe.model,
        plain,
        examples,
        words,
        cuda=cuda,
        ranks=ranks,
        seed=recipe.train.seed,
        longest=recipe.data.longest,
        epochs=(5, 20),
    )


TAG = Kind(TagRecipe, _suited, _plain, 'train = "train.conll"')
