"""What a dry run says of GPUs that are not here."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from regard.cli import build
from regard.config import ConfigError, write_toml
from regard.tasks.base.job import build_trainer, workload
from regard.tasks.run import dry_run, prepare, written_recipe
from regard.train import choice, trainer
from regard.train.ranks import Ranks
from regard.train.scaling import ROOM, Cluster, memory_of, scaled
from tests.tasks import tiny


def said(folder: Path, *settings: str, budget: float | None = None, **cluster: Any) -> str:
    out = io.StringIO()
    recipe = tiny.recipe(folder / "corpus")
    for setting in settings:
        key, _, value = setting.partition("=")
        table, _, name = key.partition(".")
        recipe.setdefault(table, {})[name] = {"true": True}.get(
            value, int(value) if value.isdigit() else value
        )
    dry_run(recipe, console=Console(file=out, width=500), cluster=Cluster(**cluster), budget=budget)
    return out.getvalue()


def figures(text: str, pattern: str) -> list[float]:
    found = re.search(pattern, text)
    assert found, text
    return [float(each.replace(",", "")) for each in found.groups()]


def test_memory_speed_and_time_are_said(tmp_path: Path) -> None:
    text = said(tmp_path, "batch.parts=16", gpus=8, nodes=2, budget=1e9)
    assert "# on 16 x NVIDIA H200, 8 on each of 2 nodes; expected, not measured:" in text
    assert "# train.fsdp=auto: every rank has the whole model (DDP)" in text
    for kind in ("weights", "gradients", "optimizer", "activations"):
        assert figures(text, rf"{kind} ([\d.]+)")
    tokens, milliseconds = figures(text, r"# ([\d,]+) tokens a step \(16 x .*\) in ([\d.]+) ms")
    [speed] = figures(text, r"# ([\d,]+) tokens/s")
    assert speed == pytest.approx(1000 * tokens / milliseconds, rel=0.1)
    assert "# assumed: 150 GB in a GPU, 450 GB/s between GPUs of a node, 50 GB/s for each GPU" in text
    [minutes] = figures(text, r"# 1,000,000,000 tokens \(as given\): ([\d.]+) minutes")
    assert minutes == pytest.approx(1e9 / speed / 60, rel=0.1)


def test_a_model_that_is_cut_is_said_to_be(tmp_path: Path) -> None:
    text = said(tmp_path, "batch.parts=8", "train.fsdp=yes", "train.activation_checkpointing=true", gpus=8)
    assert "# train.fsdp=yes: the model is cut over ranks (FSDP)" in text
    assert "gathered" in text
    assert "between GPUs meanwhile" in text
    assert "20 for each weight, after Chinchilla" in text


def test_a_limit_of_time_ends_what_is_foreseen(tmp_path: Path) -> None:
    text = said(tmp_path, "batch.parts=8", "train.minutes=2", "train.steps=100000000", gpus=8)
    assert "steps in train.minutes=2, validations not counted): 2.0 minutes" in text
    assert "steps of this recipe" not in text


def test_other_gpus_and_links_are_reckoned_with(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(write_toml(tiny.recipe(tmp_path / "corpus")))
    own = ["--gpu-memory", "24", "--links", "25,0.01"]
    done = CliRunner().invoke(
        build(), ["train", str(recipe), "batch.parts=16", "--dry-run", "--gpus", "8", "--nodes", "2", *own]
    )
    assert done.exit_code == 0, done.output
    assert "GiB of 22" in done.output
    assert "# assumed: 24 GB in a GPU, 25 GB/s between GPUs of a node, 0.01 GB/s for each GPU" in done.output
    [found] = figures(done.output, r"([\d.]+) between GPUs")
    [usual] = figures(said(tmp_path, "batch.parts=16", gpus=8, nodes=2), r"([\d.]+) between GPUs")
    assert found > 3 * usual


@pytest.mark.parametrize("parts", [8, 64])
def test_training_decides_as_the_dry_run_says(tmp_path: Path, parts: int, monkeypatch: Any) -> None:
    """By one part, whatever the number of parts: they come one after the other."""
    recipe = tiny.recipe(tmp_path / "corpus")
    recipe.setdefault("batch", {})["parts"] = parts
    written = written_recipe(recipe, (), tmp_path / "out", resume=False)
    job = prepare(written, tmp_path / "out", Ranks.join("cpu"), Console(quiet=True))
    given: list[Any] = []

    def asked(*facts: Any) -> bool:
        given.append(facts)
        return False

    monkeypatch.setattr(trainer, "is_sharded", asked)
    build_trainer(job, tmp_path / "out", Console(quiet=True))
    [(config, average, _, work)] = given
    assert work() == workload(job)
    assert work().tokens == job.feed.plan.slots[-1]
    needed = memory_of(work(), "ddp", 8, average=average).total / ROOM
    eight = Ranks(0, 8, torch.device("cuda"))
    for room, way in ((needed * 1.001, "ddp"), (needed * 0.999, "fsdp")):
        monkeypatch.setattr(choice, "room_of", lambda _, room=room: room)
        monkeypatch.setattr(Ranks, "gathered", lambda _, own: [own] * 8)
        assert choice.is_sharded(config, average, eight, work) == (way == "fsdp")
        assert scaled(work(), Cluster(gpus=8, memory=room), parts=parts // 8, average=average).way == way


def test_parts_that_ranks_cannot_share_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"16 ranks cannot share batch\.parts=3 evenly: choose a multiple of 16"
    ):
        said(tmp_path, "batch.parts=3", gpus=8, nodes=2)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--gpus", "8"], "--gpus is for --dry-run"),
        (["--dry-run", "--gpus", "2", "--links", "450"], "--links 450: give two speeds above 0 with a comma"),
        (["--dry-run", "--links", "450,50"], "as do --gpu-memory and --links: give that too"),
        (["--dry-run", "--gpus", "2", "--budget", "0"], "greater than or equal to 1"),
        (["--dry-run", "--nodes", "2"], "--nodes and --budget say what --gpus would do"),
    ],
)
def test_options_that_say_nothing_are_refused(tmp_path: Path, options: list[str], why: str) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(write_toml(tiny.recipe(tmp_path / "corpus")))
    done = CliRunner().invoke(
        build(), ["train", str(recipe), "--out", str(tmp_path / "out"), *options], env={"COLUMNS": "300"}
    )
    assert done.exit_code != 0
    assert why in " ".join(done.output.replace("│", " ").split())
