import json
import math
from pathlib import Path
from typing import Any

import pytest

from regard.train.curve import draw_curve
from regard.train.report import LOG

pytest.importorskip("matplotlib")
STEPS = [{"step": 10, "loss": 5.0}, {"step": 20, "loss": 4.0}]
VALID = {"step": 20, "valid": {"loss": 4.5, "accuracy": 60.0}}


def drawn(folder: Path, entries: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The picture as matplotlib has it, before it is pixels."""
    seen: list[Any] = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, path, **_: seen.append(figure))
    (folder / LOG).write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    assert draw_curve(folder, "accuracy") == folder / "curve.png"
    return seen[0]


def test_the_training_curve_is_the_logarithm_of_the_perplexity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [{**entry, "perplexity": math.exp(entry["loss"] - 1)} for entry in STEPS]
    axes, other = drawn(tmp_path, [*entries, VALID], monkeypatch).axes
    training, validation = axes.lines
    assert list(training.get_xdata()) == [10, 20]
    assert list(training.get_ydata()) == pytest.approx([4.0, 3.0])
    assert "log perplexity" in axes.get_ylabel()
    assert list(validation.get_ydata()) == [4.5]
    assert (other.get_ylabel(), list(other.lines[0].get_ydata())) == ("accuracy", [60.0])


def test_without_a_perplexity_it_is_the_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn(tmp_path, [*STEPS, VALID], monkeypatch).axes[0]
    assert list(axes.lines[0].get_ydata()) == [5.0, 4.0]
    assert axes.get_ylabel() == "loss"


def test_nothing_is_drawn_of_less_than_two_lines(tmp_path: Path) -> None:
    (tmp_path / LOG).write_text(f"{json.dumps(STEPS[0])}\n")
    assert draw_curve(tmp_path, "loss") is None
