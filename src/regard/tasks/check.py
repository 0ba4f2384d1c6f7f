"""The data doctor on the text of a recipe, whatever its task, or on files without one; and whether a model
folder is whole."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from regard.config import ConfigError, override
from regard.tasks.base.doctor import worded
from regard.tasks.base.files import Asked
from regard.tasks.base.formats import FileOptions, format_of
from regard.tasks.base.recipe import Written, refuse_pipes
from regard.tasks.base.sources import Source, existing, separator_in
from regard.tasks.base.task import Task
from regard.tasks.registry import all_tasks, as_recipe, get_task, read_recipe
from regard.tasks.translation.check import check_pairs
from regard.text import DataError, Origin
from regard.text.doctor import Report, Vectors, render
from regard.text.files import refuse_pipe
from regard.text.tmx import is_tmx, tmx_languages

if TYPE_CHECKING:
    from regard.tasks.base.verify import Verified


def check(
    recipe: str | None,
    settings: Sequence[str],
    pairs: tuple[Path, Path] | None,
    *,
    files: Sequence[str] = (),
    valid: Sequence[str] = (),
    test: Sequence[str] = (),
    task: str | None = None,
    options: FileOptions | None = None,
    model: Path | None = None,
    device: str = "auto",
    examples: int = 3,
    console: Console,
) -> Report:
    """Everything that is wrong with the text of a recipe, of two files of pairs, or of files of any task,
    printed and returned. `options` say how files are read, `model` is whose vectors doubt labels."""
    if (recipe is not None) + (pairs is not None) + bool(files) != 1:
        raise ConfigError("give a recipe, a model or files of text, or two files with --pairs SOURCE TARGET")
    for each in (*(pairs or ()), *files, *valid, *test):
        refuse_pipe(Path(each))  # all is read twice
    vectors = None if model is None else _vectors(model, device)
    asked: Asked = "prompt"
    if recipe is not None:
        if valid or test or task is not None:
            raise ConfigError(f"--valid, --test and --task are for files, and {recipe} is a recipe")
        asked = "recipe"
        settings = [*settings, *_settings(options)]
        written = read_recipe(recipe, settings)
        refuse_pipes(written)
        report = _report(written, examples, vectors)
    elif pairs is not None and task is None and not settings and vectors is None:
        encoding = "utf-8" if options is None else options.encoding
        report = check_pairs(*pairs, encoding=encoding, examples=examples)
    else:
        train = _files(files) if pairs is None else [[*map(str, pairs)]]
        splits = {"train": train, "valid": _files(valid), "test": _files(test)}
        written = _written(splits, settings, task, options)
        report = _report(written, examples, vectors)
        if task is None and pairs is None:
            report = replace(report, task=written.checked.task)
    report = worded(report, asked)
    render(report, console)
    return report


def _files(names: Sequence[str]) -> list[Any]:
    """As a recipe has them: a translation memory with its two languages."""
    return [[name, *tmx_languages(existing(name))] if is_tmx(name) else name for name in names]


def _report(written: Written[Any], examples: int, vectors: Vectors | None) -> Report:
    task = get_task(written.checked.task)
    doctor = task.doctor or task.check
    if doctor is None:
        raise ConfigError(f"{task.noun}s have no doctor: their text is read by regard train --dry-run")
    given = {} if vectors is None else {"vectors": vectors}
    return doctor(written, examples=examples, **given)


def _vectors(model: Path, device: str) -> Vectors:
    embedder: Any = get_task("embed").open(model, device=device)
    return embedder.embed


def _settings(options: FileOptions | None) -> list[str]:
    """Options as settings of a recipe."""
    if options is None:
        return []
    plain = FileOptions()
    names = [name for name in ("encoding", "separator") if getattr(options, name) != getattr(plain, name)]
    return [f"data.{name}={json.dumps(getattr(options, name))}" for name in names]


def _written(
    splits: dict[str, list[Any]], settings: Sequence[str], task: str | None, options: FileOptions | None
) -> Written[Any]:
    """The recipe that these files would be trained by."""
    pairs = isinstance(splits["train"][0], list)
    options = options or FileOptions()
    name = task or ("translate" if pairs else None)
    found: dict[str, Any] = {}
    if not pairs:
        source = _source(splits["train"][0], options)
        columns = () if source is None else source.rows().names
        own = _recognised(splits["train"][0], columns, name)
        if own is None and source is not None and (mark := separator_in(columns, source)) is not None:
            remedy = f"if {mark!r} parts them, give --separator {mark!r}"
            raise DataError(Origin(source.name), f"a single column {columns[0]!r:.60}", remedy=remedy)
        if own is None:
            raise ConfigError(
                f"{splits['train'][0]}: what is it? Say so with --task, and name its columns: --task "
                f"classify data.text=0 data.label=1{f'; there are {columns}' if columns else ''}"
            )
        name, found = own[0].name, own[1]
    data = {**found, **{split: files for split, files in splits.items() if files}}
    plain = override({"task": name, "data": data}, [*settings, *_settings(options)])
    return as_recipe(plain)


def _recognised(file: str, columns: tuple[str, ...], name: str | None) -> tuple[Task, dict[str, Any]] | None:
    """The task whose text this looks like, and how it is read; of the task of this name, whatever it is."""
    for task in [get_task(name)] if name is not None else all_tasks():
        found = None if task.files is None else task.files(file, columns)
        if found is not None or name is not None:
            return task, dict(found or {})
    return None


def _source(file: str, options: FileOptions) -> Source | None:
    """Of a table with a header; None of what is no table, or of one that is not read by lines."""
    try:
        form = format_of(file)
    except DataError:
        return None
    existing(file)
    return None if form == "lines" else Source(file, form, options)


def check_model(folder: Path, *, accepted: bool, console: Console) -> "list[Verified]":
    """Every file of a model folder: is it what was written? With `accepted`, what is there now is."""
    from regard.tasks.base.verify import accept, verify  # with torch

    if accepted:
        accept(folder)
    files = verify(folder)
    for each in files:
        console.print(str(each), highlight=False, markup=False, soft_wrap=True)
    return files
