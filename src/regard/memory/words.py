"""How near two texts are, in words, as translators' tools count it:

    score = 100 * (longest - distance) // longest        0 to 100, rounded down

`distance` is the fewest words inserted, deleted or exchanged that make one text of the other (Levenshtein
1966); `longest` is how many words the longer one has. `regard.text.words` says what a word is. Case does not
count, but then the score is 99: 100 is kept for texts that are the same, but for blanks and Unicode's ways to
write one character.
"""

import unicodedata
from collections.abc import Sequence
from typing import Any

from regard.config import ConfigError
from regard.text.words import words

__all__ = ["EXACT", "MOST", "WORD", "levenshtein", "normal", "occurrences", "percent", "score", "words"]

EXACT = 100
MOST = 255
"""Words of a text that near matches are looked for; a longer one is found only if it is the same."""
WORD = (1 << 24) - 1
"""The bits of a token that are its word."""


def normal(text: str) -> str:
    """What is compared for an exact match."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def percent(distance: int, longest: int) -> int:
    return EXACT * (longest - distance) // longest if longest else 0


def score(one: str, other: str) -> int:
    """Of any two texts, by the definition. 0 where one has no words."""
    if normal(one) == normal(other):
        return EXACT if normal(one) else 0
    first, second = words(one), words(other)
    if not (first and second):
        return 0
    found = levenshtein().distance(first, second)
    return min(percent(found, max(len(first), len(second))), EXACT - 1)


def levenshtein() -> Any:
    """rapidfuzz's, which is an extra."""
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        raise ConfigError("near matches are found by rapidfuzz: pip install regard[desk]") from error
    return Levenshtein


def occurrences(ids: Sequence[int]) -> list[int]:
    """Words as tokens: the second time that one comes, it is another, so that what two texts share is a set.
    The number of the word is in the lower 24 bits, the time above them."""
    seen: dict[int, int] = {}
    found = []
    for id in ids:
        times = seen.get(id, 0)
        found.append(id | times << 24)
        seen[id] = times + 1
    return found
