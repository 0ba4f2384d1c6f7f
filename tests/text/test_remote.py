"""Text at addresses of fsspec's is copied once, whole or not at all, and read like any other."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from rich.console import Console

from regard.config import ConfigError
from regard.tasks import run
from regard.tasks.base.recipe import recipe_text
from regard.text import DataError, remote
from regard.train.trainer import TrainingError
from tests.settings.corpora import recipes
from tests.tasks import tiny


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    remote.fetched.cache_clear()
    yield
    remote.fetched.cache_clear()
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def put(name: str, text: str | bytes) -> str:
    MemoryFileSystem().pipe_file(f"/{name}", text.encode() if isinstance(text, str) else text)
    return f"memory://{name}"


def test_a_copy_is_what_is_there_and_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    address = put("bucket/mine.en", "one\ntwo\n")
    first = remote.placed(tmp_path, address)
    assert first.read_text() == "one\ntwo\n"
    assert first.name == "mine.en"
    remote.fetched.cache_clear()
    monkeypatch.setattr(remote, "_copy", None)
    assert remote.placed(tmp_path, address) == first
    assert remote.placed(tmp_path, "mine.en") == tmp_path / "mine.en"


def test_a_file_that_was_written_again_is_another_copy() -> None:
    first = remote.fetched(put("bucket/mine.en", "one\n"))
    assert remote.fetched(put("bucket/mine.en", "two\n")) == first  # not within a process
    remote.fetched.cache_clear()
    second = remote.fetched("memory://bucket/mine.en")
    assert (first.read_text(), second.read_text()) == ("one\n", "two\n")


def test_of_a_folder_all_files_are_there_but_marks_of_other_programs() -> None:
    for name in ("a.txt", "deeper/b.txt", "_SUCCESS", ".hidden"):
        put(f"books/{name}", name)
    folder = remote.fetched("memory://books")
    inside = sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())
    assert inside == ["a.txt", "deeper/b.txt"]
    assert (folder / "deeper" / "b.txt").read_text() == "deeper/b.txt"


def test_what_breaks_off_leaves_nothing_that_is_taken_for_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    address, read = put("bucket/mine.en", b"x" * 100), remote._read

    def cut(stream: Any, address: str) -> bytes:
        return read(stream, address)[:50]

    with monkeypatch.context() as patch:
        patch.setattr(remote, "_read", cut)
        with pytest.raises(DataError, match=r"mine\.en.*was cut short \(50 of 100 bytes came\); try again"):
            remote.fetched(address)
    assert remote.fetched(address).read_bytes() == b"x" * 100


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        (
            "memory://nothing/there.en",
            DataError,
            "memory://nothing/there.en.*no such file; check the address",
        ),
        (
            "nosuch://bucket/mine.en",
            DataError,
            "nosuch://bucket/mine.en.*cannot be reached.*Protocol not known",
        ),
        ("gs://bucket/mine.en", ConfigError, "gs://bucket/mine.en: .*install"),
    ],
)
def test_what_cannot_be_read_is_one_line_with_the_address(
    address: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said) as found:
        remote.fetched(address)
    assert "\n" not in str(found.value)


def moved(value: Any, root: Path) -> Any:
    """The same recipe with every file of its text at an address."""
    if isinstance(value, dict):
        return {key: moved(each, root) for key, each in value.items()}
    if isinstance(value, list):
        return [moved(each, root) for each in value]
    path = root / value if isinstance(value, str) else root
    return put(f"bucket/{value}", path.read_bytes()) if path.is_file() else value


def test_files_of_every_task_may_be_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = []
    monkeypatch.setattr(run, "train", lambda job, *_, **__: prepared.append(recipe_text(job.recipe)))
    for task, plain in recipes(tmp_path / "text").items():
        there = {**plain, "data": {**moved(plain["data"], Path(plain["data"]["root"])), "root": "."}}
        run.fit(there, out=tmp_path / task, device="cpu", console=Console(file=io.StringIO()))
        assert "memory://bucket/" in prepared.pop(), task


def test_a_run_refuses_to_go_on_with_text_that_was_changed_there(tmp_path: Path) -> None:
    plain = tiny.recipe(tmp_path / "corpus", train={"steps": 4, "save_every": 1})
    root = Path(plain["data"]["root"])
    there = {**plain, "data": {**moved(plain["data"], root), "root": "."}}
    console = Console(file=io.StringIO())
    run.fit(there, out=tmp_path / "run", device="cpu", console=console)
    put("bucket/train.en", (root / "train.en").read_text().replace("house", "home"))
    remote.fetched.cache_clear()
    with pytest.raises((ConfigError, TrainingError), match="text"):
        run.fit(there, out=tmp_path / "run", resume=True, device="cpu", console=console)
