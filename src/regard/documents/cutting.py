"""A translation of subtitles, cut into cues and lines: after so much of its text, best where a clause ends.

shares [0.5, 1]      Ich wollte nach Hause gehen, | weil es schon spät war.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.text.units import Span, units

TAG = re.compile(r"<(/?)([A-Za-z][\w.-]*+)[^<>]*+>|<[\d:.]+>|\{\\[^{}]*\}")
_CLAUSE = re.compile(r"[,;:.!?…、。，；：！？][\"'”’»)\]]*$")  # noqa: RUF001
CLAUSE_WORTH = 0.12
"""Of the whole length: so far may a cut move to get behind a comma."""
MOST_LINES = 12
"""What needs more is no subtitle, and is left on one line."""
_TAG_COST = 1.0
"""A cut within an element, which has to be closed and opened again, only where there is no other."""


@dataclass(frozen=True, slots=True)
class _Gap:
    start: int
    end: int
    seen: int
    """Characters before it that are seen."""
    open: tuple[tuple[str, str], ...]
    """Tags that it lies within: each as it is written, and its name."""
    clause: bool


def visible(text: str) -> str:
    return TAG.sub("", text)


def cut(text: str, shares: Sequence[float], *, whole: bool, worth: float = CLAUSE_WORTH) -> list[str]:
    """As many parts as there are shares, each the part of the text where it ends: the last is 1. `whole`:
    each part closes the tags that it opens. `worth`: how far a cut may move to get behind a clause. Parts are
    empty where there are not enough words."""
    if len(shares) == 1:
        return [text]
    gaps = _gaps(text)
    chosen = _choose(gaps, len(visible(text)), shares[:-1], whole, worth)
    parts: list[str] = []
    done, reopened = 0, ""
    for gap in chosen:
        closing = "".join(f"</{name}>" for _, name in reversed(gap.open)) if whole else ""
        parts.append(reopened + text[done : gap.start] + closing)
        reopened = "".join(raw for raw, _ in gap.open) if whole else ""
        done = gap.end
    parts.append(reopened + text[done:])
    return [*parts, *[""] * (len(shares) - len(parts))]


def _gaps(text: str) -> list[_Gap]:
    found: list[_Gap] = []
    tags = [*TAG.finditer(text)]
    closed = {tag[2].partition(".")[0]: tag.start() for tag in tags if tag[1]}
    stack: list[tuple[str, str]] = []
    seen = done = 0
    last_word = len(text.rstrip())
    for end, tag in [*((each.start(), each) for each in tags), (len(text), None)]:
        for first, last in _between(text, done, end):
            before = seen + first - done
            if before > 0 and last < last_word:
                clause = _CLAUSE.search(visible(text[max(first - 30, 0) : first])) is not None
                found.append(_Gap(first, last, before, tuple(stack), clause))
        seen += end - done
        if tag is None:
            break
        done = tag.end()
        name = (tag[2] or "").partition(".")[0]
        if name and tag[1]:
            if stack and stack[-1][1] == name:
                stack.pop()
        elif name and closed.get(name, -1) >= done:
            stack.append((tag[0], name))
    return found


def _between(text: str, start: int, end: int) -> Iterator[Span]:
    """Where white space is, or a character of a script without spaces ends."""
    last: int | None = None
    for unit in units(text, (start, end)):
        if last is not None or start < unit[0]:
            yield start if last is None else last, unit[0]
        last = unit[1]
    if (last or start) < end:
        yield last or start, end


def _choose(
    gaps: Sequence[_Gap], length: int, shares: Sequence[float], whole: bool, worth: float
) -> list[_Gap]:
    """One gap for each share, in order, with the least cost."""
    count = min(len(gaps), len(shares))
    best: list[list[tuple[float, int]]] = []  # of cuts so far, for the last gap: the cost, and the gap before
    for k in range(count):
        row: list[tuple[float, int]] = []
        least = (0.0, -1) if k == 0 else (float("inf"), -1)  # of those before this gap
        for j, gap in enumerate(gaps):
            cost = abs(gap.seen / max(length, 1) - shares[k]) - worth * gap.clause
            cost += _TAG_COST * (whole and bool(gap.open))
            row.append((least[0] + cost, least[1]))
            if k > 0:
                least = min(least, (best[k - 1][j][0], j))
        best.append(row)
    if not count:
        return []
    j = min(range(len(gaps)), key=lambda each: best[-1][each][0])
    chosen = [gaps[j]]
    for k in range(count - 1, 0, -1):
        j = best[k][j][1]
        chosen.insert(0, gaps[j])
    return chosen


def lines(text: str, longest: int, line_end: str) -> str:
    """On as few lines as it needs, of much the same length."""
    fewest = -(-len(visible(text)) // longest)
    if fewest > MOST_LINES:
        return text
    parts = [text]
    for count in range(fewest, fewest + 3):
        for worth in (CLAUSE_WORTH, 0.0):
            parts = cut(text, [(i + 1) / count for i in range(count)], whole=False, worth=worth)
            if all(len(visible(each)) <= longest for each in parts):
                return line_end.join(each for each in parts if each)
    return line_end.join(each for each in parts if each)
