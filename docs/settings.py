"""Writes docs/settings.md: every key of a recipe, from the configurations themselves.

python docs/settings.py            check that settings.md is up to date
python docs/settings.py --write    write it
"""

import ast
import inspect
import sys
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

from regard.config import write_toml
from regard.tasks.pairs import PairFiles, PairsConfig
from regard.tasks.recipe import TranslateRecipe, as_recipe, suited

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "settings.md"

INTRODUCTION = """# Every setting of a recipe

Written by `make docs` from the configurations in the source. A recipe (a TOML file) may set any of them; so
may the prompt: `regard train recipe.toml model.layers=4`. What is not set gets the value given here or, where
it says *suited*, one that suits the text and the machine: `regard train recipe.toml --dry-run` prints all of
them. Where nothing is given, a model's preset decides, or the setting is off.
"""

TABLES = {
    "data": "Which text. A pair of files is `[source, target]`, `[source, target, language]`, or a table "
    "with the keys of `data.train[]`; several pairs are a list of them.",
    "tokenizer": "How text becomes tokens.",
    "model": "The translator's shape: a preset, and what is set beside it.",
    "batch": "How much text a step takes.",
    "loss": "What training makes small.",
    "optimizer": "AdamW, and how its learning rate moves.",
    "average": "Which mean of the weights is kept.",
    "train": "How long, how often, on what.",
    "valid": "How progress is measured.",
    "decode": "How the trained model translates unless it is told otherwise.",
}


EXAMPLE = as_recipe({"data": {"train": ["a", "b"]}})
SUITED = suited(EXAMPLE.checked, EXAMPLE.plain, 1000, 1000, cuda=False, ranks=1)


def described(config: type) -> dict[str, str]:
    """The docstring below each attribute."""
    body = ast.parse(inspect.getsource(config)).body[0].body
    return {
        node.target.id: " ".join(str(after.value.value).split())
        for node, after in pairwise(body)
        if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr)
    }


def default(spec: Field) -> str:
    if spec.default is MISSING and spec.default_factory is MISSING:
        return "needed"
    value = spec.default if spec.default is not MISSING else spec.default_factory()
    if value is None or is_dataclass(value):
        return ""
    return f"`{write_toml({'x': value}).strip().removeprefix('x = ') if value != {} else '{}'}`"


def choices(hint: object) -> str:
    """What a closed choice may be."""
    literals = [part for part in (hint, *get_args(hint)) if get_origin(part) is Literal]
    return "".join(f" One of {', '.join(f'`{value}`' for value in get_args(part))}." for part in literals)


def table(config: type, name: str, about: str) -> str:
    texts, nested = described(config), []
    rows = [f"\n## [{name}]\n\n{about}\n", "| key | unless set | |", "|---|---|---|"]
    for spec in fields(config):
        hint = get_type_hints(config)[spec.name]
        if is_dataclass(hint):
            nested.append(table(hint, f"{name}.{spec.name}", texts.get(spec.name, "")))
        else:
            value = "*suited*" if spec.name in SUITED.get(name, ()) else default(spec)
            rows.append(f"| `{spec.name}` | {value} | {texts.get(spec.name, '')}{choices(hint)} |")
    if config is PairsConfig:
        nested.append(table(PairFiles, f"{name}.train[]", "One pair of files, or one table with both sides."))
    return "\n".join(rows) + "\n" + "".join(nested)


def page() -> str:
    hints = get_type_hints(TranslateRecipe)
    return INTRODUCTION + "".join(table(hints[name], name, about) for name, about in TABLES.items())


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/settings.md is not up to date: run make docs")
