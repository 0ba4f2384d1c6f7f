"""A query and a text as the model reads them: at once or, where the text is too long, in windows.

    [CLS] q q q [SEP] t0 t1 t2 t3 [SEP]             the query in each of them,
    [CLS] q q q [SEP] t2 t3 t4 t5 [SEP]             the text moving on by half

The best window speaks for the text (MaxP, Dai and Callan 2019).
"""

from collections.abc import Iterator, Sequence

from regard.tasks.base.reading import Piece, Reader, TooLong
from regard.text import DataError, Encoding, Origin

LEAST = 8
"""Tokens of the text in a window, at least: a query that leaves less room is refused."""


def read_pairs(
    reader: Reader, queries: Sequence[str], texts: Sequence[str], too_long: TooLong
) -> list[Piece]:
    """What is read of each pair, in order; a text too long may become several pieces, and its query is
    whole in each."""
    if too_long != "windows":
        return reader.pieces(queries, texts, too_long)
    ids, segments = reader.tokenizer.encode_pairs(queries, texts)
    found: list[Piece] = []
    for number, own in enumerate(ids):
        if len(own) <= reader.longest:
            found.append(Piece(own, segments[number] if reader.paired else None, number))
            continue
        encoding = reader.tokenizer.encode(queries[number], texts[number], template="cls")
        for places in _windows(encoding, reader.longest, number):
            marks = [encoding.segments[place] for place in places] if reader.paired else None
            found.append(Piece([encoding.ids[place] for place in places], marks, number))
    return found


def _windows(encoding: Encoding, longest: int, number: int) -> Iterator[list[int]]:
    own = [place for place, text in enumerate(encoding.texts) if text == 1]
    room = longest - (len(encoding) - len(own))
    if room < LEAST:
        raise DataError(
            Origin("input", number + 1),
            "a query that leaves no room for its text",
            f"({len(encoding) - len(own)} of the {longest} tokens that the model reads at once, where "
            f"{LEAST} at least are the text's)",
            remedy="shorten the query, or have both cut: too_long=cut",
        )
    before, after = range(own[0]), range(own[-1] + 1, len(encoding))
    last = len(own) - room
    for start in range(0, last + room // 2, room // 2):
        begin = min(start, last)
        yield [*before, *own[begin : begin + room], *after]
        if begin == last:
            return
