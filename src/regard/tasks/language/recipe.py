"""The recipe of a language model: its tables, and the values that suit its text."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from regard.config import check_choices
from regard.settings.shape import LanguageShape
from regard.settings.training import SmoothingConfig
from regard.tasks.base.documents import DocumentsConfig, is_table
from regard.tasks.base.recipe import Recipe, RecipeSpec, Tables
from regard.tasks.base.suited import given, paced, plain_lists, suited_rate

STARTED = {"text": (512, 1024), "messages": (1024, 2048)}
"""Tokens of a context for a model that has learned longer ones, on a CPU and on CUDA: more cost little, and a
dialogue should be whole. Others learn from shorter ones first."""
RATES = {"tiny": 2e-3, "small": 1e-3, "base": 6e-4, "recurrent": 2e-3}
STARTED_RATE = 1e-4


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextConfig:
    tokens: int = 256
    """The size of a block of text, and the most tokens that a new model reads at once; one that is started
    from reads as many as before, or these if they are more."""
    across: bool = True
    """A block of text runs on over the ends of documents. false: attention stays inside a document, and each
    begins a block of its own."""

    def __post_init__(self) -> None:
        if self.tokens < 2:
            raise ValueError(f"tokens={self.tokens} leaves nothing to predict from: choose 2 or more")


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
class LanguageRecipe(Recipe):
    task: Literal["language"] = "language"
    data: DocumentsConfig
    model: LanguageShape = field(default_factory=LanguageShape)
    context: ContextConfig = field(default_factory=ContextConfig)
    loss: SmoothingConfig = field(default_factory=SmoothingConfig)
    valid: LanguageValidConfig = field(default_factory=LanguageValidConfig)

    def __post_init__(self) -> None:
        if self.data.longest:
            raise ValueError(
                f"data.longest={self.data.longest}: the length of a language model's blocks is "
                "context.tokens; set that"
            )
        if self.model.adapter.rank and self.optimizer.kind != "adam":
            raise ValueError(f"optimizer.kind={self.optimizer.kind!r} beside model.adapter: choose adam")
        if self.model.adapter.rank and self.average.start:
            raise ValueError(
                f"average.start={self.average.start} beside model.adapter: adapters start at nothing; lower "
                "model.adapter.alpha instead"
            )
        if self.data.documents == "messages" and not self.model.start:
            raise ValueError(
                "data.documents='messages' takes the chat template of a model to start from: set model.start"
            )
        for name in ("layer_decay", "head_rate"):
            if getattr(self.optimizer, name) != 1:
                raise ValueError(f"optimizer.{name} is for encoders that get a new head: leave it out")
        if self.valid.stride > self.context.tokens:
            raise ValueError(
                f"valid.stride={self.valid.stride} would pass over text: choose at most "
                f"context.tokens={self.context.tokens}"
            )


def within(recipe: LanguageRecipe, longest: int) -> LanguageRecipe:
    """With a context that nobody has set no longer than the model reads that is started from."""
    return replace(recipe, context=replace(recipe.context, tokens=min(recipe.context.tokens, longest)))


def _plain(plain: dict[str, Any]) -> dict[str, Any]:
    """Unless told otherwise, a file is a document."""
    plain = plain_lists(plain)
    data = plain["data"]
    if isinstance(data, Mapping) and "documents" not in data:
        names = data.get("train")
        named = names if isinstance(names, list) and data.get("format") != "lines" else []
        tables = any(isinstance(name, str) and is_table(name) for name in named)
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
    usual_contexts = STARTED.get(recipe.data.documents, STARTED["text"]) if started else (128, 256)
    usual = usual_contexts[cuda]
    context = given(plain, "context", "tokens", min(usual, given(plain, "batch", "tokens", usual)))
    budget = given(plain, "batch", "tokens", max(context, 16_384 if cuda else 2048))
    parts = given(plain, "batch", "parts", ranks)
    epoch = max(1.0, tokens / (budget * parts))
    epochs = (3 if cuda else 1) if started else (30 if cuda else 8)
    most = 50_000 if cuda else 4000
    wanted = int(min(most, max(200, round(epochs * epoch))))
    steps, expected = paced(plain, wanted, per_second=60 if cuda else 5)
    log_every = max(1, min(100, expected // 50))
    again = expected > 1.5 * epoch
    schedule = given(plain, "optimizer", "schedule", "cosine")
    tables: Tables = {
        "model": {} if started else {"preset": preset, "dropout": 0.1 if again else 0.0},
        "context": {"tokens": context},
        "batch": {"tokens": budget, "parts": parts, "seed": recipe.train.seed},
        "optimizer": {
            "learning_rate": suited_rate(plain, STARTED_RATE if started else RATES[preset]),
            "schedule": "cosine",
            "warmup": max(1, min(1000, expected // 5, max(50, round(0.04 * expected)))),
            **({"final": 0.1} if schedule in ("cosine", "linear") else {}),
            "betas": [0.9, 0.98],
            "eps": 1e-8,
            "weight_decay": 0.1,
        },
        "average": {"decay": round(min(0.999, 1 - 10 / max(expected, 20)), 5)},
        "train": {"steps": steps, "validate_every": max(50, expected // 10), "log_every": log_every},
    }
    if not started:
        tables["tokenizer"] = {"kind": kind}
        if kind != "characters":
            tables["tokenizer"]["vocabulary"] = int(min(30_000, max(1000, round(words / 400_000) * 1000)))
    return tables


RECIPE = RecipeSpec(LanguageRecipe, _suited, _plain, 'train = "train.txt"')
