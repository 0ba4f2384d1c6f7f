"""What tagging adds to the command line. Imports no torch."""

from typing import Annotated, Literal

import typer

from regard.tasks.base.options import FILES, Device, Inputs, Into, Model, Precision, command


@command("regard.tasks.tagging.commands", files=[name for name in FILES if name != "format"])
def tag(
    model: Model,
    inputs: Inputs = None,
    form: Annotated[
        Literal["conll", "conllu", "text", "lines", "csv", "tsv", "jsonl"] | None,
        typer.Option(
            "--format",
            help="Of the file, where its name does not tell; .tsv is conll; text and lines are one.",
        ),
    ] = None,
    into: Into = None,
    word: Annotated[int, typer.Option("--word", help="CoNLL: the column of the words, from 0.")] = 0,
    column: Annotated[
        str | None, typer.Option("--tag", help="The column that is replaced: -1; CoNLL-U: UPOS.")
    ] = None,
    comment: Annotated[str, typer.Option("--comment", help="CoNLL: what comments begin with.")] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Tags take the place of those in the file.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Of plain text and tables: one object a sentence, with spans.")
    ] = False,
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Tag words: every line of CoNLL as it is, with a tag behind it; of plain text, a word a line; of a
    table, columns beside the text."""


COMMANDS = (tag,)
