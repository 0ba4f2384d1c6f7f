"""What pretraining's commands do: fill, follows."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from regard.tasks.base.terminal import say
from regard.tasks.pretraining.filler import open_filler


def fill(model: Path, text: str, *, top: int, device: str, as_json: bool, console: Console) -> None:
    """The likeliest words for each mask."""
    found = open_filler(model, device=device).fill(text, top=top)
    if as_json:
        say(console, json.dumps(found.to_dict(), ensure_ascii=False))
        return
    for number, candidates in enumerate(found.candidates, start=1):
        if len(found.candidates) > 1:
            say(console, f"mask {number}")
        for each in candidates:
            say(console, f"{each.probability:.4f}  {each.text}")


def follows(
    model: Path, first: str, seconds: Sequence[str], *, device: str, as_json: bool, console: Console
) -> None:
    """The probability that each of the texts comes next, the likeliest first."""
    filler = open_filler(model, device=device)
    chances = filler.follows([first] * len(seconds), seconds)
    for chance, second in sorted(zip(chances, seconds, strict=True), key=lambda each: -each[0]):
        if as_json:
            say(
                console, json.dumps({"first": first, "second": second, "follows": chance}, ensure_ascii=False)
            )
        else:
            say(console, f"{chance:.4f}  {second}")
