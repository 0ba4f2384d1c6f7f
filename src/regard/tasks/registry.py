"""The one list of tasks. Whoever wants to know which task it is asks here, and nobody else.

A new task is a folder with `task.py`, which ends in TASK, and a line in FOLDERS. What it adds to the command
line stands in its `cli.py`. Neither imports torch, nor does what knows of recipes and their text: mistakes
are told at once. A plugin hands its own Task to `regard.register`.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import ConfigError, suggestion
from regard.plugins import added_parts, load_installed

if TYPE_CHECKING:
    from regard.tasks.base.recipe import RecipeSpec, Written
    from regard.tasks.base.task import Task

FOLDERS = {
    "translate": "regard.tasks.translation",
    "pretrain": "regard.tasks.pretraining",
    "classify": "regard.tasks.classification",
    "tag": "regard.tasks.tagging",
    "answer": "regard.tasks.answering",
    "embed": "regard.tasks.embedding",
    "rerank": "regard.tasks.reranking",
    "language": "regard.tasks.language",
}
"""Where each task lives, by its name. Only the one that is asked for is imported."""


def _added() -> "Mapping[str, Task]":
    """Tasks of plugins; none before somebody has imported what they are made of."""
    return added_parts("task")


def names() -> tuple[str, ...]:
    return (*FOLDERS, *_added())


def get_task(name: str) -> "Task":
    if name in FOLDERS:
        return import_module(f"{FOLDERS[name]}.task").TASK
    if name not in _added():
        load_installed()
    if name not in _added():
        near = suggestion(str(name), names())
        raise ConfigError(f"task={name!r} is not known: choose {', '.join(names())}{near}")
    return _added()[name]


def all_tasks() -> list["Task"]:
    return [get_task(name) for name in names()]


def commands() -> list[Callable[..., None]]:
    """What the tasks add to the command line; without torch."""
    own = [command for folder in FOLDERS.values() for command in import_module(f"{folder}.cli").COMMANDS]
    return [*own, *(command for task in _added().values() for command in task.commands)]


def task_of(folder: Path | str) -> "Task":
    """The task of a model folder, whoever wrote it."""
    from regard.tasks.base.folder import FolderError, read_config

    name = foreign_task(folder) or read_config(Path(folder)).get("task")
    if not isinstance(name, str) or name not in names():
        raise FolderError(
            f"{folder}/config.json: task {name!r:.60} is not known here, only {', '.join(names())}; is it of "
            "a plugin, which --plugin or regard.load_plugin would bring, or of a newer version?"
        )
    return get_task(name)


def foreign_task(folder: Path | str) -> str | None:
    """The task that serves a Hugging Face folder; None for one of regard's."""
    from regard.hub import head_kind, is_foreign

    folder = Path(folder)
    if not folder.exists() or not is_foreign(folder):
        return None
    kind = head_kind(folder)
    return next((task.name for task in all_tasks() if kind in task.heads), kind)


def task_of_head(kind: str) -> "Task":
    """The task that a head of this kind belongs to."""
    found = next((task for task in all_tasks() if kind in task.heads), None)
    if found is None:
        raise ConfigError(f"head.kind={kind!r} belongs to no task that is known here")
    return found


def _spec(name: str) -> "RecipeSpec[Any]":
    return get_task(name).recipe


def read_recipe(path: Path | str, settings: Iterable[str] = ()) -> "Written[Any]":
    """A recipe file of any task, and settings such as model.layers=4 on top of it."""
    from regard.tasks.base import recipe

    return recipe.read_recipe(path, _spec, settings)


def as_recipe(plain: Mapping[str, Any], where: Path | str = ".") -> "Written[Any]":
    """The same from plain data."""
    from regard.tasks.base import recipe

    return recipe.as_recipe(plain, _spec, where)
