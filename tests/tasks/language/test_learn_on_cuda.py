"""On an NVIDIA GPU: a language model trains in captured steps as it does in plain ones."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from regard.tasks import run
from tests.tasks.language import test_learn

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("unchecked"),
]


@pytest.mark.parametrize(("precision", "limit"), [("float32", 1e-3), ("bfloat16", 3e-2)])
@pytest.mark.parametrize("make", ["gpt2", "modern"])
@pytest.mark.parametrize("across", [True, False])
@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_captured_steps_are_the_steps_as_they_are_written(
    kind: str, across: bool, make: str, precision: str, limit: float, tmp_path: Path
) -> None:
    def course(capture: str) -> list[float]:
        how: dict[str, Any] = {"capture": capture, "compile": "no", "precision": precision}
        plain = test_learn.recipe(
            tmp_path,
            model={"make": make},
            context={"across": across},
            optimizer={"kind": kind},
            train={"steps": 12, "validate_every": 6, "log_every": 1, **how},
        )
        run.fit(plain, out=tmp_path / capture, device="cuda", console=Console(quiet=True))
        lines = [json.loads(line) for line in (tmp_path / capture / "log.jsonl").read_text().splitlines()]
        return [line["loss"] for line in lines if "norm" in line]

    assert course("yes") == pytest.approx(course("no"), rel=limit, abs=limit)
