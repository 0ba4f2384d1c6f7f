"""Translators that cost nothing: one that gives back what it reads, and one that does everything wrong."""

import random
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat

from regard.tasks.translation.result import Alternative, Translation


@dataclass(frozen=True)
class Linked:
    links: tuple[tuple[int, int], ...]


class StandIn:
    languages: tuple[str, ...] = ()
    fuzzy: None = None
    """It is given no near matches,"""
    inline: None = None
    """and no terms."""

    def __init__(self, write: Callable[[str], tuple[str, list[tuple[int, int]]]]) -> None:
        self.write = write
        self.read: list[str] = []
        """All that it was given."""

    def options(self, **settings: object) -> None:
        pass

    def languages_of(self, to: str | None, count: int) -> list[str | None]:
        return [to] * count

    def stream(
        self, lines: Iterable[str], *, align: bool | Iterable[bool] = False, **settings: object
    ) -> Iterator[Translation]:
        for line, aligned in zip(lines, repeat(align) if isinstance(align, bool) else align, strict=False):
            self.read.append(line)
            text, links = self.write(line)
            best = Alternative(text, -1.0, -1.0, True, 0.5)
            yield Translation(line, text, -1.0, -1.0, True, 0.5, (best,), tuple(links) if aligned else None)

    def align(self, source: str, target: str, **languages: object) -> "Linked":
        """Words in order."""
        return Linked(tuple((i, i) for i in range(min(len(source.split()), len(target.split())))))

    def translate(self, texts: list[str], **settings: object) -> list[Translation]:
        return [*self.stream(texts)]


def same(text: str) -> tuple[str, list[tuple[int, int]]]:
    return text, [(i, i) for i in range(len(text.split()))]


def upper(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Other words, in order; what stands for marks is kept."""
    words = [word if re.search(r"[%{[&#@]|://", word) else word.upper() for word in text.split()]
    return " ".join(words), [(i, i) for i in range(len(words))]


def careless(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Words are dropped and permuted, placeholders lost, broken and made up, links are anything."""
    chance = random.Random(zlib.crc32(text.encode()))
    words = [word for word in text.split() if chance.random() > 0.25]
    chance.shuffle(words)
    kind = chance.randrange(6)
    if kind == 0:
        words = [word.replace("%", "% ").replace("[X", "[ X").replace("{", "{ ") for word in words]
    elif kind == 1:
        words.append(chance.choice(["%s", "{0}", "<b>", "&amp;", "[X9X]", "</g>", "'", "]]>", "\\"]))
    elif kind == 2:
        words = []
    elif kind == 3:
        words = text.split()
    count = len(text.split())
    links = [(chance.randrange(count + 2), chance.randrange(len(words) + 2)) for _ in range(count)]
    return " ".join(words), links
