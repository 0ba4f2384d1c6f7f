"""What translation adds to the command line. Imports no torch."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.tasks.base.options import (
    DECODING,
    FILES,
    Device,
    From,
    Inputs,
    Into,
    JsonLines,
    Model,
    Precision,
    To,
    command,
)


@command(
    "regard.tasks.translation.commands",
    decoding=DECODING,
    files=tuple(name for name in FILES if name != "format"),
)
def translate(
    model: Model,
    inputs: Inputs = None,
    scores: Annotated[bool, typer.Option("--scores", help="The log-probability before each line.")] = False,
    align: Annotated[
        bool, typer.Option("--align", help="Which word came from which: text ||| 0-0 1-2")
    ] = False,
    as_json: JsonLines = False,
    into: Into = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Where names do not tell: lines, csv, tsv, jsonl, or a document: po, xliff, tmx, ...",
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Of documents: nothing is taken from --out that is there already.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="Of documents: what was done, as a JSON file.")
    ] = None,
    keep_numbers: Annotated[
        bool,
        typer.Option("--keep-numbers", help="Of documents and tables: numbers stay as they are."),
    ] = False,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", help="Of documents: a setting of their format, KEY=VALUE; may be repeated."),
    ] = None,
    to: To = None,
    source_language: From = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            help="Which of the model's prompts stands before each text; '' for none. Unless given, its "
            "default.",
        ),
    ] = None,
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
    glossary: Annotated[
        Path | None,
        typer.Option("--glossary", help="Terms that must become what it says: TSV, CSV, TBX, or a memory."),
    ] = None,
    inflected: Annotated[
        bool,
        typer.Option(
            "--inflected/--exact-terms", help="Other forms of a term, which the model wrote, count."
        ),
    ] = True,
    memory: Annotated[
        Path | None, typer.Option("--memory", help="A memory (regard memory import); --json lists matches.")
    ] = None,
    memory_use: Annotated[
        Literal["exact", "never"],
        typer.Option("--memory-use", help="Whether what the memory has is taken as it is, or only listed."),
    ] = "exact",
    languages: Annotated[
        str | None,
        typer.Option(
            "--languages", help="Of the memory and the glossary, en:de; unless given, --from and --to."
        ),
    ] = None,
    flags: Annotated[
        bool, typer.Option("--flags", help="What somebody should look at; in JSON, or as a column.")
    ] = False,
    suppress: Annotated[list[str] | None, typer.Option("--suppress", help="A word that never comes.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="The likeliest token each time.")] = False,
    engine: Annotated[
        Literal["regard", "ctranslate2"],
        typer.Option("--engine", help="ctranslate2: for a folder of regard export --to ctranslate2."),
    ] = "regard",
    adapter: Annotated[
        Path | None, typer.Option("--adapter", help="What a training with model.adapter.rank has learned.")
    ] = None,
    precision: Precision = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option("--batch-tokens", help="Tokens read at a time; fewer take less memory, and longer."),
    ] = None,
    device: Device = "auto",
) -> None:
    """Translate texts, files or standard input, line by line; of a table, a column, and the rest is kept;
    documents (PO, XLIFF, TMX, ...) whole, in their own format.

    With --n-best, lines are i ||| text ||| score."""


@command("regard.tasks.translation.commands")
def align(
    model: Model,
    source: Annotated[str, typer.Argument(help="A sentence.")],
    target: Annotated[str | None, typer.Argument(help="Its translation; unless given, the model's.")] = None,
    to: To = None,
    source_language: From = None,
    device: Device = "auto",
) -> None:
    """Draw which word of a translation comes from which word of the source."""


COMMANDS = (translate, align)
