"""The tutorials run as they are written: every block in order, in one folder; what is shown is what comes.

```python and ```sh blocks are executed. A ```text block is what the block before it printed; ... stands for
anything, and spaces do not count.
"""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.plugins import LOADED, unload_plugin
from tests.conftest import ROOT

PROMPT = ROOT / "tests" / "prompt.py"
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def prompt(tmp_path_factory):
    """Where `regard` is asked, so that it need not be imported for each command."""
    place = tmp_path_factory.mktemp("prompt") / "socket"
    command = [sys.executable, PROMPT, "serve", place]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline() == "ready\n"
        yield place
        server.kill()


@pytest.fixture
def environment(tmp_path, prompt) -> dict[str, str]:
    tools = tmp_path / "bin"
    tools.mkdir()
    ask = f'exec {sys.executable} -S {PROMPT} ask {prompt} "$@"'
    for name, line in (("regard", ask), ("python", f'exec {sys.executable} "$@"')):
        (tools / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    return {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}


def in_shell(code: str, environment: dict[str, str]) -> str:
    run = subprocess.run(
        ["sh", "-e", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, f"{code}\n{run.stdout}{run.stderr}"
    return run.stdout


def in_python(code: str, page: Path, names: dict[str, object]) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(code, str(page), "exec"), names)
    return shown.getvalue()


LONG = ("classifier", "translator")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.long] if page.stem in LONG else []) for page in PAGES],
    ids=lambda page: page.stem,
)
def test_a_tutorial_runs_and_shows_what_comes(page, environment, tmp_path, monkeypatch, unchecked):
    folder = tmp_path / "reader"
    folder.mkdir()
    monkeypatch.chdir(folder)
    before, names, shown = {*LOADED}, {"__name__": "tutorial"}, ""
    took: list[str] = []
    try:
        for language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
            began = time.monotonic()
            match language:
                case "sh":
                    shown = in_shell(code, environment)
                case "python":
                    shown = in_python(code, page, names)
                case "text":
                    assert doctest.OutputChecker().check_output(code, shown, LOOSE), f"{code}\nis\n{shown}"
                case "toml" | "":
                    pass
                case _:
                    raise AssertionError(f"{page.name}: a block of {language!r} is not run")
            took.append(f"{time.monotonic() - began:.1f} s  {code.splitlines()[0][:70]}")
    finally:
        for name in {*LOADED} - before:
            unload_plugin(name)
        print("\n".join(took))  # noqa: T201  # pytest -rP shows it


def test_there_are_tutorials_for_those_who_come_with_a_problem():
    assert [page.stem for page in PAGES] == ["attention", "classifier", "translator"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
