"""`regard search`, `cluster` and `context`. Imports no torch."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.tasks.base.options import Device, Json, Lines, Model, Precision, command


@command("regard.meaning.commands")
def search(
    model: Model,
    corpus: Annotated[Path, typer.Argument(help="A text a line.")],
    queries: Annotated[list[str], typer.Argument(help="What is looked for.")],
    top: Annotated[int, typer.Option("--top", help="Hits for each query.")] = 5,
    kind: Annotated[
        Literal["auto", "exact", "faiss"], typer.Option("--kind", help="auto: faiss where it pays.")
    ] = "auto",
    index: Annotated[
        Path | None, typer.Option("--index", help="Where the index is kept; unless given, beside the corpus.")
    ] = None,
    as_json: Json = False,
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Find the texts that mean what a query means."""


@command("regard.meaning.commands")
def cluster(
    model: Model,
    file: Lines,
    clusters: Annotated[int | None, typer.Option("--clusters", help="How many groups (k-means).")] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Instead: groups of texts at least so near, 0 to 1.")
    ] = None,
    smallest: Annotated[int, typer.Option("--smallest", help="With --threshold: texts in a group.")] = 2,
    examples: Annotated[int, typer.Option("--examples", help="Shown for each group.")] = 3,
    seed: Annotated[int, typer.Option("--seed", help="Of k-means.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One object a line, with its group.")] = False,
    device: Device = "auto",
) -> None:
    """Group texts by what they mean."""


@command("regard.meaning.commands")
def context(
    model: Model,
    word: Annotated[str, typer.Argument(help="A word that all the sentences have.")],
    sentences: Annotated[list[str], typer.Argument(help="Two or more.")],
    device: Device = "auto",
) -> None:
    """How far a word's vectors move from one sentence to another, layer by layer."""


COMMANDS = (search, cluster, context)
