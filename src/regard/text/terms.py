"""Terms whose translation is laid down: a glossary, and how it is held to.

    entries   station -> Hauptbahnhof
    source    Where is the station?
    model     Wo ist der Bahnhof?              the model reads the source as it is
    result    Wo ist der Hauptbahnhof?         the words aligned with the term are replaced

A term that the model has written itself stays where it is. One that no word is aligned with is put behind
what the word before it became. So each is there, in every case.

Blanks of any kind and number, Unicode's ways to write one character, and those to write an apostrophe are the
same, in terms and texts.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from regard.text.placeholders import placeholders
from regard.text.placing import Aligned, Links, Span, best_run, core, masked
from regard.text.words import in_word, is_mark, spans, without_spaces

_WORD = re.compile(r"\w+")
_UNUSUAL = re.compile(r"\s\s|[^\S ]|[\u2019\u2018\u02bc\uff07]")
"""Blanks and apostrophes that are to be normal ones."""
_APOSTROPHES = dict.fromkeys("\u2019\u2018\u02bc\uff07", "'")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_ENDING = re.compile("|a|ar|as|e|em|en|ens|er|ern|es|et|i|k|n|o|om|or|os|ou|s|t|u|y")
"""What languages of Latin script add to a word of four letters."""


@dataclass(frozen=True, slots=True)
class Term:
    start: int
    end: int
    """In the source."""
    target: str
    stays: bool = False
    """It is not to be translated: no other form of it counts."""


def codes(text: str, terms: Sequence[Term] = ()) -> list[str]:
    """What a text has that is no language: placeholders, addresses and tags. A term that stands in one, as
    `file` in `%(file)s`, is none; a code that belongs to one of these `terms` is text."""
    found = dict.fromkeys([*placeholders().findall(text), *_TAG.findall(text)])
    return [each for each in found if not any(each in term.target for term in terms)]


class _Normal:
    """A text in which what is written in several ways is written in one, and where each character was."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts: Sequence[int] = range(len(text) + 1)
        if not _UNUSUAL.search(text) and unicodedata.is_normalized("NFC", text):
            return
        parts, starts, at = [], [], 0
        while at < len(text):
            end = at + 1
            if text[at].isspace():
                while end < len(text) and text[end].isspace():
                    end += 1
                own = " "
            else:
                while end < len(text) and (
                    unicodedata.combining(text[end]) or "\u1160" <= text[end] <= "\u11ff"
                ):
                    end += 1
                own = _APOSTROPHES.get(text[at:end]) or unicodedata.normalize("NFC", text[at:end])
            parts.append(own)
            starts += [at] * len(own)
            at = end
        self.text, self._starts = "".join(parts), [*starts, len(text)]

    def span(self, start: int, end: int) -> Span:
        """In the text as it was."""
        return self._starts[start], self._starts[end]


def _normal(text: str) -> str:
    return _Normal(text).text


class Terms:
    """Entries of one pair of languages."""

    def __init__(
        self, entries: Mapping[str, str], *, exact: Collection[str] = (), any_case: Collection[str] = ()
    ) -> None:
        """`exact` are terms that are found only as they are spelled, `any_case` those found however they
        are."""
        self._entries = {_normal(term): target for term, target in entries.items()}
        self._exact, self._any_case = {*map(_normal, exact)}, {*map(_normal, any_case)}
        self._alike: dict[str, list[str]] = {}
        lengths: dict[str, set[int]] = {}
        for term in filter(None, self._entries):
            self._alike.setdefault(term.lower(), []).append(term)
            lengths.setdefault(_first(term, 0), set()).add(len(term))
        self._lengths = {first: sorted(own, reverse=True) for first, own in lengths.items()}

    def find(self, text: str, names: Iterable[str] = ()) -> list[Term]:
        """The longest at each place; none inside names. Case counts, but for a capital that begins a term,
        and its translation then has one too, and for a term all in capitals."""
        normal = _Normal(masked(text, names, "\0"))
        hidden, found, done = normal.text, list[Term](), 0
        for start in _starts(hidden):
            if start < done:
                continue
            for length in self._lengths.get(_first(hidden, start), ()):
                end = start + length
                written = hidden[start:end]
                target = self._target(written)
                if target is not None and _bounded(hidden, start, end):
                    found.append(Term(*normal.span(start, end), target, _normal(target) == written))
                    done = end
                    break
        return found

    def _target(self, written: str) -> str | None:
        if written in self._entries:
            return self._entries[written]
        for term in self._alike.get(written.lower(), ()):
            target = self._entries[term]
            if term in self._exact:
                continue
            if written == term[0].upper() + term[1:]:
                return target[0].upper() + target[1:]
            if written == term.upper():
                return target
            if term in self._any_case:
                return written if target == term else target
        return None


