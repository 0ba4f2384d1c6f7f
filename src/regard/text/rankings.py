"""Queries with a text that answers each and texts that do not: what rerankers and embedders learn from.

    {"query": ..., "positive": ..., "negatives": [..., ...], "scores": [9.1, 2.3, -4.0]}

In TSV and CSV each negative has a column of its own. The scores, where there are any, are a teacher's: of the
positive first, then of the negatives.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.text.readers import Rows, check_text, read_rows, text_of
from regard.text.records import DataError, OnError, Origin, Skipped
from regard.text.tables import Column, Row


@dataclass(frozen=True, slots=True)
class Ranking:
    query: str
    positive: str
    negatives: tuple[str, ...]
    scores: tuple[float, ...]
    """A teacher's, of the positive and then of the negatives; or none."""
    origin: Origin

    @property
    def texts(self) -> tuple[str, ...]:
        """The positive, and then the negatives."""
        return (self.positive, *self.negatives)


def read_rankings(
    table: Rows,
    *,
    query: Column = "query",
    positive: Column = "positive",
    negatives: Sequence[Column] = ("negatives",),
    scores: Column | None = None,
    most: int = 0,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Ranking]:
    """A query a row. A cell of `negatives` is a text or a list of them; an empty one is none. Of a row's
    negatives the first `most` are taken, or all (0)."""
    wanted = [query, positive, *negatives, *([] if scores is None else [scores])]

    def build(row: Row) -> Ranking:
        asked, right = text_of(row, 0, query), text_of(row, 1, positive)
        cells = row.cells[2 : 2 + len(negatives)]
        wrong = [
            each for cell, name in zip(cells, negatives, strict=True) for each in _texts(cell, row, name)
        ]
        for what, text in (("query", asked), ("positive", right)):
            if not text.strip():
                raise DataError(row.origin, f"an empty {what}")
        if not wrong:
            remedy = "leave the row out, or find negatives with regard mine-negatives"
            raise DataError(row.origin, "a query without negatives", f"({asked!r:.60})", remedy)
        if right in wrong:
            remedy = "take it out of one of the two"
            raise DataError(
                row.origin, "a text that is both positive and negative", f"({right!r:.60})", remedy
            )
        if asked in wrong:
            remedy = "take it out of its negatives"
            raise DataError(row.origin, "a query that is its own negative", f"({asked!r:.60})", remedy)
        found = () if scores is None else _numbers(row, len(row.cells) - 1, scores, 1 + len(wrong))
        kept = wrong[:most] if most else wrong
        return Ranking(asked, right, tuple(kept), found[: 1 + len(kept)], row.origin)

    return read_rows(table, wanted, build, on_error, skipped)


def _texts(cell: object, row: Row, column: Column) -> list[str]:
    cells = cell if isinstance(cell, list | tuple) else [cell]
    return [
        text for each in cells if each is not None and (text := check_text(each, row.origin, column)).strip()
    ]


def _numbers(row: Row, place: int, column: Column, count: int) -> tuple[float, ...]:
    cell = row.cells[place]
    cells = cell.split() if isinstance(cell, str) else cell
    try:
        found = tuple(float(each) for each in cells) if isinstance(cells, list | tuple) else ()
    except (TypeError, ValueError):
        found = ()
    if len(found) != count or not all(map(math.isfinite, found)):
        details = f"but {cell!r:.60}: one of the positive, then one of each of {count - 1} negatives"
        raise DataError(row.origin, f"not {count} numbers in column {column!r}", details)
    return found
