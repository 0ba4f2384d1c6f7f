"""CONTRIBUTING.md is true: every path that it mentions exists, every name stands where it says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TEXT = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
SPANS: list[str] = re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", TEXT)

PATHS = sorted({span for span in SPANS if re.fullmatch(r"[\w./-]+", span) and ("/" in span or "." in span)})
NEW = {"cli.py", "recipe.py", "check.py", "train.py", "commands.py", "task.py", "__init__.py", "config.json"}
"""Files of a task that is being written, or of a model folder."""
NAMES = sorted({span for span in SPANS if re.fullmatch(r"_?[A-Za-z]\w+(\(\))?", span)})
WORDS = {
    "cli", "bench", "look", "meaning", "tasks", "train", "decode", "hub", "models", "nn", "data", "text",
    "config", "deploy",
    "recipes", "transformers", "batch", "optimizer", "average", "model", "load", "evaluate", "python", "root",
}  # fmt: skip
"""Layers, commands and tables; not names in the source."""
EVERYTHING = "\n".join(
    path.read_text(encoding="utf-8")
    for folder in ("src", "tests", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".js", ".toml") and path.name != Path(__file__).name
)


@pytest.mark.parametrize("path", [path for path in PATHS if path not in NEW])
def test_every_path_exists(path):
    if path == "src/regard/tasks/NAME":
        return
    if re.fullmatch(r"(model|positions|nn)\.\w+", path):  # a key of a recipe, or a module of torch
        assert path.partition(".")[2] in EVERYTHING
        return
    assert (ROOT / path).exists(), f"CONTRIBUTING.md mentions {path}"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WORDS])
def test_every_name_is_in_the_source(name):
    assert re.search(rf"\b{name.removesuffix('()')}\b", EVERYTHING), f"CONTRIBUTING.md mentions {name}"


def items() -> list[str]:
    """The points of the checklists that name a file."""
    lists = PAGE.partition("## Checklists")[2]
    found = re.split(r"^\s*(?:\d+\.|\*) ", lists, flags=re.MULTILINE)[1:]
    return [item.partition("\n\n")[0] for item in found if re.search(r"`[\w/]+\.py`", item)]


def files_of(item: str) -> Iterator[Path]:
    """Also all in a folder, and of a file that each task has, that of every task."""
    for name in re.findall(r"`([\w./]+)`", item):
        if name in NEW:
            yield from (ROOT / "src" / "regard" / "tasks").glob(f"*/{name}")
        elif (ROOT / name).is_dir():
            yield from (ROOT / name).rglob("*.py")
        elif (ROOT / name).is_file():
            yield ROOT / name


@pytest.mark.parametrize("item", items(), ids=lambda item: item.split("`")[1])
def test_the_names_of_a_point_stand_in_the_files_of_that_point(item):
    text = "\n".join(path.read_text(encoding="utf-8") for path in files_of(item))
    names = {name for name in re.findall(r"`(_?[A-Za-z]\w+)`", item) if name in NAMES and name not in WORDS}
    assert {name for name in names if not re.search(rf"\b{name}\b", text)} == set()


def said_of() -> list[tuple[str, str]]:
    """Names that are said to stand in a file: `NAME` in `path`, `NAME` of `path`, `path`: `NAME`."""
    found = re.findall(r"`(_?\w+)`\s+(?:in|of)\s+`([\w./]+\.\w+)`", PAGE)
    found += [(name, path) for path, name in re.findall(r"`([\w./]+\.\w+)`:\s+`(_?\w+)`", PAGE)]
    return found


@pytest.mark.parametrize(("name", "path"), said_of())
def test_every_name_stands_in_the_file_that_is_said(name, path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"\b{name}\b", text), f"CONTRIBUTING.md says that {path} has {name}"


def test_the_page_says_where_names_are():
    assert len(said_of()) > 15


def test_every_kind_of_part_has_a_checklist():
    wanted = ["score", "positions", "head", "task", "metric", "checkpoint", "exporter", "view", "benchmark"]
    titles = " ".join(re.findall(r"^### (.+)$", PAGE, re.MULTILINE)).lower()
    assert [each for each in wanted if each not in titles] == []


def test_its_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|`)make (\w+)", PAGE, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
