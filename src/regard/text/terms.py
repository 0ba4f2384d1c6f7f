"""Terms whose translation is laid down: a glossary, and how it is held to.

    entries   station -> Hauptbahnhof
    source    Where is the station?
    model     Wo ist der Bahnhof?              the model reads the source as it is
    result    Wo ist der Hauptbahnhof?         the words aligned with the term are replaced

A term that the model has written itself stays where it is. One that no word is aligned with is put behind
what the word before it became. So each is there, in every case.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from regard.text.placing import Aligned, Links, Span, best_run, core, masked
from regard.text.splitting import spaceless

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Term:
    start: int
    end: int
    """In the source."""
    target: str


class Terms:
    """Entries of one pair of languages."""

    def __init__(
        self, entries: Mapping[str, str], *, exact: Collection[str] = (), any_case: Collection[str] = ()
    ) -> None:
        """`exact` are terms that are found only as they are spelled, `any_case` those found however they
        are."""
        self._entries, self._exact, self._any_case = dict(entries), exact, any_case
        self._alike: dict[str, list[str]] = {}
        lengths: dict[str, set[int]] = {}
        for term in filter(None, entries):
            self._alike.setdefault(term.lower(), []).append(term)
            lengths.setdefault(_first(term, 0), set()).add(len(term))
        self._lengths = {first: sorted(own, reverse=True) for first, own in lengths.items()}

    def find(self, text: str, names: Iterable[str] = ()) -> list[Term]:
        """The longest at each place; none inside names. Case counts, but for a capital that begins a term,
        and its translation then has one too, and for a term all in capitals."""
        hidden, found, done = masked(text, names, "\0"), [], 0
        for start in _starts(hidden):
            if start < done:
                continue
            for length in self._lengths.get(_first(hidden, start), ()):
                end = start + length
                target = self._target(hidden[start:end])
                if target is not None and _bounded(hidden, start, end):
                    found.append(Term(start, end, target))
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
        yield from (i for i in range(found.start() + 1, found.end()) if spaceless(text[i]))


def _first(text: str, start: int) -> str:
    """What terms are looked up by: the word that begins here, or the character."""
    found = _WORD.match(text, start)
    return text[start] if found is None or spaceless(text[start]) else found[0].lower()


def _bounded(text: str, start: int, end: int) -> bool:
    """Whether whole words lie here; scripts without spaces have no bounds to see."""
    return not (_joined(text, start) or _joined(text, end))


def _joined(text: str, at: int) -> bool:
    pair = text[max(at - 1, 0) : at + 1]
    return 0 < at < len(text) and all(_WORD.match(char) and not spaceless(char) for char in pair)


Held = Literal["exact", "inflected"]
"""As the glossary has it, or another form of the same words."""


def held(
    text: str, terms: Sequence[Term], *, inflected: bool = False, names: Iterable[str] = ()
) -> list[Held | None]:
    """Whether a translation has each of the terms, each at a place of its own; None where it does not. With
    `inflected`, other forms count too (`inflects`)."""
    hidden = masked(text, names, "\0")
    free = [True] * len(hidden)
    found: list[Held | None] = [None] * len(terms)
    for i, term in enumerate(terms):
        for match in re.finditer(re.escape(term.target), hidden):
            if _bounded(hidden, *match.span()) and all(free[slice(*match.span())]):
                free[slice(*match.span())] = [False] * len(match[0])
                found[i] = "exact"
                break
    words = [match.span() for match in _WORD.finditer(hidden)]
    for i, term in enumerate(terms):
        wanted = _WORD.findall(term.target)
        if found[i] is not None or not inflected or not wanted:
            continue
        for first in range(len(words) - len(wanted) + 1):
            start, end = words[first][0], words[first + len(wanted) - 1][1]
            own = [hidden[a:b] for a, b in words[first : first + len(wanted)]]
            if all(free[start:end]) and all(map(inflects, own, wanted)):
                free[start:end] = [False] * (end - start)
                found[i] = "inflected"
                break
    return found


def inflects(word: str, term: str) -> bool:
    """Whether a word is taken for a form of a term. Without case and marks on letters (Häuser is hauser), it
    begins with the term, of which one letter may be missing at the end (two, of eight or more; none, of four
    or fewer), and goes on with three letters at most. Made for languages that inflect by endings; irregular
    forms are not seen."""
    plain, stem = _unmarked(word), _unmarked(term)
    cut = 0 if len(stem) <= 4 else 1 if len(stem) < 8 else 2
    pairs = zip(plain, stem, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return shared >= max(len(stem) - cut, 1) and len(plain) - shared <= 3


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
    used = ["\0" in hidden[start:end] for start, end in aligned.written]
    starts = [start for start, _ in aligned.written]
    edits = [_edit(aligned, hidden, starts, used, term) for term in terms]
    return _rewritten(aligned, sorted(edits, key=lambda edit: edit.span))


def _edit(aligned: Aligned, hidden: str, starts: list[int], used: list[bool], term: Term) -> _Edit:
    read, everything = aligned.words((term.start, term.end)), (0, len(aligned.written))
    linked = aligned.linked(read, everything)
    there = [*_occurrences(hidden, starts, used, term.target)]
    if there:  # the model has written it itself: the one next to what it was aligned with
        span, run = min(there, key=lambda each: min((abs(each[1][0] - j) for j in linked), default=0))
        used[slice(*run)] = [True] * (run[1] - run[0])
        return _Edit(span, term.target, read)
    found = best_run(linked, lambda j: used[j] or _crowded(aligned, j))
    if found is None:
        count = aligned.behind(read[0], (0, len(aligned.read)), everything)
        at = aligned.written[count - 1][1] if count else 0
        before = " " if count and not spaceless(aligned.text[at - 1]) else ""
        after = "" if count else " "
        return _Edit((at, at), f"{before}{term.target}{after}", read)
    used[slice(*found)] = [True] * (found[1] - found[0])
    first, last = aligned.written[found[0]], aligned.written[found[1] - 1]
    return _Edit((core(aligned.text, first)[0], core(aligned.text, last)[1]), term.target, read)


def _occurrences(
    hidden: str, starts: list[int], used: list[bool], target: str
) -> Iterator[tuple[Span, Span]]:
    for match in re.finditer(re.escape(target), hidden):
        run = (bisect_right(starts, match.start()) - 1, bisect_right(starts, match.end() - 1))
        if _bounded(hidden, *match.span()) and not any(used[slice(*run)]):
            yield match.span(), run


def _crowded(aligned: Aligned, word: int) -> bool:
    """Whether a word may hold more than one, since its script has no spaces."""
    return any(map(spaceless, aligned.text[slice(*aligned.written[word])]))


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
