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
from regard.tasks.kinds import KINDS
from regard.tasks.pairs import PairFiles
from regard.tasks.recipe import as_recipe

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "settings.md"

INTRODUCTION = """# Every setting of a recipe

Written by `make docs` from the configurations in the source. A recipe (a TOML file) may set any of them; so
may the prompt: `regard train recipe.toml model.layers=4`. What is not set gets the value given here or, where
it says *suited*, one that suits the text and the machine: `regard train recipe.toml --dry-run` prints all of
them. Where nothing is given, a model's preset decides, or the setting is off.
"""

TASKS = {
    "translate": "A translator, from parallel text.",
    "pretrain": "An encoder, from plain text: it guesses masked words.",
    "classify": "Labels or numbers for texts, or for pairs of texts.",
    "tag": "A tag for each word.",
    "embed": "Vectors that are near where texts mean the same, from pairs of such texts.",
    "language": "A language model, from plain text: it goes on where a text ends.",
}

TABLES = {
    "data": "Which text.",
    "tokenizer": "How text becomes tokens.",
    "model": "The model's shape: a preset, and what is set beside it.",
    "head": "What stands on the encoder.",
    "objective": "What is guessed.",
    "context": "How much text is read at once.",
    "batch": "How much text a step takes.",
    "loss": "What training makes small.",
    "optimizer": "AdamW or Muon, and how the learning rate moves.",
    "average": "Which mean of the weights is kept.",
    "train": "How long, how often, on what.",
    "valid": "How progress is measured.",
    "decode": "How the trained model translates unless it is told otherwise.",
}


def suited_in(task: str) -> dict[str, dict[str, object]]:
    """Which values of a task's recipe go by the size of the text."""
    files: object = ["a", "b"] if task in ("translate", "embed") else "a"
    example = as_recipe({"task": task, "data": {"train": files}})
    return example.kind.suited(example.checked, example.plain, 1000, 1000, cuda=False, ranks=1)


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


def table(config: type, name: str, about: str, suited: dict[str, dict[str, object]]) -> str:
    texts, nested = described(config), []
    rows = [f"\n### [{name}]\n\n{about}\n", "| key | unless set | |", "|---|---|---|"]
    for spec in fields(config):
        hint = get_type_hints(config)[spec.name]
        if is_dataclass(hint):
            nested.append(table(hint, f"{name}.{spec.name}", texts.get(spec.name, ""), suited))
        else:
            value = "*suited*" if spec.name in suited.get(name, ()) else default(spec)
            rows.append(f"| `{spec.name}` | {value} | {texts.get(spec.name, '')}{choices(hint)} |")
    if get_type_hints(config).get("train") == tuple[PairFiles, ...]:
        about = (
            "One pair of files, `[source, target]` or `[source, target, language]`, or one table with both "
            "sides; several are a list of them."
        )
        nested.append(table(PairFiles, f"{name}.train[]", about, suited))
    return "\n".join(rows) + "\n" + "".join(nested)


def task_page(task: str, seen: dict[tuple[str, str], str]) -> str:
    """All tables of a task; one that is the same in a task before it is only named."""
    suited, hints = suited_in(task), get_type_hints(KINDS[task].recipe)
    text, known = f'\n## task = "{task}"\n\n{TASKS[task]}\n', []
    for name in (spec.name for spec in fields(KINDS[task].recipe) if spec.name != "task"):
        own = table(hints[name], name, TABLES[name], suited)
        if (name, own) in seen:
            known.append(f"`[{name}]` as in {seen[name, own]}")
        else:
            seen[name, own] = task
            text += own
    return text + (f"\n{'; '.join(known)}.\n" if known else "")


def page() -> str:
    seen: dict[tuple[str, str], str] = {}
    return INTRODUCTION + "".join(task_page(task, seen) for task in KINDS)


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/settings.md is not up to date: run make docs")
