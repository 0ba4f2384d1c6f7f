"""A question and a text as the model reads them: at once or, where the text is too long, in windows.

    tokens      [CLS] q q q [SEP] c0 c1 c2 c3 c4 c5 c6 [SEP]
    windows     [CLS] q q q [SEP] c0 c1 c2 c3 [SEP]             the question in each of them,
                [CLS] q q q [SEP] c2 c3 c4 c5 [SEP]             the text moving on, with an overlap
                [CLS] q q q [SEP] c3 c4 c5 c6 [SEP]

An answer belongs to each window that has the whole of it. In the others, as where there is no answer at all,
the model should point to the first token: [CLS].
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.text import Encoding, Gold, Tokenizer

LEAST = 8
"""Tokens of the text in a window, at least: a question that leaves less room is refused."""


class QuestionError(ValueError):
    """It leaves no room for the text."""


@dataclass(frozen=True, slots=True)
class Window:
    ids: Sequence[int]
    segments: Sequence[int]
    first: int
    """Where in the window the tokens of the text begin; they lie side by side."""
    begin: int
    """The number of the first of them among all of the text's."""
    count: int
    """How many there are."""

    def places(self, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Where these spans of the text's tokens lie in it, each from its first to its last token; those
        that are whole in it. None are: the first token, twice."""
        shift, end = self.first - self.begin, self.begin + self.count
        inside = [
            (start + shift, last + shift) for start, last in spans if self.begin <= start and last < end
        ]
        return inside or [(0, 0)]


@dataclass(frozen=True, slots=True)
class Laid:
    """A question with its text."""

    windows: Sequence[Window]
    offsets: Sequence[tuple[int, int]]
    """Of each token of the text: its first character, and the one behind it."""

    def spans(self, golds: Sequence[Gold]) -> list[tuple[int, int]]:
        """The tokens of answers, from the first to the last; of answers that left some."""
        return [*dict.fromkeys(span for gold in golds if (span := self._span(gold)) is not None)]

    def _span(self, gold: Gold) -> tuple[int, int] | None:
        start = bisect_right(self.offsets, gold.start, key=lambda each: each[1])
        last = bisect_left(self.offsets, gold.end, key=lambda each: each[0]) - 1
        return (start, last) if start <= last else None


def lay_out(tokenizer: Tokenizer, question: str, context: str, *, longest: int, overlap: int) -> Laid:
    """In windows of at most `longest` tokens, which share `overlap` of the text's, at most half."""
    encoding = tokenizer.encode(question, context, template="cls")
    own = [place for place, text in enumerate(encoding.texts) if text == 1]
    offsets = [encoding.offsets[place] for place in own]
    room = longest - (len(encoding) - len(own))
    if room < LEAST and len(own) > room:
        raise QuestionError(
            f"a question that leaves {max(room, 0)} of the {longest} tokens that the model reads at once to "
            f"the text, where {LEAST} at least are needed: {question!r:.60}"
        )
    return Laid([*_windows(encoding, own, room, overlap)] if own else [], offsets)


def _windows(encoding: Encoding, own: Sequence[int], room: int, overlap: int) -> Iterator[Window]:
    before, after = range(own[0]), range(own[-1] + 1, len(encoding))
    step = room - min(overlap, room // 2)
    begin = 0
    while True:
        begin = min(begin, max(len(own) - room, 0))  # the last one takes what room there is before it
        places = [*before, *own[begin : begin + room], *after]
        yield Window(
            [encoding.ids[place] for place in places],
            [encoding.segments[place] for place in places],
            len(before),
            begin,
            min(room, len(own)),
        )
        if begin + room >= len(own):
            return
        begin += step
