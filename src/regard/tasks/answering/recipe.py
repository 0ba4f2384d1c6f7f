"""The recipe of an answerer: its tables, and the values that suit its questions."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal

from regard.config import check_choices
from regard.settings.shape import EncoderShape
from regard.settings.training import LossConfig
from regard.tasks.answering.data import QuestionsConfig
from regard.tasks.base.measures import check_metric
from regard.tasks.base.recipe import Recipe, RecipeSpec
from regard.tasks.base.suited import plain_lists, suited_texts

FIGURES = ("f1", "exact", "loss")


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerHeadConfig:
    longest_answer: int = 0
    """Most tokens of an answer that is given; 0: as many as 99 of 100 gold ones have."""
    none: Literal["auto", "never", "always"] = "auto"
    """Whether it may be said that a text has no answer. auto: where some training question has none."""
    dropout: float = 0.0
    """Share of each vector dropped in training."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.longest_answer < 0:
            raise ValueError(f"longest_answer={self.longest_answer} must be 0 or more")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} must be in [0, 1)")


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerValidConfig:
    metric: Annotated[str, FIGURES] = "f1"
    """Which figure says that a model is better: SQuAD's f1 or exact match, in percent, or the loss."""

    def __post_init__(self) -> None:
        check_metric("answer", self.metric, FIGURES)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerRecipe(Recipe):
    task: Literal["answer"] = "answer"
    data: QuestionsConfig
    model: EncoderShape = field(default_factory=EncoderShape)
    head: AnswerHeadConfig = field(default_factory=AnswerHeadConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    valid: AnswerValidConfig = field(default_factory=AnswerValidConfig)


RECIPE = RecipeSpec(AnswerRecipe, partial(suited_texts, rate=1e-4), plain_lists, 'train = "train.json"')
