"""The command line: argv becomes one call. No logic lives here; help is printed without importing torch.

Commands for every task are in `core` and `plot`; each task brings its own (`regard.tasks.registry`), and so
do plugins, which are loaded before the commands are known: regard --plugin mine.py train recipe.toml
"""

import atexit
import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

from regard.cli import core
from regard.cli.memory import memory_app
from regard.cli.plot import plot_app
from regard.corpus.cli import corpus_app
from regard.disk import DiskFullError, full_disk
from regard.lab import cli as lab
from regard.machine import cli as machine
from regard.meaning import cli as meaning
from regard.oom import is_out_of_memory
from regard.plugins import load_installed, load_plugin
from regard.serve import cli as serving
from regard.tasks import registry

PRINTED = "standard output"


def _print_version(wanted: bool) -> None:
    if wanted:
        from regard import __version__

        typer.echo(f"regard {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option("--plugin", help="A Python file that registers parts of its own; may be repeated."),
    ] = None,
) -> None:
    """The Transformer, whole: from raw text to a trained model."""


def build() -> typer.Typer:
    """All commands: those of every task, of the tasks there are, and of what stands on vectors."""
    app = typer.Typer(
        name="regard",
        help="The Transformer, whole: from raw text to a trained model.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(root)
    commands: list[Callable[..., None]] = [core.check, core.train, *lab.COMMANDS]
    commands += [*registry.commands(), *meaning.COMMANDS]
    for command in (*commands, core.evaluate):
        app.command()(command)
    app.command(name="import")(core.import_model)
    app.command(name="export")(core.export_model)
    app.command()(core.look)
    app.command()(serving.serve)
    app.add_typer(plot_app, name="plot")
    app.add_typer(memory_app, name="memory")
    app.add_typer(corpus_app, name="corpus")
    for command in (core.vocabulary, core.bench, *machine.COMMANDS, core.phrasebook):
        app.command()(command)
    return app


def main() -> None:
    atexit.register(gc.freeze)  # what is there when the process ends is not searched for cycles once more
    warnings.showwarning = lambda message, *_, **__: typer.echo(f"warning: {message}", err=True)
    if os.environ.get("WORLD_SIZE", "1") != "1":  # torch would tell of a lost rank by a page of frames
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    try:
        _load_plugins(sys.argv[1:])
        app = build()
        if _is_unknown(app, sys.argv[1:]):  # a plugin that is installed may have the command
            load_installed()
            app = build()
        with _writing():
            app()
    except (ValueError, OSError, RuntimeError, MemoryError) as error:
        if os.environ.get("REGARD_TRACEBACK") or not _is_told(error):
            raise
        typer.echo(f"error: {_out_of_memory(error) or error}", err=True)
        sys.exit(1)


@contextmanager
def _writing() -> Iterator[None]:
    """What is printed is written out within: a disk that is full, or a reader that has gone, is told here,
    and not once more when the process ends."""
    try:
        with full_disk(PRINTED):
            try:
                yield
            finally:
                sys.stdout.flush()
    except (DiskFullError, BrokenPipeError) as error:
        if getattr(error, "path", PRINTED) == PRINTED:
            with suppress(OSError, ValueError):  # what is no file of the system's has nothing to write out
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        raise


def _load_plugins(argv: list[str]) -> None:
    """What --plugin names, before the command; a plugin may bring commands, so it comes before they are
    parsed."""
    names = []
    while argv and argv[0].startswith("--plugin"):
        option, sign, value = argv[0].partition("=")
        if option != "--plugin" or (not sign and len(argv) < 2):
            break
        names.append(value if sign else argv[1])
        argv = argv[1:] if sign else argv[2:]
    for name in names:
        load_plugin(name)


def _is_unknown(app: typer.Typer, argv: list[str]) -> bool:
    """Whether the command line begins with a command that is none of these."""
    known = {each.name or getattr(each.callback, "__name__", "") for each in app.registered_commands}
    return bool(argv) and not argv[0].startswith("-") and argv[0] not in {*known, "plot", "memory", "corpus"}


def _is_told(error: Any) -> bool:
    """Whether the message is meant for the user: an error of ours, or a value that was refused."""
    ours = isinstance(error, ValueError | OSError) or type(error).__module__.startswith("regard.")
    return ours or bool(_out_of_memory(error))


_SMALLER = {
    "train": "lower batch.tokens",
    "compare": "lower batch.tokens",
    "translate": "lower --batch-tokens",
    "serve": "lower --max-in-flight, or serve fewer models",
}
"""What takes less memory, by command."""


def _out_of_memory(error: Any) -> str:
    """What to do, if that is what it was."""
    command = next((each for each in sys.argv[1:] if not each.startswith("-")), "")
    if not is_out_of_memory(error):
        return ""
    first = str(error).partition("\n")[0][:200] or "the machine has none left"
    remedy = _SMALLER.get(command, "give it less at once")
    return f"out of memory ({first}); {remedy}, choose a smaller model, or close other programs"
