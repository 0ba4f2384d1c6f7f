"""What of the texts is decoded at once: each whole, or its sentences."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from regard.tasks.translation.encoding import prompt_ids
from regard.tasks.translation.engine import Options
from regard.tasks.translation.pieces import Piece, Source
from regard.tasks.translation.result import TranslationWarning
from regard.text import DataError, Origin, Tokenizer, splitting


class Encoding(Protocol):
    """What a translator knows of its inputs."""

    tokenizer: Tokenizer
    longest: int
    languages: tuple[str, ...]

    def encode_all(self, texts: Sequence[str], sources: Sequence[Source], prompt: str) -> list[list[int]]: ...

    def mark(self, language: str | None) -> tuple[int, ...]: ...


def planned(own: Encoding, sources: Sequence[Source], options: Options) -> list[Piece]:
    """Each text, or its sentences where they are parted or it is too long. A blank one has none."""
    full = [(number, source) for number, source in enumerate(sources) if source.text.strip()]
    stripped = [source.text.strip() for _, source in full]
    encoded = own.encode_all(stripped, [source for _, source in full], options.prompt)
    told = len(prompt_ids(own.tokenizer, options.prompt))
    frame, front = _frame(own) + told, _frame(own) - 1 + told if told else 0
    prefixes = own.tokenizer.target.encode_batch([source.prefix.rstrip() for _, source in full])
    pieces: list[Piece] = []
    for (number, source), text, ids, prefix in zip(full, stripped, encoded, prefixes, strict=True):
        if len(ids) == frame:
            continue  # nothing but characters that leave no token
        parted = options.split and len(splitting.sentences(source.text)) > 1
        if parted or (len(ids) > own.longest and options.too_long == "split"):
            found = [*_split(own, number, source, prefix, options, frame)]
        else:
            start, mark = source.text.index(text), own.mark(source.language)
            span = start, start + len(text)
            found = [Piece(number, span, text, ids, prefix, source.key << 20, mark=mark)]
        _check_length(own, source, found, options)
        pieces += [replace(piece, aligned=source.aligned, front=front) for piece in found]
    return pieces


def _frame(own: Encoding) -> int:
    """Special tokens around a source."""
    return 2 if own.languages else 1


def _check_length(own: Encoding, source: Source, pieces: Sequence[Piece], options: Options) -> None:
    most = max((len(piece.ids) for piece in pieces), default=0)
    if most <= own.longest:
        return
    lengths = f"{most} tokens, but the model was trained on {own.longest} at most"
    if options.too_long == "error":
        remedy = "shorten it, or translate with too_long='split'"
        raise DataError(Origin("input", source.line), "too long:", lengths, remedy)
    message = f"line {source.line}: {lengths}; its translation may be poor, or stop early"
    warnings.warn(message, TranslationWarning, stacklevel=6)


def _split(
    own: Encoding, number: int, source: Source, prefix: list[int], options: Options, frame: int
) -> Iterator[Piece]:
    """The sentences of a text, each behind the prompt; in pieces where they are too long themselves, if that
    is asked for. `frame` is how many tokens stand around each."""

    def fits(part: str) -> bool:
        if options.too_long != "split":
            return True
        return len(own.encode_all([part], [source], options.prompt)[0]) <= own.longest

    spans = splitting.pieces(source.text, fits)
    parts = [source.text[a:b] for a, b in spans]
    encoded = own.encode_all(parts, [source] * len(spans), options.prompt)
    read = [(span, ids) for span, ids in zip(spans, encoded, strict=True) if len(ids) > frame]
    for place, (span, ids) in enumerate(read):
        forced, key = [] if place else prefix, (source.key << 20) + place
        mark = own.mark(source.language)
        yield Piece(number, span, source.text[slice(*span)], ids, forced, key, mark=mark)
