"""The house rules: imports point down, the map is true, the contents are complete, help is quick."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regard.tasks import registry
from tests.conftest import ROOT

SOURCE = ROOT / "src" / "regard"

LAYERS = [
    {"__main__"},
    {"cli"},
    {"bench", "lab", "machine"},
    {"serve"},
    {"look"},
    {"corpus"},
    {"deploy", "meaning"},
    {"tasks"},
    {"memory"},
    {"train", "decode", "hub"},
    {"models"},
    {"nn", "data"},
    {"settings", "documents"},
    {"text", "layout", "plugins"},
    {"config"},
    {"disk", "oom"},
]
"""From the top down. A part imports parts of lower layers only, none of its own layer."""

TASKS = ["base", *sorted(folder.rpartition(".")[2] for folder in registry.FOLDERS.values())]
"""Folders of regard.tasks: base knows no task, and no task knows another. What stands beside them (registry,
load, run, ...) is above them all."""

TORCHLESS = (
    "settings",
    "text",
    "documents",
    "memory",
    "config",
    "disk",
    "oom",
    "plugins",
    "cli",
    "__init__",
    "__main__",
)


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


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if part(path) in TORCHLESS],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_text_and_the_command_line_do_not_import_torch(path):
    assert not {module for module in imported(path) if module.split(".")[0] == "torch"}


@pytest.mark.parametrize("folder", TASKS)
def test_base_knows_no_task_and_no_task_knows_another(folder):
    for path in (SOURCE / "tasks" / folder).rglob("*.py"):
        inside = {module for module in imported(path) if module.startswith("regard.tasks.")}
        others = {module for module in inside if module.split(".")[2] not in ("base", folder)}
        assert not others, f"{path.relative_to(SOURCE)} may not import {sorted(others)}"


PREDICTORS = ("Translator", "Classifier", "Tagger", "Filler", "Embedder", "Generator")


def asks_which_task(tree: ast.AST) -> int:
    """Places that ask which task it is: by the class of a predictor, or by a task's name."""
    count = 0
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("isinstance"), args=[_, wanted]):
                count += any(
                    isinstance(each, ast.Name) and each.id in PREDICTORS for each in ast.walk(wanted)
                )
            case ast.MatchClass(cls=ast.Name(name)):
                count += name in PREDICTORS
            case ast.Compare(left=ast.Attribute(attr="task"), comparators=[ast.Constant(str())]):
                count += 1
    return count


def test_nobody_but_the_registry_asks_which_task_it_is():
    """There were about 117 such places in 33 files."""
    found = {
        str(path.relative_to(SOURCE)): count
        for path in FILES
        if (count := asks_which_task(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found == {}
    asking = "if isinstance(x, Translator | Generator) or y.task == 'tag': pass"
    assert asks_which_task(ast.parse(asking)) == 2


def test_no_file_is_longer_than_500_lines():
    assert not [path for path in FILES if len(path.read_text(encoding="utf-8").splitlines()) > 500]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_src_has_no_bare_assert(path):
    assert not [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Assert)]


def test_the_map_is_true():
    """One line for each file of src/regard, in the tree of docs/map.md."""
    page = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    block = re.search(r"```\nsrc/regard/\n(.*?)```", page, re.DOTALL)
    assert block, "docs/map.md has no map that begins with src/regard/"
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
    assert (sorted(present - mapped), sorted(mapped - present)) == ([], []), "not mapped, not there"


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_row_of_the_contents_has_its_tests():
    assert script("contents").problems() == []


@pytest.mark.parametrize("name", ["contents", "settings", "api"])
def test_the_pages_that_are_written_by_scripts_are_up_to_date(name):
    module = script(name)
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run make docs"


def test_the_api_page_leaves_no_public_name_out():
    assert script("api").missing() == []


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


def test_help_takes_little_of_the_processor():
    """The least of five: what else runs here is not counted, and slows it all the same."""
    script = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'regard', '--help'], check=True, stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime)"
    )
    took = [
        float(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout)
        for _ in range(5)
    ]
    assert min(took) < 0.6  # 0.3 on a machine that is idle


def test_help_says_what_regard_is():
    assert "The Transformer, whole" in regard("--help").stdout


def test_an_unknown_command_is_an_error_with_a_usage_line():
    run = regard("tarnslate")
    assert run.returncode == 2
    assert "Usage" in run.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_ci_ends_as_make_test_does(tmp_path: Path, code: int):
    """A copy of it, where make and the browser are stand-ins."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    for name, does in (("make", f'echo "$PWD: make $*" > made; exit {code}'), ("chromium", "exit 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    found = subprocess.run(
        ["bash", str(tmp_path / ".ci" / "run")],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=False,
    )
    assert found.returncode == code
    assert (tmp_path / "made").read_text(encoding="utf-8") == f"{tmp_path.resolve()}: make test\n"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_test_checks_style_and_types_and_runs_the_tests():
    plan = subprocess.run(["make", "-n", "-C", str(ROOT), "test"], capture_output=True, text=True, check=True)
    wanted = ["ruff check .", "ruff format --check .", "bin/mypy", "python -m pytest"]
    places = [plan.stdout.find(each) for each in wanted]
    assert -1 not in places, plan.stdout
    assert places == sorted(places)
    lines = [line for line in plan.stdout.splitlines() if any(each in line for each in wanted)]
    assert not [line for line in lines if "||" in line or line.startswith("-")], "a failure would not be seen"


def test_the_constraints_pin_every_direct_dependency():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=\[]", requirement)[0].lower() for requirement in wanted}
    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert names <= pinned


STARTS = [
    ("--help",),
    ("train", "--help"),
    ("train", "no-such-recipe.toml"),
    ("train", "recipes/trec.toml", "model.layres=2"),
    ("train", "recipes/phrasebook.toml", "model.positions=circular"),
    ("translate", "no-such-model", "Hello."),
    ("check", "no-such-recipe.toml"),
    ("check", "{here}/few.csv", "--task", "classify", "data.text=0", "data.label=1"),
    ("serve", "--help"),
]


@pytest.mark.parametrize("arguments", STARTS, ids=" ".join)
def test_help_mistakes_and_looking_at_text_do_not_wait_for_torch(arguments, tmp_path):
    """torch takes seconds to import."""
    (tmp_path / "few.csv").write_text("text,label\n" + "a fine day,good\na dull day,bad\n" * 20)
    code = (
        "import sys\nfrom regard.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    print('torch' in sys.modules)"
    )
    typed = [each.format(here=tmp_path) for each in arguments]
    found = subprocess.run(
        [sys.executable, "-c", code, *typed], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert found.stdout.split()[-1:] == ["False"], found.stderr[-500:]
