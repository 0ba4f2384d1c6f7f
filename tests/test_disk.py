"""When the disk is full, one line says which file was being written, and what to do; then it goes on."""

import io
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from regard.cli import main
from regard.config import ConfigError, read_table, write_toml
from regard.corpus.folder import OutFolder
from regard.data.store import Store, StoreError, open_or_build
from regard.disk import DiskFullError, full_disk, is_full, read_plain, replace
from regard.meaning.index import Index, SearchError
from regard.tasks import run
from regard.tasks.base.vectors import VectorsError, read_texts, read_vectors, save_vectors
from regard.tasks.seeds import train_seeds
from regard.text import Tokenizer
from regard.train.shards import CheckpointError, read_facts
from tests.settings.corpora import recipes
from tests.tasks import tiny

TRAIN = {"steps": 4, "validate_every": 2, "log_every": 1, "save_every": 1}
FULL: dict[str, Any] = {"name": None, "times": 0}
"""The name of the file for which there is no room, and how often it was opened for writing before."""


def _refuse(event: str, given: tuple[Any, ...]) -> None:
    if FULL["name"] is None or event != "open" or not isinstance(given[0], str | os.PathLike):
        return
    writing = given[2] & (os.O_WRONLY | os.O_RDWR)
    if writing and any(part.startswith(FULL["name"]) for part in Path(given[0]).parts):
        FULL["times"] -= 1
        if FULL["times"] < 0:
            raise OSError(28, "No space left on device")


sys.addaudithook(_refuse)


@contextmanager
def no_room_for(name: str, after: int = 0) -> Iterator[None]:
    FULL.update(name=name, times=after)
    try:
        yield
    finally:
        FULL.update(name=None)


@contextmanager
def limited(size: int) -> Iterator[None]:
    """No file may have more bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def fit(plain: dict[str, Any], folder: Path, *, resume: bool = False) -> None:
    run.fit(plain, out=folder, resume=resume, check=False, device="cpu", console=Console(file=io.StringIO()))


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return tiny.recipe(tmp_path_factory.mktemp("corpus"), train=TRAIN)


@pytest.fixture(scope="module")
def model(recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run whose disk was never full."""
    folder = tmp_path_factory.mktemp("whole") / "model"
    fit(recipe, folder)
    return folder


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("tokenizer.json", 0),
        ("tokens.of", 0),
        ("tokens.building", 0),
        ("tokens.valid", 0),
        ("config.json", 0),
        ("recipe.toml", 0),
        ("data.json", 0),
        ("checkpoint.safetensors", 0),
        ("checkpoint.safetensors", 3),
        ("log.jsonl", 0),
        ("log.jsonl", 2),
        ("events", 1),
        ("model.safetensors", 0),
        ("model.safetensors", 1),
        ("metrics.json", 1),
        ("curve.png", 0),
    ],
)
def test_a_run_goes_on_when_there_is_room_again_and_ends_as_if_there_always_was(
    recipe: dict[str, Any], model: Path, tmp_path: Path, name: str, after: int
) -> None:
    folder = tmp_path / "model"
    with no_room_for(name, after), pytest.raises(DiskFullError) as said:
        fit(recipe, folder)
    line = str(said.value)
    assert line.startswith(f"{folder / name.removesuffix('.building')}")
    assert "No space left on device" in line
    begun = (folder / "checkpoint.safetensors").exists()
    then = f"continue with: regard train --resume --out {folder}" if begun else "give the same command again"
    assert line.endswith(f"; free some space, then {then}")
    assert not [*folder.glob("*.partial")]
    fit(recipe, folder, resume=begun)
    for file in ("model.safetensors", "checkpoint.safetensors"):
        ours, wanted = load_file(folder / file), load_file(model / file)
        assert ours.keys() == wanted.keys()
        assert all(torch.equal(ours[key], wanted[key]) for key in wanted)


