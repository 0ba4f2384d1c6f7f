"""How good a model is on labelled text: what `regard evaluate MODEL FILE` shares between tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.config import ConfigError
from regard.tasks.base.own_recipe import own_recipe
from regard.tasks.base.recipe import RecipeSpec, as_recipe, read_recipe
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import say


def labelled_data(
    model: Path,
    spec: RecipeSpec[Any],
    options: EvaluateOptions,
    *,
    columns: Mapping[str, str] | None = None,
    takes: Sequence[str] = (),
    known: Mapping[str, Any] | None = None,
) -> Any:
    """The [data] of the recipe that trained a model, with these files in place of its own, to validate on.
    Of a model without one, the task's defaults, and what is `known` of the model. `columns` are options that
    name a column, and the settings in whose place they are; `takes` are others that the task has a use for.
    """
    columns = columns or {}
    options.only("files", "labelled", *columns, *takes, "encoding", "separator")
    files = [*options.files, *options.labelled]
    if not files:
        raise ConfigError("this model is measured on labelled text: give a FILE of it")
    names = tuple(str(path.resolve()) for path in files)
    recipe = own_recipe(model)
    given = {setting: getattr(options, option) for option, setting in columns.items()}
    changed: dict[str, Any] = {name: as_column(value) for name, value in given.items() if value is not None}
    if not recipe.exists():  # of another's making
        plain = {"train": [*names], "valid": [*names], **(known or {}), **changed, **text_options(options)}
        return as_recipe({"data": plain}, lambda task: spec).checked.data
    data = read_recipe(recipe, lambda task: spec).checked.data
    if any(isinstance(value, str) for value in changed.values()) and "header" in _fields(data):
        changed["header"] = None  # there is one, if a column has a name
    changed |= text_options(options)
    return replace(data, train=names, valid=names, test=(), hold_out=0, root="", **changed)


def text_options(options: EvaluateOptions) -> dict[str, Any]:
    """How files are read, where that was said."""
    given = {name: getattr(options, name) for name in ("encoding", "separator")}
    return {name: value for name, value in given.items() if value is not None}


def _fields(data: Any) -> set[str]:
    return {each.name for each in fields(data)}


def as_column(name: str) -> str | int:
    """A column as it is typed: its name, or its number."""
    return int(name) if name.lstrip("-").isdigit() else name


def own_data(model: Path, spec: RecipeSpec[Any]) -> Any:
    """The [data] of the recipe that trained a model."""
    return read_recipe(own_recipe(model), lambda task: spec).checked.data


def say_figures(console: Console, figures: Mapping[str, float]) -> None:
    for name, value in figures.items():
        say(console, f"{name:<10} {value:.4f}")
