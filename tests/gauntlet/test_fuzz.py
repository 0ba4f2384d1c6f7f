"""Files that are damaged in any way: what is wrong is told in words; never a traceback, nothing endless."""

import io
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from regard.config import ConfigError, write_toml
from regard.documents.base import Result
from regard.memory import Memory, Segment
from regard.memory.files import ImportSettings, export_file, import_file
from regard.tasks.base.sources import source_of
from regard.tasks.registry import as_recipe, get_task, read_recipe
from regard.tasks.run import prepare
from regard.text import DataError
from regard.train.ranks import Ranks
from tests.documents.samples import FILES
from tests.gauntlet.test_kills import TASKS
from tests.settings.corpora import recipes

CASES = 150
"""Of each task, as many recipes beside them, and of each kind of file that commands are given."""
TOLD = (ConfigError, DataError, ValueError, OSError)
FOREIGN = (
    *(b"\0", b"\xff\xfe", b'"', b"\t" * 5, b"\n" * 9, b"[" * 5000, b"1e999", b"{}", b"null", b"\r"),
    "\u2028\u0085\u202e".encode(),
)
ALONE = Ranks(rank=0, count=1, device=torch.device("cpu"))


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Changed, cut, doubled, mixed up, filled with what does not belong there."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(content) + 1)
        to = min(len(content), at + chance.randint(0, 200))
        foreign = chance.choice([*FOREIGN, chance.randbytes(chance.randint(1, 20))])
        match chance.randrange(5):
            case 0:
                content = content[:at] + foreign + content[at:]
            case 1:
                content = content[:at] + content[to:]
            case 2:
                content = content[:at] + content[at:to] * chance.randint(2, 30) + content[to:]
            case 3:
                content = content[:at]
            case 4:
                content = content[:at] + foreign + content[to:]
    return content


def files(data: dict[str, Any]) -> Iterator[Path]:
    for value in data.values():
        for each in value if isinstance(value, list) else [value]:
            for name in each.values() if isinstance(each, dict) else [each]:
                if isinstance(name, str) and (path := Path(data["root"]) / name).is_file():
                    yield path


@contextmanager
def in_time() -> Iterator[None]:
    """What takes a minute for a damaged file of some kilobytes may be endless."""

    def late(*_: object) -> None:
        raise LateError("takes more than a minute")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class LateError(BaseException):
    """What no `except Exception` takes for something else."""


def tried(work: Callable[[], object], names: Sequence[str] = ()) -> str:
    """What is wrong with how a damaged file is received; nothing if it is read, or told of in one line that
    says one of these names."""
    try:
        with in_time():
            work()
    except TOLD as error:
        said = str(error)
        if not said.strip() or "\n" in said.strip():
            return f"not one line: {error!r}"
        if names and not any(name in said for name in names):
            return f"names none of {', '.join(names)}: {said}"
    except (Exception, LateError) as error:
        return repr(error)
    return ""


@pytest.mark.long
@pytest.mark.parametrize("task", TASKS)
def test_damaged_text_is_told_of_or_read(task, tmp_path, record_property):
    chance, failures = random.Random(int(os.environ.get("SEED", "0"))), []
    plain = recipes(tmp_path / "text")[task]
    every = [*files(plain["data"])]
    contents = {path: path.read_bytes() for path in every}
    names = [*(path.name for path in every), *plain, *plain["data"]]
    for number in range(CASES):
        path = chance.choice(every)
        path.write_bytes(damaged(contents[path], chance))
        folder = tmp_path / "out"
        written = as_recipe(plain)
        doctor = get_task(task).check
        for work in (
            lambda: prepare(written, folder, ALONE, Console(file=io.StringIO())),  # noqa: B023
            lambda: doctor and doctor(written, tokens=False),  # noqa: B023
        ):
            if wrong := tried(work, names):
                failures.append(f"{number}, {path.name}: {wrong}")
                (tmp_path / f"failure-{number}").write_bytes(path.read_bytes())
        path.write_bytes(contents[path])
        shutil.rmtree(folder, ignore_errors=True)
    record_property("cases", CASES)
    record_property("failures", len(failures))
    assert failures == [], tmp_path


@pytest.mark.long
@pytest.mark.parametrize("task", TASKS)
def test_damaged_recipes_are_told_of_or_read(task, tmp_path, record_property):
    chance, failures = random.Random(int(os.environ.get("SEED", "0"))), []
    content = write_toml(recipes(tmp_path / "text")[task]).encode()
    path = tmp_path / "recipe.toml"
    for number in range(CASES):
        path.write_bytes(damaged(content, chance))
        if wrong := tried(lambda: read_recipe(path), ["recipe.toml"]):
            failures.append(f"{number}: {wrong}")
    record_property("cases", CASES)
    record_property("failures", len(failures))
    assert failures == []


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_damaged_documents_are_told_of_or_read(name, record_property):
    """And what is read can be written, and read again."""
    chance, failures = random.Random(int(os.environ.get("SEED", "0"))), []
    format_, raw = FILES[name]

    def through(content: bytes) -> None:
        opened = format_.open(content, "own.file", {})
        written = opened.write([Result(text=each.source) for each in opened.segments])
        assert len(format_.open(written, "own.file", {}).segments) == len(opened.segments)

    for number in range(CASES):
        other = damaged(raw, chance)
        if wrong := tried(lambda: through(other), ["own.file"]):  # noqa: B023
            failures.append(f"{number}: {wrong}")
    record_property("cases", CASES)
    record_property("failures", len(failures))
    assert failures == []


TABLES = {
    "own.csv": b'id,text,kind\n1,"a red house",x\n2,"the ""old"" dog, asleep",y\n3,caf\xc3\xa9,\n',
    "own.tsv": b"id\ttext\tkind\n1\ta red house\tx\n2\tthe old dog\ty\n",
    "own.jsonl": b'{"id": 1, "text": "a red house"}\n{"text": "old \\u00e9", "more": [1, {"a": null}]}\n',
    "own.txt": b"a red house\n\nthe old dog\n" * 5,
}


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_damaged_tables_and_texts_that_a_model_is_given_are_told_of_or_read(name, tmp_path, record_property):
    chance, failures = random.Random(int(os.environ.get("SEED", "0"))), []
    path = tmp_path / name
    for number in range(CASES):
        path.write_bytes(damaged(TABLES[name], chance))
        if wrong := tried(lambda: [*source_of(str(path)).rows().records], [name]):
            failures.append(f"{number}: {wrong}")
    record_property("cases", CASES)
    record_property("failures", len(failures))
    assert failures == []


@pytest.mark.long
@pytest.mark.parametrize("ending", ["tmx", "tsv", "csv"])
def test_damaged_memories_are_told_of_or_read(ending, tmp_path, record_property):
    chance, failures = random.Random(int(os.environ.get("SEED", "0"))), []
    path = tmp_path / f"own.{ending}"
    with Memory(tmp_path / "own.db", create=True) as memory:
        memory.add(Segment(f"{end} house, red", f'Haus "{end}"', "en", "de") for end in ("a", "b", "c"))
    export_file(tmp_path / "own.db", path)
    content = path.read_bytes()
    settings = ImportSettings(source="en", target="de")
    for number in range(CASES):
        path.write_bytes(damaged(content, chance))
        if wrong := tried(lambda: import_file(path, tmp_path / f"{number}.db", settings), [path.name]):  # noqa: B023
            failures.append(f"{number}: {wrong}")
    record_property("cases", CASES)
    record_property("failures", len(failures))
    assert failures == []
