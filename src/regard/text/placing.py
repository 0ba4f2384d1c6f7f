"""Inline elements and marks, put back into a translation: each at the words that its own became.

    source   Where is the <b>old station</b>?
    links    0-0 1-1 2-2 3-3 4-4                (source word, target word), words as white space parts them
    target   Wo ist der <b>alte Bahnhof</b>?

An element takes the run of target words that holds most of those linked with its own; elements within one
share its run, and no two beside each other take the same word. So they nest as they did, and each is there
once, whatever the links say. A mark stands behind what the word before it became.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

Span = tuple[int, int]
Links = Sequence[tuple[int, int]]
"""(source word, target word), counted from 0."""

REACH = 2
"""So many words of others may lie between two of one run."""
_WORD = re.compile(r"\S+")
_CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)


@dataclass(slots=True, eq=False)
class Point:
    """What has no words of its own: an image, a comment, a placeholder that was taken out."""

    raw: str
    at: int
    """Where it was: behind this many characters of the text."""
    before: bool = False
    after: bool = False
    """Whether a space was there."""
    leads: bool = False
    """A word followed at once."""
    closed: bool = False
    """A mark such as a full stop followed at once."""
    for_space: bool = False
    """It is what parts two words, such as the end of a line: no space is written beside it."""


@dataclass(slots=True, eq=False)
class Element:
    opening: str
    closing: str
    start: int
    end: int
    """Its text, in characters."""
    inside: "tuple[Element | Point, ...]"


Node = Element | Point


@dataclass(frozen=True, slots=True)
class View:
    """A block of text as a model reads it, and what is to be put back."""

    text: str
    nodes: tuple[Node, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """What stands in the text for an opaque mark, and the mark itself."""

    def keeps(self, text: str) -> bool:
        """Whether a translation has every name as often as the source has it."""
        if not self.names:
            return True
        pattern = _alternatives(self.names)
        return Counter(pattern.findall(text)) == Counter(pattern.findall(self.text))

    def order(self, text: str) -> list[str]:
        """The names in a translation, one after the other."""
        return _alternatives(self.names).findall(text) if self.names else []


class Aligned:
    """A text, its translation, and which word became which."""

    def __init__(self, source: str, text: str, links: Links | None) -> None:
        """Without `links`, the words are taken to be in the same order."""
        self.source, self.text = source, text
        self.read, self.written = _words(source), _words(text)
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


def _words(text: str) -> list[Span]:
    return [found.span() for found in _WORD.finditer(text)]


def _alternatives(names: Iterable[str]) -> re.Pattern[str]:
    return _compiled(tuple(names))


@lru_cache(1000)
def _compiled(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))


def masked(text: str, names: Iterable[str], sign: str = "x") -> str:
    """With other characters in the place of all names, so that none is cut."""
    return _alternatives(names).sub(lambda found: sign * len(found[0]), text) if names else text


def place(view: View, text: str, links: Links | None, escape: Callable[[str], str]) -> str:
    """A translation of the view's text, with everything in it again. Without `links`, words are taken to be
    in the same order, and so are elements and marks."""
    if not view.nodes and not view.names:
        return escape(text)
    placing = _Placing(view, text, links, escape)
    words = (0, len(placing.aligned.written))
    placing.fill(view.nodes, (0, len(view.text)), words, (0, len(text)))
    return "".join(placing.out)


class _Placing:
    def __init__(self, view: View, text: str, links: Links | None, escape: Callable[[str], str]) -> None:
        self.view, self.text, self.escape = view, text, escape
        self.in_order = links is None
        self.aligned = Aligned(masked(view.text, view.names), masked(text, view.names), links)
        self.out: list[str] = []
        self.last = ""

    def fill(self, nodes: Sequence[Node], read: Span, words: Span, room: Span) -> None:
        """Write what is in the room, in characters of the translation, with the nodes in it."""
        own = self.aligned.words(read) if read[0] < read[1] else (0, 0)
        elements = [each for each in nodes if isinstance(each, Element)]
        runs = self._runs(elements, own, words)
        items: list[tuple[Span, int, Node, Span]] = []
        edges: list[Span] = []
        place_of = {id(each): i for i, each in enumerate(nodes)}
        for element, run in zip(elements, runs, strict=True):
            if run[0] < run[1]:
                span = self._edges(element, run, room)
                items.append((span, place_of[id(element)], element, run))
                edges.append(span)
        edges.sort()
        for element, run in zip(elements, runs, strict=True):
            if run[0] == run[1]:
                at = _outside(self._end(run[0], words, room), edges)
                items.append(((at, at), place_of[id(element)], element, run))
        for node in nodes:
            if isinstance(node, Point):
                at = _outside(self._gap(node, own, words, room), edges)
                end = at + (node.for_space and at < room[1] and self.text[at].isspace())
                items.append(((at, end), place_of[id(node)], node, (0, 0)))
        if self.in_order:
            items = _ordered(items)
        items.sort(key=lambda item: item[:2])
        done = room[0]
        for span, _, node, run in items:
            self._write(done, span[0])
            if isinstance(node, Element):
                self.out.append(node.opening)
                self.fill(node.inside, (node.start, node.end), run, span)
                self.out.append(node.closing)
            else:
                self._mark(node, span[0])
            done = max(done, span[1])
        self._write(done, room[1])

    def _write(self, start: int, end: int) -> None:
        text = self.text[start:end]
        if not text:
            return
        done = 0
        for found in _alternatives(self.view.names).finditer(text) if self.view.names else ():
            self.out += [self.escape(text[done : found.start()]), self.view.names[found[0]]]
            done = found.end()
        self.out.append(self.escape(text[done:]))
        self.last = text[-1]

    def _mark(self, point: Point, at: int) -> None:
        before = point.before and self.last and not self.last.isspace()
        after = point.after and self.text[at : at + 1].strip()
        self.out.append(f"{' ' if before else ''}{point.raw}{' ' if after else ''}")
        self.last = " " if after else "x"

    def _runs(self, elements: Sequence[Element], own: Span, words: Span) -> list[Span]:
        """Which target words each takes."""
        low, high = words
        reads = [self.aligned.words((each.start, each.end)) for each in elements]
        if len(elements) == 1 and reads[0] == own:
            return [words]
        linked = [self.aligned.linked(each, words) for each in reads]
        taken = bytearray(high - low)
        runs = [words] * len(elements)
        for k in sorted(range(len(elements)), key=lambda k: -len(linked[k])):
            run = best_run(linked[k], lambda j: bool(taken[j - low]))
            if run is None:
                at = self.aligned.behind(reads[k][0], own, words)
                near = [j for j in (at, at - 1, at + 1, at + 2) if low <= j < high and not taken[j - low]]
                run = (near[0], near[0] + 1) if near else (at, at)
            runs[k] = run
            taken[run[0] - low : run[1] - low] = bytes([1]) * (run[1] - run[0])
        return runs

    def _edges(self, element: Element, run: Span, room: Span) -> Span:
        """In characters; without punctuation at an end, if the element had none there."""
        aligned = self.aligned
        inner = aligned.source[element.start : element.end].strip()
        first, last = aligned.written[run[0]], aligned.written[run[1] - 1]
        start = core(aligned.text, first)[0] if inner[:1].isalnum() else first[0]
        end = core(aligned.text, last)[1] if inner[-1:].isalnum() else last[1]
        start = min(max(start, room[0]), room[1])
        return start, max(start, min(end, room[1]))

    def _end(self, count: int, words: Span, room: Span) -> int:
        """Behind so many target words, in characters."""
        if count <= words[0]:
            return room[0]
        return min(max(self.aligned.written[count - 1][1], room[0]), room[1])

    def _gap(self, point: Point, own: Span, words: Span, room: Span) -> int:
        aligned = self.aligned
        count = bisect_left(aligned.starts, point.at)
        if count <= own[0] or words[0] == words[1]:
            return room[0]
        if count >= own[1] and not point.closed:
            return room[1]
        if point.leads and point.before and (after := aligned.linked((count, count + 1), words)):
            return min(max(aligned.written[after[0]][0], room[0]), room[1])
        target = words[1] if count >= own[1] else aligned.behind(count, own, words)
        if point.closed and target > words[0]:  # before as much punctuation as it was
            word = aligned.written[target - 1]
            tail = min(aligned.read[count - 1][1] - point.at, word[1] - core(aligned.text, word)[1])
            return min(max(word[1] - max(tail, 0), room[0]), room[1])
        return self._end(target, words, room)


def _ordered(items: "list[tuple[Span, int, Node, Span]]") -> "list[tuple[Span, int, Node, Span]]":
    """Points between the elements that they were between, one behind the other."""
    items = sorted(items, key=lambda item: item[1])
    latest = None
    for k in reversed(range(len(items))):
        (start, end), number, node, run = items[k]
        if isinstance(node, Point) and latest is not None and start > latest:
            items[k] = ((latest, latest), number, node, run)
        latest = items[k][0][0]
    earliest = 0
    for k, ((start, end), number, node, run) in enumerate(items):
        if isinstance(node, Point) and start < earliest:
            items[k] = ((earliest, max(end, earliest)), number, node, run)
        earliest = items[k][0][1]
    return items


def _outside(at: int, edges: Sequence[Span]) -> int:
    """A place that is in none of the spans: behind the one that it is in."""
    index = bisect_left(edges, (at, 0)) - 1
    return edges[index][1] if index >= 0 and edges[index][0] < at < edges[index][1] else at
