"""What classification adds to the command line. Imports no torch."""

from pathlib import Path
from typing import Annotated

import typer

from regard.tasks.base.options import (
    FILES,
    Device,
    Inputs,
    Into,
    JsonLines,
    Layer,
    Model,
    Precision,
    TooLong,
    Words,
    command,
)


@command("regard.tasks.classification.commands", files=(*FILES, "second"))
def classify(
    model: Model,
    inputs: Inputs = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Of every label, the likeliest first.")
    ] = False,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="So many labels, the likeliest first, with probabilities.")
    ] = None,
    min_probability: Annotated[
        float | None,
        typer.Option("--min-probability", help="Leave out labels that are less likely: - in their place."),
    ] = None,
    words: Words = False,
    labelled: Annotated[
        Path | None,
        typer.Option(
            "--labelled", help="With --words: CoNLL, words whose labels are known; MODEL is any encoder."
        ),
    ] = None,
    layer: Layer = -1,
    as_json: JsonLines = False,
    into: Into = None,
    too_long: TooLong = "cut",
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Label texts: label, probability and text, line by line; or words, by others that are labelled.

    A pair is a line with a tab between its texts. Of a table, every row stays as it is, and gets columns."""


COMMANDS = (classify,)
