"""A text and its translation, and which words of the one became which of the other.

    links   0-0 1-1 2-2       (source word, target word), words as white space parts them

In scripts without spaces each character is a word (`units.py`); where links know only what white space parts,
these are taken to be in the same order.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from regard.text.units import Span, units, words

Links = Sequence[tuple[int, int]]
"""(source word, target word), counted from 0."""

REACH = 2
"""So many words of others may lie between two of one run."""
_CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)


class Aligned:
    """A text, its translation, and which word became which."""

    def __init__(
        self,
        source: str,
        text: str,
        links: Links | None,
        parted: Callable[[str], Iterable[Span]] = words,
    ) -> None:
        """Without `links`, the words are taken to be in the same order. They are what `parted` finds."""
        self.source, self.text = source, text
        self.read, self.written = [*parted(source)], [*parted(text)]
        self.starts = [start for start, _ in self.read]
        self.targets: list[list[int]] = [[] for _ in self.read]
        count = len(self.written)
        if links is None:
            links = [(j * len(self.read) // count, j) for j in range(count)] if self.read else []
        for i, j in sorted(links):
            if 0 <= i < len(self.read) and 0 <= j < count:
                self.targets[i].append(j)

    def words(self, span: Span) -> Span:
        """The source words of a span of characters: at its ends, those that are mostly in it."""
        start, end = span
        first = max(bisect_right(self.starts, start) - 1, 0)
        if self.read and self.read[first][1] <= start:
            first += 1
        last = max(first, bisect_left(self.starts, end))
        if last - first > 1 and not self._mostly(first, span):
            first += 1
        if last - first > 1 and not self._mostly(last - 1, span):
            last -= 1
        return first, last

    def _mostly(self, word: int, span: Span) -> bool:
        start, end = core(self.source, self.read[word])
        return 2 * (min(end, span[1]) - max(start, span[0])) > end - start

    def part(self, span: Span, word: int, target: int) -> Span | None:
        """Where the letters of a span that is a part of a source word are in a target word: behind or before
        the same ones, or once. None where the span is all of the word, and where they are not."""
        read, written = core(self.source, self.read[word]), core(self.text, self.written[target])
        start, end = max(span[0], read[0]), min(span[1], read[1])
        if start >= end or (start, end) == read:
            return None
        letters, whole = self.source[start:end], self.text[slice(*written)]
        if whole.startswith(self.source[read[0] : end]):
            at = start - read[0]
        elif whole.endswith(self.source[start : read[1]]):
            at = len(whole) - (read[1] - start)
        elif read[0] < start and end < read[1] and whole.count(letters) == 1:
            at = whole.index(letters)
        else:
            return None
        return written[0] + at, written[0] + at + len(letters)

    def linked(self, words: Span, within: Span) -> list[int]:
        """Target words of some source words."""
        low, high = within
        return sorted({j for i in range(*words) for j in self.targets[i] if low <= j < high})

    def behind(self, count: int, words: Span, within: Span) -> int:
        """How many target words come before what stood behind `count` source words; of all those in `words`
        and in `within`."""
        low, high = within
        before = self.linked((count - 1, count), within) if count > words[0] else []
        after = self.linked((count, count + 1), within) if count < words[1] else []
        for j in before:
            if j + 1 in after:
                return j + 1
        if before:
            last = before[0]
            while last + 1 in before:
                last += 1
            return last + 1
        if after:
            return after[0]
        return low + (count - words[0]) * (high - low) // max(words[1] - words[0], 1)


def best_run(places: Sequence[int], taken: Callable[[int], bool]) -> Span | None:
    """Of those places that are free, most that lie close together, with none between that is taken."""
    best: tuple[int, Span] | None = None
    first = last = count = 0
    for place in places:
        if taken(place):
            continue
        close = count and place - last - 1 <= REACH and not any(map(taken, range(last + 1, place)))
        first, count = (first, count + 1) if close else (place, 1)
        last = place
        if best is None or count > best[0]:
            best = count, (first, last + 1)
    return None if best is None else best[1]


def core(text: str, word: Span) -> Span:
    """A word without the punctuation around it; all of it where it is nothing else."""
    found = _CORE.search(text, *word)
    return word if found is None else found.span()


def finer(source: str, text: str, links: Links) -> Links:
    """Links of units from those of words. Where most words are several units, as in Chinese, a link says
    nothing: all but whole words are taken to be in the same order."""
    read, written = ([[*units(each, word)] for word in words(each)] for each in (source, text))
    numbers = _numbered(read), _numbered(written)
    known = [(i, j) for i, j in links if 0 <= i < len(read) and 0 <= j < len(written)]
    if not any(sum(map(len, each)) > 2 * len(each) for each in (read, written)):
        return [pair for i, j in known for pair in _in_order(numbers[0][i], numbers[1][j])]
    kept = [(numbers[0][i][0], numbers[1][j][0]) for i, j in known if len(read[i]) == len(written[j]) == 1]
    kept += _same(source, text)
    free: list[list[int]] = []
    for side, own in enumerate(numbers):
        linked = {link[side] for link in kept}
        free.append([unit for word in own for unit in word if unit not in linked])
    return [*kept, *_in_order(*free)]


def _same(source: str, text: str) -> Links:
    """Units that are there once in both: numbers, names."""
    read, written = ([each[slice(*span)] for span in units(each)] for each in (source, text))
    counts, place = Counter(written), {unit: j for j, unit in enumerate(written)}
    once = {unit for unit, times in Counter(read).items() if times == counts[unit] == 1}
    return [(i, place[unit]) for i, unit in enumerate(read) if unit in once]


def _numbered(parts: Iterable[Sequence[Span]]) -> list[list[int]]:
    numbers = count()
    return [[next(numbers) for _ in each] for each in parts]


def _in_order(first: Sequence[int], second: Sequence[int]) -> Links:
    longest = max(len(first), len(second)) if first and second else 0
    return [(first[k * len(first) // longest], second[k * len(second) // longest]) for k in range(longest)]
