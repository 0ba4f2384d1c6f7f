"""A recipe: everything that decides a training run, in one TOML file.

    task = "translate"
    [data]  [tokenizer]  [model]  [batch]  [loss]  [optimizer]  [average]  [train]  [valid]  [decode]

Each table is one frozen configuration. What a recipe does not say gets a value that suits the size of the
data and the machine, once these are known; `recipe.toml` in the model folder then says everything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_type_hints

from regard.config import ConfigError, check_choices, from_dict, override, read_table, to_dict, write_toml
from regard.data import BatchConfig
from regard.decode import DecodeConfig
from regard.models.shape import TranslatorConfig
from regard.tasks.pairs import PairsConfig, plain_files
from regard.text import TokenizerConfig
from regard.train.average import AverageConfig
from regard.train.objectives import LossConfig
from regard.train.optim import OptimizerConfig
from regard.train.trainer import TrainConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidConfig:
    metric: Literal["bleu", "chrf", "exact", "loss"] = "bleu"
    """Which figure says that a model is better."""
    beam: int = 1
    """Beam of the decoding while training; 1 is greedy, and quick."""
    sentences: int = 1000
    """At most so many are decoded."""

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("beam", "sentences"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateRecipe:
    task: Literal["translate"] = "translate"
    data: PairsConfig
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: TranslatorConfig = field(default_factory=TranslatorConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    average: AverageConfig = field(default_factory=AverageConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    valid: ValidConfig = field(default_factory=ValidConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)


@dataclass(frozen=True, slots=True)
class Written:
    """A recipe as somebody wrote it: checked, but for the values that are not there."""

    plain: Mapping[str, Any]
    where: Path
    """The folder that its relative paths start from."""
    checked: TranslateRecipe

    def completed(self, pairs: int, words: int, *, cuda: bool, ranks: int = 1) -> TranslateRecipe:
        """With every value, for so many training pairs with so many target words."""
        plain = {
            name: dict(table) if isinstance(table, Mapping) else table for name, table in self.plain.items()
        }
        for table, values in suited(self.checked, self.plain, pairs, words, cuda=cuda, ranks=ranks).items():
            plain[table] = {**values, **plain.get(table, {})}
        recipe = from_dict(TranslateRecipe, plain)
        return replace(recipe, model=recipe.model.resolved())


def read_recipe(path: Path | str, settings: Iterable[str] = ()) -> Written:
    """A file, and settings such as model.layers=4 on top of it."""
    path, settings = Path(path), [*settings]
    try:
        plain = override(read_table(path), settings)
        # typed at a prompt, a path starts from where one is
        typed = any(setting.partition("=")[0].strip() == "data.root" for setting in settings)
        return as_recipe(plain, "." if typed else path.parent)
    except ConfigError as error:
        if str(error).startswith(str(path)) or (settings and _is_sound(path)):
            raise  # the mistake was typed, or says already where it is
        raise ConfigError(f"{path}: {error}") from error


def _is_sound(path: Path) -> bool:
    try:
        as_recipe(read_table(path), path.parent)
    except ConfigError:
        return False
    return True


def as_recipe(plain: Mapping[str, Any], where: Path | str = ".") -> Written:
    """The same from plain data."""
    if "data" not in plain:
        raise ConfigError('missing table [data]: it names the files, train = ["train.en", "train.de"]')
    task = plain.get("task", "translate")
    if task != "translate":
        raise ConfigError(f"task={task!r} is not known: choose translate")
    _refuse_misplaced("", {name: table for name, table in plain.items() if not isinstance(table, Mapping)})
    for name, table in plain.items():
        if isinstance(table, Mapping):
            _refuse_misplaced(name, table)
    data = plain["data"]
    if isinstance(data, Mapping):
        files = {split: plain_files(data[split]) for split in ("train", "valid", "test") if split in data}
        plain = {**plain, "data": {**data, **files}}
    checked = from_dict(TranslateRecipe, plain)
    languages = checked.data.languages
    if languages and not checked.tokenizer.specials.extra:
        table = plain.get("tokenizer", {})
        extra = {"extra": [f"<2{language}>" for language in languages]}
        specials = {**table.get("specials", {}), **extra}
        plain = {**plain, "tokenizer": {**table, "specials": specials}}
        checked = from_dict(TranslateRecipe, plain)
    return Written(plain, Path(where), checked)


def _refuse_misplaced(name: str, keys: Iterable[str]) -> None:
    """A key in the wrong table, or in none, is told its right one."""
    tables = {spec.name: get_type_hints(TranslateRecipe)[spec.name] for spec in fields(TranslateRecipe)}
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


def suited(
    recipe: TranslateRecipe, plain: Mapping[str, Any], pairs: int, words: int, *, cuda: bool, ranks: int
) -> dict[str, dict[str, Any]]:
    """What suits a corpus of this size on such a machine, table by table. Values that hang on others take
    those as the recipe gives them."""

    def given(table: str, key: str, otherwise: Any) -> Any:
        return plain[table][key] if key in plain.get(table, {}) else otherwise

    vocabulary = min(32_000, max(1000, round(pairs / 3000) * 1000))
    if cuda:
        preset = "small" if pairs < 100_000 else "base"
        tokens, epochs = (4096, 50) if preset == "small" else (16_384, 30)
    else:
        preset = "tiny" if pairs < 200_000 else "small"
        tokens, epochs = 2048, 25
    preset = given("model", "preset", preset)
    tokens = given("batch", "tokens", tokens)
    parts = given("batch", "parts", ranks)
    epoch = max(1, words * 1.4 / (tokens * parts))
    steps = given("train", "steps", int(min(200_000, max(1000, round(epochs * epoch, -2)))))
    if given("train", "minutes", 0) and "steps" not in plain.get("train", {}):
        # The time decides. What goes by the steps goes by how many there will be at least.
        expected = min(steps, max(100, round(60 * given("train", "minutes", 0) * (10 if cuda else 2))))
        steps = 1_000_000
    else:
        expected = steps
    dropout = 0.3 if pairs < 50_000 and preset != "tiny" else 0.1
    return {
        "tokenizer": {"vocabulary": vocabulary},
        "model": {"preset": preset, "dropout": dropout},
        "batch": {"tokens": tokens, "parts": parts, "seed": recipe.train.seed},
        "loss": {"r_drop": 2.5 if cuda and pairs < 200_000 else 0.0},  # it doubles the work
        "optimizer": {
            "warmup": min(4000 if preset in ("base", "big") else 1000, expected // 10),
            "learning_rate": _rate(preset, recipe),
        },
        "average": {"decay": round(min(0.9995, 1 - 10 / max(expected, 20)), 5)},
        "train": {
            "steps": steps,
            "validate_every": max(50, expected // 20),
            "log_every": max(1, min(100, expected // 50)),
        },
    }


def _rate(preset: str, recipe: TranslateRecipe) -> float:
    if recipe.optimizer.schedule == "paper":
        return 1.0
    return {"tiny": 2e-3, "small": 2e-3, "base": 7e-4, "big": 5e-4, "recurrent": 1e-3}[preset]


def recipe_text(recipe: TranslateRecipe) -> str:
    """As TOML, every value written out."""
    return write_toml(to_dict(recipe))
