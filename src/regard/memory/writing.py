"""Segments on their way into a memory: texts, translations, and the lists that near matches are found by."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import numpy as np

from regard.memory.segments import Imported, MemoryFileError, Segment
from regard.memory.words import MOST, WORD, normal, occurrences, words
from regard.text.tmx import normal_language

BLOCK = 200_000
"""Sources whose words are written at once."""
SMALL = 4096
"""A list of sources that has fewer bytes is made longer, instead of beginning another."""


def hash_of(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def same_sources(file: sqlite3.Connection, text: str, language: str | None) -> list[int]:
    """Sources that are this text, in this language or in any."""
    wanted = normal(text)
    rows = file.execute(
        "SELECT id, language, text FROM sources WHERE hash = ? ORDER BY id", (hash_of(wanted),)
    )
    return [id for id, own, found in rows if normal(found) == wanted and language in (None, own)]


class Import:
    """Segments on their way into the file, inside a transaction."""

    def __init__(self, file: sqlite3.Connection, keep_all: bool) -> None:
        self._file, self._keep_all = file, keep_all
        self._lists = Lists(file)
        self._now = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        (self._next,) = file.execute("SELECT coalesce(max(id), 0) + 1 FROM sources").fetchone()
        self._found = Imported()

    def take(self, segments: Iterable[Segment], progress: Callable[[int], object] | None) -> Imported:
        for number, segment in enumerate(segments, 1):
            self._one(segment)
            if progress is not None and number % 1000 == 0:
                progress(1000)
        self._lists.flush()
        return self._found

    def _one(self, segment: Segment) -> None:
        """What has no date counts as of the moment of its import."""
        if not (segment.source.strip() and segment.target.strip()):
            raise ValueError(f"a segment with an empty side: {segment}")
        own, other = normal_language(segment.source_language), normal_language(segment.target_language)
        same = same_sources(self._file, segment.source, own)
        source = same[0] if same else self._new_source(segment.source, own)
        as_of = segment.date or self._now
        rows = self._file.execute(
            "SELECT id, text, as_of FROM targets WHERE source = ? AND language = ? ORDER BY as_of, id",
            (source, other),
        ).fetchall()
        equal = next((row for row in rows if row[1] == segment.target), None)
        if self._keep_all:
            rows = [] if equal is None else [equal]
        if not rows:
            self._file.execute(
                "INSERT INTO targets (source, language, text, date, author, as_of) VALUES (?, ?, ?, ?, ?, ?)",
                (source, other, segment.target, segment.date, segment.author, as_of),
            )
            self._found.new += 1
        elif rows[-1][2] > as_of:
            self._found.known += 1
        else:
            self._replace(rows, equal, segment, as_of)

    def _replace(
        self,
        rows: list[tuple[int, str, str]],
        equal: tuple[int, str, str] | None,
        segment: Segment,
        as_of: str,
    ) -> None:
        """One row instead of these. A date and an author that were known stay, unless there is another."""
        (kept, _, _) = equal or rows[-1]
        if equal is None or segment.date:
            self._file.execute(
                "UPDATE targets SET text = ?, date = ?, author = ? WHERE id = ?",
                (segment.target, segment.date, segment.author, kept),
            )
        self._file.execute("UPDATE targets SET as_of = ? WHERE id = ?", (as_of, kept))
        others = [(id,) for id, _, _ in rows if id != kept]
        self._file.executemany("DELETE FROM targets WHERE id = ?", others)
        if equal is None or others:
            self._found.replaced += 1
        else:
            self._found.known += 1

    def _new_source(self, text: str, language: str) -> int:
        id = self._next
        self._next += 1
        row = (id, language, hash_of(normal(text)), text.strip())
        self._file.execute("INSERT INTO sources (id, language, hash, text) VALUES (?, ?, ?, ?)", row)
        self._lists.add(id, text)
        return id


class Lists:
    """The words of sources, and the sources of words, inside a transaction. Sources come in the order of
    their ids, and `flush` ends them."""

    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file
        self._words: dict[str, int] = {}
        (self._next_word,) = file.execute("SELECT coalesce(max(id), 0) + 1 FROM words").fetchone()
        self._first = 0
        self._lengths: list[int] = []
        self._tokens: list[int] = []

    def add(self, id: int, text: str) -> None:
        if not self._lengths:
            self._first = id
        found = words(text)
        found = found if len(found) <= MOST else []
        self._lengths.append(len(found))
        self._tokens += occurrences([self._word(word) for word in found])
        if len(self._lengths) >= BLOCK:
            self.flush()

    def _word(self, word: str) -> int:
        id = self._words.get(word)
        if id is None:
            row = self._file.execute("SELECT id FROM words WHERE word = ?", (word,)).fetchone()
            if row is None:
                id = self._next_word
                if id > WORD:
                    raise MemoryFileError(
                        f"more than {WORD} different words: divide the memory into several files"
                    )
                self._next_word += 1
                self._file.execute("INSERT INTO words (id, word) VALUES (?, ?)", (id, word))
            else:
                id = row[0]
            self._words[word] = id
        return id

    def flush(self) -> None:
        """Write the words of the sources since the last time."""
        if not self._lengths:
            return
        lengths, tokens = np.array(self._lengths, dtype="<u1"), np.array(self._tokens, dtype="<u4")
        self._file.execute(
            "INSERT INTO blocks (first, lengths, tokens) VALUES (?, ?, ?)",
            (self._first, lengths.tobytes(), tokens.tobytes()),
        )
        places = np.repeat(np.arange(len(lengths), dtype="<u4") + (self._first - 1), lengths).astype("<u4")
        order = np.argsort(tokens, kind="stable")
        tokens, places = tokens[order], places[order]
        starts = np.flatnonzero(np.diff(tokens, prepend=np.uint32(0)))  # no token is 0
        for token, ids in zip(tokens[starts].tolist(), np.split(places, starts)[1:], strict=True):
            self._append(token, ids)
        self._lengths, self._tokens = [], []

    def _append(self, token: int, ids: np.ndarray) -> None:
        last = self._file.execute(
            "SELECT rowid, count, ids FROM postings WHERE token = ? ORDER BY first DESC LIMIT 1", (token,)
        ).fetchone()
        if last is not None and len(last[2]) < SMALL:
            self._file.execute(
                "UPDATE postings SET count = ?, ids = ? WHERE rowid = ?",
                (last[1] + len(ids), last[2] + ids.tobytes(), last[0]),
            )
        else:
            self._file.execute(
                "INSERT INTO postings (token, first, count, ids) VALUES (?, ?, ?, ?)",
                (token, int(ids[0]), len(ids), ids.tobytes()),
            )
