"""The recipe of a masked language model: its tables, and the values that suit its text."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from regard.config import check_choices
from regard.data import BatchConfig
from regard.data.corruption import MaskingConfig
from regard.models.shape import EncoderShape
from regard.tasks.documents import DocumentsConfig
from regard.tasks.encoders.recipe import as_list, given, refuse_tokenizer
from regard.tasks.recipe import Kind, Tables
from regard.text import TokenizerConfig
from regard.train.average import AverageConfig
from regard.train.optim import OptimizerConfig
from regard.train.trainer import TrainConfig

RATES = {"tiny": 1e-3, "mini": 1e-3, "small": 5e-4, "base": 3e-4, "recurrent": 2e-3}
STARTED_RATE = 1e-4
"""For a model that goes on with other text (Gururangan et al. 2020)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainObjective:
    share: float = 0.15
    """Of the tokens, special ones aside, so many are chosen to be predicted."""
    mask: float = 0.8
    """Of the chosen ones, so many are replaced by the mask."""
    random: float = 0.1
    """Of the chosen ones, so many are replaced by a token drawn at random; the rest stays as it is."""
    unit: Literal["token", "word", "span"] = "token"
    """What is chosen as a whole: a token, a word, or a run of words."""
    span: float = 3.8
    """Mean length of a run of words; no run is longer than 10."""
    fresh: bool = True
    """Choose anew in every epoch (RoBERTa), or (false) among a few `copies` in turn (BERT)."""
    copies: int = 10
    """Different choices for each sequence where they are not fresh; 1 makes all epochs the same."""
    next_sentence: bool = False
    """Also tell whether one piece of text follows another (BERT); half of the time it does."""
    next_weight: float = 1.0
    """Of the mean loss of next sentences beside that of masked tokens."""

    def __post_init__(self) -> None:
        check_choices(self)
        self.masking()
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
    guessed, or the share of next sentences that is told right."""
    sequences: int = 2000
    """At most so many are read."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.sequences < 1:
            raise ValueError(f"sequences={self.sequences} must be at least 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainRecipe:
    task: Literal["pretrain"] = "pretrain"
    data: DocumentsConfig
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: EncoderShape = field(default_factory=EncoderShape)
    objective: PretrainObjective = field(default_factory=PretrainObjective)
    batch: BatchConfig = field(default_factory=BatchConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    average: AverageConfig = field(default_factory=AverageConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    valid: PretrainValidConfig = field(default_factory=PretrainValidConfig)

    def __post_init__(self) -> None:
        if self.valid.metric == "next_accuracy" and not self.objective.next_sentence:
            raise ValueError(
                "valid.metric='next_accuracy', but objective.next_sentence=false: set it to true, or choose "
                "loss or accuracy"
            )


def _plain(plain: dict[str, Any]) -> dict[str, Any]:
    refuse_tokenizer(plain)
    return as_list(plain, "train", "valid", "test")


def _suited(
    recipe: PretrainRecipe, plain: Mapping[str, Any], documents: int, words: int, *, cuda: bool, ranks: int
) -> Tables:
    started = bool(recipe.model.start)
    preset = given(plain, "model", "preset", _preset(words) if cuda else "tiny")
    budget = given(plain, "batch", "tokens", 8192 if cuda else 2048)
    parts = given(plain, "batch", "parts", ranks)
    epoch = max(1.0, 1.4 * words / (budget * parts))
    epochs = (20 if cuda else 3) if not started else (5 if cuda else 1)
    steps = given(plain, "train", "steps", int(min(1_000_000, max(200, round(epochs * epoch)))))
    expected = steps
    minutes = given(plain, "train", "minutes", 0)
    if minutes and "steps" not in plain.get("train", {}):
        expected, steps = min(steps, max(100, round(60 * minutes * (20 if cuda else 5)))), 1_000_000
    # What is seen once cannot be learned by heart.
    dropout = 0.0 if words >= 50_000_000 and expected <= 1.5 * epoch else 0.1
    tables: Tables = {
        "model": {} if started else {"preset": preset, "dropout": dropout},
        "batch": {"tokens": budget, "parts": parts, "seed": recipe.train.seed},
        "optimizer": {
            "learning_rate": STARTED_RATE if started else RATES[preset],
            "schedule": "linear",
            "warmup": max(1, round(0.06 * expected)),
            "betas": [0.9, 0.98],
            "eps": 1e-6,
            "weight_decay": 0.01,
        },
        "average": {"decay": round(min(0.9995, 1 - 10 / max(expected, 20)), 5)},
        "train": {
            "steps": steps,
            "validate_every": max(50, expected // 20),
            "log_every": max(1, min(100, expected // 50)),
        },
    }
    if not started:
        tables["tokenizer"] = {"vocabulary": int(min(30_000, max(1000, round(words / 400_000) * 1000)))}
    return tables


def _preset(words: int) -> str:
    return "mini" if words < 5_000_000 else "small" if words < 50_000_000 else "base"


PRETRAIN = Kind(PretrainRecipe, _suited, _plain, 'train = "train.txt"')