def test_several_seeds_are_continued_together(recipe: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(write_toml(recipe))
    quiet = Console(file=io.StringIO())
    with no_room_for("model.safetensors", 3), pytest.raises(DiskFullError, match=r"--resume$") as said:
        train_seeds(path, out=tmp_path / "out", seeds=2, check=False, device="cpu", console=quiet)
    assert "seed-1" in str(said.value)
    train_seeds(path, out=tmp_path / "out", seeds=2, resume=True, check=False, device="cpu", console=quiet)
    assert (tmp_path / "out" / "seeds.json").exists()


def said_by(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """What a command that fails says on standard error."""
    monkeypatch.setattr(sys, "argv", ["regard", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [("--to", "onnx"), ("--to", "ctranslate2"), ("--to", "ctranslate2", "--precision", "int8")]
)
def test_an_export_names_the_folder_and_leaves_nothing(
    model: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "ctranslate2" in arguments:
        pytest.importorskip("ctranslate2")
    out = tmp_path / "out"
    with limited(2000):
        said = said_by(capsys, monkeypatch, "export", str(model), str(out), *arguments)
    assert said.splitlines()[-1].startswith(f"error: {out}: could not be written (")
    assert "free some space" in said
    assert [*tmp_path.iterdir()] == []


def test_the_hub_s_form_is_written_whole_or_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit({**recipes(tmp_path / "text")["pretrain"], "train": {"steps": 1}}, tmp_path / "model")
    (tmp_path / "written").mkdir()
    out = tmp_path / "written" / "out"
    for size in (0, 300, 2000):
        with limited(size):
            said = said_by(capsys, monkeypatch, "export", str(tmp_path / "model"), str(out))
        assert said.startswith(f"error: {out}: could not be written (")
        assert said.count("\n") == 1
        assert [*out.parent.iterdir()] == []


def test_translations_in_a_file_are_named(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("a red house\n" * 50)
    with limited(20):
        said = said_by(
            capsys, monkeypatch, "translate", str(model), str(source), "--out", str(out), "--device", "cpu"
        )
    assert said.splitlines()[-1] == (
        f"error: {out}: could not be written (File too large); free some space, then give the same command "
        "again"
    )
    assert [*tmp_path.iterdir()] == [source]


def test_vectors_in_a_file_are_named(tmp_path: Path) -> None:
    with limited(1000), pytest.raises(DiskFullError, match=r"vectors\.npy: could not be written"):
        save_vectors(tmp_path / "vectors.npy", np.ones((100, 100), np.float32))
    assert [*tmp_path.iterdir()] == []


def test_a_store_is_named_and_the_reader_of_its_rows_is_not_blamed(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield from ({"ids": [1, 2, 3]} for _ in range(1000))

    folder = tmp_path / "tokens"
    with limited(1000), pytest.raises(DiskFullError) as said:
        open_or_build(folder, "of these", {"ids": np.int32}, rows)
    assert str(said.value).startswith(f"{folder}: could not be written (")
    assert [*tmp_path.iterdir()] == []
    assert len(open_or_build(folder, "of these", {"ids": np.int32}, rows)) == 1000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_standard_output_that_has_no_room_is_named_in_one_line(tmp_path: Path) -> None:
    sizes = [word for name in ("train", "valid", "test") for word in (f"--{name}", "2")]
    command = [sys.executable, "-m", "regard", "phrasebook", str(tmp_path), *sizes]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "error: standard output: could not be written (No space left on device); free some space, then give "
        "the same command again\n"
    )


def test_a_reader_that_has_gone_is_no_error_to_tell_of(tmp_path: Path) -> None:
    sizes = [word for name in ("train", "valid", "test") for word in (f"--{name}", "2")]
    command = [sys.executable, "-m", "regard", "phrasebook", str(tmp_path), *sizes]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_libraries_say_it_each_in_their_own_words(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with limited(100):
        for write in (
            lambda: save_file({"a": torch.ones(1000)}, path),
            lambda: np.ones(1000).tofile(path),
            lambda: path.write_bytes(b" " * 1000),
        ):
            with pytest.raises(DiskFullError, match="file: could not be written"), full_disk(path):
                write()
    assert not is_full(ValueError("row 28 has no space"))
    with pytest.raises(FileNotFoundError), full_disk(path):
        (tmp_path / "other" / "file").write_text("")


def test_the_innermost_name_is_kept() -> None:
    with pytest.raises(DiskFullError, match=r"^inner: "), full_disk("outer"), full_disk("inner"):
        raise OSError(28, "No space left on device")
    assert str(DiskFullError("a", "b", "c")) == "a: could not be written (b); free some space, then c"


ENDLESS: dict[str, tuple[Callable[[Path], object], type[Exception]]] = {
    "recipe.toml": (read_table, ConfigError),
    "index.json": (lambda path: Index.load(path.parent), SearchError),
    "store.json": (lambda path: Store(path.parent), StoreError),
    "manifest.json": (lambda path: OutFolder(path.parent).manifest(), ValueError),
    "tokenizer.json": (Tokenizer.load, OSError),
    "standing.json": (lambda path: read_facts(path.parent), CheckpointError),
    "own.npy": (read_vectors, VectorsError),
    "own.jsonl": (read_texts, VectorsError),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("what", ["a pipe", "a device"])
def test_what_has_no_end_is_refused_and_not_waited_for(tmp_path: Path, name: str, what: str) -> None:
    read, refused = ENDLESS[name]
    if what == "a pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to(os.devnull)
    late = threading.Timer(20, lambda: (tmp_path / name).write_text("late"))  # who waits would wait for ever
    late.start()
    try:
        with pytest.raises(refused):
            read(tmp_path / name)
        assert late.is_alive(), "it was waited for"
    finally:
        late.cancel()


def test_no_more_is_read_at_once_than_is_meant(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("12345")
    assert read_plain(tmp_path / "own", 5) == "12345"
    with pytest.raises(OSError, match=r"more than 4 bytes.*own"):
        read_plain(tmp_path / "own", 4)
    with (tmp_path / "recipe.toml").open("wb") as file:
        file.truncate(1 << 25)  # takes no room on the disk
    with pytest.raises(ConfigError, match=r"recipe\.toml: more than 16,777,216 bytes"):
        read_table(tmp_path / "recipe.toml")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_a_folder_or_a_pipe_never_becomes_a_file(tmp_path: Path) -> None:
    pipe, written = tmp_path / "pipe.npy", list[Path]()
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(OSError, match=r"Is a directory|no ordinary file"):
            replace(path, written.append)
    assert not written
    assert pipe.is_fifo()
