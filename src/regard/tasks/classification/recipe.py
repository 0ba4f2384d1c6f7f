"""The recipe of a classifier: its tables, and the values that suit its texts."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config import check_choices
from regard.settings.models import Query, Score
from regard.settings.shape import EncoderShape
from regard.settings.training import LossConfig
from regard.tasks.base.measures import check_metric
from regard.tasks.base.recipe import Recipe, RecipeSpec
from regard.tasks.base.suited import plain_lists, suited_texts
from regard.tasks.classification.data import LabelledConfig

METRIC = {"single": "accuracy", "multi": "micro_f1", "number": "spearman"}
FIGURES = {
    "single": ("accuracy", "macro_f1", "micro_f1", "mcc", "loss"),
    "multi": ("micro_f1", "macro_f1", "exact", "loss"),
    "number": ("spearman", "pearson", "mse", "loss"),
}
EVERY_FIGURE = ("auto", *dict.fromkeys(name for figures in FIGURES.values() for name in figures))


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifyHeadConfig:
    pool: Literal["auto", "first", "last", "ends", "mean", "max", "attention", "pooler"] = "auto"
    """How a text becomes one vector. auto: as the start was trained to, by its own pool or its pooler; else
    the mean of all tokens, or attention for a recurrent encoder."""
    query: Query = "trained"
    """What an attention pool asks with: a vector that learns, one that stays as it was drawn, or ones."""
    score: Score = "scaled"
    """How an attention pool compares its query with the tokens: scaled is q . x / sqrt(d), dot is q . x,
    additive is v . tanh(W q + U x)."""
    dropout: float = 0.1
    """Share of the vector dropped in training."""
    fit: Literal["training", "logistic"] = "training"
    """logistic: the encoder stays as it is, its vectors are computed once, and the head is found on them by
    logistic regression: seconds instead of minutes, and what training has to beat."""

    def __post_init__(self) -> None:
        check_choices(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifyLossConfig(LossConfig):
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: a label counts the more, the rarer it is."""

    def __post_init__(self) -> None:
        check_choices(self)
        LossConfig.__post_init__(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifyValidConfig:
    metric: Annotated[str, EVERY_FIGURE] = "auto"
    """Which figure says that a model is better. auto: accuracy; micro_f1 for several labels, spearman for
    numbers."""

    def __post_init__(self) -> None:
        check_metric("classify", self.metric, EVERY_FIGURE)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifyRecipe(Recipe):
    task: Literal["classify"] = "classify"
    data: LabelledConfig
    model: EncoderShape = field(default_factory=EncoderShape)
    head: ClassifyHeadConfig = field(default_factory=ClassifyHeadConfig)
    loss: ClassifyLossConfig = field(default_factory=ClassifyLossConfig)
    valid: ClassifyValidConfig = field(default_factory=ClassifyValidConfig)

    def __post_init__(self) -> None:
        if self.head.fit == "logistic":
            self._check_logistic()
        problem, metric, loss = self.data.problem, self.valid.metric, self.loss
        if metric in EVERY_FIGURE[1:] and metric not in FIGURES[problem]:
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


RECIPE = RecipeSpec(ClassifyRecipe, suited_texts, plain_lists, 'train = "train.tsv"')