def _starts(text: str) -> Iterator[int]:
    """Where a term may begin: at words and signs, and at each character of a script without spaces."""
    for found in re.finditer(r"\w+|[^\w\s]", text):
        yield found.start()
        yield from (i for i in range(found.start() + 1, found.end()) if without_spaces(text[i]))


def _first(text: str, start: int) -> str:
    """What terms are looked up by: the word that begins here, or the character."""
    found = _WORD.match(text, start)
    return text[start] if found is None or without_spaces(text[start]) else found[0].lower()


def _bounded(text: str, start: int, end: int) -> bool:
    """Whether whole words lie here; scripts without spaces have no bounds to see."""
    return not (_joined(text, start) or _joined(text, end))


def _joined(text: str, at: int) -> bool:
    if not 0 < at < len(text):
        return False
    pair = text[at - 1 : at + 1]
    return is_mark(text[at]) or all(in_word(char) and not without_spaces(char) for char in pair)


Held = Literal["exact", "inflected"]
"""As the glossary has it, or another form of the same words."""


def held(
    text: str, terms: Sequence[Term], *, inflected: bool = False, names: Iterable[str] = ()
) -> list[Held | None]:
    """Whether a translation has each of the terms, each at a place of its own; None where it does not. With
    `inflected`, other forms count too (`inflects`), but not of what is not to be translated."""
    hidden = _normal(masked(text, names, "\0"))
    free = [True] * len(hidden)
    found: list[Held | None] = [None] * len(terms)

    def take(start: int, end: int) -> bool:
        if not all(free[start:end]):
            return False
        free[start:end] = [False] * (end - start)
        return True

    targets = [_normal(term.target) for term in terms]
    longest_first = sorted(range(len(terms)), key=lambda i: -len(targets[i]))
    for i in longest_first:
        places = _places(hidden, targets[i])
        found[i] = "exact" if any(take(*place) for place in places) else None
    if not inflected:
        return found
    words = _words(hidden)
    for i in longest_first:
        if found[i] is None and not terms[i].stays:
            wanted = [targets[i][slice(*span)] for span in _words(targets[i])]
            places = _inflected(hidden, words, wanted)
            found[i] = "inflected" if any(take(*place) for place in places) else None
    return found


def _words(text: str) -> list[Span]:
    """Without signs."""
    return [span for span in spans(text) if in_word(text[span[0]])]


def _places(text: str, target: str) -> Iterator[Span]:
    """Where it is, as whole words."""
    return (each.span() for each in re.finditer(re.escape(target), text) if _bounded(text, *each.span()))


def _inflected(text: str, words: Sequence[Span], wanted: Sequence[str]) -> Iterator[Span]:
    """Where other forms of these words follow each other."""
    for first in range(len(words) - len(wanted) + 1) if wanted else ():
        own = words[first : first + len(wanted)]
        if all(
            inflects(text[start:end], term, first=_begins(text, start))
            for (start, end), term in zip(own, wanted, strict=True)
        ):
            yield own[0][0], own[-1][1]


def _begins(text: str, start: int) -> bool:
    """Whether a sentence does here."""
    before = text[:start].rstrip(" \"'([{«»„“”‚‘¿¡-–—")  # noqa: RUF001
    return not before or before[-1] in ".!?:…。！？"  # noqa: RUF001


