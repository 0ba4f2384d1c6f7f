"""On an NVIDIA GPU: every task of an encoder trains in captured steps as it does in plain ones."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from regard.tasks import run
from tests.tasks.answering import town
from tests.tasks.encoders import test_embed, test_pretrain, test_tag, toys

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("unchecked"),
]

STEPS = 12
STILL = {"dropout": 0.0}


def recipe(task: str, folder: Path, **tables: dict[str, Any]) -> dict[str, Any]:
    match task:
        case "classify":
            return toys.recipe(folder, head=STILL, **tables)
        case "agree":
            return toys.recipe(folder, head=STILL, loss={"r_drop": 1.0}, **tables)
        case "number":
            own = toys.recipe(folder, label=lambda text: len(text.split()), head=STILL, **tables)
            return {**own, "data": {**own["data"], "problem": "number"}}
        case "tag" | "tag by means":
            words = "first" if task == "tag" else "mean"
            where = {"root": str(folder)}
            return test_tag.plain_recipe(folder, data=where, head={"words": words, **STILL}, **tables)
        case "pretrain" | "next sentences":
            objective = {"next_sentence": task != "pretrain"}
            return {"task": "pretrain", **test_pretrain.recipe(folder, objective=objective, **tables)}
        case "answer" | "answer, agree":
            loss = {"r_drop": 0.0 if task == "answer" else 1.0}
            return town.recipe(folder, impossible=True, loss=loss, **tables)
        case "tag numbers":
            return test_tag.of_numbers(folder, head=STILL, **tables)
        case "embed":
            return test_embed.recipe(folder, **tables)
    raise ValueError(task)


def course(plain: dict[str, Any], out: Path) -> list[float]:
    """Loss and length of the gradient of every step."""
    run.fit(plain, out=out, device="cuda", console=Console(file=io.StringIO()))
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    found = [line[name] for line in lines if "norm" in line for name in ("loss", "norm")]
    assert len(found) == 2 * STEPS
    return found


@pytest.mark.parametrize(("precision", "limit"), [("float32", 1e-3), ("bfloat16", 3e-2)])
@pytest.mark.parametrize(
    "task",
    [
        *("classify", "agree", "number", "tag", "tag by means", "tag numbers", "answer", "answer, agree"),
        *("pretrain", "next sentences", "embed"),
    ],
)
def test_captured_steps_are_the_steps_as_they_are_written(
    task: str, precision: str, limit: float, tmp_path: Path
) -> None:
    def found(capture: str) -> list[float]:
        settings = {"steps": STEPS, "validate_every": 6, "log_every": 1, "save_every": 0}
        how = {"capture": capture, "compile": "no", "precision": precision}
        plain = recipe(task, tmp_path, train={**settings, **how}, model=STILL)
        return course(plain, tmp_path / capture)

    assert found("yes") == pytest.approx(found("no"), rel=limit, abs=limit)
