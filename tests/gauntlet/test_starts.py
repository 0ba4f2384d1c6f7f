"""A command is there at once: help in 0.3 s, one sentence little later than torch is imported."""

import json
import os
import subprocess
import sys
import time

import pytest

from tests.settings.corpora import recipes
from tests.tasks.encoders import toys

ROUNDS = 5


def best(*command: str) -> float:
    """Seconds of the quickest of some, compiled to bytecode by the first as for every user."""
    found = []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(ROUNDS):
        began = time.monotonic()
        subprocess.run([sys.executable, *command], check=True, capture_output=True, env=environment)
        found.append(time.monotonic() - began)
    return min(found)


@pytest.mark.alone
def test_help_and_one_sentence_come_soon(tmp_path, record_property):
    toys.train(recipes(tmp_path / "text")["translate"], tmp_path / "model", check=False)
    shown = best("-m", "regard", "--help")
    imported = best("-c", "import torch")
    translated = best("-m", "regard", "translate", str(tmp_path / "model"), "a red house", "--device", "cpu")
    figures = {"--help, s": shown, "import torch, s": imported, "translate, s": translated}
    record_property("figures", json.dumps(figures))
    print(figures)  # noqa: T201
    assert shown < 0.3
    assert translated < 1.3 * imported
