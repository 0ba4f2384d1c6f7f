"""`regard doctor` and `regard selftest`. Imports no torch."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.tasks.base.options import Json

WIDE = 150
"""Columns, where the output is no terminal."""


def doctor(as_json: Json = False) -> None:
    """What this machine has, and what is missing: Python, torch, processor, compiler, GPU, memory. For
    text, see regard check. Exits with 1 if regard cannot work here."""
    from rich.console import Console

    from regard.machine import doctor

    console = Console(width=None if sys.stdout.isatty() else WIDE)
    raise typer.Exit(0 if doctor.doctor(as_json=as_json, console=console) else 1)


def selftest(
    model: Annotated[
        Path | None, typer.Argument(help="A model folder; unless given, tiny models of each family.")
    ] = None,
    export: Annotated[
        bool, typer.Option("--export/--no-export", help="Also export the model and compare; takes longest.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Does regard compute here what it should? Two ways to the same numbers, side by side: fused and plain,
    packed and alone, cached and anew, C and torch, exported and native. Exits with 1 if any two differ."""
    from rich.console import Console

    from regard.machine import selftest

    console = Console(width=None if sys.stdout.isatty() else WIDE)
    raise typer.Exit(0 if selftest.selftest(model, export=export, as_json=as_json, console=console) else 1)


COMMANDS = (doctor, selftest)
