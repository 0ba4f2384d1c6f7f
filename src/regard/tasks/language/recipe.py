"""The recipe of a language model: its tables, and the values that suit its text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.config import check_choices
from regard.data import BatchConfig
from regard.models.shape import LanguageShape
from regard.tasks.documents import DocumentsConfig, is_table
from regard.tasks.encoders.recipe import as_list, given, refuse_tokenizer
from regard.tasks.recipe import Kind, Tables
from regard.text import TokenizerConfig
from regard.train.average import AverageConfig
from regard.train.optim import OptimizerConfig
from regard.train.trainer import TrainConfig

RATES = {"tiny": 2e-3, "small": 1e-3, "base": 6e-4}
STARTED_RATE = 1e-4


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextConfig:
    tokens: int = 256
    """Most tokens that the model reads at once, and the size of a block of text."""
    across: bool = True
    """A block of text runs on over the ends of documents. false: attention stays inside a document, and each
    begins a block of its own."""

    def __post_init__(self) -> None:
        if self.tokens < 2:
            raise ValueError(f"tokens={self.tokens} leaves nothing to predict from: choose 2 or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageLossConfig:
    label_smoothing: float = 0.0
    """Share of the probability that is spread over the whole vocabulary."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing={self.label_smoothing} must be in [0, 1)")


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageValidConfig:
    metric: Literal["loss"] = "loss"
    """Which figure says that a model is better: the loss of a token."""
    stride: int = 0
    """Windows of text move on by so many tokens, and only these are scored: the smaller, the more each token
    has before it, and the longer it takes. 0: window beside window."""
    tokens: int = 1_000_000
    """At most about so many are read, evenly from the first to the last."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.stride < 0 or self.tokens < 1:
            raise ValueError(f"stride={self.stride} must be 0 or more, and tokens={self.tokens} 1 or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageRecipe:
    task: Literal["language"] = "language"
    data: DocumentsConfig
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: LanguageShape = field(default_factory=LanguageShape)
    context: ContextConfig = field(default_factory=ContextConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    loss: LanguageLossConfig = field(default_factory=LanguageLossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    average: AverageConfig = field(default_factory=AverageConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    valid: LanguageValidConfig = field(default_factory=LanguageValidConfig)

    def __post_init__(self) -> None:
        if self.data.longest:
            raise ValueError(
                f"data.longest={self.data.longest}: the length of a language model's blocks is "
                "context.tokens; set that"
            )
        for name in ("layer_decay", "head_rate"):
            if getattr(self.optimizer, name) != 1:
                raise ValueError(f"optimizer.{name} is for encoders that get a new head: leave it out")
        if self.valid.stride > self.context.tokens:
            raise ValueError(
                f"valid.stride={self.valid.stride} would pass over text: choose at most "
                f"context.tokens={self.context.tokens}"
            )


def _plain(plain: dict[str, Any]) -> dict[str, Any]:
    """Unless told otherwise, a file is a document."""
    refuse_tokenizer(plain)
    plain = as_list(plain, "train", "valid", "test")
    data = plain["data"]
    if isinstance(data, Mapping) and "documents" not in data:
        names = data.get("train")
        tables = isinstance(names, list) and any(isinstance(name, str) and is_table(name) for name in names)
        plain["data"] = {**data, "documents": "blank" if tables else "file"}
    return plain


def _suited(
    recipe: LanguageRecipe, plain: Mapping[str, Any], documents: int, words: int, *, cuda: bool, ranks: int
) -> Tables:
    started = bool(recipe.model.start)
    kind = given(plain, "tokenizer", "kind", "byte-bpe")
    tokens = (5.7 if kind == "characters" else 1.4) * words
    preset = given(
        plain, "model", "preset", "tiny" if not cuda else "small" if words < 50_000_000 else "base"
    )
    context = given(plain, "context", "tokens", 256 if cuda else 128)
    budget = given(plain, "batch", "tokens", max(context, 16_384 if cuda else 2048))
    parts = given(plain, "batch", "parts", ranks)
    epoch = max(1.0, tokens / (budget * parts))
    epochs = (3 if cuda else 1) if started else (30 if cuda else 8)
    most = 50_000 if cuda else 4000
    steps = given(plain, "train", "steps", int(min(most, max(200, round(epochs * epoch)))))
    expected = steps
    minutes = given(plain, "train", "minutes", 0)
    if minutes and "steps" not in plain.get("train", {}):
        expected, steps = min(steps, max(100, round(60 * minutes * (60 if cuda else 5)))), 1_000_000
    again = expected > 1.5 * epoch
    tables: Tables = {
        "model": {} if started else {"preset": preset, "dropout": 0.1 if again else 0.0},
        "context": {"tokens": context},
        "batch": {"tokens": budget, "parts": parts, "seed": recipe.train.seed},
        "optimizer": {
            "learning_rate": STARTED_RATE if started else RATES[preset],
            "schedule": "cosine",
            "warmup": max(1, min(1000, expected // 5, max(50, round(0.04 * expected)))),
            "final": 0.1,
            "betas": [0.9, 0.98],
            "eps": 1e-8,
            "weight_decay": 0.1,
        },
        "average": {"decay": round(min(0.999, 1 - 10 / max(expected, 20)), 5)},
        "train": {
            "steps": steps,
            "validate_every": max(50, expected // 10),
            "log_every": max(1, min(100, expected // 50)),
        },
    }
    if not started:
        tables["tokenizer"] = {"kind": kind}
        if kind != "characters":
            tables["tokenizer"]["vocabulary"] = int(min(30_000, max(1000, round(words / 400_000) * 1000)))
    return tables


LANGUAGE = Kind(LanguageRecipe, _suited, _plain, 'train = "train.txt"')
