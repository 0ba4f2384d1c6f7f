"""A translation memory and its glossary in one SQLite file.

    sources    every distinct source once, by its language
    targets    its translations
    blocks     the words of all sources as numbers, in the order of their ids: what `Index` is made of
    postings   for each token (a word, the first time or a later one), the sources that have it
    terms      the glossary

The file is in WAL mode: many may read while one writes, and each sees whole imports only. What is written at
once is one transaction, so a process that is killed leaves the file as it was before.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard.memory.index import Index
from regard.memory.named import NamedGlossary, put_named, read_named, remove_named
from regard.memory.segments import Imported, Match, MemoryFileError, Segment
from regard.memory.words import EXACT, MOST, words
from regard.memory.writing import Import, same_sources
from regard.text.tmx import normal_language, same_language

NEAR = 70
"""The lowest score that is worth showing, unless told otherwise."""
APPLICATION = 0x52474D54
VERSION = 1
PATIENCE = 60
"""Seconds to wait for another who writes."""

SCHEMA = """
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, language TEXT NOT NULL, hash INTEGER NOT NULL, text TEXT NOT NULL
);
CREATE INDEX sources_by_hash ON sources (hash);
CREATE TABLE targets (
    id INTEGER PRIMARY KEY, source INTEGER NOT NULL REFERENCES sources (id), language TEXT NOT NULL,
    text TEXT NOT NULL, date TEXT NOT NULL, author TEXT NOT NULL
);
CREATE INDEX targets_by_source ON targets (source);
CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE);
CREATE TABLE postings (
    token INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL, ids BLOB NOT NULL
);
CREATE UNIQUE INDEX postings_by_token ON postings (token, first);
CREATE TABLE blocks (first INTEGER PRIMARY KEY, lengths BLOB NOT NULL, tokens BLOB NOT NULL);
CREATE TABLE terms (
    id INTEGER PRIMARY KEY, source TEXT NOT NULL, target TEXT NOT NULL, term TEXT NOT NULL,
    translation TEXT NOT NULL, letters TEXT NOT NULL
);
CREATE UNIQUE INDEX terms_by_term ON terms (source, target, term);
"""


@dataclass(slots=True)
class _Loaded:
    """What is kept of the file while nobody changes it."""

    version: int
    index: Index
    languages: list[str]
    codes: np.ndarray
    """For each source, the place of its language in the list."""
    postings: dict[int, np.ndarray] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    allowed: dict[str, np.ndarray | None] = field(default_factory=dict)


class Memory:
    """A memory file, open. Threads may share it; they take turns.

    >>> from regard.memory import Memory, Segment
    >>> with Memory("product.db", create=True) as memory:
    ...     _ = memory.add([Segment("Where is it?", "Wo ist es?", "en", "de")])
    ...     memory.search("Where is he?", "en", "de")[0].score
    75
    """

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        """With `create`, a file that is not there is begun; else it is an error."""
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise MemoryFileError(
                f"{path}: no such memory; make one with regard memory import FILE.tmx {path}"
            )
        self._lock = threading.RLock()
        self._loaded: _Loaded | None = None
        mode = "rwc" if create else "rw"
        where = f"{self.path.absolute().as_uri()}?mode={mode}"
        with self._told():
            self._file = sqlite3.connect(
                where, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(create)
            except BaseException:
                self._file.close()
                raise

    def _prepare(self, create: bool) -> None:
        with self._reading():
            empty = not self._file.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            (kind,) = self._file.execute("PRAGMA application_id").fetchone()
            (version,) = self._file.execute("PRAGMA user_version").fetchone()
        if kind != APPLICATION and not (create and empty and kind == 0):
            raise MemoryFileError(f"{self.path}: a database, but no memory of regard; name another file")
        if kind == APPLICATION and version != VERSION:
            raise MemoryFileError(
                f"{self.path}: a memory of version {version}, and this regard reads {VERSION}; export it to "
                "TMX with the regard that wrote it, and import that"
            )
        self._file.execute("PRAGMA synchronous = FULL")
        if kind != APPLICATION:
            self._file.execute("PRAGMA journal_mode = WAL")
            with self._writing():
                if (
                    self._file.execute("PRAGMA application_id").fetchone()[0] != APPLICATION
                ):  # another was quicker
                    for statement in filter(str.strip, SCHEMA.split(";")):
                        self._file.execute(statement)
                    self._file.execute(f"PRAGMA user_version = {VERSION}")
                    self._file.execute(f"PRAGMA application_id = {APPLICATION}")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Translations."""
        with self._reading():
            return int(self._file.execute("SELECT count(*) FROM targets").fetchone()[0])

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise MemoryFileError(f"{self.path}: {error}; {_remedy(error)}") from error

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        with self._lock, self._told():
            self._file.execute(f"BEGIN {kind}")
            try:
                yield
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
            self._file.execute("COMMIT")

    def _reading(self) -> Any:
        return self._transaction("DEFERRED")

    def _writing(self) -> Any:
        return self._transaction("IMMEDIATE")

    def add(
        self,
        segments: Iterable[Segment],
        *,
        keep_all: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> Imported:
        """All of them or, where something is raised, none. Of several translations of a text the newest stays
        (of equally old ones, the last), or all that differ, with `keep_all`."""
        with self._writing():
            return Import(self._file, keep_all).take(segments, progress)

    def exact(self, text: str, source: str, target: str) -> Match | None:
        """The newest translation of this very text."""
        with self._reading():
            found = [
                match
                for id in same_sources(self._file, text, None)
                for match in self._matches(id, EXACT, source, target)
            ]
        return max(found, key=lambda match: match.date, default=None)

    def search(
        self,
        text: str,
        source: str,
        target: str,
        *,
        at_least: int = NEAR,
        limit: int = 5,
        exact: bool = True,
    ) -> list[Match]:
        """The nearest texts of the source language and their translations, best first; of equals, those that
        came first. At most `limit` of them, each with `at_least` this score. Languages match as en and en-US
        do. Without `exact`, others than the text itself."""
        if not 1 <= at_least <= EXACT:
            raise ValueError(f"at_least={at_least} must be between 1 and {EXACT}")
        if limit < 1:
            raise ValueError(f"limit={limit} must be at least 1")
        with self._reading():
            same = same_sources(self._file, text, None)
            found = [
                (EXACT, id, each)
                for id in (same if exact else ())
                for each in self._matches(id, EXACT, source, target)
            ]
            query = words(text)
            if 0 < len(query) <= MOST and at_least < EXACT:
                for id, score in self._near(query, source, at_least, partial(_floor, found, limit)):
                    if id not in same:
                        own = min(score, EXACT - 1)
                        found += [(own, id, each) for each in self._matches(id, own, source, target)]
        found.sort(key=lambda each: (-each[0], each[1]))
        return [match for _, _, match in found[:limit]]

    def _near(
        self, query: Sequence[str], source: str, at_least: int, floor: Callable[[], int]
    ) -> Iterator[tuple[int, int]]:
        loaded = self._load()
        ids = [
            self._file.execute("SELECT id FROM words WHERE word = ?", (word,)).fetchone() for word in query
        ]
        numbers = [-1 if found is None else found[0] for found in ids]
        found = loaded.index.nearest(
            numbers,
            partial(self._postings, loaded),
            partial(self._count, loaded),
            self._allowed(loaded, source),
            at_least,
            floor,
        )
        return ((place + 1, score) for place, score in found)  # ids are counted from 1

    def _load(self) -> _Loaded:
        version = self.version
        if self._loaded is None or self._loaded.version != version:
            blocks = self._file.execute("SELECT lengths, tokens FROM blocks ORDER BY first").fetchall()
            lengths = np.frombuffer(b"".join(block[0] for block in blocks), dtype="<u1")
            tokens = np.frombuffer(b"".join(block[1] for block in blocks), dtype="<u4")
            own = self._file.execute("SELECT language FROM sources ORDER BY id")
            places: dict[str, int] = {}
            codes = np.fromiter((places.setdefault(code, len(places)) for (code,) in own), dtype=np.uint16)
            index = Index.of(tokens, lengths)
            self._loaded = _Loaded(version, index, [*places], codes)
        return self._loaded

    def _postings(self, loaded: _Loaded, token: int) -> np.ndarray:
        if token not in loaded.postings:
            rows = self._file.execute("SELECT ids FROM postings WHERE token = ? ORDER BY first", (token,))
            loaded.postings[token] = np.frombuffer(b"".join(row[0] for row in rows), dtype="<u4")
        return loaded.postings[token]

    def _count(self, loaded: _Loaded, token: int) -> int:
        if token not in loaded.counts:
            (count,) = self._file.execute(
                "SELECT coalesce(sum(count), 0) FROM postings WHERE token = ?", (token,)
            ).fetchone()
            loaded.counts[token] = count
        return loaded.counts[token]

    def _allowed(self, loaded: _Loaded, source: str) -> np.ndarray | None:
        """Which sources are of this language; None for all."""
        code = normal_language(source)
        if code not in loaded.allowed:
            right = np.array([same_language(each, code) for each in loaded.languages], dtype=bool)
            loaded.allowed[code] = None if right.all() else right[loaded.codes]
        return loaded.allowed[code]

    def _matches(self, id: int, score: int, source: str, target: str) -> list[Match]:
        rows = self._file.execute(
            "SELECT s.text, s.language, t.text, t.language, t.date, t.author FROM targets t "
            "JOIN sources s ON s.id = t.source WHERE s.id = ? ORDER BY t.date DESC, t.id DESC",
            (id,),
        )
        return [
            Match(text, found, score, own, other, date, author)
            for text, own, found, other, date, author in rows
            if same_language(own, source) and same_language(other, target)
        ]

    def segments(self, source: str | None = None, target: str | None = None) -> Iterator[Segment]:
        """All, or those of these languages, in the order in which their sources came: as they are when the
        first is asked for, whatever is imported meanwhile."""
        reader = Memory(self.path)  # a connection of its own: this one may be asked for other things
        try:
            with reader._reading():
                rows = reader._file.execute(
                    "SELECT s.text, t.text, s.language, t.language, t.date, t.author FROM sources s "
                    "JOIN targets t ON t.source = s.id ORDER BY s.id, t.id"
                )
                for row in rows:
                    segment = Segment(*row)
                    if (source is None or same_language(segment.source_language, source)) and (
                        target is None or same_language(segment.target_language, target)
                    ):
                        yield segment
        finally:
            reader.close()

    def pairs(self) -> dict[tuple[str, str], int]:
        """Translations of each pair of languages."""
        with self._reading():
            rows = self._file.execute(
                "SELECT s.language, t.language, count(*) FROM targets t JOIN sources s ON s.id = t.source "
                "GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"
            )
            return {(source, target): count for source, target, count in rows}

    def pair(self, source: str | None = None, target: str | None = None) -> tuple[str, str]:
        """The languages that are meant: those that are given and, where it has one pair only, its own."""
        if source is not None and target is not None:
            return source, target
        pairs = [*self.pairs()]
        if len(pairs) != 1:
            listed = ", ".join(f"{one} -> {other}" for one, other in pairs) or "no segments"
            remedy = "give the source's and the target's"
            raise MemoryFileError(f"{self.path}: which languages? It has {listed}: {remedy}")
        return source or pairs[0][0], target or pairs[0][1]

    def add_terms(self, source: str, target: str, rows: Iterable[tuple[str, str, str]]) -> int:
        """Terms, their translations and whether case counts, of a pair of languages, all or none; the last of
        a term stays."""
        languages = normal_language(source), normal_language(target)
        count = 0
        with self._writing():
            for row in rows:
                self._file.execute(
                    "INSERT INTO terms (source, target, term, translation, letters) VALUES (?, ?, ?, ?, ?) "
                    "ON CONFLICT (source, target, term) DO UPDATE SET translation = excluded.translation, "
                    "letters = excluded.letters",
                    (*languages, *row),
                )
                count += 1
        return count

    def glossaries(self) -> list[NamedGlossary]:
        """Those with a name of their own; `terms` are not among them."""
        with self._reading():
            return read_named(self._file)

    def put_glossary(self, glossary: NamedGlossary) -> None:
        """In the place of the one with its id, if there is one."""
        with self._writing():
            put_named(self._file, glossary)

    def remove_glossary(self, id: str) -> None:
        with self._writing():
            remove_named(self._file, id)

    @property
    def version(self) -> int:
        """Another number whenever the file has changed."""
        with self._lock, self._told():
            (version,) = self._file.execute("PRAGMA data_version").fetchone()
            changes = self._file.total_changes  # by this connection, which data_version does not tell
            return int((version << 32) + changes)

    def terms(self) -> list[tuple[str, str, str, str, str]]:
        """Both languages, term, translation, and whether case counts."""
        with self._reading():
            return self._file.execute(
                "SELECT source, target, term, translation, letters FROM terms ORDER BY id"
            ).fetchall()


def lookup(
    memory: Memory | str | Path, source_language: str, target_language: str, *, at_least: int = NEAR
) -> Callable[[str], Match | None]:
    """What a memory has for a text: the best match that scores `at_least` so much (100: the same text
    only)."""
    opened = memory if isinstance(memory, Memory) else Memory(memory)
    if at_least == EXACT:
        return lambda text: opened.exact(text, source_language, target_language)

    def best(text: str) -> Match | None:
        found = opened.search(text, source_language, target_language, at_least=at_least, limit=1)
        return found[0] if found else None

    return best


def _remedy(error: sqlite3.DatabaseError) -> str:
    if "locked" in str(error):
        return "another process writes to it: wait for that"
    if "readonly" in str(error) or "unable to open" in str(error):
        return "look at the file's and its folder's permissions: readers too need to write beside it"
    if "full" in str(error):
        return "make room on the disk; the memory is as it was"
    return "give a file that regard memory import has written"


def _floor(found: list[tuple[int, int, Match]], limit: int) -> int:
    """What a source must reach to be among the best."""
    if len(found) < limit:
        return 0
    return sorted((score for score, _, _ in found), reverse=True)[limit - 1]
