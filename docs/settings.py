"""Writes docs/settings.md: every key of a recipe, from the configurations themselves.

python docs/settings.py            check that settings.md is up to date
python docs/settings.py --write    write it
"""

import sys
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

from regard.config import field_docs, write_toml
from regard.tasks.base.pairs import PairFiles
from regard.tasks.base.task import Task
from regard.tasks.registry import all_tasks, as_recipe

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "settings.md"

INTRODUCTION = """# Every setting of a recipe

Each task has its own tables: [translate](#task-translate), [pretrain](#task-pretrain),
[classify](#task-classify), [tag](#task-tag), [answer](#task-answer), [embed](#task-embed),
[rerank](#task-rerank), [language](#task-language).

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
    "answer": "Answers to questions: stretches of a text.",
    "embed": "Vectors that are near where texts mean the same, from pairs of such texts.",
    "rerank": "Texts in order by how well they answer a query.",
    "language": "A language model, from plain text: it completes a prompt.",
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
    "decode": "How the trained model translates, unless a command sets something else.",
}


def suited_in(task: str) -> dict[str, dict[str, object]]:
    """Which values of a task's recipe go by the size of the text."""
    files: object = ["a", "b"] if task in ("translate", "embed") else "a"
    example = as_recipe({"task": task, "data": {"train": files}})
    return example.spec.suited(example.checked, example.plain, 1000, 1000, cuda=False, ranks=1)


def default(spec: Field) -> str:
    if spec.default is MISSING and spec.default_factory is MISSING:
        return "needed"
    value = spec.default if spec.default is not MISSING else spec.default_factory()
    if value is None or is_dataclass(value):
        return ""
    return f"`{write_toml({'x': value}).strip().removeprefix('x = ') if value != {} else '{}'}`"


def choices(hint: object) -> str:
    """What a choice may be; plugins add to those that are registered."""
    parts = (hint, *get_args(hint))
    for part in parts:
        if get_origin(part) is Annotated:
            return f" One of {', '.join(f'`{name}`' for name in part.__metadata__[0])}, or a plugin's."
    values = [value for part in parts if get_origin(part) is Literal for value in get_args(part)]
    return f" One of {', '.join(f'`{value}`' for value in values)}." if values else ""


def table(config: type, name: str, about: str, suited: dict[str, dict[str, object]]) -> str:
    texts, nested = field_docs(config), []
    rows = [f"\n### [{name}]\n\n{about}\n", "| key | unless set | |", "|---|---|---|"]
    for spec in sorted(fields(config), key=lambda spec: default(spec) != "needed"):
        hint = get_type_hints(config, include_extras=True)[spec.name]
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


def task_page(task: Task, seen: dict[tuple[str, str], str]) -> str:
    """All tables of a task; one that is the same in a task before it is only named."""
    suited, hints = suited_in(task.name), get_type_hints(task.recipe.recipe)
    text, known = f"\n## Task: {task.name}\n\n{TASKS[task.name]}\n", []
    for name in (spec.name for spec in fields(task.recipe.recipe) if spec.name != "task"):
        own = table(hints[name], name, TABLES[name], suited)
        if (name, own) in seen:
            known.append(f"`[{name}]` as in {seen[name, own]}")
        else:
            seen[name, own] = task.name
            text += own
    return text + (f"\n{'; '.join(known)}.\n" if known else "")


def page() -> str:
    seen: dict[tuple[str, str], str] = {}
    return INTRODUCTION + "".join(task_page(task, seen) for task in all_tasks())


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/settings.md is not up to date: run make docs")