def inflects(word: str, term: str, *, first: bool = False) -> bool:
    """Whether a word is taken for a form of a term; `first`: a sentence begins with it, so that it may have a
    capital. Made for languages that inflect by endings; irregular forms are not seen.

    Of a term in capitals, and of one of three letters or fewer, there are no other forms. One of four may
    have an ending that languages add, and its case counts. Without case and marks on letters (Bahnhöfe is
    bahnhofe), a word for a longer one begins as the term does, of which one letter may be missing at the end
    (two, of eight or more), and goes on with three letters at most."""
    plain, stem = _unmarked(word), _unmarked(term)
    if len(stem) <= 3 or term.isupper():
        return word == term or (first and word == term[:1].upper() + term[1:])
    if len(stem) == 4:
        ending = plain.removeprefix(stem)
        usual = _ENDING.fullmatch(ending) or (not ending.isascii() and len(ending) <= 2)
        same_case = word[0].isupper() == term[0].isupper() or (first and word[0].isupper())
        return bool(usual) and same_case and plain.startswith(stem)
    cut = 1 if len(stem) < 8 else 2
    pairs = zip(plain, stem, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return shared >= len(stem) - cut and len(plain) - shared <= 3


def _unmarked(word: str) -> str:
    parts = unicodedata.normalize("NFD", word.casefold())
    return "".join(char for char in parts if not unicodedata.combining(char))


@dataclass(frozen=True, slots=True)
class _Edit:
    span: Span
    """Of the translation, in characters."""
    text: str
    read: Span
    """Source words that it is of."""


def enforce(
    source: str, text: str, links: Links | None, terms: Sequence[Term], names: Iterable[str] = ()
) -> tuple[str, Links]:
    """A translation with all terms in it, and its links. What stands for marks (`names`) is not touched."""
    aligned = Aligned(source, text, links)
    hidden = masked(text, names, "\0")
    normal = _Normal(hidden)
    used = ["\0" in hidden[start:end] for start, end in aligned.written]
    starts = [start for start, _ in aligned.written]
    edits: dict[int, _Edit] = {}
    for i in sorted(range(len(terms)), key=lambda i: -len(terms[i].target)):
        there = _written(aligned, normal, starts, used, terms[i])
        if there is not None:
            edits[i] = there
    for i, term in enumerate(terms):
        if i not in edits:
            edits[i] = _edit(aligned, used, term)
    return _rewritten(aligned, sorted((edits[i] for i in range(len(terms))), key=lambda edit: edit.span))


def _written(
    aligned: Aligned, normal: _Normal, starts: list[int], used: list[bool], term: Term
) -> _Edit | None:
    """The term where the model has written it itself: next to what it was aligned with."""
    read = aligned.words((term.start, term.end))
    linked = aligned.linked(read, (0, len(aligned.written)))
    there = []
    for place in _places(normal.text, _normal(term.target)):
        span = normal.span(*place)
        run = (bisect_right(starts, span[0]) - 1, bisect_right(starts, span[1] - 1))
        if not any(used[slice(*run)]):
            there.append((span, run))
    if not there:
        return None
    span, run = min(there, key=lambda each: min((abs(each[1][0] - j) for j in linked), default=0))
    used[slice(*run)] = [True] * (run[1] - run[0])
    return _Edit(span, aligned.text[slice(*span)], read)


def _edit(aligned: Aligned, used: list[bool], term: Term) -> _Edit:
    """The term in the place of what it was aligned with."""
    read, everything = aligned.words((term.start, term.end)), (0, len(aligned.written))
    linked = aligned.linked(read, everything)
    found = best_run(linked, lambda j: used[j] or _crowded(aligned, j))
    if found is None:
        count = aligned.behind(read[0], (0, len(aligned.read)), everything)
        at = aligned.written[count - 1][1] if count else 0
        before = " " if count and not without_spaces(aligned.text[at - 1]) else ""
        after = "" if count else " "
        return _Edit((at, at), f"{before}{term.target}{after}", read)
    used[slice(*found)] = [True] * (found[1] - found[0])
    first, last = aligned.written[found[0]], aligned.written[found[1] - 1]
    return _Edit((core(aligned.text, first)[0], core(aligned.text, last)[1]), term.target, read)


def _crowded(aligned: Aligned, word: int) -> bool:
    """Whether a word may hold more than one, since its script has no spaces."""
    return any(map(without_spaces, aligned.text[slice(*aligned.written[word])]))


def _rewritten(aligned: Aligned, edits: Sequence[_Edit]) -> tuple[str, Links]:
    parts: list[str] = []
    owners: list[tuple[int, Sequence[int]]] = []  # where something of these source words begins
    sources: list[list[int]] = [[] for _ in aligned.written]
    for i, targets in enumerate(aligned.targets):
        for j in targets:
            sources[j].append(i)
    done = length = 0
    words = iter(zip(aligned.written, sources, strict=True))
    word = next(words, None)
    for edit in [*edits, _Edit((len(aligned.text), len(aligned.text)), "", (0, 0))]:
        kept = aligned.text[done : max(edit.span[0], done)]
        while word is not None and word[0][0] < max(edit.span[0], done):
            if word[0][0] >= done:
                owners.append((length + word[0][0] - done, word[1]))
            word = next(words, None)
        length += len(kept)
        parts += [kept, edit.text]
        begins = length + len(edit.text) - len(edit.text.lstrip())
        words_ = re.finditer(r"\S+", edit.text.lstrip())
        owners += [(begins + each.start(), range(*edit.read)) for each in words_]
        length += len(edit.text)
        done = max(done, edit.span[1])
    text = "".join(parts).rstrip()
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    links = {(i, bisect_right(starts, at) - 1) for at, own in owners for i in own}
    return text, sorted(links)
