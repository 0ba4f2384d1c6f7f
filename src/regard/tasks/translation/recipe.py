"""The recipe of a translator: its tables, and the values that suit a corpus."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from regard.config import from_dict
from regard.decode import DecodeConfig
from regard.settings.shape import TranslatorConfig
from regard.settings.training import LossConfig
from regard.tasks.base.measures import check_metric
from regard.tasks.base.pairs import MixedPairsConfig, plain_files
from regard.tasks.base.recipe import Recipe, RecipeSpec
from regard.tasks.base.suited import given, paced, refuse_tokenizer, suited_rate
from regard.tasks.translation.encoding import MATCH, TERM_TOKENS

TUNING_RATE = 5e-4
TUNING_EPOCHS = 15
"""Of what is fine-tuned on."""
FIGURES = ("bleu", "chrf", "exact", "loss")


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidConfig:
    metric: Annotated[str, FIGURES] = "bleu"
    """Which figure says that a model is better."""
    beam: int = 1
    """Beam of the decoding while training; 1 is greedy, and quick."""
    sentences: int = 1000
    """At most so many are decoded."""

    def __post_init__(self) -> None:
        check_metric("translate", self.metric, FIGURES)
        for name in ("beam", "sentences"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateLossConfig(LossConfig):
    label_smoothing: float = 0.1
    """Share of the probability that is spread over the whole vocabulary."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateRecipe(Recipe):
    task: Literal["translate"] = "translate"
    data: MixedPairsConfig
    model: TranslatorConfig = field(default_factory=TranslatorConfig)
    loss: TranslateLossConfig = field(default_factory=TranslateLossConfig)
    valid: ValidConfig = field(default_factory=ValidConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        if self.model.adapter.rank and self.optimizer.kind != "adam":
            raise ValueError(f"optimizer.kind={self.optimizer.kind!r} beside model.adapter: choose adam")
        if self.model.adapter.rank and self.average.start:
            raise ValueError(
                f"average.start={self.average.start} beside model.adapter: adapters start at nothing; lower "
                "model.adapter.alpha instead"
            )
        for name in ("layer_decay", "head_rate"):
            if getattr(self.optimizer, name) != 1:
                raise ValueError(
                    f"optimizer.{name}={getattr(self.optimizer, name)} is for fine-tuning an encoder: "
                    "leave it out"
                )


def _plain(plain: dict[str, Any]) -> dict[str, Any]:
    refuse_tokenizer(plain)
    data = plain["data"]
    if isinstance(data, Mapping):
        files = {split: plain_files(data[split]) for split in ("train", "valid", "test") if split in data}
        mix = data.get("mix")
        if isinstance(mix, Mapping) and "train" in mix:
            files["mix"] = {**mix, "train": plain_files(mix["train"])}
        plain = {**plain, "data": {**data, **files}}
    checked = from_dict(TranslateRecipe, plain)
    languages = checked.data.languages
    extra = checked.tokenizer.specials.extra or tuple(f"<2{language}>" for language in languages)
    if checked.data.fuzzy.share and MATCH not in extra:
        extra = (*extra, MATCH)
    if checked.data.terms.share:
        extra = (*extra, *(token for token in TERM_TOKENS if token not in extra))
    if extra != checked.tokenizer.specials.extra and not checked.model.start:
        table = plain.get("tokenizer", {})
        specials = {**table.get("specials", {}), "extra": [*extra]}
        plain = {**plain, "tokenizer": {**table, "specials": specials}}
    return plain


def suited(
    recipe: TranslateRecipe, plain: Mapping[str, Any], pairs: int, words: int, *, cuda: bool, ranks: int
) -> dict[str, dict[str, Any]]:
    """What suits a corpus of this size on such a machine, table by table. Values that hang on others take
    those as the recipe gives them."""
    if recipe.model.start:
        return _tuning(recipe, plain, words, cuda=cuda, ranks=ranks)
    vocabulary = min(32_000, max(1000, round(pairs / 3000) * 1000))
    if cuda:
        preset = "small" if pairs < 100_000 else "base"
        tokens, epochs = (4096, 50) if preset == "small" else (16_384, 30)
    else:
        preset = "tiny" if pairs < 200_000 else "small"
        tokens, epochs = 2048, 25
    preset = given(plain, "model", "preset", preset)
    tokens = given(plain, "batch", "tokens", tokens)
    parts = given(plain, "batch", "parts", ranks)
    epoch = max(1, words * 1.4 / (tokens * parts))
    usual = int(min(200_000, max(1000, round(epochs * epoch, -2))))
    steps, expected = paced(plain, usual, per_second=10 if cuda else 2)
    log_every = max(1, min(100, expected // 50))
    dropout = 0.3 if pairs < 50_000 and preset != "tiny" else 0.1
    return {
        "tokenizer": {"vocabulary": vocabulary},
        "model": {"preset": preset, "dropout": dropout},
        "batch": {"tokens": tokens, "parts": parts, "seed": recipe.train.seed},
        "loss": {"r_drop": 2.5 if cuda and pairs < 200_000 else 0.0},  # it doubles the work
        "optimizer": {
            "warmup": min(4000 if preset in ("base", "big") else 1000, expected // 10),
            "learning_rate": _rate(preset, recipe),
        },
        "average": {"decay": round(min(0.9995, 1 - 10 / max(expected, 20)), 5)},
        "train": {"steps": steps, "validate_every": max(50, expected // 20), "log_every": log_every},
    }


def _tuning(
    recipe: TranslateRecipe, plain: Mapping[str, Any], words: int, *, cuda: bool, ranks: int
) -> dict[str, dict[str, Any]]:
    """For a translator that is fine-tuned."""
    tokens = given(plain, "batch", "tokens", 4096 if cuda else 2048)
    parts = given(plain, "batch", "parts", ranks)
    epoch = max(1, words * 1.4 / (tokens * parts))
    usual = int(min(50_000, max(100, round(TUNING_EPOCHS * epoch, -1))))
    steps, expected = paced(plain, usual, per_second=10 if cuda else 2)
    return {
        "batch": {"tokens": tokens, "parts": parts, "seed": recipe.train.seed},
        "optimizer": {
            "warmup": max(1, min(400, expected // 10)),
            "learning_rate": suited_rate(plain, TUNING_RATE),
        },
        "average": {"decay": round(min(0.9995, 1 - 10 / max(expected, 20)), 5)},
        "train": {
            "steps": steps,
            "validate_every": max(20, expected // 10),
            "log_every": max(1, min(100, expected // 50)),
        },
    }


def _rate(preset: str, recipe: TranslateRecipe) -> float:
    if recipe.optimizer.schedule == "paper":
        return 1.0
    return {"tiny": 2e-3, "small": 2e-3, "base": 7e-4, "big": 5e-4, "recurrent": 1e-3}[preset]


RECIPE = RecipeSpec(TranslateRecipe, suited, _plain)
