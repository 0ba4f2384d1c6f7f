"""`regard plot`: pictures. Imports no torch."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.tasks.base.options import Device, Model, To, TooLong, command

plot_app = typer.Typer(
    help="Pictures: positions, heads, alignment, curves, maps of meaning, claims.", no_args_is_help=True
)
Out = Annotated[Path, typer.Option("--out", help="The picture: a name in .png, .svg or .pdf.")]


@plot_app.command(name="positions")
@command("regard.look.plot_commands")
def positions(
    out: Out,
    model: Annotated[Path | None, typer.Argument(help="A model folder; unless given, the formula.")] = None,
    width: Annotated[int | None, typer.Option("--width", help="Of the formula; 128.")] = None,
    length: Annotated[
        int | None, typer.Option("--length", help="Positions; 50, or all that a model has learned.")
    ] = None,
    base: Annotated[float | None, typer.Option("--base", help="n of the formula; 10000.")] = None,
    kind: Annotated[
        Literal["sinusoidal", "rotary"] | None, typer.Option("--kind", help="Which formula; sinusoidal.")
    ] = None,
    side: Annotated[
        Literal["encoder", "decoder"], typer.Option("--side", help="Which one of a translator.")
    ] = "encoder",
    device: Device = "auto",
) -> None:
    """How positions are distinguished: sinusoidal, rotary, or as a model has them."""


@plot_app.command(name="heads")
@command("regard.look.plot_commands")
def heads(
    model: Model,
    text: Annotated[str, typer.Argument(help="What the model reads.")],
    out: Out,
    layer: Annotated[int | None, typer.Option("--layer", help="Only this one, counted from 0.")] = None,
    head: Annotated[int | None, typer.Option("--head", help="Only this one, counted from 0.")] = None,
    second: Annotated[str | None, typer.Option("--second", help="Another text, read as a pair.")] = None,
    side: Annotated[
        Literal["encoder", "decoder", "cross"] | None,
        typer.Option("--side", help="Of a translator: cross is from the decoder to the source."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="The translation; unless given, the model's.")
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="Whole words in place of tokens.")] = False,
    to: To = None,
    device: Device = "auto",
) -> None:
    """Who looks at what: every head of every layer, or some of them large."""


@plot_app.command(name="alignment")
@command("regard.look.plot_commands")
def alignment(
    model: Model,
    source: Annotated[str, typer.Argument(help="A sentence.")],
    out: Out,
    target: Annotated[
        str | None, typer.Option("--target", help="Its translation; unless given, the model's.")
    ] = None,
    layer: Annotated[int | None, typer.Option("--layer", help="Of the decoder, counted from 0.")] = None,
    to: To = None,
    device: Device = "auto",
) -> None:
    """Which word of a translation comes from which word of the source."""


@plot_app.command(name="curve")
@command("regard.look.plot_commands")
def curve(
    runs: Annotated[list[Path], typer.Argument(help="Folders that regard train has written.")],
    out: Out,
    metric: Annotated[
        str | None, typer.Option("--metric", help="Beside the loss; the first that all runs log.")
    ] = None,
) -> None:
    """How trainings went, side by side."""


@plot_app.command(name="map")
@command("regard.look.plot_commands")
def texts_map(
    model: Model,
    file: Annotated[
        str, typer.Argument(help="A text a line, or a table (TSV, CSV, JSONL); - for standard input.")
    ],
    out: Out,
    method: Annotated[
        Literal["pca", "tsne"], typer.Option("--method", help="pca: true distances; tsne: true neighbours.")
    ] = "pca",
    labels: Annotated[
        str, typer.Option("--labels", help="clusters, or the table's column: a name, or a place from 0.")
    ] = "clusters",
    text: Annotated[str | None, typer.Option("--text", help="The column of the texts.")] = None,
    clusters: Annotated[int | None, typer.Option("--clusters", help="How many (k-means).")] = None,
    named: Annotated[int, typer.Option("--named", help="Texts written into the map, at most.")] = 14,
    too_long: TooLong = "cut",
    device: Device = "auto",
) -> None:
    """Texts on a plane: those that mean alike lie together."""


@plot_app.command(name="context")
@command("regard.look.plot_commands")
def context(
    model: Model,
    word: Annotated[str, typer.Argument(help="A word that all the sentences have.")],
    sentences: Annotated[list[str], typer.Argument(help="Two or more.")],
    out: Out,
    others: Annotated[
        list[str] | None, typer.Option("--with", help="Another word: how near is it? May be repeated.")
    ] = None,
    device: Device = "auto",
) -> None:
    """How a word's vectors move from one sentence to another, layer by layer."""


@plot_app.command(name="claims")
@command("regard.look.plot_commands")
def claims(
    out: Out,
    quick: Annotated[bool, typer.Option("--quick", help="Less of everything: 15 seconds.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Of the models that are trained.")] = 0,
    device: Device = "auto",
) -> None:
    """Why the Transformer: steps, paths, speed and distance, measured here in two or three minutes."""
