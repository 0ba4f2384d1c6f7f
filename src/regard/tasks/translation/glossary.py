"""A glossary is held to, whatever the model:

1. the model translates as ever, or is told the terms, if it was trained so (`inline.py`); where it has
   written all of them by itself, that is the translation
2. texts that lack some are translated again, by a beam whose hypotheses must hold them
   (`decode/constrained.py`)
3. what is still not there takes the place of the words aligned with it (`text/terms.py`)

So most texts are as they would have been, and the others are sentences of the model's, with the term in its
place. What only looks like a term, in a placeholder, an address or a tag, is none, on both sides.
tests/gauntlet/glossaries.py compares the ways by the terms that are there and by what BLEU loses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from regard.tasks.translation.pieces import Piece
from regard.tasks.translation.result import TermUse, Translation
from regard.text import Tokenizer
from regard.text.terms import Held, Term, Terms, codes, enforce, held
from regard.text.words import without_spaces

Way = Literal["decode", "replace"]
"""How a term that is missing comes in: by a second search that is held to it, and only what that leaves out
by replacing words; or by replacing words alone."""

Search = Callable[[Mapping[int, Sequence[Term]]], list[Translation]]
"""Translates the texts of these numbers again, each with its phrases; in their order, aligned."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A glossary, and how it is held to."""

    terms: Terms
    inflected: bool = True
    """Another form of a term that the model has written counts."""
    way: Way = "decode"

    def __post_init__(self) -> None:
        if self.way not in get_args(Way):
            raise ValueError(f"way={self.way!r} is none of {', '.join(get_args(Way))}")

    def find(self, source: str) -> list[Term]:
        """Those of a source as it stands, which may have placeholders and tags."""
        return self.terms.find(source, codes(source))

    def hold(self, found: Sequence[Translation], again: Search | None) -> list[Translation]:
        """Aligned translations with their terms in them. `again` is None where the engine cannot be held to
        phrases, and for searches that are no beam."""
        wanted = [self.find(each.source) for each in found]
        results = [self._told(each, own, "model") for each, own in zip(found, wanted, strict=True)]
        if again is not None and self.way == "decode":
            missing = {
                i: [term for term, use in zip(own, _uses(each), strict=True) if use.how != "inflected"]
                for i, (each, own) in enumerate(zip(results, wanted, strict=True))
                if any(use.how == "missed" for use in _uses(each))
            }
            for i, each in zip(missing, again(missing) if missing else (), strict=True):
                better = self._told(each, wanted[i], "decoded", results[i])
                if each.finished and _missed(better) < _missed(results[i]):
                    results[i] = better
        return [self._replaced(each, own) for each, own in zip(results, wanted, strict=True)]

    def looked_at(self, found: Translation) -> Translation:
        """One that is not to be changed, with what became of its terms."""
        return self._told(found, self.find(found.source), "model")

    def _told(
        self,
        found: Translation,
        terms: Sequence[Term],
        how: Literal["model", "decoded"],
        before: Translation | None = None,
    ) -> Translation:
        uses = []
        earlier = [None] * len(terms) if before is None else [use.how for use in _uses(before)]
        there = self._held(found.text, terms)
        for term, form, first in zip(terms, there, earlier, strict=True):
            own = "missed" if form is None else "inflected" if form == "inflected" else how
            uses.append(_use(found, term, "model" if own == "decoded" and first == "model" else own))
        return replace(found, terms=tuple(uses))

    def _held(self, text: str, terms: Sequence[Term]) -> list[Held | None]:
        return held(text, terms, inflected=self.inflected, names=codes(text, terms))

    def _replaced(self, found: Translation, terms: Sequence[Term]) -> Translation:
        lacking = [term for term, use in zip(terms, _uses(found), strict=True) if use.how == "missed"]
        if not lacking or found.alignment is None:
            return found
        kept = [
            term for term, use in zip(terms, _uses(found), strict=True) if use.how in ("model", "decoded")
        ]
        every = [*kept, *lacking]
        text, links = enforce(found.source, found.text, found.alignment, every, codes(found.text, every))
        there = self._held(text, terms)
        uses = [
            use if use.how != "missed" or form is None else replace(use, how="replaced")
            for use, form in zip(_uses(found), there, strict=True)
        ]
        others = [replace(each, text=text) for each in found.alternatives[:1]]
        return replace(
            found,
            text=text,
            alternatives=(*others, *found.alternatives[1:]),
            alignment=tuple(links),
            terms=tuple(uses),
        )


def _use(
    found: Translation, term: Term, how: Literal["model", "inflected", "decoded", "replaced", "missed"]
) -> TermUse:
    return TermUse(found.source[term.start : term.end], term.target, how)


def _uses(found: Translation) -> tuple[TermUse, ...]:
    return found.terms or ()


def _missed(found: Translation) -> int:
    return sum(use.how == "missed" for use in _uses(found))


def phrases_of(tokenizer: Tokenizer, piece: Piece, terms: Sequence[Term]) -> tuple[tuple[int, ...], ...]:
    """The tokens of the terms that lie in a piece. Not of scripts without spaces: none of their tokens says
    that a word begins."""
    first, last = piece.span
    own = [
        each
        for each in terms
        if first <= each.start and each.end <= last and not without_spaces(each.target[0])
    ]
    encoded = tokenizer.encode_batch([each.target for each in own])
    return tuple(tuple(ids) for ids in encoded if ids)


def inner_tokens(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Tokens that, behind a word, go on with it."""
    ids = sorted(tokenizer.vocabulary.values())
    alone = zip(ids, tokenizer.decode_batch([[id] for id in ids]), strict=True)
    word = next((id for id, text in alone if text.strip().isalpha()), None)
    if word is None:
        return ()
    before = tokenizer.decode([word])
    joined = zip(ids, tokenizer.decode_batch([[word, id] for id in ids]), strict=True)
    return tuple(id for id, text in joined if text.startswith(before) and text[len(before) :][:1].isalnum())
