"""What translation adds to the command line. Imports no torch."""

from typing import Annotated, Literal

import typer

from regard.tasks.base.options import (
    DECODING,
    FILES,
    Device,
    Inputs,
    Into,
    JsonLines,
    Model,
    Precision,
    To,
    command,
)


@command("regard.tasks.translation.commands", decoding=DECODING, files=FILES)
def translate(
    model: Model,
    inputs: Inputs = None,
    scores: Annotated[bool, typer.Option("--scores", help="The log-probability before each line.")] = False,
    align: Annotated[
        bool, typer.Option("--align", help="Which word came from which: text ||| 0-0 1-2")
    ] = False,
    as_json: JsonLines = False,
    into: Into = None,
    to: To = None,
    too_long: Annotated[
        Literal["split", "warn", "error"],
        typer.Option("--too-long", help="Lines past the model's length: split by sentence, warn, error."),
    ] = "split",
    split: Annotated[
        Literal["auto", "always", "never"],
        typer.Option(
            "--split",
            help="Lines of several sentences, one by one; auto: where training had single ones.",
        ),
    ] = "auto",
    suppress: Annotated[list[str] | None, typer.Option("--suppress", help="A word that never comes.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="The likeliest token each time.")] = False,
    engine: Annotated[
        Literal["regard", "ctranslate2"],
        typer.Option("--engine", help="ctranslate2: for a folder of regard export --to ctranslate2."),
    ] = "regard",
    precision: Precision = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option("--batch-tokens", help="Tokens read at a time; fewer take less memory, and longer."),
    ] = None,
    device: Device = "auto",
) -> None:
    """Translate texts, files or standard input, line by line; of a table, a column, and the rest is kept.

    With --n-best, lines are i ||| text ||| score."""


@command("regard.tasks.translation.commands")
def align(
    model: Model,
    source: Annotated[str, typer.Argument(help="A sentence.")],
    target: Annotated[str | None, typer.Argument(help="Its translation; unless given, the model's.")] = None,
    to: To = None,
    device: Device = "auto",
) -> None:
    """Draw which word of a translation comes from which word of the source."""


COMMANDS = (translate, align)
