"""What a memory keeps, and what it gives."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from regard.memory.words import EXACT
from regard.text.languages import base
from regard.text.tmx import same_language

Languages = tuple[str | None, str | None]
"""The source's and the target's; None where it is not known."""


class MemoryFileError(ValueError):
    """A file that is no memory, or cannot be used as one; the message says why."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A text and its translation, as a memory keeps it."""

    source: str
    target: str
    source_language: str
    target_language: str
    date: str = ""
    """Of the last change, YYYYMMDDTHHMMSSZ; empty where nobody knows."""
    author: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """What a memory has for a text."""

    source: str
    """The text that it was found by."""
    target: str
    score: int
    """0 to 100; 100 if the texts are the same. `regard.memory.words` says how it is counted."""
    source_language: str
    target_language: str
    date: str = ""
    author: str = ""

    @property
    def exact(self) -> bool:
        return self.score == EXACT

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Imported:
    """What became of the segments of an import."""

    new: int = 0
    replaced: int = 0
    """Translations that newer ones took the place of."""
    known: int = 0
    """That were there already, or older than what is there."""

    @property
    def total(self) -> int:
        return self.new + self.replaced + self.known


def chosen_pairs(
    pairs: Iterable[tuple[str, str]], wanted: Languages, likely: Languages = (None, None)
) -> list[tuple[str, str]]:
    """Those of the languages that are wanted. Where one is not said, those that cannot be the `likely` one
    are left out, and those that are come before others."""
    source, target = (None if said else code for said, code in zip(wanted, likely, strict=True))
    found = [pair for pair in pairs if _all(same_language, pair, wanted)]
    found = [pair for pair in found if _all(may_be_same, pair, (source, target))]
    return [pair for pair in found if _all(same_language, pair, (source, target))] or found


def _all(same: Callable[[str, str], bool], pair: tuple[str, str], codes: Languages) -> bool:
    return all(code is None or same(own, code) for own, code in zip(pair, codes, strict=True))


def may_be_same(one: str, other: str) -> bool:
    """As far as anybody can tell from codes of different lists: de and deu_Latn are, de and eng are not."""
    first, second = base(one), base(other)
    return first == second or len(first) != len(second)
