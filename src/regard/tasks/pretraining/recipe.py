"""The recipe of a masked language model: its tables, and the values that suit its text."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from regard.config import check_choices
from regard.settings.shape import EncoderShape
from regard.settings.training import MaskingConfig
from regard.tasks.base.documents import DocumentsConfig
from regard.tasks.base.recipe import Recipe, RecipeSpec, Tables
from regard.tasks.base.suited import given, paced, plain_lists, suited_rate

RATES = {"tiny": 1e-3, "mini": 1e-3, "small": 5e-4, "base": 3e-4, "recurrent": 2e-3}
STARTED_RATE = 1e-4
"""For a model that goes on with other text (Gururangan et al. 2020)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainObjective(MaskingConfig):
    next_sentence: bool = False
    """Also tell whether one piece of text follows another (BERT); half of the time it does."""
    next_weight: float = 1.0
    """Of the mean loss of next sentences beside that of masked tokens."""

    def __post_init__(self) -> None:
        MaskingConfig.__post_init__(self)
        if not 0 < self.next_weight < math.inf:
            raise ValueError(
                f"next_weight={self.next_weight} must be greater than 0, and finite; for none, set "
                "next_sentence=false"
            )

    def masking(self) -> MaskingConfig:
        return MaskingConfig(**{spec.name: getattr(self, spec.name) for spec in fields(MaskingConfig)})


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainValidConfig:
    metric: Literal["loss", "accuracy", "next_accuracy"] = "loss"
    """Which figure says that a model is better: the loss of masked tokens, the share of them that is
    guessed, or the share of next sentences that is predicted right."""
    sequences: int = 2000
    """At most so many are read."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.sequences < 1:
            raise ValueError(f"sequences={self.sequences} must be at least 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainRecipe(Recipe):
    task: Literal["pretrain"] = "pretrain"
    data: DocumentsConfig
    model: EncoderShape = field(default_factory=EncoderShape)
    objective: PretrainObjective = field(default_factory=PretrainObjective)
    valid: PretrainValidConfig = field(default_factory=PretrainValidConfig)

    def __post_init__(self) -> None:
        if self.valid.metric == "next_accuracy" and not self.objective.next_sentence:
            raise ValueError(
                "valid.metric='next_accuracy', but objective.next_sentence=false: set it to true, or choose "
                "loss or accuracy"
            )


def _suited(
    recipe: PretrainRecipe, plain: Mapping[str, Any], documents: int, words: int, *, cuda: bool, ranks: int
) -> Tables:
    started = bool(recipe.model.start)
    preset = given(plain, "model", "preset", _preset(words) if cuda else "tiny")
    budget = given(plain, "batch", "tokens", 8192 if cuda else 2048)
    parts = given(plain, "batch", "parts", ranks)
    epoch = max(1.0, 1.4 * words / (budget * parts))
    epochs = (20 if cuda else 3) if not started else (5 if cuda else 1)
    usual = int(min(1_000_000, max(200, round(epochs * epoch))))
    steps, expected = paced(plain, usual, per_second=20 if cuda else 5)
    log_every = max(1, min(100, expected // 50))
    # What is seen once cannot be learned by heart.
    dropout = 0.0 if words >= 50_000_000 and expected <= 1.5 * epoch else 0.1
    tables: Tables = {
        "model": {} if started else {"preset": preset, "dropout": dropout},
        "batch": {"tokens": budget, "parts": parts, "seed": recipe.train.seed},
        "optimizer": {
            "learning_rate": suited_rate(plain, STARTED_RATE if started else RATES[preset]),
            "schedule": "linear",
            "warmup": max(1, round(0.06 * expected)),
            "betas": [0.9, 0.98],
            "eps": 1e-6,
            "weight_decay": 0.01,
        },
        "average": {"decay": round(min(0.9995, 1 - 10 / max(expected, 20)), 5)},
        "train": {"steps": steps, "validate_every": max(50, expected // 20), "log_every": log_every},
    }
    if not started:
        tables["tokenizer"] = {"vocabulary": int(min(30_000, max(1000, round(words / 400_000) * 1000)))}
    return tables


def _preset(words: int) -> str:
    return "mini" if words < 5_000_000 else "small" if words < 50_000_000 else "base"


RECIPE = RecipeSpec(PretrainRecipe, _suited, plain_lists, 'train = "train.txt"')
