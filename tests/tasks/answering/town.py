"""A made-up town: texts that say what there is, and questions whose answers stand in them."""

import contextlib
import io
import json
import random
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.cli import build
from regard.tasks import run
from regard.train.trainer import Outcome

KINDS = {
    "animal": ("cat", "dog", "fox"),
    "house": ("hut", "barn", "tower"),
    "vehicle": ("car", "boat", "bus"),
    "fruit": ("plum", "pear", "fig"),
}
COLOURS = ("red", "old", "big", "new")
TINY: dict[str, Any] = {"preset": "tiny", "d_model": 32, "heads": 2, "layers": 2, "d_ff": 64, "dropout": 0.0}


def questions(count: int, seed: int = 0, *, impossible: bool = False) -> list[dict[str, Any]]:
    """In SQuAD's words: which animal? With `impossible`, a third ask for a kind of which there is none."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        kinds = chance.sample([*KINDS], 4)
        things = [f"{chance.choice(COLOURS)} {chance.choice(KINDS[kind])}" for kind in kinds[:3]]
        context = " and ".join(f"a {thing}" for thing in things)
        absent = impossible and number % 3 == 0
        place = chance.randrange(3)
        answers = [] if absent else [{"text": things[place], "answer_start": context.index(things[place])}]
        asked = kinds[3] if absent else kinds[place]
        qa = {"id": f"q{number}", "question": f"which {asked} ?", "answers": answers, "is_impossible": absent}
        found.append({"context": context, "qas": [qa]})
    return found


def write(path: Path, paragraphs: list[dict[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": "v2.0", "data": [{"title": "Town", "paragraphs": paragraphs}]}))
    return path.name


def recipe(folder: Path, *, impossible: bool = False, **tables: dict[str, Any]) -> dict[str, Any]:
    train = write(folder / "train.json", questions(400, impossible=impossible))
    valid = write(folder / "valid.json", questions(60, seed=1, impossible=impossible))
    plain: dict[str, Any] = {
        "task": "answer",
        "data": {"train": train, "valid": valid, "root": str(folder)},
        "tokenizer": {"kind": "words", "vocabulary": 60},
        "model": TINY,
        "batch": {"tokens": 800},
        "optimizer": {"learning_rate": 5e-3, "warmup": 20},
        "train": {"steps": 300, "validate_every": 100, "log_every": 50},
    }
    for name, table in tables.items():
        plain[name] = {**plain.get(name, {}), **table}
    return plain


def train(plain: Any, out: Path, **settings: Any) -> tuple[Outcome, str]:
    """And what was said."""
    said = io.StringIO()
    outcome = run.fit(plain, out=out, device="cpu", console=Console(file=said, width=200), **settings)
    return outcome, said.getvalue()


def at_the_prompt(*words: Any) -> str:
    """What `regard` prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        build()([str(word) for word in words], standalone_mode=False)
    return said.getvalue()
