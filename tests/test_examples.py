"""Every public name has a docstring with an example, and every example runs."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch
from rich.console import Console

import regard
import regard.look
from regard import plugins
from regard.tasks import run
from tests import examples

BRIEF = {
    "tokenizer": {"kind": "words", "vocabulary": 60},
    "model": {"preset": "tiny", "layers": 1, "d_model": 16, "heads": 2},
    "batch": {"tokens": 256},
    "train": {"steps": 2, "validate_every": 2},
}
"""How examples train, where they do not say it: they are about something else."""

PUBLIC = [
    *(f"regard.{name}" for name in regard.__all__ if name != "__version__"),
    *(f"regard.look.{name}" for name in regard.look.__all__),
]


def resolved(name: str) -> object:
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(module), own)


def every_docstring() -> dict[str, str]:
    """All docstrings of regard that have an example, by where they stand."""
    found: dict[str, str] = {}
    for info in pkgutil.walk_packages(regard.__path__, "regard."):
        if info.name.endswith("__main__"):
            continue
        source = Path(importlib.util.find_spec(info.name).origin).read_text(encoding="utf-8")
        if ">>>" not in source:
            continue
        module = importlib.import_module(info.name)
        for name, holder in own_members(module):
            if ">>>" in (text := inspect.getdoc(holder) or ""):
                found[name] = text
    found["regard"] = regard.__doc__
    return found


def own_members(module: ModuleType) -> Iterator[tuple[str, object]]:
    yield module.__name__, module
    for name, each in vars(module).items():
        if not inspect.isroutine(each) and not inspect.isclass(each):
            continue
        if each.__module__ != module.__name__:
            continue
        yield f"{module.__name__}.{name}", each
        if inspect.isclass(each):
            for own, method in vars(each).items():
                if inspect.isfunction(method):
                    yield f"{module.__name__}.{name}.{own}", method


EXAMPLES = every_docstring()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("examples")
    examples.make(place)
    yield place
    plugins.unload_plugin("mine")


@pytest.fixture
def brief(folder, monkeypatch) -> Iterator[None]:
    """Where the folders are; training takes a few steps and says nothing; what is registered is forgotten."""
    real = run.written_recipe

    def written(recipe, settings, place, *, resume):
        if isinstance(recipe, Mapping):
            plain = {
                name: {**BRIEF.get(name, {}), **recipe.get(name, {})} for name in {*BRIEF, *recipe} - {"task"}
            }
            return real({**recipe, **plain}, settings, place, resume=resume)
        quick = [f"{table}.{key}={value}" for table, own in BRIEF.items() for key, value in own.items()]
        given = {setting.partition("=")[0] for setting in settings}
        quick = [each for each in quick if each.partition("=")[0] not in given]
        return real(recipe, (*quick, *settings), place, resume=resume)

    monkeypatch.chdir(folder)
    monkeypatch.setattr(run, "written_recipe", written)
    monkeypatch.setattr(run, "_check", lambda *_: None)  # eight sentences are too few for the data doctor
    monkeypatch.setattr(run, "Console", partial(Console, quiet=True))
    before = {id(each): {*each.added} for each in plugins._REGISTRIES}
    yield
    for registry in plugins._REGISTRIES:
        for name in {*registry.added} - before[id(registry)]:
            registry.remove(registry[name])


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring_with_an_example(name):
    text = inspect.getdoc(resolved(name))
    assert text, f"{name} has no docstring"
    assert not text.startswith(">>>"), f"{name}: say what it is before the example"
    assert doctest.DocTestParser().get_examples(text), f"{name} has no example"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs_and_gives_what_it_says(name, brief):
    parsed = doctest.DocTestParser().get_doctest(
        EXAMPLES[name], {"regard": regard, "torch": torch, "Path": Path}, name, None, 0
    )
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(parsed, out=said.append)
    assert not runner.failures, "".join(said)


@pytest.mark.parametrize("module", [regard, regard.look], ids=lambda each: each.__name__)
def test_an_editor_sees_all_public_names_and_no_others(module):
    assert dir(module) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'tarnslate'"):
        _ = module.tarnslate


@pytest.mark.parametrize("name", ["regard", "regard.look"])
def test_importing_has_no_effects_and_brings_no_torch(name):
    code = f"import sys, {name}; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["trace", "prune", "measures"])
def test_a_public_name_stays_what_it_is_whatever_was_imported_before(name):
    """None of them is also the name of a file that would take its place."""
    for info in pkgutil.iter_modules(regard.look.__path__):
        importlib.import_module(f"regard.look.{info.name}")
    found = getattr(regard.look, name)
    assert inspect.ismodule(found) == (name == "measures")
