"""What a memory adds to a translation: its exact matches in the place of the model's, and near ones beside
them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from regard.memory.segments import Match
from regard.memory.store import NEAR, Memory

Use = Literal["exact", "never"]
"""Which matches take the place of a translation: those of the same text, or none."""


@dataclass(frozen=True, slots=True)
class Recall:
    search: Callable[[str], Sequence[Match]]
    """The matches of a text, best first."""
    use: Use = "exact"

    def __post_init__(self) -> None:
        if self.use not in get_args(Use):
            raise ValueError(f"use={self.use!r} is none of {', '.join(get_args(Use))}")


def recall(
    memory: Memory | str | Path,
    source_language: str,
    target_language: str,
    *,
    use: Use = "exact",
    at_least: int = NEAR,
    limit: int = 3,
) -> Recall:
    """A memory as `Translator.translate` takes it: matches that score `at_least` so much, `limit` of them."""
    opened = memory if isinstance(memory, Memory) else Memory(memory)

    def search(text: str) -> list[Match]:
        return opened.search(text, source_language, target_language, at_least=at_least, limit=limit)

    return Recall(search, use)
