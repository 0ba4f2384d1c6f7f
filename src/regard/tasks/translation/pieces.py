"""Texts to be translated become pieces that are decoded at once, and pieces become translations again."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.decode import DecodeConfig, Hypothesis
from regard.tasks.translation.alignment import source_spans, target_spans, word_alignment
from regard.tasks.translation.confidence import Calibration
from regard.tasks.translation.result import Alternative, Translation
from regard.text import Tokenizer, splitting
from regard.text.terms import Term

FEW = 8
"""Fewer pieces are not worth being shared out."""


@dataclass(frozen=True, slots=True)
class Source:
    """One text to translate."""

    text: str
    language: str | None
    prefix: str
    key: int
    line: int
    reads: str | None = None
    """The language it is in, for a model that has to be told; unless given, what the model is set to."""
    match: str = ""
    """The translation of a near match, for a model that was trained with such."""
    terms: tuple[Term, ...] = ()
    """What some of its words must become, for a model that was trained to be told."""
    aligned: bool = True
    """Whether its words are aligned where words are."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What is decoded at once: a text, or a part of one."""

    number: int
    """Of the text that it is of."""
    span: splitting.Span
    source: str
    ids: list[int]
    prefix: list[int]
    key: int
    maximum: int = 0
    """How many tokens its translation may have."""
    phrases: tuple[tuple[int, ...], ...] = ()
    """Tokens that its translation must hold, phrase by phrase."""
    mark: tuple[int, ...] = ()
    """What stands between the start and the translation: the token of its language, in some models."""
    matched: int = 0
    """How many of the ids, before the last, are those of a near match."""
    inline: tuple[tuple[int, int], ...] = ()
    """Places of ids that terms have put in, each with that of a token of the term."""
    aligned: bool = True
    """As of the text."""
    front: int = 0
    """How many of the ids stand before those of the text, where there is a prompt."""


@dataclass(frozen=True, slots=True)
class PieceResult:
    """A piece's hypotheses, best first; for the first, how much each of its tokens looked at each of the
    source."""

    hypotheses: list[Hypothesis]
    weights: np.ndarray | None


Part = tuple[Piece, PieceResult]


def number_sources(
    texts: Sequence[str],
    languages: Sequence[str | None],
    prefixes: Sequence[str],
    keys: Sequence[int] | None,
    first: int,
    reads: str | None = None,
    aligned: Sequence[bool] | None = None,
) -> list[Source]:
    """`first` is the line number of the first text, `reads` the language of all, if the model is told;
    `aligned` says of each whether its words are."""
    own = range(first - 1, first - 1 + len(texts)) if keys is None else keys
    if len(own) != len(texts):
        raise ValueError(f"{len(own)} keys for {len(texts)} texts: give one for each")
    each = zip(texts, languages, prefixes, own, strict=True)
    flags = [True] * len(texts) if aligned is None else aligned
    return [Source(*fields, line=first + i, reads=reads, aligned=flags[i]) for i, fields in enumerate(each)]


