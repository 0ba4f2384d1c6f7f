"""How good a model is on labelled text: what `regard evaluate MODEL --labelled FILE` shares between tasks."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.config import ConfigError
from regard.tasks.base.folder import FolderError
from regard.tasks.base.recipe import RecipeSpec, read_recipe
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import say


def labelled_data(model: Path, spec: RecipeSpec[Any], options: EvaluateOptions) -> Any:
    """The [data] of the recipe that trained a model, with these files in place of its own, to validate on."""
    options.only("labelled")
    if not options.labelled:
        raise ConfigError("this model is measured on labelled text: give --labelled FILE")
    recipe = model / "recipe.toml"
    if not recipe.exists():
        raise FolderError(
            f"{model}: no recipe.toml, which says how labelled text is written; train it with regard train"
        )
    data = read_recipe(recipe, lambda task: spec).checked.data
    names = tuple(str(path.resolve()) for path in options.labelled)
    return replace(data, train=names, valid=names, test=(), hold_out=0, root="")


def own_data(model: Path, spec: RecipeSpec[Any]) -> Any:
    """The [data] of the recipe that trained a model."""
    return read_recipe(model / "recipe.toml", lambda task: spec).checked.data


def say_figures(console: Console, figures: Mapping[str, float]) -> None:
    for name, value in figures.items():
        say(console, f"{name:<10} {value:.4f}")
