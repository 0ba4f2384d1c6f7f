"""The recipe of a classifier: its tables, and the values that suit its texts."""

from dataclasses import dataclass, field
from typing import Any, Literal

from regard.config import check_choices
from regard.data import BatchConfig
from regard.models.shape import EncoderShape
from regard.tasks.encoders.labelled import LabelledConfig
from regard.tasks.encoders.recipe import as_list, refuse_tokenizer, suited_encoder
from regard.tasks.recipe import Kind, Tables
from regard.text import TokenizerConfig
from regard.train.average import AverageConfig
from regard.train.optim import OptimizerConfig
from regard.train.trainer import TrainConfig

METRIC = {"single": "accuracy", "multi": "micro_f1", "number": "spearman"}
FIGURES = {
    "single": ("accuracy", "macro_f1", "micro_f1", "mcc", "loss"),
    "multi": ("micro_f1", "macro_f1", "exact", "loss"),
    "number": ("spearman", "pearson", "mse", "loss"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifyHeadConfig:
    pool: Literal["auto", "first", "last", "ends", "mean", "max", "attention", "pooler"] = "auto"
    """How a text becomes one vector. auto: as the start was trained to, by its own pool or its pooler; else
    the mean of all tokens, or attention for a recurrent encoder."""
    query: Literal["trained", "fixed"] = "trained"
    """What an attention pool asks with."""
    dropout: float = 0.1
    """Share of the vector dropped in training."""
    fit: Literal["training", "logistic"] = "training"
    """logistic: the encoder stays as it is, its vectors are computed once, and the head is found on them by
    logistic regression: seconds instead of minutes, and what training has to beat."""

    def __post_init__(self) -> None:
        check_choices(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifyLossConfig:
    label_smoothing: float = 0.0
    """Share of the probability that is spread over all labels."""
    r_drop: float = 0.0
    """Weight of the disagreement between two passes with other dropout. 0: one pass, half the time."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: a label counts the more, the rarer it is."""

    def __post_init__(self) -> None:
        check_choices(self)
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing={self.label_smoothing} must be in [0, 1)")
        if not 0 <= self.r_drop < float("inf"):
            raise ValueError(f"r_drop={self.r_drop} must be 0 or more, and finite")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifyValidConfig:
    metric: Literal[
        "auto", "accuracy", "macro_f1", "micro_f1", "mcc", "exact", "spearman", "pearson", "mse", "loss"
    ] = "auto"
    """Which figure says that a model is better. auto: accuracy; micro_f1 for several labels, spearman for
    numbers."""

    def __post_init__(self) -> None:
        check_choices(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifyRecipe:
    task: Literal["classify"] = "classify"
    data: LabelledConfig
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: EncoderShape = field(default_factory=EncoderShape)
    head: ClassifyHeadConfig = field(default_factory=ClassifyHeadConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    loss: ClassifyLossConfig = field(default_factory=ClassifyLossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    average: AverageConfig = field(default_factory=AverageConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    valid: ClassifyValidConfig = field(default_factory=ClassifyValidConfig)

    def __post_init__(self) -> None:
        if self.head.fit == "logistic":
            self._check_logistic()
        problem, metric, loss = self.data.problem, self.valid.metric, self.loss
        if metric != "auto" and metric not in FIGURES[problem]:
            raise ValueError(
                f"valid.metric={metric!r} is none of data.problem={problem!r}: choose from "
                f"{', '.join(FIGURES[problem])}"
            )
        if problem != "single" and (loss.label_smoothing or loss.class_weights != "none"):
            raise ValueError(
                f"loss.label_smoothing and loss.class_weights are for one label of several, not {problem}"
            )

    def _check_logistic(self) -> None:
        if not self.model.start:
            raise ValueError("head.fit='logistic' takes an encoder that has learned: set model.start")
        if self.data.problem == "number":
            raise ValueError("head.fit='logistic' is for labels, but data.problem='number'")
        if self.head.pool == "attention":
            raise ValueError("head.fit='logistic' cannot learn what head.pool='attention' asks: choose mean")

    @property
    def metric(self) -> str:
        return METRIC[self.data.problem] if self.valid.metric == "auto" else self.valid.metric


def _plain(plain: dict[str, Any]) -> dict[str, Any]:
    refuse_tokenizer(plain)
    return as_list(plain, "train", "valid", "test")


def _suited(
    recipe: ClassifyRecipe, plain: dict[str, Any], examples: int, words: int, *, cuda: bool, ranks: int
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
    )


CLASSIFY = Kind(ClassifyRecipe, _suited, _plain, 'train = "train.tsv"')
