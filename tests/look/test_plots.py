"""What all pictures share: labels of any script, files of any kind; and curves of several runs."""

import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from regard.config import ConfigError
from regard.look.plot_attention import plot_alignment
from regard.look.plot_curves import plot_curves
from regard.look.plots import BOX, CATEGORIES, label_axis, new_figure, save, shown
from regard.tasks.translation.alignment import Alignment
from tests.look.drawing import names

pytest.importorskip("matplotlib")


def test_what_no_font_has_is_a_box_and_dollars_are_dollars(tmp_path: Path):
    assert shown("a\U00013000b") == f"a{BOX}b"
    assert shown("one\ntwo\x1b") == r"one\ntwo\x1b"
    assert shown("no\u00a0break soft\u00adhyphen") == "no break softhyphen"
    assert shown("abcdef", 4) == "abc…"
    words = ("$5", "$x^2$", "日本語", "\U0001f642", "مرحبا", "\U00013000")
    matrix = np.eye(len(words))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = plot_alignment(Alignment(words, words, matrix, ()))
        for form in ("png", "svg", "pdf"):
            save(figure, tmp_path / f"a.{form}")
    assert names(figure.axes[0].xaxis)[:2] == ["$5", "$x^2$"]
    assert not any(label.get_parse_math() for label in figure.axes[0].xaxis.get_ticklabels())


def test_labels_are_thinned_out_where_there_are_too_many():
    axes = new_figure(5, 5).subplots()
    axes.imshow(np.zeros((130, 130)))
    label_axis(axes.yaxis, [f"t{i}" for i in range(130)], cell=3)
    assert names(axes.yaxis) == [f"t{i}" for i in range(0, 130, 3)]
    assert list(axes.get_yticks()) == [*range(0, 130, 3)]


@pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_file_is_of_the_kind_its_name_says_and_the_same_every_time(tmp_path: Path, form: str, start: bytes):
    paths = [tmp_path / "new" / f"{name}.{form.upper() if name == 'b' else form}" for name in "ab"]
    for path in paths:
        figure = new_figure(1, 1)
        figure.subplots().plot([1, 2])
        save(figure, path)
    one, other = (path.read_bytes() for path in paths)
    assert one.startswith(start)
    assert one == other
    assert len(list((tmp_path / "new").iterdir())) == 2


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install regard\[look\]"):
        plot_curves({"one": log(0)})


def test_a_name_of_no_picture_is_refused_with_what_is_one(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"a\.jpg: a picture is \.png, \.svg, \.pdf; end the name"):
        save(new_figure(1, 1), tmp_path / "a.jpg")


def log(shift: float, *, perplexity: bool = True, metric: str = "bleu") -> list[dict]:
    steps = [{"step": step, "loss": 9.0 + shift} for step in (1, 2)]
    if perplexity:
        steps = [{**entry, "perplexity": math.exp(entry["step"] + shift)} for entry in steps]
    return [*steps, {"step": 2, "valid": {"loss": 4.0 + shift, metric: 30.0 + shift}}]


def test_runs_are_compared_in_colours_of_their_own():
    figure = plot_curves({"one": log(0), "_two": log(0.5)})
    left, right = figure.axes
    assert [list(line.get_ydata()) for line in left.lines] == [
        pytest.approx([1.0, 2.0]),
        [4.0],
        pytest.approx([1.5, 2.5]),
        [4.5],
    ]
    assert [line.get_color() for line in left.lines] == [CATEGORIES[0]] * 2 + [CATEGORIES[1]] * 2
    assert [list(line.get_ydata()) for line in right.lines] == [[30.0], [30.5]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "_two"]
    assert (left.get_ylabel(), right.get_ylabel()) == ("surprise (log perplexity)", "bleu")


def test_unlike_logs_are_compared_by_what_they_share():
    figure = plot_curves({"one": log(0), "two": log(1, perplexity=False, metric="accuracy")})
    (axes,) = figure.axes
    assert axes.get_ylabel() == "loss"
    assert [list(line.get_ydata()) for line in axes.lines[::2]] == [[9.0, 9.0], [10.0, 10.0]]
    with pytest.raises(ConfigError, match="metric 'exact': all of these runs log bleu"):
        plot_curves({"one": log(0)}, "exact")
