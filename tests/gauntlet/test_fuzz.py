"""Files that are damaged in any way: what is wrong is told in words; never a traceback, nothing endless."""

import io
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from regard.config import ConfigError, write_toml
from regard.tasks.registry import as_recipe, read_recipe
from regard.tasks.run import prepare
from regard.text import DataError
from regard.train.ranks import Ranks
from tests.gauntlet.test_kills import TASKS
from tests.settings.corpora import recipes

CASES = 150
"""Of each task: 1,050 in all, and as many recipes beside them."""
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


@pytest.mark.long
@pytest.mark.parametrize("task", TASKS)
def test_damaged_text_is_told_of_or_read(task, tmp_path, record_property):
    chance, failures = random.Random(int(os.environ.get("SEED", "0"))), []
    plain = recipes(tmp_path / "text")[task]
    every = [*files(plain["data"])]
    contents = {path: path.read_bytes() for path in every}
    for number in range(CASES):
        path = chance.choice(every)
        path.write_bytes(damaged(contents[path], chance))
        folder = tmp_path / "out"
        try:
            prepare(as_recipe(plain), folder, ALONE, Console(file=io.StringIO()))
        except TOLD as error:
            if not str(error).strip():
                failures.append(f"{number}: {error!r} says nothing")
        except Exception as error:
            failures.append(f"{number}, {path.name}: {error!r}")
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
        try:
            read_recipe(path)
        except TOLD as error:
            if not str(error).strip():
                failures.append(f"{number}: {error!r} says nothing")
        except Exception as error:
            failures.append(f"{number}: {error!r}")
    record_property("cases", CASES)
    record_property("failures", len(failures))
    assert failures == []
