"""About the model, and one text's way through it: tokens, heads, and what a head compares."""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.look.explorer.explorer import CHARACTERS, Answer, Call, Explorer, Refused, floats, shares, spelled
from regard.look.parts import Place, head_count, model_of
from regard.look.passes import Views
from regard.look.texts import TracedText
from regard.look.words import Tokens
from regard.nn.attention import DotScore

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
        "languages": task.about().get("languages", []),
        "views": list(explorer.views),
        "sides": [*parts.sides],
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
    keys = seen.keys(place, layer=layer, head=head).contiguous()
    found = seen.shown.attended(place, layer)
    if not isinstance(found.score, DotScore | None):
        raise Refused("this model has a score of its own, which this view does not spell out: see Heads")
    queries, scale = queries_and_scale(explorer, seen, place, layer, head)
    scale = queries.shape[1] ** -0.5 if scale is None else scale
    bias = None
    if found.bias is not None:
        bias = seen.scores(place, layer=layer, head=head) - scale * (queries @ keys.T)
    if found.mask.chosen is not None:
        raise Refused("this layer hides keys one by one, which this view does not know")
    return {
        "size": queries.shape[1],
        "queries": floats(queries),
        "keys": floats(keys),
        "scale": scale,
        "direction": None if found.direction is None else floats(found.direction),
        "bias": None if bias is None else floats(bias),
        "before": found.mask.before,
        "after": found.mask.after,
    }


def queries_and_scale(
    explorer: Explorer, seen: Views, place: Place, layer: int, head: int
) -> tuple[Tensor, float | None]:
    """A head's queries, and what q . k is multiplied by; None for 1 / sqrt(d_head). A model with a scale of
    its own multiplies its queries instead: here they are as they were before."""
    queries = seen.queries(place, layer=layer, head=head).contiguous()
    found = seen.shown.attended(place, layer)
    if isinstance(found.score, DotScore):
        return queries, found.score.scale
    rescale = getattr(explorer.parts.attentions[place][layer], "rescale", 1.0)
    if rescale == 1 or found.score is not None:
        return queries, found.scale
    return queries / rescale, rescale / math.sqrt(queries.shape[1])


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


def _thumbs(traced: TracedText, place: Place) -> Answer:
    layers = traced.trace.layers(place)
    each = [_small(traced.trace.weights(place, layer=layer)) for layer in layers]
    every = torch.cat(each).clamp(0, 1) * 255 + 0.5  # cut off to 8 bits, so it rounds
    return {
        "queries": "written" if place == "cross" else place,
        "keys": "decoder" if place == "decoder" else "encoder",
        "heads": [len(layer) for layer in each],
        "size": list(each[0].shape[1:]),
        "thumbs": spelled(every.cpu().numpy().astype("u1")),
    }


def _small(weights: Tensor) -> Tensor:
    """[heads, rows, columns] in at most THUMB of either: the largest of each field."""
    rows, columns = (min(THUMB, size) for size in weights.shape[-2:])
    return F.adaptive_max_pool2d(weights, (rows, columns))


def asked(explorer: Explorer, text: str, second: str | None, to: str | None) -> Iterator[Call]:
    """What the page may ask about one text."""
    given = {"text": text, "second": second, "to": to}
    yield "read", given
    for place, found in explorer.ask("read", given)["places"].items():
        for layer, heads in enumerate(found["heads"]):
            for head in range(heads):
                yield "head", {**given, "place": place, "layer": layer, "head": head}
                yield "neuron", {**given, "place": place, "layer": layer, "head": head}


QUESTIONS = {"about": about, "read": read, "head": head, "neuron": neuron}
