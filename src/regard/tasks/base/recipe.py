"""A recipe: everything that decides a training run, in one TOML file.

    task = "translate"
    [data]  [tokenizer]  [model]  [batch]  [loss]  [optimizer]  [average]  [train]  [valid]  ...

Each table is one frozen configuration; which there are is the task's business. What a recipe does not say
gets a value that suits the size of the data and the machine, once these are known; `recipe.toml` in the model
folder then says everything.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

from regard.config import ConfigError, from_dict, override, read_table, to_dict, write_toml
from regard.settings.training import AverageConfig, BatchConfig, OptimizerConfig, TrainConfig
from regard.text import TokenizerConfig
from regard.text.files import refuse_pipe

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What the recipes of all tasks have; each names its task, its data and its model."""

    task: str
    data: Any
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: Any
    batch: BatchConfig = field(default_factory=BatchConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    average: AverageConfig = field(default_factory=AverageConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


Own = TypeVar("Own", bound=Any)


@dataclass(frozen=True, slots=True)
class RecipeSpec(Generic[Own]):
    """How the recipes of one task are written."""

    recipe: type[Own]
    suited: Callable[..., Tables]
    """suited(recipe, plain, examples, words, cuda=, ranks=): what suits so many examples with so many words
    on such a machine, table by table. Values that hang on others take those as the recipe gives them."""
    plain: Callable[[dict[str, Any]], dict[str, Any]] = lambda plain: plain
    """The short ways to write something, as the long ones."""
    example: str = 'train = ["train.en", "train.de"]'
    """How [data] names its files."""


Specs = Callable[[str], RecipeSpec[Any]]
"""How recipes of the task of this name are written; a ConfigError where there is no such task."""


@dataclass(frozen=True, slots=True)
class Written(Generic[Own]):
    """A recipe as somebody wrote it: checked, but for the values that are not there."""

    plain: Mapping[str, Any]
    where: Path
    """The folder that its relative paths start from."""
    checked: Own
    spec: RecipeSpec[Own]

    def completed(self, examples: int, words: int, *, cuda: bool, ranks: int = 1) -> Own:
        """With every value, for so many training examples with so many words."""
        plain = {
            name: dict(table) if isinstance(table, Mapping) else table for name, table in self.plain.items()
        }
        suited = self.spec.suited(self.checked, self.plain, examples, words, cuda=cuda, ranks=ranks)
        for table, values in suited.items():
            plain[table] = {**values, **plain.get(table, {})}
        recipe = from_dict(self.spec.recipe, plain)
        return replace(recipe, model=recipe.model.resolved())


def read_recipe(path: Path | str, specs: Specs, settings: Iterable[str] = ()) -> Written[Any]:
    """A file, and settings such as model.layers=4 on top of it."""
    path, settings = Path(path), [*settings]
    try:
        plain = override(read_table(path), settings)
        # typed at a prompt, a path starts from where one is
        typed = any(setting.partition("=")[0].strip() == "data.root" for setting in settings)
        return as_recipe(plain, specs, "." if typed else path.parent)
    except ConfigError as error:
        if str(error).startswith(str(path)) or (settings and _is_sound(path, specs)):
            raise  # the mistake was typed, or says already where it is
        raise ConfigError(f"{path}: {error}") from error


def _is_sound(path: Path, specs: Specs) -> bool:
    try:
        as_recipe(read_table(path), specs, path.parent)
    except ConfigError:
        return False
    return True


def as_recipe(plain: Mapping[str, Any], specs: Specs, where: Path | str = ".") -> Written[Any]:
    """The same from plain data."""
    spec = specs(plain.get("task", "translate"))
    if "data" not in plain:
        raise ConfigError(f"missing table [data]: it names the files, {spec.example}")
    _refuse_misplaced(
        spec.recipe, "", {name: table for name, table in plain.items() if not isinstance(table, Mapping)}
    )
    for name, table in plain.items():
        if isinstance(table, Mapping):
            _refuse_misplaced(spec.recipe, name, table)
    plain = spec.plain(dict(plain))
    return Written(plain, Path(where), from_dict(spec.recipe, plain), spec)


def _refuse_misplaced(recipe: type, name: str, keys: Iterable[str]) -> None:
    """A key in the wrong table, or in none, is named with its right one."""
    tables = {spec.name: get_type_hints(recipe)[spec.name] for spec in fields(recipe)}
    del tables["task"]
    if name and name not in tables:
        return
    for key in keys:
        if key in ({spec.name for spec in fields(tables[name])} if name else {"task", *tables}):
            continue
        homes = [
            f"{other}.{key}"
            for other, config in tables.items()
            if key in {spec.name for spec in fields(config)}
        ]
        if homes:
            path = f"{name}.{key}" if name else key
            raise ConfigError(f"unknown key {path!r}; did you mean {' or '.join(map(repr, homes))}?")


def refuse_pipes(written: Written[Any]) -> None:
    """All text is read more than once, so none of it may come from a pipe."""
    folder = written.where / written.checked.data.root
    for name in _words(written.plain["data"]):
        refuse_pipe(folder / name)


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _words(each)


def given_text(written: Written[Any]) -> str:
    """As TOML, a recipe as it was given, with its paths in full: it means the same in any folder."""
    plain = _said({"task": written.checked.task, **written.plain})
    plain["data"]["root"] = str((written.where / written.checked.data.root).resolve())
    for table, name in (("model", "start"), ("loss", "guide")):
        path = plain.get(table, {}).get(name)
        if path and (written.where / path).exists():
            plain[table][name] = str((written.where / path).resolve())
        elif path and Path(path).exists():
            plain[table][name] = str(Path(path).resolve())
    return write_toml(plain)


def _said(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is None, which says nothing."""
    return {
        key: _said(value) if isinstance(value, Mapping) else value
        for key, value in plain.items()
        if value is not None
    }


def recipe_text(recipe: Recipe) -> str:
    """As TOML, every value written out."""
    return write_toml(to_dict(recipe))
