"""Where a text answers a question: how likely the answer begins, and ends, at each of its words."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import cast

import numpy as np

from regard.look.explorer.explorer import Answer, Call, Explorer, Refused
from regard.tasks.answering.answerer import Answerer

SHOWN = 5
"""Answers that are listed."""


def answer(explorer: Explorer, *, text: str, second: str | None = None) -> Answer:
    """The text is the question, and the second what it is about. Each word with the probability that an
    answer begins there, and that it ends there; the rest is the probability that there is none."""
    task = cast(Answerer, explorer.require("answer", "answers no questions: look at an answerer"))
    if not second:
        raise Refused("a question needs a text that it is about: write it into the second field")
    found = task.answer(text, second, n_best=SHOWN)
    [laid] = task.lay_out([text], [second])
    [scores] = task.spans([laid])
    chances, _ = scores.probabilities()
    starts, ends = chances.sum(axis=1), _ends(chances)
    words = _words(laid.offsets, second)
    return {
        "words": [second[begin:end] for begin, end, _ in words],
        "gaps": [second[before:begin] for before, begin in _between(words)],
        "starts": [float(starts[own].sum()) for *_, own in words],
        "ends": [float(ends[own].sum()) for *_, own in words],
        "inside": [
            found.best is not None and begin < found.best.end and end > found.best.start
            for begin, end, _ in words
        ],
        "answered": found.best is not None,
        "spans": [asdict(span) for span in found.spans],
        "none": found.none,
        "windows": len(laid.windows),
    }


def _ends(chances: np.ndarray) -> np.ndarray:
    """By the last token of a span, from what is by its first and its length."""
    ends = np.zeros(len(chances))
    for more in range(chances.shape[1]):
        ends[more:] += chances[: len(chances) - more, more]
    return ends


def _words(offsets: Sequence[tuple[int, int]], text: str) -> list[tuple[int, int, list[int]]]:
    """Tokens that nothing parts: from where to where, and which."""
    words: list[tuple[int, int, list[int]]] = []
    for number, (begin, end) in enumerate(offsets):
        if words and begin <= words[-1][1] and not text[begin:end].isspace():
            first, last, own = words[-1]
            words[-1] = (first, max(last, end), [*own, number])
        else:
            words.append((begin, end, [number]))
    return words


def _between(words: list[tuple[int, int, list[int]]]) -> Iterator[tuple[int, int]]:
    """What stands before each word."""
    before = 0
    for begin, end, _ in words:
        yield before, begin
        before = end


def asked(explorer: Explorer, text: str, second: str | None, to: str | None) -> Iterator[Call]:
    """What the page may ask about one text."""
    if "answer" in explorer.views and second:
        yield "answer", {"text": text, "second": second}


QUESTIONS = {"answer": answer}
