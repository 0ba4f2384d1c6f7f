"""All questions that the page asks, and which ones a saved page carries the answers of."""

from collections.abc import Iterator

from regard.look.explorer import (
    answers,
    completion,
    context,
    filling,
    labels,
    layers,
    positions,
    reading,
    tour,
    translation,
)
from regard.look.explorer.explorer import Call, Explorer, Question

PARTS = (reading, translation, layers, positions, completion, context, filling, labels, answers, tour)

QUESTIONS: dict[str, Question] = {name: answer for part in PARTS for name, answer in part.QUESTIONS.items()}


def script(explorer: Explorer, text: str, second: str | None = None, to: str | None = None) -> Iterator[Call]:
    """What the page may ask about one text."""
    for part in PARTS:
        yield from part.asked(explorer, text, second, to)
