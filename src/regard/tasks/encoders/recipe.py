"""What the recipes of an encoder's tasks share: how much training suits so much text."""

from collections.abc import Mapping
from typing import Any

from regard.config import ConfigError, to_dict
from regard.models.shape import EncoderShape
from regard.tasks.recipe import Tables
from regard.text import TokenizerConfig


def given(plain: Mapping[str, Any], table: str, key: str, otherwise: Any) -> Any:
    """What the recipe says, or this."""
    return plain[table][key] if key in plain.get(table, {}) else otherwise


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
) -> Tables:
    """For fine-tuning and training from nothing: batches of about `at_once` texts, so many epochs (with a
    start, without). A batch holds at least `longest` tokens."""
    started = bool(shape.start)
    preset = given(plain, "model", "preset", "mini" if cuda else "tiny")
    tokens = 1.4 * words + 2 * examples
    mean = tokens / max(examples, 1)
    usual = int(min(16_384, max(512, round(at_once * mean, -1))))
    budget = given(plain, "batch", "tokens", max(usual, longest))
    parts = given(plain, "batch", "parts", ranks)
    epoch = max(1.0, tokens / (budget * parts))
    many = epochs[0] if started else epochs[1]
    steps = given(plain, "train", "steps", int(max(60, round(many * epoch))))
    minutes = given(plain, "train", "minutes", 0)
    if minutes and "steps" not in plain.get("train", {}):
        expected, steps = min(steps, max(100, round(60 * minutes * (40 if cuda else 2)))), 1_000_000
    else:
        expected = steps
    tables: Tables = {
        "model": {} if started else {"preset": preset},
        "batch": {"tokens": budget, "parts": parts, "seed": seed},
        "optimizer": {
            "learning_rate": _rate(preset, started=started),
            "schedule": "linear",
            "warmup": max(1, expected // 10),
            "betas": [0.9, 0.98],
            "eps": 1e-8,
            "weight_decay": 0.01,
        },
        "average": {"decay": round(min(0.9995, 1 - 10 / max(expected, 20)), 5)},
        "train": {
            "steps": steps,
            "validate_every": max(20, -(-expected // (6 if started else 10))),
            "log_every": max(1, min(100, expected // 50)),
        },
    }
    if not started:
        tables["tokenizer"] = {"vocabulary": int(min(30_000, max(1000, round(words / 30_000) * 1000)))}
    return tables


def _rate(preset: str, *, started: bool) -> float:
    if started:
        return 5e-5
    return {"tiny": 1e-3, "mini": 5e-4, "small": 5e-4, "base": 2e-4, "recurrent": 2e-3}[preset]
