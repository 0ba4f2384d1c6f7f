"""What somebody should look at in a translation, by name. Functions of two texts; no model is asked.

    low-confidence   the model's confidence is below the bound
    unfinished       the model was stopped at the maximum length
    unknown          the source has characters or words that the model does not know
    empty            there is a source, and nothing for it
    repetition       words, or a few letters, come again and again, and do not in the source
    too-short        a third of the source's length or less
    too-long         three times the source's length or more
    numbers          those of both are not the same (`numbers.py`)
    placeholders     codes ({0}, %s, <b>, &amp;) or addresses of both are not the same
    copied           the source itself, or nearly
    characters       signs of damage that the source has not: U+FFFD, <unk>, control characters

Lengths are in characters, where one of a script without spaces counts as three; short texts may differ by
more. Words are those of `words.py`; of scripts without spaces, two characters count as one.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from regard.text.numbers import same_numbers
from regard.text.placeholders import placeholders
from regard.text.splitting import spaceless
from regard.text.words import in_word, without_spaces, words

NAMES = (
    "low-confidence",
    "unfinished",
    "unknown",
    "empty",
    "repetition",
    "too-short",
    "too-long",
    "numbers",
    "placeholders",
    "copied",
    "characters",
)
"""All flags, in the order in which they are given."""

_CODES = re.compile(rf"{placeholders().pattern}|</?[A-Za-z][^<>]*>")
_LOOP = re.compile(r"(\S.{0,9}?)\1{7,}")
"""A few characters, eight times or more."""
_DAMAGE = re.compile(
    "\ufffd|<unk>|\u2047|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|[\ue000-\uf8ff]|[\ud800-\udfff]"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagSettings:
    confidence: float = 0.4
    """Below this, low-confidence: from 0 (never) to 1."""
    proportion: float = 3.0
    """So many times longer than the other, a text is too long for it."""
    spare: int = 10
    """Characters that make no difference to proportions: so many are added to both lengths."""
    repeats: int = 3
    """So many times in a row are a repetition; of a sequence of words (`ngram`), anywhere."""
    ngram: int = 4
    """Words of a sequence that must not come so often."""

    def __post_init__(self) -> None:
        if not 0 <= self.confidence <= 1:
            raise ValueError(f"confidence={self.confidence} must be between 0 and 1")
        if self.proportion <= 1:
            raise ValueError(f"proportion={self.proportion} must be above 1")
        if self.spare < 0:
            raise ValueError(f"spare={self.spare} must be at least 0")
        for name in ("repeats", "ngram"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 2")


class Judged(Protocol):
    """What is looked at of a translation beside its text."""

    @property
    def confidence(self) -> float: ...

    @property
    def finished(self) -> bool: ...

    @property
    def unknown(self) -> int: ...


def flags_of(
    source: str,
    target: str,
    confidence: float | None = None,
    *,
    finished: bool = True,
    unknown: int = 0,
    settings: FlagSettings | None = None,
) -> tuple[str, ...]:
    """The names of all that should be looked at. Without a source there is nothing to look at."""
    if not source.strip():
        return ()
    settings = settings or FlagSettings()
    longer = (_length(target) + settings.spare) / (_length(source) + settings.spare)
    found = {
        "low-confidence": confidence is not None and confidence < settings.confidence,
        "unfinished": not finished,
        "unknown": unknown > 0,
    }
    if not target.strip():
        found["empty"] = True
    else:
        found |= {
            "repetition": repeats(source, target, settings),
            "too-short": longer <= 1 / settings.proportion,
            "too-long": longer >= settings.proportion,
            "numbers": not same_numbers(_CODES.sub(" ", source), _CODES.sub(" ", target)),
            "placeholders": _codes(source) != _codes(target),
            "copied": copied(source, target),
            "characters": not Counter(_DAMAGE.findall(target)) <= Counter(_DAMAGE.findall(source)),
        }
    return tuple(name for name in NAMES if found.get(name))


def flagger(settings: FlagSettings | None = None) -> Callable[[str, str, Judged | None], tuple[str, ...]]:
    """The same as a function of a source, its translation, and what the model says of it (None: nothing)."""

    def flags(source: str, target: str, translation: Judged | None) -> tuple[str, ...]:
        if translation is None:
            return flags_of(source, target, settings=settings)
        return flags_of(
            source,
            target,
            translation.confidence,
            finished=translation.finished,
            unknown=translation.unknown,
            settings=settings,
        )

    return flags


def repeats(source: str, target: str, settings: FlagSettings | None = None) -> bool:
    """Whether the translation is caught in a loop that the source has not."""
    settings = settings or FlagSettings()
    if _LOOP.search(target) and not _LOOP.search(source):
        return True
    read, written = map(_words, (source, target))
    if _in_a_row(written, settings.repeats) and not _in_a_row(read, settings.repeats):
        return True
    return _most(written, settings.ngram) >= max(settings.repeats, _most(read, settings.ngram) + 1)


def _words(text: str) -> list[str]:
    """Without signs."""
    return [word for word in words(text) if in_word(word[0])]


def _size(found: Sequence[str]) -> float:
    """How many words these are."""
    return sum(0.5 if without_spaces(word[0]) else 1 for word in found)


def _in_a_row(words: Sequence[str], times: int) -> bool:
    """Whether a word, or a sequence of up to eight, comes so many times without anything between. One
    character of a script without spaces is no word yet."""
    for size in range(1, 9):
        run = 0
        for i in range(size, len(words)):
            run = run + 1 if words[i] == words[i - size] else 0
            if run >= size * (times - 1) and _size([*{*words[i - size + 1 : i + 1]}]) >= 1:
                return True
    return False


def _most(words: Sequence[str], count: int) -> int:
    """How often the most frequent sequence of so many words comes."""
    size = 2 * count if _size(words) <= 0.75 * len(words) else count  # half of them characters
    grams = Counter(tuple(words[i : i + size]) for i in range(len(words) - size + 1))
    return max(grams.values(), default=0)


def copied(source: str, target: str) -> bool:
    """The same words, three or more; or four of five of five or more. Codes and numbers are no words."""
    read, written = (
        [word for word in _words(_CODES.sub(" ", text)) if word[0].isalpha()] for text in (source, target)
    )
    if _size(read) < 3:
        return False
    if read == written:
        return True
    both = (Counter(read) & Counter(written)).total()
    return _size(read) >= 5 and 5 * both >= 4 * max(len(read), len(written))


def _length(text: str) -> int:
    return sum(3 if spaceless(char) else 1 for char in text.strip())


def _codes(text: str) -> Counter[str]:
    return Counter(_CODES.findall(text))
