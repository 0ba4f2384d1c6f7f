"""One word in several sentences: its vectors, layer by layer.

    moved = 1 - cos(a, b) = |a - b|^2 / 2        for a and b of length 1

The map is made of vectors of length 1, so that what lies apart on it has moved. Each layer has the plane in
which its vectors differ most (PCA), rotated so that its points lie as near as can be to those of the layer
above: they can be followed from layer to layer.
"""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from regard.look.explorer.explorer import TOKENS, Answer, Call, Explorer, Refused, check_text
from regard.look.plot_maps import Floats, project
from regard.meaning.context import word_in_context
from regard.tasks.base.reading import EncoderPredictor
from regard.tasks.base.vectors import normalised
from regard.tasks.embedding.embedder import Embedder

MOST = 16
"""Sentences."""

EXAMPLES: dict[str, list[str]] = {
    "apple": [
        "She ate a sweet apple after lunch.",
        "An apple fell from the old tree.",
        "Apple has released a new phone.",
        "Apple makes computers and software.",
    ],
    "bank": [
        "We sat on the bank of the river.",
        "Willows grow along the muddy bank.",
        "She put her money in the bank.",
        "The bank has raised its interest rates.",
    ],
}
"""A saved page carries their answers."""


def context_examples(explorer: Explorer) -> Answer:
    """What the page offers, and how many sentences it may send."""
    examples = [{"word": word, "sentences": sentences} for word, sentences in EXAMPLES.items()]
    return {"examples": examples, "most": MOST}


def context(explorer: Explorer, *, word: str, sentences: list[str]) -> Answer:
    """How a word moves between sentences, in each layer; 0 is the embedding."""
    if "context" not in explorer.views:
        raise Refused(f"a {explorer.kind} has no encoder of texts: words in context need one")
    check_text(word, "word")
    if len(sentences) > MOST:
        raise Refused(f"{len(sentences)} sentences: at most {MOST} can be distinguished here")
    check_text("\n".join(sentences), "sentence")
    reader = cast(EncoderPredictor, explorer.task).reader
    most = min(TOKENS, reader.longest)
    for number, sentence in enumerate(sentences, start=1):
        if (tokens := len(explorer.tokenizer.encode(sentence, template="cls"))) > most:
            raise Refused(f"sentence {number} has {tokens:,} tokens: at most {most:,} are read here")
    moves = word_in_context(Embedder(reader), word, sentences)
    points, shares = _map(np.stack([normalised(each) for each in moves.vectors], axis=1))
    return {
        "word": moves.word,
        "spans": [list(span) for span in moves.spans],
        "pairs": [list(pair) for pair in moves.pairs],
        "cosines": _rounded(moves.cosines),
        "points": _rounded(points),
        "shares": _rounded(shares),
    }


def _map(vectors: Floats) -> tuple[Floats, Floats]:
    """Of vectors [layers, sentences, d_model] of length 1: points [layers, sentences, 2], and how much of
    each layer's variance they show, 0 to 1."""
    wide = vectors.astype(np.float64)
    points = np.stack([project(layer).points for layer in wide])
    for layer in reversed(range(len(points) - 1)):
        left, _, right = np.linalg.svd(points[layer].T @ points[layer + 1])
        points[layer] = points[layer] @ left @ right
    whole = wide.var(axis=1).sum(axis=1)
    shown = points.var(axis=1).sum(axis=1)
    return points, np.divide(shown, whole, out=np.ones_like(whole), where=whole > 1e-12).clip(0, 1)


def _rounded(numbers: Floats) -> Any:
    return numbers.round(6).tolist()


def asked(explorer: Explorer, text: str, second: str | None, to: str | None) -> Iterator[Call]:
    """The examples, whatever the text; those that the model can read."""
    if "context" not in explorer.views:
        return
    yield "context_examples", {}
    for word, sentences in EXAMPLES.items():
        given = {"word": word, "sentences": sentences}
        try:
            explorer.ask("context", given)
        except Refused:
            continue
        yield "context", given


QUESTIONS = {"context_examples": context_examples, "context": context}
