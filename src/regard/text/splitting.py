"""A text that is too long for a model, in pieces that are not: cut where it hurts least.

    at the ends of sentences, in several scripts; abbreviations, initials and ordinals do not end one,
    but an empty line does
    a sentence that is still too long: after ; : and commas; then between words
    a word that is still too long: between characters, never before an accent

Pieces are spans of the text, and between them there is nothing but white space: nothing is lost. In doubt a
sentence goes on, since two that are translated together lose less than one that is torn.
"""

# ruff: noqa: RUF001 - marks of all scripts are meant, also those that look alike

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

Span = tuple[int, int]
"""Start and end, in characters."""

_CLOSERS = r"[\"'”’»›)\]}」』）】〉》]*"
_ENDS = re.compile(rf"[.!?…]+{_CLOSERS}(?=\s)|[。！？｡．।॥؟۔።]+{_CLOSERS}|\n\s*\n")
_CLAUSES = re.compile(rf"[,;:]{_CLOSERS}(?=\s)|\s[–—-](?=\s)|[，、；：،؛]{_CLOSERS}")
_SPACES = re.compile(r"\s+")
_LAST_WORD = re.compile(r"[^\s(\[{\"'“”„‘’«»‹›/–—-]*$")
_SHORT = (
    # English
    "mr mrs ms dr prof rev gen sen rep gov lt col sgt capt st jr sr vs etc inc ltd corp dept est fig figs no "
    "nos vol vols pp p ed eds al cf ca approx jan feb mar apr jun jul aug sep sept oct nov dec mt ave blvd "
    # German
    "abs abschn anm art aufl bd bde bzgl bzw dgl ebd evtl ff geb gem ggf hr fr hrsg ing inkl jh jhd kap lfd "
    "max min mio mrd nr od phil rd resp s sog str tel tsd u usw vgl z zb zzgl "
    # French, Spanish, Italian, Portuguese, Dutch
    "m mm mme mlle av env éd sr sra srta dña ud uds núm pág págs sig sigg dott on pag n exmo exma dhr mevr "
    # Czech, Polish, Russian
    "např tj tzv resp mgr inż ul godz г гг ул др т стр см рис тыс млн млрд"
)
_ABBREVIATIONS = frozenset(_SHORT.split())


def sentences(text: str) -> list[Span]:
    return list(_between(text, (0, len(text)), [m.end() for m in _ENDS.finditer(text) if _ends(text, m)]))


def pieces(text: str, fits: Callable[[str], bool]) -> list[Span]:
    """As few as sentences allow. A piece that does not fit is a single character."""
    return [piece for sentence in sentences(text) for piece in _fitting(text, sentence, fits, 0)]


def join(outputs: Sequence[str], text: str, spans: Sequence[Span]) -> str:
    """What was made of the pieces of a text, put together with the spaces that were between them; none
    beside Chinese and Japanese characters, and one where a sentence of theirs ended without."""
    joined = ""
    last = 0
    for output, (start, end) in zip(outputs, spans, strict=True):
        if joined and output:
            joined += _glue(joined[-1], output[0], text, last, start)
        joined += output
        last = end
    return joined


def _glue(before: str, after: str, text: str, end: int, start: int) -> str:
    if spaceless(before) or spaceless(after):
        return ""
    if end < start:
        return text[end:start]
    torn = all(char.isalnum() and not spaceless(char) for char in text[end - 1 : end + 1])
    return "" if torn else " "


def spaceless(char: str) -> bool:
    """Whether a script is written without spaces: wide characters, but for those of Korean."""
    return unicodedata.east_asian_width(char) in "WF" and not "가" <= char <= "힣"


def _ends(text: str, mark: re.Match[str]) -> bool:
    """Whether a sentence ends at this mark."""
    if mark[0][0] not in ".!?…":
        return True
    after = text[mark.end() : mark.end() + 40].lstrip()
    if after[:1].islower():
        return False
    if mark[0] != ".":
        return True
    found = _LAST_WORD.search(text[max(0, mark.start() - 40) : mark.start()])
    word = found[0] if found else ""
    if "." in word:  # e.g. U.S. z.B. i.d.R., but not example.com.
        return not all(len(part) <= 2 for part in word.split("."))
    ordinal = word.isdecimal() and len(word) <= 2
    return not (ordinal or (len(word) == 1 and word.isalpha()) or word.lower() in _ABBREVIATIONS)


def _fitting(text: str, span: Span, fits: Callable[[str], bool], level: int) -> Iterator[Span]:
    start, end = span
    if fits(text[start:end]) or end - start == 1:
        yield span
        return
    match level:
        case 0 | 1:
            pattern = (_CLAUSES, _SPACES)[level]
            cuts = [found.end() for found in pattern.finditer(text, start, end)]
        case _:
            cuts = [i for i in range(start + 1, end) if not unicodedata.combining(text[i])]
    parts = list(_between(text, span, cuts))
    first = 0
    while first < len(parts):
        count = _most(
            len(parts) - first,
            lambda n, i=first: fits(text[parts[i][0] : parts[i + n - 1][1]]),  # type: ignore[misc]
        )
        if count:
            yield parts[first][0], parts[first + count - 1][1]
        elif level < 2:
            yield from _fitting(text, parts[first], fits, level + 1)
        else:
            yield parts[first]
        first += max(count, 1)


def _between(text: str, span: Span, cuts: Sequence[int]) -> Iterator[Span]:
    """The spans between cuts, without the white space at their ends; blank ones left out."""
    start, end = span
    for left, right in pairwise([start, *(cut for cut in cuts if start < cut < end), end]):
        inner = text[left:right]
        if stripped := inner.strip():
            left += len(inner) - len(inner.lstrip())
            yield left, left + len(stripped)


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest count up to a limit that fits, if what fits at some count fits at all below; by doubling
    and halving, because asking is dear."""
    low, high = 0, 1
    while high <= limit and fits(high):
        low, high = high, 2 * high
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
