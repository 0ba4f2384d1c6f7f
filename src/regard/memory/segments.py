"""What a memory keeps, and what it gives."""

from dataclasses import dataclass
from typing import Any

from regard.memory.words import EXACT


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
