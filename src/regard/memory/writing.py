"""Segments on their way into a memory: texts, translations, and the lists that near matches are found by."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable

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
        self._words: dict[str, int] = {}
        (self._next_word,) = file.execute("SELECT coalesce(max(id), 0) + 1 FROM words").fetchone()
        (self._next_source,) = file.execute("SELECT coalesce(max(id), 0) + 1 FROM sources").fetchone()
        self._first = self._next_source
        self._lengths: list[int] = []
        self._tokens: list[int] = []
        self._found = Imported()

    def take(self, segments: Iterable[Segment], progress: Callable[[int], object] | None) -> Imported:
        for number, segment in enumerate(segments, 1):
            self._one(segment)
            if len(self._lengths) >= BLOCK:
                self._flush()
            if progress is not None and number % 1000 == 0:
                progress(1000)
        self._flush()
        return self._found

    def _one(self, segment: Segment) -> None:
        if not (segment.source.strip() and segment.target.strip()):
            raise ValueError(f"a segment with an empty side: {segment}")
        own, other = normal_language(segment.source_language), normal_language(segment.target_language)
        same = same_sources(self._file, segment.source, own)
        if not same:
            same = [self._new_source(segment.source, own)]
        values = (segment.target, segment.date, segment.author)
        rows = self._file.execute(
            "SELECT id, text, date FROM targets WHERE source = ? AND language = ?", (same[0], other)
        ).fetchall()
        equal = [row for row in rows if row[1] == segment.target]
        before = equal or ([] if self._keep_all else rows)
        if not before:
            self._file.execute(
                "INSERT INTO targets (source, language, text, date, author) VALUES (?, ?, ?, ?, ?)",
                (same[0], other, *values),
            )
            self._found.new += 1
        elif before[0][2] <= segment.date:
            self._file.execute(
                "UPDATE targets SET text = ?, date = ?, author = ? WHERE id = ?", (*values, before[0][0])
            )
            if equal:
                self._found.known += 1
            else:
                self._found.replaced += 1
        else:
            self._found.known += 1

    def _new_source(self, text: str, language: str) -> int:
        id = self._next_source
        self._next_source += 1
        row = (id, language, hash_of(normal(text)), text.strip())
        self._file.execute("INSERT INTO sources (id, language, hash, text) VALUES (?, ?, ?, ?)", row)
        found = words(text)
        found = found if len(found) <= MOST else []
        self._lengths.append(len(found))
        self._tokens += occurrences([self._word(word) for word in found])
        return id

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

    def _flush(self) -> None:
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
        self._first, self._lengths, self._tokens = self._next_source, [], []

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
