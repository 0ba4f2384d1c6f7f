"""Labels of a text or of its words, and what they were read from: attention on whole words."""

from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from torch import Tensor

from regard.look.explorer.explorer import Answer, Call, Explorer, Refused, floats, shares
from regard.look.texts import TracedText
from regard.look.words import Tokens, merge_words
from regard.models.heads import ClassifyHead
from regard.tasks.classification.classifier import Classifier
from regard.tasks.tagging.tagger import Tagger, log_softmax

ONE = Tokens(("",), (None,), ())
"""A row that stands for whatever it was made of."""


def label(explorer: Explorer, *, text: str, second: str | None = None) -> Answer:
    """What a classifier says of a text or a pair, with the attention that led there; or the tags of all
    words."""
    if "label" in explorer.views:
        return _classified(explorer, cast(Classifier, explorer.task), text, second)
    if "tags" in explorer.views:
        return _tagged(explorer, cast(Tagger, explorer.task), text)
    raise Refused(f"this {explorer.kind} gives no labels: look at a classifier or a tagger")


def _classified(explorer: Explorer, task: Classifier, text: str, second: str | None) -> Answer:
    traced = explorer.traced(text, second)
    found = task.classify(text, second)
    return {
        "problem": task.problem,
        "label": found.label,
        "labels": list(found.labels),
        "value": found.value,
        "chances": [[name, chance] for name, chance in found.probabilities.items()],
        **_units(traced),
        "looks": _looks(task, traced),
    }


def _looks(task: Classifier, traced: TracedText) -> list[Answer]:
    """Where the vector came from that the labels are read from: the pool's own attention, if it attends; and
    in each layer that of the token that the head takes, or the mean over all, mean over heads."""
    places = traced.trace.places
    found: list[Answer] = []
    if "pool" in places:
        weights = _merged(traced.trace.weights("pool", layer=0).mean(dim=0), traced)
        found.append({"name": "the pool", "of": "pool", "weights": shares(weights)})
    if "encoder" not in places:
        return found
    kind = cast(ClassifyHead, task.reader.model.head).pool.kind
    of = {"first": "first", "pooler": "first", "last": "last"}.get(kind, "all")
    for layer in traced.trace.layers("encoder"):
        weights = traced.trace.weights("encoder", layer=layer).mean(dim=0)
        row = {"first": weights[:1], "last": weights[-1:]}.get(of, weights.mean(dim=0, keepdim=True))
        found.append({"name": f"layer {layer + 1}", "of": of, "weights": shares(_merged(row, traced))})
    return found


def _merged(row: Tensor, traced: TracedText) -> Tensor:
    """Weights of tokens [1, tokens] as weights of words and special tokens."""
    return merge_words(row, ONE, traced.read).weights[0]


def _units(traced: TracedText) -> Answer:
    """Words and special tokens, in their order."""
    units = traced.read.units("keep")
    return {
        "units": [name for name, _ in units],
        "special": [traced.read.owners[places[0]] is None for _, places in units],
    }


def _tagged(explorer: Explorer, task: Tagger, text: str) -> Answer:
    traced = explorer.traced(text)
    words = task.words(text)
    [scores] = task.scores([words])
    [found] = task.tag([words])
    # a word that left no token has none; of numbers, there is nothing to choose
    chances = np.nan_to_num(np.exp(log_softmax(scores))) if task.labels else np.zeros((len(words), 0))
    return {
        "words": list(words),
        "tags": list(found.tags),
        "chances": found.to_dict()["probabilities"],
        "spans": [[span.label, span.start, span.end] for span in found.spans],
        "labels": list(task.labels),
        "values": found.to_dict().get("values", []),
        "every": floats(torch.from_numpy(chances)),
        "attends": "encoder" in traced.trace.places,
        **_units(traced),
    }


def word_attention(explorer: Explorer, *, text: str, word: int) -> Answer:
    """What the tokens of a word attend to, in each layer, mean over heads: weights of words and special
    tokens, as `label` lists them."""
    explorer.require("tags", "tags no words: look at a tagger")
    traced = explorer.traced(text)
    owners = [owner for owner, own in enumerate(traced.read.words) if own]
    if not 0 <= word < len(owners):
        raise Refused(f"word={word}, where words go from 0 to {len(owners) - 1}")
    own = [place for place, owner in enumerate(traced.read.owners) if owner == owners[word]]
    layers = traced.trace.layers("encoder")
    every = (traced.trace.weights("encoder", layer=layer).mean(dim=0) for layer in layers)
    rows = [_merged(weights[own].mean(dim=0, keepdim=True), traced) for weights in every]
    return {"layers": len(rows), "weights": shares(torch.stack(rows))}


def asked(explorer: Explorer, text: str, second: str | None, to: str | None) -> Iterator[Call]:
    """What the page may ask about one text."""
    if "label" in explorer.views:
        yield "label", {"text": text, "second": second}
    if "tags" in explorer.views:
        yield "label", {"text": text}
        found = explorer.ask("label", {"text": text})
        for word in range(len(found["words"]) if found["attends"] else 0):
            yield "word_attention", {"text": text, "word": word}


QUESTIONS = {"label": label, "word_attention": word_attention}
