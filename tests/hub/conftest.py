"""What the tests of folders share: the libraries that the folders are of, without a network."""

import importlib
import os
import warnings
from types import ModuleType

import pytest
from rich.console import Console


def _imported(name: str) -> ModuleType:
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries' own imports
        return importlib.import_module(name)


@pytest.fixture(scope="session")
def hf() -> ModuleType:
    return _imported("transformers")


@pytest.fixture(scope="session")
def st(hf: ModuleType) -> ModuleType:
    return _imported("sentence_transformers")


@pytest.fixture
def console() -> Console:
    return Console(quiet=True)
