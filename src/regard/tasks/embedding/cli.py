"""What embedding adds to the command line. Imports no torch."""

from typing import Annotated, Literal

import typer

from regard.tasks.base.options import FILES, Device, Dimensions, Inputs, Model, Precision, TooLong, command


@command("regard.tasks.embedding.commands", files=FILES)
def embed(
    model: Model,
    inputs: Inputs = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            help="The NumPy file for the vectors, or a table (.jsonl, .csv, .tsv) for texts and vectors; of "
            "several files, a folder. Unless given, JSON lines are printed.",
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            help="Which of the model's prompts stands before each text: query, passage; '' for none. Unless "
            "given, the model's default.",
        ),
    ] = None,
    pool: Annotated[
        Literal["first", "mean", "max"] | None,
        typer.Option("--pool", help="How a text becomes one vector; unless given, as the model has it."),
    ] = None,
    normalised: Annotated[
        bool | None,
        typer.Option("--normalised/--raw", help="Vectors of length 1, or not; else the model's way."),
    ] = None,
    layer: Annotated[
        int | None, typer.Option("--layer", help="Of which layer; 0 is the embedding, -1 the last.")
    ] = None,
    dimensions: Dimensions = None,
    words: Annotated[
        bool, typer.Option("--words", help="A vector for each word; which they are is written beside it.")
    ] = False,
    too_long: TooLong = "cut",
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Turn texts into vectors."""


COMMANDS = (embed,)
