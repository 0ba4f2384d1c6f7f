"""Where a model's heads look while it reads a text: the weights that are drawn, and the tokens they are of.

    weights[layer][head, query, key]        rows sum to 1

With words in place of tokens, a word is looked at as much as all of its tokens, and looks as they do on
average (Clark et al. 2019): rows still sum to 1.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from regard.data.packing import Packed, pack
from regard.look.parts import Model as Whole
from regard.look.trace import trace
from regard.nn.stacks import Stack
from regard.tasks.alignment import check_attention
from regard.tasks.language.generator import Generator
from regard.tasks.load import Model
from regard.tasks.translator import Translator, encode_sources
from regard.text import DataError, Encoding, Origin, Tokenizer

Side = Literal["encoder", "decoder", "cross"]


@dataclass(frozen=True, slots=True)
class Token:
    label: str
    """What it says; behind ## where it goes on with a word."""
    special: bool = False
    word: str | None = None
    """That it is part of."""
    begins: bool = True
    """False within a word."""


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    what: str
    """Whose attention it is."""
    weights: tuple[np.ndarray, ...]
    """One a layer, [heads, queries, keys]."""
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]

    def by_words(self) -> "Attention":
        rows, columns = _membership(self.queries), _membership(self.keys)
        rows = rows / rows.sum(axis=1, keepdims=True)
        merged = tuple(rows @ layer @ columns.T for layer in self.weights)
        return Attention(self.what, merged, words_of(self.queries), words_of(self.keys))

    def chosen(self, layer: int | None, head: int | None) -> None:
        """An error where there is no such layer or head."""
        layers, heads = len(self.weights), len(self.weights[0])
        if layer is not None and not 0 <= layer < layers:
            raise ValueError(f"layer {layer}: there are {layers}, count from 0 to {layers - 1}")
        if head is not None and not 0 <= head < heads:
            raise ValueError(f"head {head}: a layer has {heads}, count from 0 to {heads - 1}")


def _membership(tokens: Sequence[Token]) -> np.ndarray:
    """Which tokens make up each word, [words, tokens]."""
    owner = np.cumsum([token.begins for token in tokens]) - 1
    return (owner == np.arange(owner[-1] + 1)[:, None]).astype(np.float64)


def words_of(tokens: Sequence[Token]) -> tuple[Token, ...]:
    return tuple(Token(token.word or token.label, token.special) for token in tokens if token.begins)


def attention_of(
    model: Model,
    text: str,
    *,
    second: str | None = None,
    side: Side | None = None,
    target: str | None = None,
    to: str | None = None,
) -> Attention:
    """What every head of every layer looks at. Of a translator, its encoder's unless another `side` is asked
    for; the decoder's is that of writing `target`, or its own translation."""
    if isinstance(model, Translator):
        if second is not None:
            raise ValueError("a second text is for models that read pairs; a translator reads one")
        return _translator(model, text, side or "encoder", target, to)
    own = "decoder" if isinstance(model, Generator) else "encoder"
    if side not in (None, own) or target is not None or to is not None:
        raise ValueError(
            f"side={side!r}, target={target!r}, to={to!r}: this model has one side, its {own}; these are for "
            "translators"
        )
    if isinstance(model, Generator):
        if second is not None:
            raise ValueError("a second text is for models that read pairs; a language model reads one")
        return _generator(model, text)
    return _encoder(model, text, second)


def _encoder(model: Any, text: str, second: str | None) -> Attention:
    reader = model.reader
    (piece,) = reader.pieces([text], None if second is None else [second], "error")
    encoding = reader.tokenizer.encode(text, second, template="cls")
    marks = None if piece.segments is None else torch.tensor(piece.segments, device=reader.device)
    packed = pack([[*piece.ids]]).to(reader.device)
    _check_stack(reader.model.encoder.body, "encoder")
    weights = _seen(reader.model, "encoder", lambda: reader.model.states(packed.ids, packed.layout, marks))
    tokens = tokens_of(encoding, [text] if second is None else [text, second])
    return Attention("self-attention of the encoder", weights, tokens, tokens)


