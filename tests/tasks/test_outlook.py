"""What a dry run says of GPUs that are not here."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from regard.cli import build
from regard.config import ConfigError, write_toml
from regard.tasks.run import dry_run
from regard.train.scaling import Cluster
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
    [minutes] = figures(text, r"# 1,000,000,000 tokens \(as given\): ([\d.]+) minutes")
    assert minutes == pytest.approx(1e9 / speed / 60, rel=0.1)


def test_a_model_that_is_cut_is_said_to_be(tmp_path: Path) -> None:
    text = said(tmp_path, "batch.parts=8", "train.fsdp=yes", "train.activation_checkpointing=true", gpus=8)
    assert "# train.fsdp=yes: the model is cut over ranks (FSDP)" in text
    assert "gathered" in text
    assert "between GPUs meanwhile" in text
    assert "20 for each weight, after Chinchilla" in text


def test_parts_that_ranks_cannot_share_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"16 ranks cannot share batch\.parts=3 evenly: choose a multiple of 16"
    ):
        said(tmp_path, "batch.parts=3", gpus=8, nodes=2)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--gpus", "8"], "--gpus is for --dry-run"),
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
