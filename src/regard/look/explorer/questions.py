"""All questions that the page asks, and which ones a saved page carries the answers of."""

from collections.abc import Iterator

from regard.look.explorer import (
    context,
    filling,
    going_on,
    labels,
    layers,
    positions,
    reading,
    tour,
    translation,
)
from regard.look.explorer.asking import Asked, Explorer, Question

PARTS = (reading, translation, layers, positions, context, filling, going_on, labels, tour)

QUESTIONS: dict[str, Question] = {name: answer for part in PARTS for name, answer in part.QUESTIONS.items()}


def script(
    explorer: Explorer, text: str, second: str | None = None, to: str | None = None
) -> Iterator[Asked]:
    """What the page may ask about one text."""
    for part in PARTS:
        yield from part.asked(explorer, text, second, to)
