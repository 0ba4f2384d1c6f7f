"""A translator that has learned a made-up language word by word, and so knows which word became which."""

from pathlib import Path

from rich.console import Console

import regard
from tests.tasks import tiny

ENDS = (".", "?", ".", "")
ASKED = tuple(
    text + end
    for text in (
        "a dog sees a red tree",
        "a dog sees a blue tree",
        "a dog sees a red house",
        "old dog sees big house",
    )
    for end in ("", ".", "?")
)
"""What tests ask for."""


def german(text: str) -> str:
    """What it makes of a text of its words."""
    return " ".join(_german(word) for word in text.split())


def _german(word: str) -> str:
    bare = word.rstrip(".?")
    return tiny.WORDS[bare] + word[len(bare) :]


def make(folder: Path) -> Path:
    """The model folder, below this one; takes some seconds. What tests ask for is among what it learns, so
    that it knows it on every processor."""
    asked = [(text, german(text)) for text in ASKED]
    sides = [
        [(one + end, other + end) for (one, other), end in zip(pairs, ENDS * len(pairs), strict=False)]
        for pairs in (tiny.pairs(600), tiny.pairs(20, start=700))
    ]
    sides[0] += asked * 10
    data = {
        "train": tiny.write_pairs(folder, "train", sides[0]),
        "valid": tiny.write_pairs(folder, "valid", sides[1]),
        "root": str(folder),
    }
    steps = 400
    plain = {
        "data": data,
        "tokenizer": {"kind": "words", "vocabulary": 60},
        "model": {"preset": "tiny", "layers": 1, "d_model": 32, "heads": 2, "d_ff": 64, "dropout": 0.0},
        "batch": {"tokens": 512},
        "optimizer": {"learning_rate": 6e-3, "warmup": 40},
        "train": {"steps": steps, "validate_every": steps},
        "average": {"kind": "none"},
        "decode": {"beam": 4},
    }
    regard.fit(plain, out=folder / "words", check=False, console=Console(quiet=True), device="cpu")
    return folder / "words"
