"""`regard compare`. Imports no torch."""

from pathlib import Path
from typing import Annotated

import typer

from regard.tasks.base.options import Device


def compare(
    recipe: Annotated[Path, typer.Argument(help="A recipe, or a study of several.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            help="model.positions=learned,rotary is varied; model.layers=4 is set in all variants."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Where the text is: data.root; of a study, the folder of all its text."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where runs and report go.")] = Path("lab/compare"),
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="Runs of each variant; 3, or what a study says.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="What each run may take: tokens=2e6, seconds=60 or flops=1e14."),
    ] = None,
    at_once: Annotated[
        int, typer.Option("--at-once", help="So many runs side by side, where the machine has room for them.")
    ] = 1,
    one_at_a_time: Annotated[
        bool,
        typer.Option("--one-at-a-time", help="No combinations: the recipe as it is, and each value alone."),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Train all of it anew.")] = False,
    device: Device = "auto",
) -> None:
    """Compare variants of a recipe: trained on the same data and seeds, told apart by tests of significance.
    Stopped, the same command goes on."""
    from rich.console import Console

    from regard.lab import commands

    done = commands.compare(
        recipe,
        settings,
        data=data,
        out=out,
        seeds=seeds,
        budget=budget,
        at_once=at_once,
        one_at_a_time=one_at_a_time,
        overwrite=overwrite,
        device=device,
        console=Console(),
    )
    raise typer.Exit(0 if done else 130)


COMMANDS = (compare,)
