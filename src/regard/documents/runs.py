"""The pieces of a paragraph of Word's: runs, marks, and pairs of marks around some of them (`word.py`)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from regard.text.scanning import DEEPEST


@dataclass(slots=True)
class Item:
    """A piece of a paragraph."""

    kind: str
    """text, mark, break, wrap; start and end of a pair."""
    start: int
    end: int
    """Where it stands, with its run where it is all of it or the run's first or last."""
    raw: str = ""
    """Text as XML writes it; else what stands between runs."""
    format: str = ""
    stands: bool = False
    before: str = ""
    after: str = ""
    """What closes the run before it, and opens the run behind it, where it is in the middle of one."""
    closing: str = ""
    items: "list[Item]" = field(default_factory=list)
    """Of a wrap."""
    pair: str = ""


def wrapped(item: Item, text: str) -> Item:
    """A mark, where there is no text in it; what is parted in it is not wrapped, but parts."""
    if _has(item, "break", "parted"):
        item.kind = "parted"
    elif not _has(item, "text"):
        return Item("mark", item.start, item.end, text[item.start : item.end])
    return item


def _has(item: Item, *kinds: str) -> bool:
    return any(each.kind in kinds or _has(each, *kinds) for each in item.items)


def paired(items: Sequence[Item]) -> list[Item]:
    """What stands between two marks of one pair is wrapped in them, unless pairs overlap, or it is in too
    many."""
    done: list[Item] = []
    starts: list[int] = []
    for item in items:
        if item.kind == "start":
            starts.append(len(done))
        elif item.kind == "end":
            if starts and done[starts[-1]].pair == item.pair and _whole(done, starts[-1] + 1):
                opened = starts.pop()
                first = done[opened]
                if len(starts) >= DEEPEST:
                    done[opened] = replace(first, kind="mark")
                    done.append(replace(item, kind="mark"))
                    continue
                inside = done[opened + 1 :]
                del done[opened:]
                wrap = Item("wrap", first.start, item.end, first.raw, closing=item.raw, items=inside)
                if _has(wrap, "break", "parted"):
                    done += [replace(first, kind="mark"), *inside, replace(item, kind="mark")]
                elif _has(wrap, "text"):
                    done.append(wrap)
                else:
                    raw = first.raw + "".join(_written(each) for each in inside) + item.raw
                    done.append(Item("mark", first.start, item.end, raw))
                continue
            item = replace(item, kind="mark")
        done.append(item)
    return [replace(each, kind="mark") if each.kind == "start" else each for each in done]


def crossing(items: Sequence[Item]) -> bool:
    """Whether both marks of a pair are here, and are around nothing."""
    pairs = Counter(each.pair for item in items for each in (item, *_inner(item)) if each.pair)
    return any(count > 1 for count in pairs.values())


def _inner(item: Item) -> Iterator[Item]:
    for each in item.items:
        yield each
        yield from _inner(each)


def _whole(items: Sequence[Item], first: int) -> bool:
    """Whether no run goes on beyond these."""
    return first >= len(items) or (not items[first].before and not items[-1].after)


def _written(item: Item) -> str:
    return item.raw + "".join(map(_written, item.items)) + item.closing


def groups(items: Sequence[Item]) -> Iterator[list[Item]]:
    """What lies between breaks, from the first text to the last: marks at its ends stay where they are."""
    own: list[Item] = []
    for item in [*items, Item("break", 0, 0)]:
        if item.kind not in ("break", "parted"):
            own.append(item)
            continue
        worded = [i for i, each in enumerate(own) if each.kind in ("text", "wrap") or each.stands]
        if worded:
            yield own[worded[0] : worded[-1] + 1]
        own = []
        if item.kind == "parted":
            yield from groups(item.items)


def most(items: Sequence[Item]) -> str:
    """The formatting that most characters have."""
    counts: Counter[str] = Counter()
    for item in items:
        if item.kind == "text":
            counts[item.format] += len(item.raw.strip())
    return counts.most_common(1)[0][0] if counts else ""
