"""Where a model's heads look while it reads a text: the weights that are drawn, and the tokens they are of.

weights[layer][head, query, key]        rows sum to 1
"""

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import torch

from regard.look.parts import Parts
from regard.look.texts import TracedText, trace_generation, trace_reading, trace_translation
from regard.look.words import Tokens, merge_words
from regard.nn.stacks import Stack
from regard.tasks.base.predictor import Predictor
from regard.tasks.base.reading import EncoderPredictor
from regard.tasks.language.generator import Generator
from regard.tasks.translation.alignment import check_attention
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Origin

Side = Literal["encoder", "decoder", "cross"]


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    what: str
    """Whose attention it is."""
    weights: tuple[np.ndarray, ...]
    """One a layer, [heads, queries, keys]."""
    queries: Tokens
    keys: Tokens

    def by_words(self) -> "Attention":
        each = [merge_words(torch.from_numpy(layer), self.queries, self.keys) for layer in self.weights]
        weights = tuple(layer.weights.numpy() for layer in each)
        return Attention(self.what, weights, words_of(self.queries), words_of(self.keys))

    def chosen(self, layer: int | None, head: int | None) -> None:
        """An error where there is no such layer or head."""
        layers, heads = len(self.weights), len(self.weights[0])
        if layer is not None and not 0 <= layer < layers:
            raise ValueError(f"layer {layer}: there are {layers}, count from 0 to {layers - 1}")
        if head is not None and not 0 <= head < heads:
            raise ValueError(f"head {head}: a layer has {heads}, count from 0 to {heads - 1}")


def words_of(tokens: Tokens) -> Tokens:
    """Words and special tokens, each as one token."""
    units = tokens.units("keep")
    names = tuple(name or tokens.tokens[places[0]] for name, places in units)
    owners = [None if tokens.owners[own[0]] is None else number for number, (_, own) in enumerate(units)]
    return Tokens(names, tuple(owners), names)


def attention_of(
    model: Predictor,
    text: str,
    *,
    second: str | None = None,
    side: Side | None = None,
    target: str | None = None,
    to: str | None = None,
) -> Attention:
    """What every head of every layer looks at. Of a translator, its encoder's unless another `side` is asked
    for; the decoder's is that of writing `target`, or its own translation."""
    sides = [*Parts.of(model).sides]
    if len(sides) > 1:
        if second is not None:
            raise ValueError("a second text is for models that read pairs; a translator reads one")
        return _translator(cast(Translator, model), text, side or "encoder", target, to)
    (own,) = sides
    if side not in (None, own) or target is not None or to is not None:
        raise ValueError(
            f"side={side!r}, target={target!r}, to={to!r}: this model has one side, its {own}; these are for "
            "translators"
        )
    _check_stack(model, own)
    if own == "encoder":
        traced = trace_reading(cast(EncoderPredictor, model), text, second, places=[own])
        return _seen(traced, own, traced.read, traced.read)
    if second is not None:
        raise ValueError("a second text is for models that read pairs; a language model reads one")
    return _generator(cast(Generator, model), text)


def _generator(model: Generator, text: str) -> Attention:
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise ValueError("this language model has no tokenizer: give one that reads text")
    own = Tokens.of(tokenizer.encode(text), text)
    start = tokenizer.ids.start
    if start is not None and (model.begins or not len(own)):
        own = own.between([tokenizer.token(start)], [])
    if not len(own):
        raise DataError(Origin("text"), "it is empty", remedy="give a word at least")
    if model.longest is not None and len(own) > model.longest:
        many = f"{len(own)} tokens, where the model reads {model.longest}"
        raise DataError(Origin("text"), "too long:", many, remedy="shorten it")
    return _seen(trace_generation(model, text, max_tokens=0, places=["decoder"]), "decoder", own, own)


def _translator(model: Translator, text: str, side: Side, target: str | None, to: str | None) -> Attention:
    if side == "cross":
        check_attention(model.model)
    else:
        _check_stack(model, side)
    if target is None:
        target = "" if side == "encoder" else model.translate(text, to=to).text
    traced = trace_translation(model, text, target, to=to, places=[side])
    if side == "encoder":
        return _seen(traced, side, traced.read, traced.read)
    tokenizer = model.tokenizer.target
    written = Tokens.of(tokenizer.encode(target), target)
    front = (model.start, *model.mark(*model.languages_of(to, 1)))
    queries = written.between([tokenizer.token(id) for id in front], [])
    return _seen(traced, side, queries, traced.read if side == "cross" else queries)


def _check_stack(model: Predictor, side: Literal["encoder", "decoder"]) -> None:
    if not isinstance(Parts.of(model).sides[side].body, Stack):
        raise ValueError(
            f"this model's {side} is recurrent: it has no self-attention to draw; a recurrent translator "
            "that attends to the source shows it with side='cross'"
        )


def _seen(traced: TracedText, place: Side, queries: Tokens, keys: Tokens) -> Attention:
    cross = "attention to the source while writing the next token"
    what = cross if place == "cross" else f"self-attention of the {place}"
    layers = traced.trace.layers(place)
    each = (traced.trace.weights(place, layer=layer).double().cpu().numpy() for layer in layers)
    return Attention(what, tuple(each), queries, keys)
