"""The command line: argv becomes one call. No logic lives here; help is printed without importing torch."""

from typing import Annotated

import typer

from regard import __version__

app = typer.Typer(
    name="regard",
    help="The Transformer, whole: from raw text to a trained model.",
    no_args_is_help=True,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """The Transformer, whole: from raw text to a trained model."""


def main() -> None:
    app()
