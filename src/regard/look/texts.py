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
from regard.look.tracing import Trace, trace
from regard.look.words import Tokens
from regard.tasks.base.reading import EncoderPredictor
from regard.tasks.language.generator import Generator
from regard.tasks.translation.pieces import number_sources
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Origin


@dataclass(frozen=True, slots=True, eq=False)
class TracedText:
    """A text on its way through a model: its tokens, and all that was seen.

    >>> tagger = regard.load("runs/entities", regard.Tagger)
    >>> traced = regard.look.trace_reading(tagger, "Ann Leeson met Bob.")
    >>> len(traced.read) == traced.trace.weights(layer=0).shape[-1]
    True
    """

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


def trace_reading(task: EncoderPredictor, text: str, second: str | None = None, **asked: Any) -> TracedText:
    """A text, or a pair, as a classifier, tagger, filler or embedder reads it: a tagger word by word. For a
    filler, [MASK] is the mask. `asked` is what `trace` takes: what, layers, heads, places.

    >>> embedder = regard.load("runs/minilm", regard.Embedder)
    >>> traced = regard.look.trace_reading(embedder, "The bank by the river.", layers=[5])
    >>> traced.read.tokens
    ('[CLS]', 'the', 'bank', 'by', 'the', 'river', '.', '[SEP]')
    """
    found = task.read_text(text, second)
    encoding = found.encoding
    if found.words is not None:
        own = zip(encoding.words, encoding.offsets, strict=True)
        letters = ["" if word is None else found.words[word][slice(*span)] for word, span in own]
        read = Tokens(encoding.tokens, encoding.words, found.words, tuple(letters))
    else:
        read = Tokens.of(encoding, found.text, second)
    if len(encoding) > task.longest:
        many = f"({len(encoding)} tokens, {task.longest} at most)"
        remedy = "shorten it, to be looked at in one pass"
        raise DataError(Origin("input", 1), "too long", many, remedy=remedy)
    packed = pack([[*encoding.ids]]).to(task.device)
    segments = torch.tensor(encoding.segments, device=task.device)
    with task.ready(), trace(task, **asked) as seen:
        task.model(packed.ids, packed.layout, segments)
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
    """A text and its translation: the one that the search finds best, or the `target` that is given.

    >>> translator = regard.load("runs/phrasebook", regard.Translator)
    >>> traced = regard.look.trace_translation(translator, "Where is the station?")
    >>> traced.text
    'Wo ist der Bahnhof?'
    >>> traced.trace.weights("cross", layer=0).shape[1:] == (len(traced.written), len(traced.read))
    True
    """
    tokenizer = translator.tokenizer
    options = translator.options(decoding, too_long="warn", split="never")
    sources = number_sources([text], translator.languages_of(to, 1), [""], None, 1)
    pieces = translator.plan(sources, options)
    if not pieces:
        raise DataError(Origin("input", 1), "nothing to translate", f"({text!r:.60})", remedy="give a word")
    [piece] = pieces
    with translator.ready():
        if target is None:
            [found] = translator.decode([piece], options)
            ids = [*found.hypotheses[0].ids]
        else:
            ids = [*tokenizer.target.encode(target).ids]
        source = pack([piece.ids]).to(translator.device)
        packed = pack([[translator.start, *piece.mark, *ids]]).to(translator.device)
        with trace(translator, **asked) as seen:
            translator.model(source.ids, source.layout, packed.ids, packed.layout)
    written_by = tokenizer.target
    start, end = (
        [written_by.token(id) for id in (translator.start, *piece.mark)],
        written_by.token(translator.end),
    )
    own = Tokens.of(tokenizer.encode(piece.source), piece.source)
    front = [tokenizer.token(id) for id in piece.ids[: len(piece.ids) - 1 - len(own)]]
    wrote = Tokens.written(written_by, ids)
    read, began = own.between(front, [tokenizer.token(tokenizer.require("end"))]), wrote.between(start, [])
    written = wrote.between(start[1:], [end])
    return TracedText(seen, read, written, began, written_by.decode(ids))


def trace_generation(
    generator: Generator,
    prompt: str,
    *,
    decoding: DecodeConfig | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    **asked: Any,
) -> TracedText:
    """A prompt and what `Generator.generate` writes behind it; with max_tokens=0, the prompt alone.

    >>> generator = regard.load("runs/shakespeare", regard.Generator)
    >>> traced = regard.look.trace_generation(generator, "ROMEO:", max_tokens=0)
    >>> traced.trace.weights(layer=0).triu(1).any()  # nobody looks ahead
    tensor(False)
    """
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
    with generator.ready(), trace(generator, **asked) as seen:
        generator.model(packed.ids, packed.layout)
    read = Tokens.written(tokenizer, every)
    ahead = Tokens(read.tokens[1:], read.owners[1:], read.words)
    return TracedText(seen, read, ahead.between([], [""]), text=text)
