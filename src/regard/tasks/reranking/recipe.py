"""The recipe of a reranker: its tables, and the values that suit its queries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from regard.config import check_choices
from regard.settings.shape import EncoderShape
from regard.tasks.base.measures import check_metric
from regard.tasks.base.recipe import Recipe, RecipeSpec, Tables
from regard.tasks.base.suited import plain_lists, suited_encoder
from regard.tasks.reranking.data import RankedConfig

FIGURES = ("ndcg_at_10", "mrr", "accuracy_at_1", "loss")
READ = 512
"""Most tokens of a pair, where nothing else says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RerankHeadConfig:
    pool: Literal["auto", "first", "mean", "max", "pooler"] = "auto"
    """How a pair becomes one vector. auto: as the start was trained, a reranker or an embedder; else as
    the classifiers of its family do it. With theirs (BERT: pooler), it is exported as one of them."""
    dropout: float = 0.1
    """Share of the vector dropped in training."""
    activation: Literal["auto", "none", "sigmoid"] = "auto"
    """What stands behind a score when it is used. auto: sigmoid, so that it is a probability, where the loss
    is binary; else none."""

    def __post_init__(self) -> None:
        check_choices(self)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} must be in [0, 1)")


@dataclass(frozen=True, kw_only=True, slots=True)
class RankingConfig:
    kind: Literal["softmax", "binary", "margin"] = "softmax"
    """softmax: the positive against all negatives of its query at once. binary: each pair by itself, right or
    wrong. margin: how much better the positive scores than each negative should be as a teacher has it, whose
    scores are in data.scores."""

    def __post_init__(self) -> None:
        check_choices(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class RerankValidConfig:
    metric: Annotated[str, FIGURES] = "ndcg_at_10"
    """Which figure says that a model is better; of the positive's rank among the negatives of its query."""

    def __post_init__(self) -> None:
        check_metric("rerank", self.metric, FIGURES)


@dataclass(frozen=True, kw_only=True, slots=True)
class RerankRecipe(Recipe):
    task: Literal["rerank"] = "rerank"
    data: RankedConfig
    model: EncoderShape = field(default_factory=EncoderShape)
    head: RerankHeadConfig = field(default_factory=RerankHeadConfig)
    loss: RankingConfig = field(default_factory=RankingConfig)
    valid: RerankValidConfig = field(default_factory=RerankValidConfig)

    def __post_init__(self) -> None:
        if self.loss.kind == "margin" and self.data.scores == "":
            raise ValueError(
                "loss.kind='margin' learns from a teacher's scores: name their column as data.scores, or "
                "choose softmax"
            )


def _plain(plain: dict[str, Any]) -> dict[str, Any]:
    plain = plain_lists(plain)
    data = plain["data"]
    if isinstance(data, Mapping) and isinstance(data.get("negatives"), str | int):
        return {**plain, "data": {**data, "negatives": [data["negatives"]]}}
    return plain


def _suited(
    recipe: RerankRecipe, plain: dict[str, Any], examples: int, words: int, *, cuda: bool, ranks: int
) -> Tables:
    """About 16 queries in a batch, on a GPU 32, and room for the longest that there can be."""
    how: Any = {"cuda": cuda, "ranks": ranks, "seed": recipe.train.seed, "epochs": (2, 10)}
    longest = (1 + recipe.data.most) * (recipe.data.longest or READ) if recipe.data.most else 0
    at_once = 32 if cuda else 16
    return suited_encoder(recipe.model, plain, examples, words, at_once=at_once, longest=longest, **how)


RECIPE = RecipeSpec(RerankRecipe, _suited, _plain, 'train = "mined.jsonl"')
