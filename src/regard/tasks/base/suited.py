"""What recipes share: short ways to write something, and how much training suits so much text."""

from collections.abc import Mapping
from typing import Any

from regard.config import ConfigError, to_dict
from regard.settings.shape import EncoderShape
from regard.tasks.base.recipe import Tables
from regard.text import TokenizerConfig

RATES = {"tiny": 1e-3, "mini": 5e-4, "small": 5e-4, "base": 2e-4, "recurrent": 2e-3}
"""The peaks of learning rates that suit the presets, from nothing."""


def given(plain: Mapping[str, Any], table: str, key: str, otherwise: Any) -> Any:
    """What the recipe says, or this."""
    return plain[table][key] if key in plain.get(table, {}) else otherwise


def suited_rate(plain: Mapping[str, Any], peak: float) -> float:
    """The peak of the learning rate; the paper's schedule has none, and takes a factor instead: 1."""
    return 1.0 if given(plain, "optimizer", "schedule", None) == "paper" else peak


def refuse_tokenizer(plain: Mapping[str, Any]) -> None:
    """A start brings its tokenizer along; a recipe that is written out says nothing new about it."""
    model, tokenizer = plain.get("model"), plain.get("tokenizer")
    if not isinstance(model, Mapping) or not model.get("start") or not isinstance(tokenizer, Mapping):
        return
    usual = to_dict(TokenizerConfig())
    for key, value in tokenizer.items():
        if key not in usual or value != usual[key]:
            raise ConfigError(
                f"tokenizer.{key} is set beside model.start: the tokenizer is that of the model it starts "
                "from; leave one of the two out"
            )


def as_list(plain: dict[str, Any], *keys: str) -> dict[str, Any]:
    """A single file may be written without brackets."""
    data = plain["data"]
    if not isinstance(data, Mapping):
        return plain
    lists = {key: [data[key]] for key in keys if isinstance(data.get(key), str)}
    return {**plain, "data": {**data, **lists}}


def plain_lists(plain: dict[str, Any]) -> dict[str, Any]:
    """The recipe of a task that names its files one by one and may have a start."""
    refuse_tokenizer(plain)
    return as_list(plain, "train", "valid", "test")


def paced(plain: Mapping[str, Any], steps: int, *, per_second: int) -> tuple[int, int]:
    """train.steps, `steps` unless given; and how many there will be at least, for values that hang on that.
    Where the recipe limits nothing but the time, the time decides."""
    steps = given(plain, "train", "steps", steps)
    minutes = given(plain, "train", "minutes", 0)
    if minutes and "steps" not in plain.get("train", {}):
        return 1_000_000, min(steps, max(100, round(60 * minutes * per_second)))
    return steps, steps


def suited_texts(recipe: Any, plain: Mapping[str, Any], examples: int, words: int, **how: Any) -> Tables:
    """`suited_encoder` for a recipe whose examples are texts of at most data.longest tokens."""
    how |= {"seed": recipe.train.seed, "longest": recipe.data.longest}
    return suited_encoder(recipe.model, plain, examples, words, **how)


def suited_encoder(
    shape: EncoderShape,
    plain: Mapping[str, Any],
    examples: int,
    words: int,
    *,
    cuda: bool,
    ranks: int,
    seed: int,
    at_once: int = 32,
    longest: int = 0,
    epochs: tuple[int, int] = (3, 15),
    rate: float = 5e-5,
) -> Tables:
    """For fine-tuning and training from nothing: batches of about `at_once` texts, so many epochs (with a
    start, without), and this learning rate (with a start). A batch holds at least `longest` tokens."""
    started = bool(shape.start)
    preset = given(plain, "model", "preset", "mini" if cuda else "tiny")
    tokens = 1.4 * words + 2 * examples
    mean = tokens / max(examples, 1)
    usual = int(min(16_384, max(512, round(at_once * mean, -1))))
    budget = given(plain, "batch", "tokens", max(usual, longest))
    parts = given(plain, "batch", "parts", ranks)
    epoch = max(1.0, tokens / (budget * parts))
    many = epochs[0] if started else epochs[1]
    steps, expected = paced(plain, int(max(60, round(many * epoch))), per_second=40 if cuda else 2)
    often, log_every = -(-expected // (6 if started else 10)), max(1, min(100, expected // 50))
    tables: Tables = {
        "model": {} if started else {"preset": preset},
        "batch": {"tokens": budget, "parts": parts, "seed": seed},
        "optimizer": {
            "learning_rate": suited_rate(plain, rate if started else RATES[preset]),
            "schedule": "linear",
            "warmup": max(1, expected // 10),
            "betas": [0.9, 0.98],
            "eps": 1e-8,
            "weight_decay": 0.01,
        },
        "average": {"decay": round(min(0.9995, 1 - 10 / max(expected, 20)), 5)},
        "train": {"steps": steps, "validate_every": max(20, often), "log_every": log_every},
    }
    if not started:
        tables["tokenizer"] = {"vocabulary": int(min(30_000, max(1000, round(words / 30_000) * 1000)))}
    return tables
