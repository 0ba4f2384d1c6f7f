"""What language modelling adds to the command line. Imports no torch."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.tasks.base.options import DECODING, Device, JsonLines, Precision, command


@command("regard.tasks.language.commands", decoding=DECODING, files=("encoding",))
def generate(
    model: Annotated[Path, typer.Argument(help="A model folder, one of Hugging Face's, or a GGUF file.")],
    prompt: Annotated[
        list[str] | None, typer.Option("--prompt", help="What is completed; may be repeated.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", help="Prompts, one a line; - for standard input.")
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--ids", help='Ids that are completed by ids, "1 2 3"; may be repeated.'),
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option("--stop", help="A string, or with --ids an id, before which a text ends; repeatable."),
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="The likeliest token each time.")] = False,
    past: Annotated[
        Literal["stop", "slide"],
        typer.Option("--past", help="Where the context is full: stop, or continue from its last half."),
    ] = "stop",
    as_json: JsonLines = False,
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Complete a prompt: the prompt, and what a language model writes behind it.

    Unless another way is asked for, tokens are sampled at temperature 0.8 from the likeliest 95 %. A folder
    without a tokenizer takes --ids."""


@command("regard.tasks.language.chatting", decoding=DECODING)
def chat(
    model: Annotated[
        Path, typer.Argument(help="A model folder with a chat template, or a GGUF file.", show_default=False)
    ],
    prompt: Annotated[
        list[str] | None, typer.Option("--prompt", help="A message; several are turns of one dialogue.")
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", help="What the model is told before the dialogue.")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="The likeliest token each time.")] = False,
    chat_template_kwargs: Annotated[
        str | None,
        typer.Option(
            "--chat-template-kwargs",
            metavar="JSON",
            help="Further variables of the chat template, '{\"enable_thinking\": false}'.",
        ),
    ] = None,
    as_json: JsonLines = False,
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Talk with a language model that was trained to answer: each line that you type, or --prompt, is a
    message; the answer is written as it comes.

    Unless another way is asked for, tokens are sampled at temperature 0.3 from the likeliest 90 %."""


COMMANDS = (generate, chat)
