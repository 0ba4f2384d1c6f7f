"""Looking at one text: what a model of a task reads and writes, traced in one whole pass.

A search reorders its rows, so what it wrote is read once more from the beginning: cached steps and the whole
pass attend alike (tests/look/test_trace.py), and row i of a decoder is the step that reads token i and writes
the one after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.data.packing import pack
from regard.decode import DecodeConfig
from regard.look.parts import Reading
from regard.look.trace import Trace, trace
from regard.look.words import Tokens
from regard.tasks.encoders.filler import MASK, Filler
from regard.tasks.encoders.tagger import Tagger
from regard.tasks.language.generator import Generator
from regard.tasks.pieces import number_tasks
from regard.tasks.translator import Translator
from regard.text import DataError, Origin


@dataclass(frozen=True, slots=True, eq=False)
class TracedText:
    trace: Trace
    """Of one pass over one sequence."""
    read: Tokens
    """What the encoder read, or a language model."""
    written: Tokens | None = None
    """For each row of a decoder, the token that came of it."""
    target: Tokens | None = None
    """What a translator's decoder read: the same, one step later, behind the start."""
    text: str = ""
    """What was written."""


def trace_reading(task: Reading, text: str, second: str | None = None, **asked: Any) -> TracedText:
    """A text, or a pair, as a classifier, tagger, filler or embedder reads it: a tagger word by word. For a
    filler, [MASK] is the mask. `asked` is what `trace` takes: what, layers, heads, places."""
    reader = task.reader
    filling = isinstance(task, Filler)
    if filling and second is None:
        text = text.replace(MASK, str(reader.tokenizer.specials.mask))
    if isinstance(task, Tagger) and second is None:
        words = task.words(text)
        encoding = reader.tokenizer.encode_words(words, template="cls")
        read = Tokens(encoding.tokens, encoding.words, words)
    else:
        encoding = reader.tokenizer.encode(text, second, template="cls", specials_in_text=filling)
        read = Tokens.of(encoding, text, second)
    if len(encoding) > reader.longest:
        raise DataError(
            Origin("input", 1),
            "too long",
            f"({len(encoding)} tokens, {reader.longest} at most)",
            remedy="shorten it, to be looked at in one pass",
        )
    packed = pack([[*encoding.ids]]).to(reader.device)
    segments = torch.tensor(encoding.segments, device=reader.device)
    autocast = torch.autocast(reader.device.type, torch.bfloat16, enabled=reader.precision == "bfloat16")
    with reader._ready(), torch.no_grad(), autocast, trace(task, **asked) as seen:
        reader.model(packed.ids, packed.layout, segments)
    return TracedText(seen, read)


def trace_translation(
    translator: Translator,
    text: str,
    target: str | None = None,
    *,
    to: str | None = None,
    decoding: DecodeConfig | None = None,
    **asked: Any,
) -> TracedText:
    """A text and its translation: the one that the search finds best, or the `target` that is given."""
    tokenizer = translator.tokenizer
    wish = translator._wish(decoding, (), "warn", False, None)
    tasks = number_tasks([text], translator._languages(to, 1), [""], None, 1)
    pieces = translator._plan(tasks, wish)
    if not pieces:
        raise DataError(Origin("input", 1), "nothing to translate", f"({text!r:.60})", remedy="give a word")
    [piece] = pieces
    with translator._ready():
        if target is None:
            [found] = translator._decode([piece], wish)
            ids = [*found.hypotheses[0].ids]
        else:
            ids = [*tokenizer.encode(target).ids]
        source = pack([piece.ids]).to(translator.device)
        packed = pack([[tokenizer.require("start"), *ids]]).to(translator.device)
        with trace(translator, **asked) as seen:
            translator.model(source.ids, source.layout, packed.ids, packed.layout)
    start, end = (tokenizer.token(tokenizer.require(role)) for role in ("start", "end"))
    own = Tokens.of(tokenizer.encode(piece.source), piece.source)
    front = [tokenizer.token(id) for id in piece.ids[: len(piece.ids) - 1 - len(own)]]
    wrote = Tokens.written(tokenizer, ids)
    return TracedText(
        seen,
        own.between(front, [end]),
        wrote.between([], [end]),
        wrote.between([start], []),
        tokenizer.decode(ids),
    )


def trace_generation(
    generator: Generator,
    prompt: str,
    *,
    decoding: DecodeConfig | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    **asked: Any,
) -> TracedText:
    """A prompt and what `Generator.generate` writes behind it; with max_tokens=0, the prompt alone."""
    tokenizer = generator.tokenizer
    if tokenizer is None:
        raise ValueError("this generator has no tokenizer: trace its model")
    ids, text = tokenizer.encode(prompt).ids, ""
    start = tokenizer.ids.start
    front = [start] if start is not None and (generator.begins or not ids) else []
    follow: Sequence[int] = ()
    if max_tokens != 0:
        best = generator.generate(prompt, decoding=decoding, max_tokens=max_tokens, seed=seed)[0]
        follow, text = best.ids, best.text
    every = [*front, *ids, *follow]
    packed = pack([every]).to(generator.device)
    with generator._evaluating(), torch.no_grad(), generator._autocast(), trace(generator, **asked) as seen:
        generator.model(packed.ids, packed.layout)
    read = Tokens.written(tokenizer, every)
    ahead = Tokens(read.tokens[1:], read.owners[1:], read.words)
    return TracedText(seen, read, ahead.between([], [""]), text=text)
