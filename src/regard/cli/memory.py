"""`regard memory`: translation memories and glossaries. Imports no torch."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.tasks.base.options import Json, command

memory_app = typer.Typer(
    help="Translation memories and glossaries: import, search, export.", no_args_is_help=True
)
File = Annotated[Path, typer.Argument(help="A memory, as regard memory import makes it.")]
Source = Annotated[str | None, typer.Option("--source", help="The source language: en, en-US, ...")]
Target = Annotated[str | None, typer.Option("--target", help="The target language.")]


@memory_app.command(name="import")
@command("regard.memory.commands")
def import_memory(
    file: Annotated[
        Path,
        typer.Argument(
            help="TMX, TSV, CSV, XLIFF or PO; with --glossary, TSV, CSV or TBX. May be compressed."
        ),
    ],
    memory: Annotated[Path, typer.Argument(help="The memory; begun if it is not there.")],
    glossary: Annotated[bool, typer.Option("--glossary", help="The file has terms, not segments.")] = False,
    source: Source = None,
    target: Target = None,
    tags: Annotated[
        Literal["drop", "keep"],
        typer.Option("--tags", help="Inline tags of TMX: kept as the code they hide."),
    ] = "drop",
    duplicates: Annotated[
        Literal["newest", "all"], typer.Option("--duplicates", help="Which translations of a text stay.")
    ] = "newest",
    on_error: Annotated[
        Literal["raise", "skip"],
        typer.Option("--on-error", help="A broken record: stop and change nothing, or skip and count it."),
    ] = "raise",
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Of the file, as Python calls it; unless given, UTF-8.")
    ] = None,
    separator: Annotated[
        str | None, typer.Option("--separator", help="Between the cells of tables: ';', or '\\t' for a tab.")
    ] = None,
) -> None:
    """Put a file into a memory: all of it or, if something goes wrong, nothing."""


@memory_app.command(name="export")
@command("regard.memory.commands")
def export_memory(
    memory: File,
    into: Annotated[Path, typer.Argument(metavar="OUT", help="A name in .tmx, .tsv or .csv.")],
    source: Source = None,
    target: Target = None,
) -> None:
    """Write what a memory has into a file."""


@memory_app.command(name="search")
@command("regard.memory.commands")
def search_memory(
    memory: File,
    texts: Annotated[list[str], typer.Argument(help="What is looked for.")],
    at_least: Annotated[int, typer.Option("--at-least", help="The lowest score, 1 to 100.")] = 70,
    limit: Annotated[int, typer.Option("--limit", help="Matches of each text.")] = 5,
    source: Source = None,
    target: Target = None,
    as_json: Json = False,
) -> None:
    """Find texts that are the same or nearly so, and their translations."""


@memory_app.command(name="info")
@command("regard.memory.commands")
def show_memory(memory: File, as_json: Json = False) -> None:
    """What a memory has: languages, segments, terms."""
