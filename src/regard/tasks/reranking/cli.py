"""What reranking adds to the command line. Imports no torch."""

from typing import Annotated

import typer

from regard.tasks.base.options import FILES, Device, JsonLines, Lines, Model, Precision, TooLong, command


@command("regard.tasks.reranking.commands", files=FILES)
def rerank(
    model: Model,
    query: Annotated[str, typer.Argument(help="What is asked.")],
    file: Lines = "-",
    top: Annotated[int | None, typer.Option("--top", help="So many texts; unless given, all.")] = None,
    as_json: JsonLines = False,
    too_long: TooLong = "windows",
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Put texts in order by how well they answer a query: score, line, text."""


COMMANDS = (rerank,)
