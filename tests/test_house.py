"""The house rules: imports point down, the map is true, the contents are complete, help is quick."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

SOURCE = ROOT / "src" / "regard"

LAYERS = [
    {"__main__"},
    {"cli"},
    {"bench"},
    {"serve", "look"},
    {"tasks"},
    {"train", "decode", "hub"},
    {"models"},
    {"nn", "data"},
    {"text", "layout"},
    {"config"},
]
"""From the top down. A part imports parts of lower layers only, none of its own layer."""

TORCHLESS = ("text", "config", "cli", "__init__", "__main__")


def part(path: Path) -> str:
    """The part of regard that a file belongs to: nn, text, cli."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Every module that a file imports, wherever in it the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    depth = {name: level for level, names in enumerate(LAYERS) for name in names}
    own = part(path)
    for module in imported(path):
        if not module.startswith("regard.") or own == "__init__":
            continue
        other = module.split(".")[1]
        if other == "__version__":
            continue
        assert other == own or depth[other] > depth[own], f"{own} may not import {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_text_and_the_command_line_do_not_import_torch(path):
    if part(path) in TORCHLESS:
        assert not {module for module in imported(path) if module.split(".")[0] == "torch"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_src_has_no_bare_assert(path):
    assert not [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Assert)]


def test_the_map_in_the_readme_is_true():
    """One line for each file of src/regard, in the README's tree."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```\nsrc/regard/\n(.*?)```", readme, re.DOTALL)
    assert block, "README.md has no map that begins with src/regard/"
    mapped, folder = set(), ""
    for line in block[1].splitlines():
        name, about = line.split(maxsplit=1) if len(line.split(maxsplit=1)) == 2 else (line.strip(), "")
        assert about, f"the map says nothing about {name}"
        if name.endswith("/"):
            folder = name
        else:
            mapped.add((folder if line.startswith("    ") else "") + name)
    present = {
        path.relative_to(SOURCE).as_posix()
        for path in [*FILES, *SOURCE.rglob("*.[ch]")]
        if path.name != "__init__.py" and path.name != "__main__.py"
    }
    assert mapped == present


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_row_of_the_contents_has_its_tests():
    assert script("contents").problems() == []


@pytest.mark.parametrize("name", ["contents", "settings"])
def test_the_pages_that_are_written_by_scripts_are_up_to_date(name):
    module = script(name)
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run make docs"


def regard(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "regard", *arguments], capture_output=True, text=True, check=False
    )


def test_help_and_version_answer_without_importing_torch():
    probe = (
        "import sys\n"
        "from regard.cli import main\n"
        "try:\n    main()\nfinally:\n    print('torch' in sys.modules, file=sys.stderr)"
    )
    for option in ("--help", "--version"):
        run = subprocess.run(
            [sys.executable, "-c", probe, option], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0
        assert run.stderr.strip() == "False"


def test_version_is_the_packages_own():
    import regard as package

    assert regard("--version").stdout.strip() == f"regard {package.__version__}"


def test_help_says_what_regard_is():
    assert "The Transformer, whole" in regard("--help").stdout


def test_an_unknown_command_is_an_error_with_a_usage_line():
    run = regard("tarnslate")
    assert run.returncode == 2
    assert "Usage" in run.stderr


def test_ci_calls_make_test():
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == "make test"


def test_the_constraints_pin_every_direct_dependency():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=\[]", requirement)[0].lower() for requirement in wanted}
    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert names <= pinned
