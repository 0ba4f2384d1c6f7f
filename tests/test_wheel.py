"""The wheel, installed alone with the core dependencies, does the work: train, translate, embed, look.

Its environment sees the core dependencies as they are installed here, by links, and nothing else: no extra,
none of the tools that the tests need, and not this checkout.
"""

import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from regard.config import write_toml
from tests.conftest import ROOT
from tests.tasks import tiny

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def closure(requirements: list[str]) -> dict[str, metadata.Distribution]:
    """What these need, and what that needs, as it is installed here."""
    found: dict[str, metadata.Distribution] = {}
    asked = [Requirement(each) for each in requirements]
    while asked:
        wanted = asked.pop()
        name = canonicalize_name(wanted.name)
        if name in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        found[name] = metadata.distribution(wanted.name)
        asked += [Requirement(each) for each in found[name].requires or ()]
    return found


def top_names(own: metadata.Distribution) -> set[str]:
    """The files and folders of a distribution in site-packages."""
    names = {file.parts[0] for file in own.files or () if file.parts[0] not in ("..", "__pycache__")}
    return {name for name in names if not name.endswith((".pth", ".virtualenv"))}


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"OMP_NUM_THREADS": "1", "HOME": str(folder)}
    done = subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy: a build leaves files behind."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    run(sys.executable, "-m", "pip", "wheel", source, "--no-deps", "--no-build-isolation", "--no-index",
        "--quiet", "--wheel-dir", place / "dist", folder=place)  # fmt: skip
    [found] = (place / "dist").glob("regard-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The folder of an environment that has the wheel and the core dependencies."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place / "venv", with_pip=False)
    seen = place / "dependencies"
    seen.mkdir()
    for own in closure(PROJECT["dependencies"]).values():
        for name in top_names(own):
            link, target = seen / name, Path(str(own.locate_file(name)))
            if target.exists() and not link.exists():
                link.symlink_to(target)
    [packages] = (place / "venv" / "lib").glob("python3*/site-packages")
    (packages / "dependencies.pth").write_text(f"{seen}\n", encoding="utf-8")
    python = place / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index",
        wheel, folder=place)  # fmt: skip
    return place / "venv" / "bin"


def test_the_wheel_has_all_that_is_not_python(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "regard").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= {*names}
    assert not [name for name in names if name.startswith(("tests", "docs"))]


def test_no_extra_is_there(installed, tmp_path):
    """And no tool of the tests: what runs there runs for everyone."""
    core = closure(PROJECT["dependencies"])
    extras = {
        canonicalize_name(Requirement(each).name)
        for own in PROJECT["optional-dependencies"].values()
        for each in own
    } - {*core}
    modules = sorted(
        module
        for module, owners in metadata.packages_distributions().items()
        if module.isidentifier() and {canonicalize_name(owner) for owner in owners} & (extras | {"pip"})
    )
    assert {"matplotlib", "faiss", "onnx", "onnxruntime", "transformers", "ctranslate2"} <= {*modules}
    code = f"from importlib.util import find_spec; print([each for each in {modules} if find_spec(each)])"
    assert run(installed / "python", "-c", code, folder=tmp_path).stdout.strip() == "[]"


def test_what_is_imported_is_the_wheels(installed, tmp_path):
    code = "import regard; print(regard.__file__, regard.__version__)"
    path, version = run(installed / "python", "-c", code, folder=tmp_path).stdout.split()
    assert "site-packages" in path
    assert str(ROOT) not in path
    assert version == PROJECT["version"]


@pytest.mark.long
def test_the_wheel_trains_translates_embeds_and_looks(installed, tmp_path):
    recipe = tiny.recipe(tmp_path, train={"steps": 6, "validate_every": 6})
    (tmp_path / "recipe.toml").write_text(write_toml(recipe), encoding="utf-8")
    command = installed / "regard"
    told = run(command, "train", "recipe.toml", "--no-check", "--out", "runs/a", folder=tmp_path)
    assert "the model is in runs/a" in told.stdout
    told = run(command, "translate", "runs/a", "valid.en", folder=tmp_path)
    assert len(told.stdout.splitlines()) == 20

    (tmp_path / "reading.toml").write_text(
        'task = "pretrain"\n[data]\ntrain = "train.en"\n[model]\npreset = "tiny"\nlayers = 1\nd_model = 16\n'
        "heads = 2\n[train]\nsteps = 4\nvalidate_every = 4\n[batch]\ntokens = 1024\n",
        encoding="utf-8",
    )
    run(command, "train", "reading.toml", "--out", "runs/b", folder=tmp_path)
    run(command, "embed", "runs/b", "valid.en", "--out", "vectors.npy", folder=tmp_path)
    assert (tmp_path / "vectors.npy").read_bytes().startswith(b"\x93NUMPY")

    for model in ("runs/a", "runs/b"):
        run(command, "look", model, "a red house", "--out", "page.html", folder=tmp_path)
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")


def test_a_picture_says_which_extra_it_needs(installed, tmp_path):
    asked = subprocess.run(
        [installed / "regard", "plot", "positions", "--out", "positions.png"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 1
    assert "regard[look]" in asked.stderr
    assert "Traceback" not in asked.stderr
