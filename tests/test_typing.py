"""What an editor sees: type checkers know every public name, and refuse what is wrong.

tests/typing/public.py is correct, and says of each `reveal_type` what it should be. tests/typing/wrong.py has
a mistake on each line that is marked, and none besides. mypy --strict and pyright agree.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

import pytest

from tests.conftest import ROOT

FOLDER = ROOT / "tests" / "typing"
FILES = [FOLDER / "public.py", FOLDER / "wrong.py"]


class Said(NamedTuple):
    """What a checker said about a line."""

    file: str
    line: int
    error: str = ""
    revealed: str = ""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src"), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    return subprocess.run(
        [sys.executable, "-m", *command, *map(str, FILES)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def mypy() -> list[Said]:
    """As somebody runs it who has regard installed: with none of our own settings."""
    cache = ROOT / ".mypy_cache" / "public"
    asked = run("mypy", "--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={cache}")
    return [*_read_mypy(asked.stdout)]


def _read_mypy(text: str) -> Iterator[Said]:
    for file, line, kind, said in re.findall(r"^(\S+?):(\d+): (error|note): (.*)$", text, re.MULTILINE):
        name = file.rpartition("/")[2]
        if kind == "error":
            yield Said(name, int(line), error=said)
        elif found := re.fullmatch(r'Revealed type is "(.*)"', said):
            yield Said(name, int(line), revealed=found[1])


def pyright() -> list[Said]:
    if find_spec("pyright") is None:
        pytest.skip("no pyright here: pip install pyright")
    if shutil.which("node") is None:
        pytest.skip("pyright would download node: install it (Debian: apt-get install nodejs)")
    asked = run("pyright", "--pythonpath", sys.executable, "--outputjson")
    return [*_read_pyright(json.loads(asked.stdout)["generalDiagnostics"])]


def _read_pyright(found: list[dict]) -> Iterator[Said]:
    for each in found:
        name, line = each["file"].rpartition("/")[2], each["range"]["start"]["line"] + 1
        if each["severity"] == "error":
            yield Said(name, line, error=each["message"])
        elif revealed := re.fullmatch(r'Type of ".*" is "(.*)"', each["message"], re.DOTALL):
            yield Said(name, line, revealed=revealed[1])


@pytest.fixture(params=[pytest.param(mypy, marks=pytest.mark.long), pyright], ids=lambda each: each.__name__)
def said(request) -> list[Said]:
    return request.param()


def plain(type: str) -> str:
    """Without the modules, and as both checkers spell it."""
    type = re.sub(r"tuple\[.*?fallback=([\w.]+)\]", r"\1", type)
    type = re.sub(r"\b(?:\w+\.)+(?=\w)", "", type)
    return type.replace("'] | Literal['", "', '")


def marked(name: str, pattern: str) -> dict[int, str]:
    """What the comments of a file say, by line."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    found = ((number, re.search(pattern, line)) for number, line in enumerate(lines, 1))
    return {number: match[1] for number, match in found if match}


def test_public_use_has_its_types_and_what_is_wrong_is_refused(said):
    """One test: two would ask the same of a checker in two processes."""
    assert [each for each in said if each.file == "public.py" and each.error] == []
    wanted = marked("public.py", r"^ *reveal_type\(.*\)  # (.+)$")
    found = {each.line: plain(each.revealed) for each in said if each.file == "public.py" and each.revealed}
    assert len(wanted) > 30
    assert found == wanted
    mistakes = marked("wrong.py", r"# error: (.+)$")
    assert len(mistakes) > 8
    assert {each.line for each in said if each.file == "wrong.py" and each.error} == {*mistakes}
