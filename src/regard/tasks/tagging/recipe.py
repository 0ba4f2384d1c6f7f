"""The recipe of a tagger: its tables, and the values that suit its sentences."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal

from regard.config import check_choices
from regard.settings.shape import EncoderShape
from regard.settings.training import LossConfig
from regard.tasks.base.measures import check_metric
from regard.tasks.base.recipe import Recipe, RecipeSpec
from regard.tasks.base.suited import plain_lists, suited_texts
from regard.tasks.tagging.data import TaggedConfig

Decode = Literal["valid", "greedy"]
"""Which tags a sentence gets, where they mark spans. valid: the likeliest of all well-formed sequences;
greedy: the likeliest of each word."""

FIGURES = ("auto", "f1", "precision", "recall", "accuracy", "loss", "spearman", "pearson", "mse")
OF_NUMBERS = ("spearman", "pearson", "mse", "loss")


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
class TagValidConfig:
    metric: Annotated[str, FIGURES] = "auto"
    """Which figure says that a model is better. auto: f1 of spans where tags mark some, else accuracy; of
    numbers, spearman."""

    def __post_init__(self) -> None:
        check_metric("tag", self.metric, FIGURES)


@dataclass(frozen=True, kw_only=True, slots=True)
class TagRecipe(Recipe):
    task: Literal["tag"] = "tag"
    data: TaggedConfig
    model: EncoderShape = field(default_factory=EncoderShape)
    head: TagHeadConfig = field(default_factory=TagHeadConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    valid: TagValidConfig = field(default_factory=TagValidConfig)

    def __post_init__(self) -> None:
        numbers, metric = self.data.problem == "number", self.valid.metric
        if metric != "auto" and metric in FIGURES and numbers != (metric in OF_NUMBERS) and metric != "loss":
            own = ", ".join(
                OF_NUMBERS if numbers else [name for name in FIGURES if name not in OF_NUMBERS[:3]]
            )
            raise ValueError(
                f"valid.metric={metric!r} is none of data.problem={self.data.problem!r}: choose from {own}"
            )
        if numbers and self.loss.label_smoothing:
            raise ValueError("loss.label_smoothing is for tags, but data.problem='number'")

    def metric(self, *, spans: bool) -> str:
        """`spans`: whether the tags mark some."""
        metric = self.valid.metric
        if self.data.problem == "number":
            return "spearman" if metric == "auto" else metric
        if metric == "auto":
            return "f1" if spans else "accuracy"
        if not spans and metric in ("f1", "precision", "recall"):
            raise ValueError(
                f"valid.metric={metric!r} is about spans, but these tags mark none: choose accuracy or loss, "
                "or check data.tag and data.scheme"
            )
        return metric


RECIPE = RecipeSpec(TagRecipe, partial(suited_texts, epochs=(5, 20)), plain_lists, 'train = "train.conll"')
