"""A sentence in words as a tagger reads it: whole or, where the model cannot, in overlapping windows.

    words     w0 w1 w2 w3 w4 w5 w6 w7 w8 w9
    windows   w0 w1 w2 w3
                    w2 w3 w4 w5
                          w4 w5 w6 w7
                                w6 w7 w8 w9
    spoken    w0 w1 w2|w3 w4|w5 w6|w7 w8 w9

They are cut between words. Each word is spoken for in one of them, where it has most context on its poorer
side; the ends of the sentence are no lack of context.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.text import Encoding


@dataclass(frozen=True, slots=True)
class Window:
    """What is read at once: a sentence, or a part of a longer one."""

    ids: Sequence[int]
    firsts: Sequence[int]
    """For each token, where in the window its word begins; for the tokens of the template, their own
    place."""
    spoken: Sequence[tuple[int, int]]
    """The words whose tags are read here, and where each begins."""


def windows(encoding: Encoding, longest: int) -> tuple[list[Window], int]:
    """Of a sentence in so many tokens at once; and the number of its words that have more tokens than that:
    their first ones speak for them.

    Parts overlap by half and begin and end between words. A word is spoken for where it is farthest from a
    cut; the ends of the sentence are none. One that left no token is spoken for nowhere.
    """
    words = encoding.words
    own = [place for place, word in enumerate(words) if word is not None]
    if not own:
        return [], 0
    if len(words) <= longest:
        return [_window(encoding, range(len(words)), None)], 0
    before, after = range(own[0]), range(own[-1] + 1, len(words))
    room = longest - len(before) - len(after)
    if room < 1:
        raise ValueError(f"longest={longest} leaves no room for a word beside the special tokens")
    starts = [number for number, place in enumerate(own) if not number or words[place] != words[place - 1]]
    ends = [*starts[1:], len(own)]
    parts = list(_parts(starts, ends, room))
    spoken: list[set[int | None]] = [set() for _ in parts]
    for start, end in zip(starts, ends, strict=True):
        spoken[_roomiest(start, end, parts, len(own))].add(words[own[start]])
    found = [
        _window(encoding, [*before, *own[begin:end], *after], chosen)
        for (begin, end), chosen in zip(parts, spoken, strict=True)
        if chosen
    ]
    return found, sum(end - start > room for start, end in zip(starts, ends, strict=True))


def _window(encoding: Encoding, places: Sequence[int], chosen: set[int | None] | None) -> Window:
    """These tokens; it speaks for the chosen words, or for all of them."""
    words = [encoding.words[place] for place in places]
    firsts: list[int] = []
    spoken: list[tuple[int, int]] = []
    for place, word in enumerate(words):
        if word is not None and place and words[place - 1] == word:
            firsts.append(firsts[-1])
            continue
        firsts.append(place)
        if word is not None and (chosen is None or word in chosen):
            spoken.append((word, place))
    return Window([encoding.ids[place] for place in places], firsts, spoken)


def _parts(starts: Sequence[int], ends: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """Stretches of at most `room` tokens. Every word that fits is whole in one of them, for each begins no
    later than where the half of the one before ends."""
    total, begin = ends[-1], 0
    while total - begin > room:
        end = ends[bisect_right(ends, begin + room) - 1] if ends[0] <= begin + room else 0
        yield begin, end if end > begin else begin + room
        near = starts[bisect_right(starts, begin + room // 2) - 1]
        later = bisect_right(starts, begin)
        begin = near if near > begin else starts[later] if later < len(starts) else total
    if begin < total:  # the last one takes what room there is before it
        yield starts[bisect_left(starts, total - room)], total


def _roomiest(start: int, end: int, parts: Sequence[tuple[int, int]], total: int) -> int:
    """Which of the parts a word is spoken for in: of those that have most of it, the one with most context
    on its poorer side."""

    def worth(number: int) -> tuple[int, float]:
        begin, stop = parts[number]
        left = float("inf") if begin == 0 else start - begin
        right = float("inf") if stop == total else stop - end
        return min(end, stop) - start, min(left, right)

    first = bisect_right(parts, start, key=lambda part: part[1])
    last = bisect_right(parts, start, key=lambda part: part[0])
    return max(range(first, last), key=worth)
