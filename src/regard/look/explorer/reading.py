"""About the model, and one text's way through it: tokens, heads, and what a head compares."""

from collections.abc import Iterator
from typing import Any

import torch

from regard.look.explorer.asking import (
    CHARACTERS,
    Answer,
    Asked,
    Explorer,
    Question,
    Refused,
    bytes_of,
    floats,
    shares,
    small,
)
from regard.look.kept import Attended
from regard.look.parts import SIDES, Place, head_count, model_of, resolved
from regard.look.texts import TracedText
from regard.look.words import Tokens
from regard.tasks.translator import Translator

THUMB = 32
"""Rows and columns of a head's small picture, at most."""


def about(explorer: Explorer) -> Answer:
    """What the model is, and what can be asked."""
    parts, task = explorer.parts, explorer.task
    config = next(iter(parts.sides.values())).config
    return {
        "name": explorer.name,
        "example": explorer.example,
        "kind": explorer.kind,
        "parameters": sum(each.numel() for each in model_of(task).parameters()),
        "vocabulary": len(explorer.tokenizer),
        "width": config.d_model,
        "positions": config.positions.kind,
        "places": {
            place: {"layers": len(layers), "heads": [head_count(each) for each in layers]}
            for place, layers in parts.attentions.items()
        },
        "languages": list(task.languages) if isinstance(task, Translator) else [],
        "predicts": parts.decoder is not None or parts.masked is not None,
        "characters": CHARACTERS,
    }


def read(explorer: Explorer, *, text: str, second: str | None = None, to: str | None = None) -> Answer:
    """A text's tokens, and every head as a small picture. `second` is the translation to look at, in place of
    the model's own, or the other text of a pair."""
    traced = explorer.traced(text, second, to)
    return {
        "tokens": {name: plain_tokens(own) for name, own in sides(traced).items()},
        "places": {place: _thumbs(traced, place) for place in traced.trace.places},
        "written": traced.text,
    }


def head(
    explorer: Explorer,
    *,
    text: str,
    second: str | None = None,
    to: str | None = None,
    place: Place,
    layer: int,
    head: int,
) -> Answer:
    """What one head weighs: the whole matrix [queries, keys]."""
    weights = explorer.traced(text, second, to).trace.weights(place, layer=layer, head=head)
    return {"shape": list(weights.shape), "weights": shares(weights)}


def neuron(
    explorer: Explorer,
    *,
    text: str,
    second: str | None = None,
    to: str | None = None,
    place: Place,
    layer: int,
    head: int,
) -> Answer:
    """What one head compares: its queries and keys as the pass used them, and how a score comes of two. Key j
    is seen by query i where i - before <= j <= i + after, counted from the end where there are more keys."""
    seen = explorer.traced(text, second, to).trace
    queries, keys = (ask(place, layer=layer, head=head).contiguous() for ask in (seen.queries, seen.keys))
    found = attended(explorer.traced(text, second, to), place, layer)
    bias = None
    if found.bias is not None:
        scale = queries.shape[1] ** -0.5 if found.scale is None else found.scale
        bias = seen.scores(place, layer=layer, head=head) - scale * (queries @ keys.T)
    if found.mask.chosen is not None:
        raise Refused("this layer hides keys one by one, which this view does not know")
    return {
        "size": queries.shape[1],
        "queries": floats(queries),
        "keys": floats(keys),
        "scale": found.scale if found.scale is not None else queries.shape[1] ** -0.5,
        "direction": None if found.direction is None else floats(found.direction),
        "bias": None if bias is None else floats(bias),
        "before": found.mask.before,
        "after": found.mask.after,
    }


def attended(traced: TracedText, place: Place, layer: int) -> Attended:
    shown = traced.trace.shown
    number = resolved(layer, shown.attending[place], f"layer of {place}:")
    return shown.runs[SIDES[place]].attended[place, number]


def sides(traced: TracedText) -> dict[str, Tokens]:
    """The tokens that rows and columns of the places stand for."""
    shown: dict[str, Tokens] = {}
    if "encoder" in traced.trace.shown.runs:
        shown["encoder"] = traced.read
    if "decoder" in traced.trace.shown.runs:
        shown["decoder"] = traced.read if traced.target is None else traced.target
    if traced.written is not None:
        shown["written"] = traced.written
    if "pool" in traced.trace.places:
        shown["pool"] = Tokens(("pool",), (None,), ())
    return shown


def plain_tokens(own: Tokens) -> dict[str, Any]:
    return {
        "tokens": list(own.tokens),
        "owners": [-1 if owner is None else owner for owner in own.owners],
        "words": list(own.words),
    }


ROWS: dict[Place, str] = {"encoder": "encoder", "decoder": "decoder", "cross": "written", "pool": "pool"}
COLUMNS: dict[Place, str] = {
    "encoder": "encoder",
    "decoder": "decoder",
    "cross": "encoder",
    "pool": "encoder",
}


def _thumbs(traced: TracedText, place: Place) -> Answer:
    layers = traced.trace.layers(place)
    each = [small(traced.trace.weights(place, layer=layer), THUMB) for layer in layers]
    return {
        "queries": ROWS[place],
        "keys": COLUMNS[place],
        "heads": [len(layer) for layer in each],
        "size": list(each[0].shape[1:]),
        "thumbs": bytes_of(torch.cat(each)),
    }


def asked(explorer: Explorer, text: str, second: str | None, to: str | None) -> Iterator[Asked]:
    """What the page may ask about one text."""
    given = {"text": text, "second": second, "to": to}
    yield "read", given
    for place, found in explorer.ask("read", given)["places"].items():
        for layer, heads in enumerate(found["heads"]):
            for head in range(heads):
                yield "head", {**given, "place": place, "layer": layer, "head": head}
                yield "neuron", {**given, "place": place, "layer": layer, "head": head}


QUESTIONS: dict[str, Question] = {"about": about, "read": read, "head": head, "neuron": neuron}
