"""Words of a text in any script: what memories, glossaries and flags compare texts by.

A word is a run of letters and digits with their marks (हिन्दी is one), a sign, or one character of a script
that is written without spaces.
"""

import re
import unicodedata

from regard.text.splitting import spaceless

_RUN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"\w")
_SOUTHEAST = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F))
"""Thai and Lao, Myanmar, Khmer, and Myanmar's additions."""
_JOINERS = "\u200c\u200d"
"""Which are written inside words."""

Span = tuple[int, int]


def without_spaces(char: str) -> bool:
    """Whether words of its script are not parted: Chinese, Japanese, Thai, Lao, Khmer, Myanmar."""
    return spaceless(char) or any(first <= ord(char) <= last for first, last in _SOUTHEAST)


def is_mark(char: str) -> bool:
    """Whether it belongs to the letter before it: an accent, a vowel sign, a joiner."""
    return unicodedata.category(char)[0] == "M" or char in _JOINERS


def in_word(char: str) -> bool:
    return bool(_WORD.match(char)) or is_mark(char)


def spans(text: str) -> list[Span]:
    """Where words and signs are; a run of a script without spaces is one here."""
    runs = [found.span() for found in _RUN.finditer(text)]
    if text.isascii():
        return runs
    found: list[Span] = []
    for start, end in runs:
        before = found[-1] if found and found[-1][1] == start else None
        goes_on = before is not None and is_mark(text[start - 1]) and bool(_WORD.match(text[before[0]]))
        if before is not None and (is_mark(text[start]) or (goes_on and _WORD.match(text[start]))):
            found[-1] = (before[0], end)
        else:
            found.append((start, end))
    return found


def words(text: str) -> list[str]:
    """In Unicode's composed form, without case."""
    plain = unicodedata.normalize("NFC", text).casefold()
    found: list[str] = []
    for start, end in spans(plain):
        word = plain[start:end]
        if word.isascii() or not any(map(without_spaces, word)):
            found.append(word)
        else:
            found += _characters(word)
    return found


def _characters(word: str) -> list[str]:
    """Each character of a script without spaces, with its marks; runs of others stay whole."""
    found: list[str] = []
    joined = False
    for char in word:
        alone = without_spaces(char)
        if found and (is_mark(char) or (joined and not alone)):
            found[-1] += char
        else:
            found.append(char)
            joined = not alone
    return found
