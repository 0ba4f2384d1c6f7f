"""What `regard plot` writes, without the prompt of a shell."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from regard.config import ConfigError
from regard.look import plot_commands
from regard.look.plot_curves import read_runs
from regard.settings.models import EmbedConfig
from regard.tasks.base.folder import FolderError
from regard.tasks.embedding.embedder import Embedder
from regard.text import DataError
from regard.train.report import LOG
from tests.tasks.copying import translator
from tests.tasks.encoders import toys

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("unchecked")


class Drawn(list[Any]):
    """The pictures that were to be written, before they are pixels; and what was said."""

    said = ""


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    seen = Drawn()
    monkeypatch.setattr(plot_commands, "save", lambda figure, out: seen.append(figure))
    return seen


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Embedder:
    """The model that every folder holds."""
    made = Embedder(toys.reader(toys.model(EmbedConfig()), own=toys.tokenizer()))
    monkeypatch.setattr(plot_commands, "load", lambda folder, **_: made)
    monkeypatch.setattr(plot_commands, "open_embedder", lambda folder, **_: made)
    return made


@pytest.fixture
def translates(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = translator()
    monkeypatch.setattr(plot_commands, "load", lambda folder, **_: made)
    monkeypatch.setattr(plot_commands, "open_translator", lambda folder, **_: made)
    return made


def said(command: Any, *arguments: Any, **options: Any) -> str:
    out = io.StringIO()
    command(*arguments, **options, console=Console(file=out, width=200))
    return out.getvalue()


MODEL, OUT = Path("model"), Path("a.png")


def test_a_picture_is_written_and_named(tmp_path: Path):
    out = tmp_path / "deeper" / "p.svg"
    assert said(plot_commands.positions, out, width=8, length=4).startswith(f"{out}: Sinusoidal positions")
    assert out.read_bytes().startswith(b"<?xml")


def test_positions_are_the_textbooks_unless_something_else_is_asked_for(drawn: Drawn):
    said(plot_commands.positions, OUT)
    said(plot_commands.positions, OUT, width=16, length=9, base=100.0, kind="rotary")
    assert drawn[0].get_suptitle() == "Sinusoidal positions: d = 128, N = 50, n = 10000"
    assert drawn[0].axes[0].images[0].get_array().shape == (50, 128)
    assert drawn[1].get_suptitle() == "Rotary positions: d = 16, N = 9, n = 100"


def test_positions_of_a_model_are_its_own(drawn: Drawn, reads: Embedder):
    said(plot_commands.positions, OUT, MODEL, length=7)
    assert drawn[0].axes[0].images[0].get_array().shape == (7, 16)
    with pytest.raises(ConfigError, match=r"--width 8: a model has its own"):
        said(plot_commands.positions, OUT, MODEL, width=8)


@pytest.mark.parametrize("options", [{"length": 1}, {"width": 0}, {"base": 1.0}])
def test_positions_that_cannot_be_are_refused(options: dict[str, Any]):
    with pytest.raises(ValueError, match=r"at least|greater than 1"):
        said(plot_commands.positions, OUT, **options)


def test_heads_are_those_of_the_model(drawn: Drawn, reads: Embedder):
    told = said(plot_commands.heads, MODEL, "old dog", OUT)
    assert told == "a.png: Self-attention of the encoder: layers down, heads across\n"
    assert [axes.get_title() for axes in drawn[0].axes[:4]] == ["0.0", "0.1", "1.0", "1.1"]
    said(plot_commands.heads, MODEL, "old dog", OUT, layer=1, head=0, second="red sun")
    labels = [label.get_text() for label in drawn[1].axes[0].yaxis.get_ticklabels()]
    assert labels == ["[CLS]", "old", "dog", "[SEP]", "red", "sun", "[SEP]"]
    with pytest.raises(ValueError, match="layer 2: there are 2, count from 0 to 1"):
        said(plot_commands.heads, MODEL, "old dog", OUT, layer=2)


def test_heads_of_a_translator_by_words(drawn: Drawn, translates: Any):
    options = {"layer": 0, "head": 3, "side": "cross", "target": "garden garden", "words": True}
    said(plot_commands.heads, MODEL, "silver bridge", OUT, **options)
    axes = drawn[0].axes[0]
    assert [label.get_text() for label in axes.xaxis.get_ticklabels()] == ["silver", "bridge", "<eos>"]
    assert [label.get_text() for label in axes.yaxis.get_ticklabels()] == ["<sos>", "garden", "garden"]


def test_an_alignment_is_the_translators(drawn: Drawn, translates: Any):
    assert (
        said(plot_commands.alignment, MODEL, "silver bridge", OUT, target="a garden") == "a.png: a garden\n"
    )
    expected = translates.align("silver bridge", "a garden")
    np.testing.assert_array_equal(drawn[0].axes[0].images[0].get_array(), expected.weights)
    with pytest.raises(ValueError, match="layer=5"):
        said(plot_commands.alignment, MODEL, "silver bridge", OUT, target="garden", layer=5)


def write_log(folder: Path, entries: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True)
    (folder / LOG).write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return folder


ENTRIES = [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}, {"step": 2, "valid": {"loss": 1.5}}]


def test_runs_have_the_names_that_tell_them_apart(tmp_path: Path, drawn: Drawn):
    folders = [write_log(tmp_path / name / "run", ENTRIES) for name in "ab"]
    assert list(read_runs(folders)) == ["a/run", "b/run"]
    assert list(read_runs(folders[:1])) == ["run"]
    said(plot_commands.curve, folders, OUT)
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == ["a/run", "b/run"]
    with pytest.raises(ConfigError, match="given twice"):
        read_runs([folders[0], folders[0]])


def test_a_folder_without_a_curve_is_named(tmp_path: Path):
    empty = write_log(tmp_path / "new", ENTRIES[:1])
    with pytest.raises(ConfigError, match=r"new: no curve.*give the folder of a run"):
        said(plot_commands.curve, [empty], OUT)


def write_rows(folder: Path, name: str, *rows: tuple[str, ...]) -> str:
    return str(folder / toys.write(folder, name, *rows))


def test_a_map_is_coloured_by_a_column(tmp_path: Path, drawn: Drawn, reads: Embedder):
    rows = [(toys.sunny(text), text) for text in toys.texts(12)]
    told = said(plot_commands.texts_map, MODEL, write_rows(tmp_path, "a.tsv", *rows), OUT, labels="0")
    assert told == "a.png: 12 texts by meaning, coloured by column 0\n"
    vectors = reads.embed([text for _, text in rows])
    sunny = [label == "yes" for label, _ in rows]
    groups = {each.get_label(): each.get_offsets() for each in drawn[0].axes[0].collections}
    expected = plot_commands.project(vectors).points
    np.testing.assert_allclose(groups[f"yes ({sum(sunny)})"], expected[sunny])
    named = write_rows(tmp_path, "b.tsv", ("kind", "text"), *rows)
    said(plot_commands.texts_map, MODEL, named, OUT, labels="kind")
    assert drawn[1].axes[0].get_title() == "12 texts by meaning, coloured by kind"


def test_a_map_is_coloured_by_clusters_with_their_words(tmp_path: Path, drawn: Drawn, reads: Embedder):
    file = tmp_path / "a.txt"
    file.write_text("sun sun sun\n\nsun sun\nsun\nriver river\nriver\nriver river river\n", encoding="utf-8")
    told = said(plot_commands.texts_map, MODEL, str(file), OUT, clusters=2, named=0)
    assert told == "a.png: 6 texts by meaning, in 2 clusters\n"
    labels = [each.get_label() for each in drawn[0].axes[0].collections]
    assert sorted(labels) == ["1, sun (3)", "2, river (3)"]


def test_a_map_is_the_same_every_time(tmp_path: Path, reads: Embedder):
    file = write_rows(tmp_path, "a.txt", *((text,) for text in toys.texts(20)))
    paths = [tmp_path / "1.png", tmp_path / "2.png"]
    for path in paths:
        said(plot_commands.texts_map, MODEL, file, path, method="tsne", clusters=3)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_columns_that_are_not_there_are_refused(tmp_path: Path):
    plain, table = write_rows(tmp_path, "a.txt", ("sun",)), write_rows(tmp_path, "a.tsv", ("yes", "sun"))
    with pytest.raises(ConfigError, match="no table with columns"):
        plot_commands.read_texts(plain, "0", None)
    with pytest.raises(DataError, match="no column 7"):
        plot_commands.read_texts(table, "7", "1")
    with pytest.raises(ConfigError, match="give one of the two"):
        said(plot_commands.texts_map, MODEL, table, OUT, labels="0", clusters=2)
    with pytest.raises(DataError, match="no text to draw"):
        plot_commands.read_texts(write_rows(tmp_path, "empty.txt", (" ",)), None, None)


def test_texts_of_a_table_are_where_the_labels_are_not(tmp_path: Path):
    table = write_rows(tmp_path, "a.tsv", ("x", "y", "z"))
    assert plot_commands.read_texts(table, "0", None) == (["y"], ["x"])
    assert plot_commands.read_texts(table, "2", None) == (["x"], ["z"])
    assert plot_commands.read_texts(table, "0", "2") == (["z"], ["x"])
    assert plot_commands.read_texts(table, None, "1") == (["y"], None)


def test_a_word_in_context(drawn: Drawn, reads: Embedder):
    said(plot_commands.context, MODEL, "sun", ["red sun", "sun sees dog"], OUT)
    assert drawn[0].get_suptitle() == "“sun” in 2 sentences"
    with pytest.raises(DataError, match="the word 'tree' is not in it"):
        said(plot_commands.context, MODEL, "tree", ["red tree", "sun"], OUT)


def test_a_wrong_name_is_refused_before_anything_is_read():
    nowhere, out = Path("nowhere"), Path("a.gif")
    calls = [
        (plot_commands.positions, (out, nowhere)),
        (plot_commands.heads, (nowhere, "x", out)),
        (plot_commands.alignment, (nowhere, "x", out)),
        (plot_commands.curve, ([nowhere], out)),
        (plot_commands.texts_map, (nowhere, "nothing.txt", out)),
        (plot_commands.context, (nowhere, "x", ["x", "x"], out)),
    ]
    for command, arguments in calls:
        with pytest.raises(ConfigError, match=r"a\.gif: a picture is \.png, \.svg, \.pdf"):
            said(command, *arguments)


def test_a_folder_without_a_model_is_named():
    with pytest.raises((FolderError, ValueError, OSError), match="nowhere"):
        said(plot_commands.heads, Path("nowhere"), "x", OUT)
