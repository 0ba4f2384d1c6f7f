"""A corpus without near-duplicates: of records whose vectors are nearly the same, the first stays.

In order, a record is left out if its cosine with one that has stayed before it reaches a threshold. So what
stays is pairwise further apart than that, whatever the blocks; the exact search compares every pair. Vectors
are rounded to float32, and their cosines to 1e-7: with themselves half of them are below 1. So what reaches a
threshold within a millionth reaches it.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import ConfigError
from regard.corpus.index import ShardedIndex
from regard.corpus.progress import shown_texts
from regard.corpus.reading import Bad
from regard.corpus.texts import any_order
from regard.corpus.vectors import ShardedVectors, text_of
from regard.meaning.nearest import Scores
from regard.tasks.base.formats import TABLES, ending
from regard.tasks.base.outputs import written_whole
from regard.tasks.base.vectors import Rows, products, uncertainty

_BLOCK = 2048
_NEAR = 64
"""Neighbours of a record that an index is asked for at first."""
_ROUNDING = 1e-6


def originals(index: ShardedIndex, threshold: float, block: int = _BLOCK) -> tuple[Rows, Scores]:
    """For each row the earlier one that it duplicates, or itself; and their cosine."""
    if not 0 < threshold <= 1:
        raise ConfigError(f"--threshold {threshold:g}: a cosine from 0 to 1")
    threshold *= 1 - _ROUNDING
    if index.kind != "exact":
        return _by_index(index, threshold, block)
    vectors: Any = index.vectors
    rows = len(vectors)
    of, cosines = np.arange(rows), np.ones(rows)
    for start in range(0, rows, block):
        stop = min(start + block, rows)
        left, right = _near(index, of, start, stop, threshold, block)
        exact = products(vectors[left], np.arange(len(left)), vectors[right], np.arange(len(right)))
        near = exact >= threshold
        order = np.lexsort((right[near], left[near]))
        for row, earlier, cosine in zip(
            left[near][order].tolist(), right[near][order].tolist(), exact[near][order].tolist(), strict=True
        ):
            if of[row] == row and of[earlier] == earlier:
                of[row], cosines[row] = earlier, cosine
    return of, cosines


def _near(
    index: ShardedIndex, of: Rows, start: int, stop: int, threshold: float, block: int
) -> tuple[Rows, Rows]:
    """Rows from `start` on with earlier ones that stay, or may stay, about as near as the threshold."""
    vectors = index.vectors
    own, least = vectors[start:stop], threshold - uncertainty(vectors.shape[1])
    left, right = [], []
    for before in range(0, stop, block):
        end = min(before + block, stop)
        kept = np.arange(before, end)[of[before:end] == np.arange(before, end)]
        other = own[kept - start] if before == start else vectors[kept]
        mine, theirs = np.nonzero(own @ other.T >= np.float32(least))
        earlier = kept[theirs] < mine + start
        left.append(mine[earlier] + start)
        right.append(kept[theirs][earlier])
    return np.concatenate(left), np.concatenate(right)


def _by_index(index: ShardedIndex, threshold: float, block: int) -> tuple[Rows, Scores]:
    """The same by an index: of a row that has many neighbours as near as that, all of them may be later ones,
    or have been left out. So what those are duplicates of is compared too, and more are asked for while
    there may be more."""
    vectors: Any = index.vectors
    rows = len(vectors)
    of, cosines = np.arange(rows), np.ones(rows)
    for start in range(0, rows, block):
        stop = min(start + block, rows)
        own = vectors[start:stop]
        found, near = index.search(own, _NEAR)
        for row in range(start, stop):
            mine, k = own[row - start : row - start + 1], _NEAR
            listed, scores = found[row - start], near[row - start]
            while True:
                earlier = listed[listed < row]
                stay = np.unique(of[earlier])
                exact = products(mine, np.zeros(len(stay), np.int64), vectors[stay], np.arange(len(stay)))
                close = np.flatnonzero(exact >= threshold)
                if len(close):
                    of[row], cosines[row] = stay[close[0]], exact[close[0]]
                if len(close) or k >= rows or scores.min() < threshold:
                    break
                k = min(4 * k, rows)
                (listed,), (scores,) = index.search(mine, k)
    return of, cosines


@dataclass(frozen=True, slots=True)
class Deduped:
    """How many records."""

    kept: int
    dropped: int
    unread: int
    """Left out because they could not be read."""


def dedupe(index: ShardedIndex, out: Path, threshold: float) -> Deduped:
    """Write the records that stay, a line each or as JSON lines, and beside them what was left out: of what
    it is a duplicate, or why it could not be read."""
    vectors: ShardedVectors = index.vectors
    of, cosines = originals(index, threshold)
    listed = TABLES.get(ending(out)) == "jsonl"
    unread: dict[int, Bad] = {}

    def staying() -> Iterator[str]:
        with shown_texts(f"reading {vectors.folder.path}", len(of)) as told:
            for row, record in enumerate(vectors.every_record()):
                told(1)
                if isinstance(record, Bad):
                    unread[row] = record
                elif of[row] == row:
                    plain = {"id": record.id, "text": record.texts[0]}
                    yield (json.dumps(plain, ensure_ascii=False) if listed else _line(record.texts[0])) + "\n"

    def left_out(id_of: Callable[[int], str]) -> Iterator[str]:
        for start in range(0, len(of), _BLOCK):
            every = np.arange(start, min(start + _BLOCK, len(of)))
            rows = every[of[every] != every].tolist()
            records = dict(zip(rows, vectors.records(rows), strict=True))
            for row in sorted({*rows, *(own for own in every.tolist() if own in unread)}):
                if row in unread:
                    plain: dict[str, object] = {"id": unread[row].id, "reason": unread[row].reason}
                else:
                    plain = {"id": records[row].id, "text": text_of(records[row])}
                    plain |= {"of": id_of(of[row]), "cosine": round(float(cosines[row]), 6)}
                yield json.dumps(plain, ensure_ascii=False) + "\n"

    dropped = of != np.arange(len(of))
    with written_whole(out) as file:
        file.writelines(staying())
    with (
        written_whole(out.with_name(f"{out.name}.dropped.jsonl")) as file,
        any_order(vectors, of[dropped], out.parent, lambda record: record.id) as id_of,
    ):
        file.writelines(left_out(id_of))
    count = int(dropped.sum())
    return Deduped(len(of) - count - len(unread), count, len(unread))


def _line(text: str | Sequence[str]) -> str:
    """As it is, but for the newlines in it."""
    whole = text if isinstance(text, str) else " ".join(text)
    return re.sub(r"\r?\n|\r\Z", " ", whole)
