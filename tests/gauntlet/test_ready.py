"""How long it takes until a service answers: little more than opening its model from Python."""

import subprocess
import sys
import time

import pytest

from tests.examples import MINILM
from tests.serve.server import serving

TURNS = 5
MOST = 1.5
"""Times the load."""


def loaded() -> float:
    """Seconds of a fresh process that opens the model, and ends."""
    began = time.perf_counter()
    code = f"import regard; regard.load({str(MINILM)!r}, device='cpu')"
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def ready() -> float:
    began = time.perf_counter()
    with serving(f"minilm={MINILM}") as running:
        assert running.get("/ready").status_code == 200
        return time.perf_counter() - began


@pytest.mark.alone
def test_a_service_is_ready_soon_after_its_model_is_open() -> None:
    """The quickest of each count: other processes only add to either."""
    pairs = [(loaded(), ready()) for _ in range(TURNS)]
    alone, served = (min(each) for each in zip(*pairs, strict=True))
    assert served < MOST * alone, f"{served:.2f} s until it is ready, {alone:.2f} s from Python"
