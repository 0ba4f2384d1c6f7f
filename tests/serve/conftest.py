"""A service of small models of every kind, and the models themselves."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import regard
from tests.serve import words
from tests.serve.models import NAMED, make
from tests.serve.server import Running, serving


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder that holds them, by name; made once, whichever process comes first."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "served"
    with FileLock(f"{folder}.lock"):
        if not (folder / "done").is_file():
            make(folder)
            (folder / "done").touch()
    return folder / "runs"


@pytest.fixture(scope="session")
def server(models: Path) -> Iterator[Running]:
    with serving(*(f"{name}={models / name}" for name in NAMED), "--max-sending", "3") as running:
        yield running


@pytest.fixture(scope="session")
def alone(models: Path) -> Callable[[str], Any]:
    """A model by its name, in Python."""
    return cache(lambda name: regard.load(models / name, device="cpu"))


@pytest.fixture(scope="session")
def word_model(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A translator of single words, made once."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "words"
    with FileLock(f"{folder}.lock"):
        if not (folder / "done").is_file():
            words.make(folder)
            (folder / "done").touch()
    return folder / "words"


@pytest.fixture(scope="session")
def translating(word_model: Path) -> Iterator[Running]:
    """A service of it alone."""
    with serving(f"en-de={word_model}") as running:
        yield running
