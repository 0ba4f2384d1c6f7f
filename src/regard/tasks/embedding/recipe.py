"""The recipe of an embedder that learns from pairs: its tables, and the values that suit them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from regard.config import check_choices
from regard.settings.shape import EncoderShape
from regard.settings.training import BatchConfig
from regard.tasks.base.formats import TABLES, ending
from regard.tasks.base.measures import check_metric
from regard.tasks.base.pairs import plain_files
from regard.tasks.base.recipe import Recipe, RecipeSpec, Tables
from regard.tasks.base.suited import refuse_tokenizer, suited_encoder
from regard.tasks.embedding.data import PairedConfig

FIGURES = ("accuracy_at_1", "recall_at_10", "mrr", "loss")


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedHeadConfig:
    pool: Literal["auto", "first", "mean", "max"] = "auto"
    """How a text becomes one vector. auto: as the start has it, else the mean of all tokens."""
    project: int | None = None
    """Width of a dense layer behind the pool, 0 for none; unless given, as the start has it, else none."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.project is not None and self.project < 0:
            raise ValueError(f"project={self.project} must be 0 or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class ContrastiveConfig:
    temperature: float = 0.05
    """What cosines are divided by: the smaller, the more the nearest of the wrong texts count."""
    symmetric: bool = True
    """Sources look for their targets, and targets for their sources; else only the former."""
    guide: str = ""
    """The folder of an embedder that says which texts of a batch are no wrong answers: those that it finds
    nearer than the right one (GISTEmbed, Solatorio 2024). The folder of `model.start` will do."""
    guide_margin: float = 0.0
    """Those that it finds less near, by so much of the cosine at most, are none either."""
    dimensions: tuple[int, ...] = ()
    """Matryoshka (Kusupati et al. 2022): the first so many numbers must do by themselves too, so that vectors
    can be cut: [128, 64, 32]. Each counts as much as the whole vector."""

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature={self.temperature} must be more than 0, and finite")
        if not 0 <= self.guide_margin < 2:
            raise ValueError(f"guide_margin={self.guide_margin} must be from 0 to 2, as cosines are")
        if self.guide_margin and not self.guide:
            raise ValueError(f"guide_margin={self.guide_margin} without a guide: name one, or leave it out")
        if any(width < 1 for width in self.dimensions) or len({*self.dimensions}) < len(self.dimensions):
            raise ValueError(f"dimensions={[*self.dimensions]} must be 1 or more, each once")


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedValidConfig:
    metric: Annotated[str, FIGURES] = "accuracy_at_1"
    """Which figure says that a model is better."""
    sentences: int = 1000
    """At most so many pairs of each pair of files look for each other: the more, the harder it is."""

    def __post_init__(self) -> None:
        check_metric("embed", self.metric, FIGURES)
        if self.sentences < 2:
            raise ValueError(f"sentences={self.sentences} leaves nothing to choose from: take 2 or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedRecipe(Recipe):
    task: Literal["embed"] = "embed"
    data: PairedConfig
    model: EncoderShape = field(default_factory=EncoderShape)
    head: EmbedHeadConfig = field(default_factory=EmbedHeadConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    """All pairs of a batch are each other's wrong answers: the larger it is, the harder the choice. Parts
    are not mixed."""
    loss: ContrastiveConfig = field(default_factory=ContrastiveConfig)
    valid: EmbedValidConfig = field(default_factory=EmbedValidConfig)


def _plain(plain: dict[str, Any]) -> dict[str, Any]:
    refuse_tokenizer(plain)
    data = plain["data"]
    if not isinstance(data, Mapping):
        return plain
    files = {split: _files(data[split]) for split in ("train", "valid", "test") if split in data}
    usual = {"negatives": "negatives"} if _is_mined(data.get("train")) else {}
    data = {**usual, **data, **files}
    if isinstance(data.get("negatives"), str | int):
        data["negatives"] = [data["negatives"]]
    return {**plain, "data": data}


def _files(given: Any) -> Any:
    """As a translator's; and a single file is both sides, unless it was mined."""
    if _is_mined(given):
        return [{"table": given, "source": "query", "target": "positive"}]
    return plain_files([given, given] if isinstance(given, str) else given)


def _is_mined(given: Any) -> bool:
    """As regard mine-negatives writes it."""
    return isinstance(given, str) and TABLES.get(ending(given)) == "jsonl"


def _suited(
    recipe: EmbedRecipe, plain: dict[str, Any], examples: int, words: int, *, cuda: bool, ranks: int
) -> Tables:
    how: Any = {"cuda": cuda, "ranks": ranks, "seed": recipe.train.seed, "epochs": (3, 10)}
    at_once = 2 * (512 if cuda else 128)
    return suited_encoder(recipe.model, plain, 2 * examples, words, at_once=at_once, **how)


RECIPE = RecipeSpec(EmbedRecipe, _suited, _plain)
