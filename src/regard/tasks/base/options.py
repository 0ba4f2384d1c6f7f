"""Options that commands share, and those that come from a configuration. Imports no torch."""

import gc
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, get_type_hints

import typer
from rich.console import Console

from regard.config import ConfigError, field_docs
from regard.decode.config import DecodeConfig
from regard.tasks.base.formats import FileOptions


def there(folder: Path) -> Path:
    """Told before torch is imported."""
    if not folder.exists():
        raise ConfigError(
            f"{folder}: no such folder; give the --out folder of a training, or a Hugging Face one"
        )
    return folder


Model = Annotated[Path, typer.Argument(help="A model folder.", callback=there)]
Inputs = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files, a text a line or tables (CSV, TSV, JSONL); folders; - for standard input; or texts."
    ),
]
Into = Annotated[
    str | None,
    typer.Option("--out", help="The file to write, its ending the format; of several files, a folder."),
]
Lines = Annotated[str, typer.Argument(help="A text a line, or a table; - for standard input.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One object a line.")]
Words = Annotated[bool, typer.Option("--words", help="Words, by their vectors where they stand.")]
Layer = Annotated[
    int, typer.Option("--layer", help="With --words: whose vectors; 0 is the embedding, -1 the last.")
]
To = Annotated[str | None, typer.Option("--to", help="Target language of a model that writes several.")]
From = Annotated[
    str | None, typer.Option("--from", help="Source language of a model that is told it, as NLLB is.")
]
Precision = Annotated[
    Literal["float32", "bfloat16", "int8", "int4"] | None,
    typer.Option(
        "--precision",
        help="int8 is for the CPU, and int4 for language models there; unless given, bfloat16 on a GPU.",
    ),
]
Dimensions = Annotated[
    int | None,
    typer.Option("--dimensions", help="So many of the first numbers of a vector, of length 1 again."),
]
TooLong = Annotated[
    Literal["cut", "windows", "error"],
    typer.Option("--too-long", help="Texts past the model's length: cut and count, windows, error."),
]

DECODING = tuple(field.name for field in fields(DecodeConfig))
"""All settings of a search."""
FILES = ("format", "column", "separator", "encoding", "header")
"""All settings of reading files, but for pairs."""
_NAMES = {
    "header": ("--header/--no-header",),
    "stop": ("--beam-stop",),
    "n_best": ("--n-best", "--samples"),
    "maximum": ("--maximum", "--max-tokens"),
}
"""Options that are not called as their setting is."""


def _options(config: type, names: Sequence[str], before: str) -> dict[str, inspect.Parameter]:
    """An option for each of these settings, its docstring the help. `before` stands before the names of the
    parameters: a command may have a `stop` or a `format` of its own."""
    hints, docs = get_type_hints(config), field_docs(config)
    return {
        f"{before}_{name}": inspect.Parameter(
            f"{before}_{name}",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                hints[name] | None,
                typer.Option(
                    *_NAMES.get(name, (f"--{name.replace('_', '-')}",)), help=docs[name], show_default=False
                ),
            ],
        )
        for name in names
    }


def _imported(name: str) -> ModuleType:
    """A module, and torch with it, without Python's search for cycles, which takes a tenth of the time: what
    is imported stays."""
    if name in sys.modules:
        return sys.modules[name]
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def command(
    home: str, *, decoding: Sequence[str] = (), files: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command that is declared here, with its options and its help, and is done by the function of the same
    name in the module `home`, which is imported when it is called. That one also gets standard output as
    `out`, and a `console`, if it takes them; with `decoding`, an option for each of these settings of
    `DecodeConfig`, its docstring the help: those that were given are a dictionary; with `files`, the same of
    `FileOptions`, which is made of them."""
    added = _options(DecodeConfig, decoding, "decode") | _options(FileOptions, files, "file")

    def decorate(declared: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(declared, eval_str=True).parameters.values()
        every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]

        def called(**given: Any) -> None:
            work = getattr(_imported(home), declared.__name__)
            takes = inspect.signature(work).parameters
            if decoding:
                values = {name: given.pop(f"decode_{name}") for name in decoding}
                given["decoding"] = {name: value for name, value in values.items() if value is not None}
            if files:
                read = {name: given.pop(f"file_{name}") for name in files}
                given["files"] = FileOptions(**{name: own for name, own in read.items() if own is not None})
            if "console" in takes:
                given["console"] = Console()
            if "out" in takes and "out" not in given:
                given["out"] = sys.stdout
            work(**given)

        called.__signature__ = inspect.Signature([*every, *added.values()])  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in (*every, *added.values())}
        called.__name__, called.__doc__ = declared.__name__, declared.__doc__
        called.__module__ = declared.__module__
        return called

    return decorate
