"""What tagging adds to the command line. Imports no torch."""

from typing import Annotated, Literal

import typer

from regard.tasks.base.options import Device, Model, Precision, command


@command("regard.tasks.tagging.commands")
def tag(
    model: Model,
    file: Annotated[
        str, typer.Argument(help="CoNLL, CoNLL-U, or a sentence a line; - for sentences on standard input.")
    ] = "-",
    form: Annotated[
        Literal["conll", "conllu", "text"] | None,
        typer.Option("--format", help="Of the file, where its name does not tell."),
    ] = None,
    word: Annotated[int, typer.Option("--word", help="CoNLL: the column of the words, from 0.")] = 0,
    column: Annotated[
        str | None, typer.Option("--tag", help="The column that is replaced: -1; CoNLL-U: UPOS.")
    ] = None,
    comment: Annotated[str, typer.Option("--comment", help="CoNLL: what comments begin with.")] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Tags take the place of those in the file.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Of plain text: one object a sentence, with spans.")
    ] = False,
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Tag words: every line of the file as it is, with a tag behind it."""


COMMANDS = (tag,)
