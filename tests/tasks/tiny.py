"""A made-up language pair, some hundred sentences of it, and the smallest recipe that learns from them."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.store import Column

WORDS = {
    "a": "ein",
    "red": "rot",
    "blue": "blau",
    "house": "haus",
    "tree": "baum",
    "big": "gross",
    "dog": "hund",
    "sees": "sieht",
    "old": "alt",
    "river": "fluss",
}


@cache
def _sentences() -> list[tuple[str, ...]]:
    """No two are alike."""
    chance = random.Random(0)
    drawn = (tuple(chance.choices(list(WORDS), k=chance.randint(2, 7))) for _ in range(1000))
    return list(dict.fromkeys(drawn))


def pairs(count: int, start: int = 0) -> list[tuple[str, str]]:
    """So many, from this one on."""
    chosen = _sentences()[start : start + count]
    return [(" ".join(words), " ".join(WORDS[word] for word in words)) for words in chosen]


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> list[str]:
    """Two files; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for side, end in enumerate(("en", "de")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"{name}.{end}").write_text(text, encoding="utf-8")
    return [f"{name}.en", f"{name}.de"]


def recipe(folder: Path, count: int = 200, **tables: dict[str, Any]) -> dict[str, Any]:
    """Plain data; the corpus is written into the folder."""
    plain: dict[str, dict[str, Any]] = {
        "data": {"train": write_pairs(folder, "train", pairs(count)), "root": str(folder)},
        "tokenizer": {"kind": "words", "vocabulary": 40},
        "model": {"preset": "tiny", "d_model": 16, "heads": 2, "layers": 1, "d_ff": 32, "dropout": 0.2},
        "batch": {"tokens": 64},
        "optimizer": {"warmup": 5},
        "train": {"steps": 60, "validate_every": 10, "log_every": 1, "save_every": 3},
        "valid": {"sentences": 5},
        "decode": {"beam": 2},
    }
    plain["data"]["valid"] = write_pairs(folder, "valid", pairs(20, start=400))
    for name, table in tables.items():
        plain[name] = {**plain.get(name, {}), **table}
    return plain


class Columns(dict[str, Column]):
    """A store in memory: every number in it is another one."""

    @classmethod
    def of(cls, sizes: list[tuple[int, int]]) -> "Columns":
        columns = cls()
        for side, name in enumerate(("source", "target")):
            offsets = np.cumsum([0, *(size[side] for size in sizes)])
            columns[name] = Column(np.arange(1, offsets[-1] + 1) + 1000 * side, offsets)
        return columns
