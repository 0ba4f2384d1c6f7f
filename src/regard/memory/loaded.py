"""The words of all sources of a file, kept while it is open. Sources are only ever added: after a write, the
new ones alone are read."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from regard.memory.index import Index
from regard.text.tmx import normal_language, same_language


class _Growing:
    """An array that grows at its end; what was given out before stays as it is."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self._room, self._size = np.empty(0, dtype=dtype), 0

    @property
    def values(self) -> np.ndarray:
        return self._room[: self._size]

    def extend(self, new: np.ndarray) -> None:
        size = self._size + len(new)
        if size > len(self._room):
            room = np.empty(size + size // 2, dtype=self._room.dtype)
            room[: self._size] = self.values
            self._room = room
        self._room[self._size : size] = new
        self._size = size


class Loaded:
    def __init__(self, file: sqlite3.Connection) -> None:
        self._file, self._version = file, -1
        self._tokens, self._lengths, self._starts = (
            _Growing(np.uint32),
            _Growing(np.int64),
            _Growing(np.int64),
        )
        self._starts.extend(np.zeros(1, dtype=np.int64))
        self._languages: dict[str, int] = {}
        self._codes = _Growing(np.uint16)
        """For each source, the number of its language."""
        self._postings: dict[int, np.ndarray] = {}
        self._counts: dict[int, int] = {}
        self._allowed: dict[str, np.ndarray | None] = {}

    def near(
        self, query: Sequence[str], source: str, at_least: int, floor: Callable[[], int]
    ) -> Iterator[tuple[int, int]]:
        """Ids and scores of the sources of this language; see `Index.nearest`."""
        ids = [
            self._file.execute("SELECT id FROM words WHERE word = ?", (word,)).fetchone() for word in query
        ]
        numbers = [-1 if found is None else found[0] for found in ids]
        index = Index(self._tokens.values, self._starts.values, self._lengths.values)
        found = index.nearest(
            numbers, self._sources_of, self._count, self._of_language(source), at_least, floor
        )
        return ((place + 1, score) for place, score in found)  # ids are counted from 1

    def refresh(self, version: int) -> None:
        """Read what was added, unless this version of the file was read already; inside a transaction."""
        if version == self._version:
            return
        count = len(self._lengths.values)
        blocks = self._file.execute(
            "SELECT lengths, tokens FROM blocks WHERE first > ? ORDER BY first", (count,)
        ).fetchall()
        if blocks:
            self._add(
                np.frombuffer(b"".join(block[0] for block in blocks), dtype="<u1").astype(np.int64),
                np.frombuffer(b"".join(block[1] for block in blocks), dtype="<u4"),
            )
            own = self._file.execute("SELECT language FROM sources WHERE id > ? ORDER BY id", (count,))
            known = self._languages
            self._codes.extend(
                np.fromiter((known.setdefault(code, len(known)) for (code,) in own), dtype=np.uint16)
            )
        self._version = version

    def _add(self, lengths: np.ndarray, tokens: np.ndarray) -> None:
        self._starts.extend(self._starts.values[-1] + lengths.cumsum())
        self._lengths.extend(lengths)
        self._tokens.extend(tokens)
        self._allowed.clear()
        for token in np.unique(tokens).tolist() if self._counts else ():
            self._postings.pop(token, None)
            self._counts.pop(token, None)

    def _sources_of(self, token: int) -> np.ndarray:
        if token not in self._postings:
            rows = self._file.execute("SELECT ids FROM postings WHERE token = ? ORDER BY first", (token,))
            self._postings[token] = np.frombuffer(b"".join(row[0] for row in rows), dtype="<u4")
        return self._postings[token]

    def _count(self, token: int) -> int:
        if token not in self._counts:
            (count,) = self._file.execute(
                "SELECT coalesce(sum(count), 0) FROM postings WHERE token = ?", (token,)
            ).fetchone()
            self._counts[token] = count
        return self._counts[token]

    def _of_language(self, source: str) -> np.ndarray | None:
        """Which sources are of this language; None for all."""
        code = normal_language(source)
        if code not in self._allowed:
            right = np.array([same_language(each, code) for each in self._languages], dtype=bool)
            self._allowed[code] = None if right.all() else right[self._codes.values]
        return self._allowed[code]