def _generator(model: Generator, text: str) -> Attention:
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise ValueError("this language model has no tokenizer: give one that reads text")
    encoding = tokenizer.encode(text)
    tokens, ids = tokens_of(encoding, [text]), [*encoding.ids]
    start = tokenizer.ids.start
    if start is not None and (model.begins or not ids):
        tokens, ids = (Token(tokenizer.token(start), special=True), *tokens), [start, *ids]
    if not ids:
        raise DataError(Origin("text"), "it is empty", remedy="give a word at least")
    if model.longest is not None and len(ids) > model.longest:
        many = f"{len(ids)} tokens, where the model reads {model.longest}"
        raise DataError(Origin("text"), "too long:", many, remedy="shorten it")
    packed = pack([ids]).to(model.device)
    _check_stack(model.model.body, "decoder")
    weights = _seen(model.model, "decoder", lambda: model.model(packed.ids, packed.layout))
    return Attention("self-attention of the decoder", weights, tokens, tokens)


def _translator(model: Translator, text: str, side: Side, target: str | None, to: str | None) -> Attention:
    if to is None and model.languages:
        if len(model.languages) > 1:
            several = ", ".join(model.languages)
            raise ValueError(f"this model writes several languages: say to which, one of {several}")
        to = model.languages[0]
    (ids,) = encode_sources(model.tokenizer, [text], to)
    source = pack([ids]).to(model.device)
    keys = _framed(ids, model.tokenizer, text, behind=1)
    if side == "encoder":
        _check_stack(model.model.encoder.body, "encoder")
        weights = _seen(model.model, side, lambda: model.model.encoder(source.ids, source.layout))
        return Attention("self-attention of the encoder", weights, keys, keys)
    if side == "decoder":
        _check_stack(model.model.decoder.body, "decoder")
    else:
        check_attention(model.model)
    written = model.translate(text, to=to).text if target is None else target
    wanted = [model.tokenizer.require("start"), *model.tokenizer.encode(written).ids]
    asking = pack([wanted]).to(model.device)
    queries = _framed(wanted, model.tokenizer, written, behind=0)
    weights = _seen(model.model, side, lambda: _pass(model, source, asking))
    if side == "decoder":
        return Attention("self-attention of the decoder", weights, queries, queries)
    return Attention("attention to the source while writing the next token", weights, queries, keys)


def _pass(model: Translator, source: Packed, target: Packed) -> object:
    return model.model(source.ids, source.layout, target.ids, target.layout)


def _check_stack(body: nn.Module, side: str) -> None:
    if not isinstance(body, Stack):
        raise ValueError(
            f"this model's {side} is recurrent: it has no self-attention to draw; a recurrent translator "
            "that attends to the source shows it with side='cross'"
        )


def _seen(model: Whole, place: Side, run: Callable[[], object]) -> tuple[np.ndarray, ...]:
    """The weights of each layer there in a pass."""
    with _evaluating(model), trace(model, places=[place]) as seen:
        run()
    return tuple(seen.weights(place, layer=layer).double().cpu().numpy() for layer in seen.layers(place))


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes.items():
            part.training = training


def _framed(ids: Sequence[int], tokenizer: Tokenizer, text: str, behind: int) -> tuple[Token, ...]:
    """The tokens of a text with special ones before it, and so many behind."""
    own = tokens_of(tokenizer.encode(text), [text])
    before = len(ids) - len(own) - behind
    special = [Token(tokenizer.token(id), special=True) for id in (*ids[:before], *ids[before + len(own) :])]
    return (*special[:before], *own, *special[before:])


def tokens_of(encoding: Encoding, texts: Sequence[str]) -> tuple[Token, ...]:
    """What each token says, in the letters of the text; where it has none of its own there, as the
    vocabulary spells it."""
    spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for text, word, span in zip(encoding.texts, encoding.words, encoding.offsets, strict=True):
        if text is not None and word is not None:
            spans.setdefault((text, word), []).append(span)
    lengths = (end - start for own in spans.values() for start, end in own)
    mark = "##" if max(lengths, default=0) > 1 else ""  # which every letter would have, of letters
    found: list[Token] = []
    before = None
    for place, spelled in enumerate(encoding.tokens):
        text, word, (start, end) = encoding.texts[place], encoding.words[place], encoding.offsets[place]
        if text is None or word is None:
            found.append(Token(spelled, special=True))
            before = None
            continue
        own = spans[text, word]
        shared = own.count((start, end)) > 1
        piece = texts[text][start:end]
        begins = (text, word) != before
        label = spelled if shared or not piece.strip() else piece if begins else f"{mark}{piece}"
        whole = texts[text][min(first for first, _ in own) : max(last for _, last in own)].strip()
        found.append(Token(label, word=whole or spelled, begins=begins))
        before = (text, word)
    return tuple(found)
