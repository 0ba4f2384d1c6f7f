"""What a translator is helped by, and what is said of its translations: a memory, a glossary, flags.

Texts that the memory has are not translated; the others are, with near matches and terms for a model that was
trained with such, and held to the glossary; then all are looked at. One that is caught in a loop is
translated again, where no sequence of `NO_REPEAT` tokens may come twice: its flag stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypedDict

from regard.decode import DecodeConfig
from regard.memory import Glossary, Match, Recall
from regard.memory.recall import Use
from regard.tasks.base.predictor import Progress
from regard.tasks.translation.encoding import match_token, with_match
from regard.tasks.translation.engine import Options, SearchEngine, Split, TooLong, TorchEngine
from regard.tasks.translation.fuzzy import Fuzzy
from regard.tasks.translation.glossary import Holding
from regard.tasks.translation.inline import Inline, with_terms
from regard.tasks.translation.pieces import Piece, Source
from regard.tasks.translation.result import Alternative, Translation
from regard.text import Tokenizer
from regard.text.flags import NAMES, FlagSettings, flagger
from regard.text.terms import Term

NO_REPEAT = 4

GivenGlossary = Glossary | Mapping[str, str] | str | Path | None


class TranslateSettings(TypedDict, total=False):
    """What `Translator.translate` takes beside the texts."""

    to: str | Sequence[str] | None
    decoding: DecodeConfig | None
    prefixes: str | Sequence[str] | None
    suppressed: Sequence[str]
    too_long: TooLong
    split: Split
    align: bool
    glossary: GivenGlossary
    inflected: bool
    memory: Recall | None
    flags: bool | FlagSettings
    batch_tokens: int | None
    keys: Sequence[int] | None
    progress: Progress | None
    source_language: str | None
    prompt: str | None


@dataclass(frozen=True, slots=True)
class Aids:
    holding: Holding | None = None
    recall: Recall | None = None
    flags: FlagSettings | None = None

    @classmethod
    def of(
        cls, glossary: GivenGlossary, inflected: bool, memory: Recall | None, flags: bool | FlagSettings
    ) -> "Aids":
        holding = None if glossary is None else Holding(Glossary.of(glossary).terms, inflected)
        settings = FlagSettings() if flags is True else flags or None
        return cls(holding, memory, settings)


class Searcher(Protocol):
    """What is asked of a translator here."""

    engine: SearchEngine
    fuzzy: Fuzzy | None
    inline: Inline | None

    @property
    def inner(self) -> tuple[int, ...]: ...

    def searched(
        self,
        sources: list[Source],
        options: Options,
        progress: Progress | None,
        terms: Sequence[Sequence[Term]] = (),
    ) -> list[Translation]: ...


def aided(
    translator: Searcher, sources: list[Source], options: Options, progress: Progress | None, aids: Aids
) -> list[Translation]:
    """A translation of each, in their order."""
    recall = aids.recall
    known = {} if recall is None else {i: recalled(each.text, recall) for i, each in enumerate(sources)}
    left = [i for i in range(len(sources)) if i not in known or not known[i].remembered]
    if progress is not None and len(left) < len(sources):
        progress(len(sources) - len(left))
    open_sources = [sources[i] for i in left]
    if recall is not None:
        given = (given_match(recall.use, known[i].matches or (), translator.fuzzy) for i in left)
        open_sources = [replace(own, match=match) for own, match in zip(open_sources, given, strict=True)]
    made = _held(translator, open_sources, options, progress, aids.holding)
    if aids.flags is not None:
        made = _flagged(translator, open_sources, made, options, aids.holding, aids.flags)
    found = {**known}
    for i, each in zip(left, made, strict=True):
        found[i] = each if aids.recall is None else replace(each, matches=known[i].matches)
    for i, each in known.items():
        if each.remembered:
            found[i] = looked_at(each, aids)
    return [found[i] for i in range(len(sources))]


def looked_at(remembered: Translation, aids: Aids) -> Translation:
    """What the memory has is not changed, but told of as the others are."""
    found = remembered if aids.holding is None else aids.holding.looked_at(remembered)
    if aids.flags is None:
        return found
    return replace(found, flags=flagger(aids.flags)(found.source, found.text, None))


def recalled(text: str, recall: Recall) -> Translation:
    """The matches of a text; and if the memory has the text itself, its translation as it is."""
    matches = tuple(recall.search(text)) if text.strip() else ()
    exact = recall.use == "exact" and bool(matches) and matches[0].exact
    own = Alternative(matches[0].target if exact else "", 0.0, 0.0, finished=True, confidence=1.0)
    return Translation(
        source=text,
        text=own.text,
        score=own.score,
        ranking=own.ranking,
        finished=own.finished,
        confidence=own.confidence,
        alternatives=(own,) if exact else (),
        pieces=0,
        matches=matches,
        remembered=exact,
    )


def given_match(use: Use, matches: Sequence[Match], fuzzy: Fuzzy | None) -> str:
    """The translation that a model is given; "" for none."""
    if fuzzy is None or use == "never":
        return ""
    near = (each for each in matches if not each.exact and each.score >= fuzzy.at_least)
    best = next(near, None)
    return "" if best is None else best.target.strip()


def helped(
    pieces: list[Piece],
    sources: Sequence[Source],
    tokenizer: Tokenizer,
    fuzzy: Fuzzy | None,
    inline: Inline | None,
) -> list[Piece]:
    """Pieces with their terms inside and near matches behind them, for a model that was trained so."""
    told = _with_terms(pieces, sources, tokenizer, inline)
    return _with_matches(told, sources, tokenizer, fuzzy)


def _with_matches(
    pieces: list[Piece], sources: Sequence[Source], tokenizer: Tokenizer, fuzzy: Fuzzy | None
) -> list[Piece]:
    """Pieces that are a whole text get its match, where both are no longer than what the model was trained
    on."""
    having = [i for i, piece in enumerate(pieces) if sources[piece.number].match]
    if fuzzy is None or not having:
        return pieces
    separator, found = match_token(tokenizer), [*pieces]
    encoded = tokenizer.encode_batch([sources[pieces[i].number].match for i in having])
    for i, match in zip(having, encoded, strict=True):
        piece = pieces[i]
        ids = with_match(piece.ids, separator, match)
        if piece.source == sources[piece.number].text.strip() and len(ids) <= fuzzy.longest:
            found[i] = replace(piece, ids=ids, matched=len(match) + 1)
    return found


def _with_terms(
    pieces: list[Piece], sources: Sequence[Source], tokenizer: Tokenizer, inline: Inline | None
) -> list[Piece]:
    """Pieces have the terms that lie in them inside, where that is no longer than what the model was trained
    on."""
    if inline is None or not any(source.terms for source in sources):
        return pieces
    found = []
    for piece in pieces:
        first, last = piece.span
        own = [each for each in sources[piece.number].terms if first <= each.start and each.end <= last]
        if own:
            moved = [replace(each, start=each.start - first, end=each.end - first) for each in own]
            ids, added = with_terms(tokenizer, piece.ids, piece.source, moved)
            piece = replace(piece, ids=ids, inline=added) if len(ids) <= inline.longest else piece
        found.append(piece)
    return found


def _held(
    translator: Searcher,
    sources: list[Source],
    options: Options,
    progress: Progress | None,
    holding: Holding | None,
) -> list[Translation]:
    if holding is None:
        return translator.searched(sources, options, progress)
    if translator.inline is not None:
        sources = [replace(each, terms=tuple(holding.find(each.text))) for each in sources]
    aligned = replace(options, align=True)
    translator.engine.check(aligned)
    wanted_links = [options.align and source.aligned for source in sources]
    sources = [replace(source, aligned=True) for source in sources]

    def again(wanted: Mapping[int, Sequence[Term]]) -> list[Translation]:
        held = replace(aligned, inner=translator.inner)
        return translator.searched([sources[i] for i in wanted], held, None, [*wanted.values()])

    searchable = isinstance(translator.engine, TorchEngine) and options.decoding.method == "beam"
    found = holding.hold(translator.searched(sources, aligned, progress), again if searchable else None)
    return [
        each if links else replace(each, alignment=None)
        for each, links in zip(found, wanted_links, strict=True)
    ]


def _flagged(
    translator: Searcher,
    sources: list[Source],
    found: list[Translation],
    options: Options,
    holding: Holding | None,
    settings: FlagSettings,
) -> list[Translation]:
    results = flagged(found, settings)
    looped = [i for i, each in enumerate(results) if is_looped(each)]
    if looped and options.decoding.no_repeat == 0:
        strict = replace(options, decoding=replace(options.decoding, no_repeat=NO_REPEAT))
        again = _held(translator, [sources[i] for i in looped], strict, None, holding)
        for i, each in zip(looped, again, strict=True):
            results[i] = unlooped(each, settings)
    return results


def flagged(found: Sequence[Translation], settings: FlagSettings) -> list[Translation]:
    look = flagger(settings)
    return [replace(each, flags=look(each.source, each.text, each)) for each in found]


def is_looped(found: Translation) -> bool:
    return "repetition" in (found.flags or ())


def unlooped(again: Translation, settings: FlagSettings) -> Translation:
    """One that was made again without repeats: what was wrong with it before is told all the same."""
    own = {"repetition", *flagger(settings)(again.source, again.text, again)}
    return replace(again, flags=tuple(name for name in NAMES if name in own))
