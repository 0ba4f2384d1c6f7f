"""What pretraining adds to the command line. Imports no torch."""

from typing import Annotated

import typer

from regard.tasks.base.options import Device, Json, JsonLines, Model, command


@command("regard.tasks.pretraining.commands")
def fill(
    model: Model,
    text: Annotated[str, typer.Argument(help="A text with [MASK] in it.")],
    top: Annotated[int, typer.Option("--top", help="Candidates for each mask.")] = 5,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Predict the masked words of a text."""


@command("regard.tasks.pretraining.commands")
def follows(
    model: Model,
    first: Annotated[str, typer.Argument(help="A text.")],
    seconds: Annotated[list[str], typer.Argument(help="Texts that may come next.")],
    as_json: JsonLines = False,
    device: Device = "auto",
) -> None:
    """How likely does one text follow another? For models pretrained with next sentences."""


COMMANDS = (fill, follows)