def in_small_batches(pieces: Sequence[Piece], budget: int, most: int, sharers: int) -> Iterator[list[Piece]]:
    """The longest first, at most so many together; within the budget, and one for each of the `sharers` at
    least, where there are enough pieces."""
    order = sorted(pieces, key=lambda piece: -len(piece.ids))
    if len(order) >= sharers * FEW:
        most = min(most, -(-len(order) // sharers))
    first = 0
    while first < len(order):
        count = max(min(most, budget // len(order[first].ids)), 1)
        yield order[first : first + count]
        first += count


def in_batches(pieces: Sequence[Piece], budget: int, sharers: int = 1) -> Iterator[list[Piece]]:
    """The longest first: as many together as keep their number times the longest within the budget, and at
    least one. Several `sharers` get equally many batches with about as many tokens each, where there are
    enough pieces."""
    order = sorted(pieces, key=lambda piece: -len(piece.ids))
    if len(order) < sharers * FEW:
        sharers = 1
    left = sum(len(piece.ids) for piece in order)
    count = -(-left // (budget * sharers)) * sharers
    first = 0
    while first < len(order):
        most = max(budget // len(order[first].ids), 1)
        goal = -(-left // max(count, 1)) if sharers > 1 else left
        tokens = rows = 0
        for piece in order[first : first + most]:
            if tokens >= goal:
                break
            tokens, rows = tokens + len(piece.ids), rows + 1
        yield order[first : first + rows]
        first, left, count = first + rows, left - tokens, count - 1


def assemble(
    tokenizer: Tokenizer,
    text: str,
    parts: Sequence[Part],
    decoding: DecodeConfig,
    *,
    align: bool,
    calibration: Calibration | None = None,
) -> Translation:
    """The translation of a text from what was found for its pieces, in their order; none if it is blank."""
    spans = [piece.span for piece, _ in parts]
    alternatives = []
    for combination in combine([found.hypotheses for _, found in parts], decoding):
        outputs = [tokenizer.target.decode(hypothesis.ids).strip() for hypothesis in combination]
        alternatives.append(
            Alternative(
                text=splitting.join(outputs, text, spans),
                score=sum((h.score for h in combination), 0.0),
                ranking=sum((h.ranking for h in combination), 0.0) / max(len(combination), 1),
                finished=all(h.finished for h in combination),
                confidence=_confidence(combination, parts, calibration),
            )
        )
    best, unknown = alternatives[0], tokenizer.ids.unknown
    return Translation(
        source=text,
        text=best.text,
        score=best.score,
        ranking=best.ranking,
        finished=best.finished,
        confidence=best.confidence,
        alternatives=tuple(alternatives),
        alignment=_links(tokenizer, text, best.text, parts) if align else None,
        pieces=len(parts),
        unknown=sum(_own(piece).count(unknown) for piece, _ in parts) if unknown is not None else 0,
        match_given=any(piece.matched for piece, _ in parts),
    )


def _own(piece: Piece) -> list[int]:
    """The ids without those of a prompt, of a near match, and of terms."""
    told = {*range(piece.front), *(place for place, _ in piece.inline)}
    return [id for i, id in enumerate(piece.ids[: len(piece.ids) - 1 - piece.matched]) if i not in told]


def _confidence(
    combination: Sequence[Hypothesis], parts: Sequence[Part], calibration: Calibration | None
) -> float:
    """From the mean log-probability of what the model wrote: without forced prefixes, with the ends."""
    pairs = list(zip(combination, parts, strict=True))
    if not pairs:
        return 1.0
    tokens = sum(len(each.ids) - len(piece.prefix) + each.finished for each, (piece, _) in pairs)
    mean = math.exp(min(sum(each.score for each in combination) / max(tokens, 1), 0.0))
    return mean if calibration is None else calibration(mean)


def _links(
    tokenizer: Tokenizer, source: str, target: str, parts: Sequence[Part]
) -> tuple[tuple[int, int], ...]:
    """Words are counted through all pieces; those of one are only linked to those of the same."""
    links = set()
    place = 0
    source_ends, target_ends = _word_ends(source), _word_ends(target)
    for piece, found in parts:
        output, spans = target_spans(tokenizer.target, found.hypotheses[0].ids)
        if found.weights is None:
            continue
        read = source_spans(tokenizer, piece.source)
        own = word_alignment(own_weights(piece, found.weights), piece.source, read, output, spans)
        inner = output.strip()
        place = target.index(inner, place)
        read_words = _numbers(piece.source, piece.span[0], source_ends)
        written_words = _numbers(output, place - output.index(inner), target_ends)
        place += len(inner)
        links |= {(read_words[i], written_words[j]) for i, j in own.links}
    return tuple(sorted(links))


def own_weights(piece: Piece, weights: np.ndarray) -> np.ndarray:
    """Without the columns of a prompt and of a near match; what was looked at of a term's translation is the
    term's."""
    marks = len(piece.ids) - 1 - weights.shape[1]
    weights = weights[:, : weights.shape[1] - piece.matched]
    if piece.inline:
        weights = weights.copy()
        for place, term in piece.inline:
            weights[:, term - marks] += weights[:, place - marks]
        weights = np.delete(weights, [place - marks for place, _ in piece.inline], axis=1)
    return weights[:, max(piece.front - marks, 0) :]


def _word_ends(text: str) -> np.ndarray:
    return np.array([word.end() for word in re.finditer(r"\S+", text)], dtype=np.int64)


def _numbers(part: str, start: int, ends: np.ndarray) -> list[int]:
    """Which words of a whole text the words of a part are; the part begins at `start`, and may begin or end
    inside a word."""
    starts = [start + word.start() for word in re.finditer(r"\S+", part)]
    return np.searchsorted(ends, starts, side="right").tolist()


@dataclass(frozen=True, slots=True, eq=False)
class _Chain:
    """One hypothesis for each piece so far, linked backwards: a text may have thousands of pieces."""

    ranking: float = 0.0
    unfinished: int = 0
    last: Hypothesis | None = None
    before: "_Chain | None" = None

    def unrolled(self) -> list[Hypothesis]:
        chain, found = self, []
        while chain.last is not None and chain.before is not None:
            found.append(chain.last)
            chain = chain.before
        return found[::-1]


def combine(parts: Sequence[Sequence[Hypothesis]], decoding: DecodeConfig) -> list[list[Hypothesis]]:
    """One hypothesis for each piece: the combinations that rank highest together; samples as they were
    drawn."""
    if decoding.method == "sample" and parts:
        return [list(drawn) for drawn in zip(*parts, strict=False)]
    best = [_Chain()]
    for hypotheses in parts:
        longer = [
            _Chain(chain.ranking + each.ranking, chain.unfinished + (not each.finished), each, chain)
            for chain in best
            for each in hypotheses
        ]
        # as search has it: what was cut off comes last
        best = sorted(longer, key=lambda chain: (chain.unfinished, -chain.ranking))[: decoding.n_best]
    return [chain.unrolled() for chain in best]
