"""Inline elements and marks, put back into a translation: each at the words that its own became.

    source   Where is the <b>old station</b>?
    links    0-0 1-1 2-2 3-3 4-4                (source word, target word), words as white space parts them
    target   Wo ist der <b>alte Bahnhof</b>?

An element takes the run of target words that holds most of those linked with its own; elements within one
share its run, and no two beside each other take the same word. So they nest as they did, and each is there
once, whatever the links say. An element in a word, `m<sup>2</sup>`, goes around the same letters of the word
that this became, if they are there. A mark stands behind what the word before it became.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from regard.text.aligned import Aligned, Links, best_run, core, finer
from regard.text.units import Span, units

_SIGN = "\U00010a00"
"""A letter of a script that nobody has written for long: no text has it, so nothing is found in a name."""

__all__ = [
    "Aligned",
    "Element",
    "Links",
    "Node",
    "Point",
    "Span",
    "View",
    "best_run",
    "core",
    "masked",
    "place",
]


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
    hollow: bool = True
    """It stays where it gets no words."""
    within: str = ""
    """What opens and closes it within a word, where that is written in another way."""


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


def _alternatives(names: Iterable[str]) -> re.Pattern[str]:
    return _compiled(tuple(names))


@lru_cache(1000)
def _compiled(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))


def masked(text: str, names: Iterable[str], sign: str = _SIGN) -> str:
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
        source, target = masked(view.text, view.names), masked(text, view.names)
        links = None if links is None else finer(source, target, links)
        self.aligned = Aligned(source, target, links, units)
        self.out: list[str] = []
        self.last = ""

    def fill(self, nodes: Sequence[Node], read: Span, words: Span, room: Span) -> None:
        """Write what is in the room, in characters of the translation, with the nodes in it."""
        own = self.aligned.words(read) if read[0] < read[1] else (0, 0)
        elements = [each for each in nodes if isinstance(each, Element)]
        parts = self._parts(elements, words, room)
        runs = self._runs(elements, parts, own, words)
        items: list[tuple[Span, int, Node, Span]] = []
        edges: list[Span] = []
        place_of = {id(each): i for i, each in enumerate(nodes)}
        for element, run in zip(elements, runs, strict=True):
            if run[0] < run[1]:
                span = parts[id(element)][1] if id(element) in parts else self._edges(element, run, room)
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
                self._element(node, run, span)
            else:
                self._mark(node, span[0], room[1])
            done = max(done, span[1])
        self._write(done, room[1])

    def _element(self, element: Element, run: Span, room: Span) -> None:
        before, last = len(self.out), self.last
        beside = self.text[max(room[0] - 1, 0) : room[0]] + self.text[room[1] : room[1] + 1]
        own = element.within if any(map(str.isalnum, beside)) else ""
        self.out.append(own or element.opening)
        self.last = ""
        self.fill(element.inside, (element.start, element.end), run, room)
        self.last = self.last or last
        if element.hollow or len(self.out) > before + 1:
            self.out.append(own or element.closing)
        else:
            del self.out[before:]

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

    def _mark(self, point: Point, at: int, end: int) -> None:
        """With a space beside it where one was, but for the ends of an element."""
        before = point.before and self.last and not self.last.isspace()
        after = point.after and self.text[at : min(at + 1, end)].strip()
        self.out.append(f"{' ' if before else ''}{point.raw}{' ' if after else ''}")
        self.last = " " if after else "x"

    def _parts(self, elements: Sequence[Element], words: Span, room: Span) -> dict[int, tuple[int, Span]]:
        """Of those in a word: the target word that has the same letters in it, and where."""
        found: dict[int, tuple[int, Span]] = {}
        ends: dict[int, int] = {}
        for element in elements:
            first, last = self.aligned.words((element.start, element.end))
            for j in self.aligned.linked((first, last), words) if last - first == 1 else ():
                span = self.aligned.part((element.start, element.end), first, j)
                if span is not None and max(room[0], ends.get(j, 0)) <= span[0] and span[1] <= room[1]:
                    found[id(element)], ends[j] = (j, span), span[1]
                    break
        return found

    def _runs(
        self, elements: Sequence[Element], parts: dict[int, tuple[int, Span]], own: Span, words: Span
    ) -> list[Span]:
        """Which target words each takes."""
        low, high = words
        reads = [self.aligned.words((each.start, each.end)) for each in elements]
        if len(elements) == 1 and reads[0] == own and not parts:
            return [words]
        linked = [self.aligned.linked(each, words) for each in reads]
        taken = bytearray(high - low)
        for j, _ in parts.values():
            taken[j - low] = 1
        runs = [words] * len(elements)
        for k in sorted(range(len(elements)), key=lambda k: -len(linked[k])):
            if id(elements[k]) in parts:
                j = parts[id(elements[k])][0]
                runs[k] = j, j + 1
                continue
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
