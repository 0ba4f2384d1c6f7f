"""Writes docs/api.md: the names of `import regard`, their signatures and docstrings.

python docs/api.py            check that api.md is up to date
python docs/api.py --write    write it
"""

import ast
import inspect
import re
import sys
import textwrap
from dataclasses import is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import regard
from regard.config import field_docs
from regard.layout import Layout
from regard.look.tracing import Trace
from regard.meaning.index import Hit, Index
from regard.meaning.mining import Mined, MiningConfig, mine
from regard.nn.masks import Mask
from regard.tasks.answering.answerer import Answered, AnswerSpan
from regard.tasks.classification.classifier import Prediction
from regard.tasks.embedding.embedder import WordVectors
from regard.tasks.pretraining.filler import Candidate, Filled
from regard.tasks.reranking.reranker import Ranked
from regard.tasks.tagging.tagger import TaggedWords
from regard.tasks.translation.result import Alternative, Translation

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "api.md"
WIDTH = 100
HANDED_OUT = ("Predictor", "Trace")
"""Not built by their callers."""
INTERNAL = ("listen",)

INTRODUCTION = """# API reference

Written by `make docs` from the docstrings of the source. Everything here is `import regard`; what has a
module behind its name is what these functions take and return. Importing regard does not import torch; using
it does.
"""
GROUPS: dict[str, tuple[str, list[Any]]] = {
    "Training and opening": (
        "A recipe becomes a model folder; a model folder becomes a predictor.",
        ["fit", "load", "save", "to_dicts", "Predictor"],
    ),
    "Translation": ("", ["Translator", Translation, Alternative]),
    "Pretraining": ("", ["Filler", Filled, Candidate]),
    "Classification": ("", ["Classifier", Prediction]),
    "Tagging": ("", ["Tagger", TaggedWords]),
    "Answering": ("", ["Answerer", Answered, AnswerSpan]),
    "Embedding and search": ("", ["Embedder", WordVectors, Index, Hit]),
    "Reranking": ("", ["Reranker", Ranked, MiningConfig, Mined, mine]),
    "Language models": ("", ["Generator"]),
    "Decoding": ("Translators and generators take these settings.", ["DecodeConfig"]),
    "Looking inside": ("", ["trace", Trace]),
    "Parts of your own": (
        "What `regard.register` takes. [Changing the Transformer](guides/changing.md) has examples.",
        ["register", "load_plugin", "Positions", "Score", "HeadSpec", "Metric", "Task"],
    ),
    "Packed tokens": ("", [Layout, Mask]),
}


def title(name: str, thing: Any) -> str:
    return f"regard.{name}" if name in regard.__all__ else f"{name}, of {thing.__module__}"


def parsed(thing: Any) -> Any:
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(thing)))).body[0]


def signature(name: str, node: ast.FunctionDef) -> str:
    """As it is written, without self; one argument a line where it is long."""
    arguments = node.args
    both = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(both) - len(arguments.defaults)) + arguments.defaults
    parts = [
        _argument(*each) for each in zip(both, defaults, strict=True) if each[0].arg not in ("self", "cls")
    ]
    if arguments.vararg:
        parts.append(f"*{_argument(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [_argument(*each) for each in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg:
        parts.append(f"**{_argument(arguments.kwarg, None)}")
    returns = f" -> {ast.unparse(node.returns).strip(chr(39))}" if node.returns else ""
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    text = argument.arg + (f": {ast.unparse(argument.annotation)}" if argument.annotation else "")
    if default is None:
        return text
    return f"{text} = {ast.unparse(default)}" if argument.annotation else f"{text}={ast.unparse(default)}"


def prose(text: str | None) -> str:
    """A docstring as Markdown: examples, formulas and lists of arguments become blocks of code."""
    out = []
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        if paragraph.startswith(">>>"):
            out.append(f"```pycon\n{paragraph}\n```\n")
        elif paragraph.startswith("    ") or re.match(r"\w+ {2,}\S", paragraph):
            out.append(f"```text\n{textwrap.dedent(paragraph)}\n```\n")
        elif paragraph:
            out.append(f"{paragraph}\n")
    return "\n".join(out)


def described(name: str, thing: Any) -> str:
    if inspect.isclass(thing):
        return described_class(name, thing)
    code = signature(name, parsed(thing))
    return f"\n### {title(name, thing)}\n\n```text\n{code}\n```\n\n{prose(thing.__doc__)}"


def described_class(name: str, thing: type) -> str:
    out = [f"\n### {title(name, thing)}\n"]
    own = vars(thing).get("__init__")
    built = inspect.isfunction(own) and not is_dataclass(thing) and name not in HANDED_OUT
    if built:
        out.append(f"```text\n{signature(name, parsed(own))}\n```\n")
    about = thing.__doc__ or ""
    if about and not about.startswith(f"{name}("):  # a dataclass without a docstring has its signature there
        out.append(prose(about))
    if built and own.__doc__:
        out.append(prose(own.__doc__))
    if rows := fields_of(thing):
        out.append("| field | unless set | |\n|---|---|---|")
        out += [f"| `{field}` | {default} | {text} |" for field, default, text in rows]
        out.append("")
    for member, value in members(thing):
        node = parsed(value)
        plain = isinstance(vars(owner(thing, member))[member], property)
        code = f"{member}: {ast.unparse(node.returns)}" if plain else signature(member, node)
        out.append(f"#### {name}.{member}\n\n```text\n{code}\n```\n\n{prose(value.__doc__)}")
    return "\n".join(out)


def fields_of(thing: type) -> list[tuple[str, str, str]]:
    texts, rows = field_docs(thing) if is_dataclass(thing) else {}, []
    if issubclass(thing, tuple):
        for node, after in pairwise(parsed(thing).body):
            if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr):
                texts[node.target.id] = ast.literal_eval(after.value)
    for each in reversed(thing.__mro__):
        if is_dataclass(each) or (each is thing and issubclass(thing, tuple)):
            for node in parsed(each).body:
                if isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
                    default = f"`{ast.unparse(node.value)}`" if node.value else ""
                    rows.append((node.target.id, default, texts.get(node.target.id, "").replace("|", "\\|")))
    return rows


def owner(thing: type, member: str) -> type:
    return next(each for each in thing.__mro__ if member in vars(each))


def members(thing: type) -> list[tuple[str, Any]]:
    """Public methods and properties, those of regard's own bases too, in the order of the source."""
    found: dict[str, Any] = {}
    for each in thing.__mro__:
        if not each.__module__.startswith("regard."):
            continue
        for name, value in vars(each).items():
            if name.startswith("_") or name in found:
                continue
            if isinstance(value, property):
                found[name] = value.fget
            elif isinstance(value, classmethod | staticmethod):
                found[name] = value.__func__
            elif inspect.isfunction(value):
                found[name] = value
    return [(name, value) for name, value in found.items() if value.__doc__ and name not in INTERNAL]


def page() -> str:
    text = INTRODUCTION
    for heading, (about, things) in GROUPS.items():
        text += f"\n## {heading}\n" + (f"\n{about}\n" if about else "")
        for thing in things:
            name = thing if isinstance(thing, str) else thing.__name__
            text += described(name, getattr(regard, name) if isinstance(thing, str) else thing)
    return text


def missing() -> list[str]:
    """Public names that the page does not have."""
    listed = {thing for _, things in GROUPS.values() for thing in things if isinstance(thing, str)}
    return sorted({*regard.__all__} - {"__version__"} - listed)


if __name__ == "__main__":
    if left := missing():
        sys.exit(f"docs/api.py leaves out {', '.join(left)}")
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/api.md is not up to date: run make docs")
