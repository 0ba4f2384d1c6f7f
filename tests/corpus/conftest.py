"""Tiny models, and a corpus for them."""

import random
from pathlib import Path

import pytest

from regard.machine.tiny import write_tiny
from regard.text.phrasebook import phrases


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """Of all lengths, some of them empty, longer than a model can read, or strange."""
    chance = random.Random(0)
    plain = [pair.source for pair in phrases("train", 150)]
    long = [" ".join(chance.choices(plain, k=size)) for size in (2, 3, 30, 5, 40)]
    found = [*plain, *long, "", "  ", "a\u2028b", "ünïcödé \u00e9", "tab\there"] * 2
    chance.shuffle(found)
    return found


@pytest.fixture
def lines(tmp_path: Path, sentences: list[str]) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{each}\n" for each in sentences), encoding="utf-8")
    return path
