"""Every task trains a model that is cut as it trains a whole one: `train.fsdp`."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from rich.console import Console

import regard
from regard.tasks.registry import all_tasks
from regard.train.report import read_log
from tests.settings.corpora import recipes

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("cut")
    return folder, recipes(folder)


@pytest.mark.parametrize("task", [task.name for task in all_tasks()])
def test_a_task_makes_the_same_of_a_model_that_is_cut(world: tuple[Path, Any], task: str) -> None:
    folder, every = world
    found = []
    for way in ("no", "yes"):
        own = {**every[task].get("train", {}), "log_every": 1}
        own |= {"fsdp": way, "activation_checkpointing": way == "yes"}
        out = folder / f"{task}-{way}"
        regard.fit(
            {**every[task], "train": own},
            out=out,
            check=False,
            device="cpu",
            console=Console(file=io.StringIO()),
        )
        log = read_log(out)
        found.append(
            (
                [each["loss"] for each in log if "loss" in each],
                [each["valid"] for each in log if "valid" in each],
            )
        )
        assert isinstance(regard.load(out), object)
    assert not dist.is_initialized()
    (losses, valid), (cut, shown) = found
    assert cut == pytest.approx(losses, rel=1e-6)
    for one, other in zip(valid, shown, strict=True):
        assert other == pytest.approx(one, rel=1e-4)
    assert [path.name for path in (folder / f"{task}-yes").glob("checkpoint*")] == [
        f"checkpoint-{len(losses)}"
    ]
