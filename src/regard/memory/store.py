"""A translation memory and its glossary in one SQLite file; `schema.py` has its tables.

The file is in WAL mode: many may read while one writes, and each sees whole imports only. What is written at
once is one transaction, so a process that is killed leaves the file as it was before.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from regard.memory.loaded import Loaded
from regard.memory.named import NamedGlossary, put_named, read_named, remove_named
from regard.memory.schema import APPLICATION, OLDER, VERSION, create, kind_and_version, upgrade
from regard.memory.segments import Imported, Languages, Match, MemoryFileError, Segment, chosen_pairs
from regard.memory.words import EXACT, MOST, words
from regard.memory.writing import Import, same_sources
from regard.text.tmx import normal_language, same_language

NEAR = 70
"""The lowest score that is worth showing, unless told otherwise."""
PATIENCE = 60
"""Seconds to wait for another who writes."""


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
        self._pairs: tuple[tuple[int, ...], dict[tuple[str, str], int]] | None = None
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
        self._loaded = Loaded(self._file)

    def _prepare(self, may_create: bool) -> None:
        with self._reading():
            empty = not self._file.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            kind, version = kind_and_version(self._file)
        new = kind == 0 and empty and may_create
        if kind != APPLICATION and not new:
            raise MemoryFileError(f"{self.path}: a database, but no memory of regard; name another file")
        if not new and version not in (VERSION, *OLDER):
            raise MemoryFileError(
                f"{self.path}: a memory of version {version}, and this regard reads {VERSION}; export it to "
                "TMX with the regard that wrote it, and import that"
            )
        self._file.execute("PRAGMA synchronous = FULL")
        if new:
            self._patiently("PRAGMA journal_mode = WAL")
        if new or version != VERSION:
            with self._writing():
                kind, version = kind_and_version(self._file)  # another may have been quicker
                if kind != APPLICATION:
                    create(self._file)
                elif version != VERSION:
                    upgrade(self._file)

    def _patiently(self, statement: str) -> None:
        """One that SQLite does not wait with itself while another has the file."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._file.execute(statement)
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.02)

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
                self._file.execute("COMMIT")
            except BaseException:
                if self._file.in_transaction:  # a full disk has ended it already
                    self._file.execute("ROLLBACK")
                raise

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
        (of equally old ones, the last), or all that differ, with `keep_all`. One without a date is as new as
        its import."""
        with self._writing():
            return Import(self._file, keep_all).take(segments, progress)

    def exact(self, text: str, source: str, target: str) -> Match | None:
        """The translation of this very text: of languages that are spelled as they are here, before others
        that match; then the newest."""
        with self._reading():
            found = self._matches(same_sources(self._file, text, None), EXACT, source, target)
        return next(iter(found), None)

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
        came first, and of the text itself in the order of `exact`. At most `limit` of them, each with
        `at_least` this score. Languages match as en and en-US do. Without `exact`, others than the text
        itself."""
        if not 1 <= at_least <= EXACT:
            raise ValueError(f"at_least={at_least} must be between 1 and {EXACT}")
        if limit < 1:
            raise ValueError(f"limit={limit} must be at least 1")
        with self._reading():
            same = same_sources(self._file, text, None)
            best = self._matches(same, EXACT, source, target) if exact else []
            near: list[tuple[int, int, Match]] = []
            query = words(text)
            if 0 < len(query) <= MOST and at_least < EXACT and len(best) < limit:
                self._loaded.refresh(self.version)
                floor = partial(_floor, near, limit - len(best))
                for id, score in self._loaded.near(query, source, at_least, floor):
                    if id not in same:
                        own = min(score, EXACT - 1)
                        near += [(-own, id, each) for each in self._matches([id], own, source, target)]
        near.sort(key=lambda each: each[:2])
        return [*best, *(match for _, _, match in near)][:limit]

    def _matches(self, ids: Sequence[int], score: int, source: str, target: str) -> list[Match]:
        """Translations of these sources: languages spelled as they are asked for first, then the newest."""
        rows = self._file.execute(
            "SELECT s.text, t.text, s.language, t.language, t.date, t.author FROM targets t JOIN sources s "
            f"ON s.id = t.source WHERE s.id IN ({','.join('?' * len(ids))}) ORDER BY t.as_of DESC, t.id DESC",
            ids,
        )
        wanted = normal_language(source), normal_language(target)
        found = [
            Match(text, translation, score, own, other, date, author)
            for text, translation, own, other, date, author in rows
            if same_language(own, source) and same_language(other, target)
        ]
        return sorted(
            found, key=lambda each: (each.source_language != wanted[0], each.target_language != wanted[1])
        )

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
        """Translations of each pair of languages; counted anew when the file has changed."""
        with self._reading():
            stamp = (*self._file.execute("PRAGMA data_version").fetchone(), self._file.total_changes)
            if self._pairs is not None and self._pairs[0] == stamp:
                return {**self._pairs[1]}
            rows = self._file.execute(
                "SELECT s.language, t.language, count(*) FROM targets t JOIN sources s ON s.id = t.source "
                "GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"
            )
            found = {(source, target): count for source, target, count in rows}
            self._pairs = stamp, found
            return {**found}

    def pair(
        self, source: str | None = None, target: str | None = None, *, likely: Languages = (None, None)
    ) -> tuple[str, str]:
        """The languages that are meant: those that are given and, where it has one such pair only, its own;
        of several, the `likely` one."""
        if source is not None and target is not None:
            return source, target
        pairs = [*self.pairs()]
        found = chosen_pairs(pairs, (source, target), likely)
        if len(found) != 1:
            listed = ", ".join(f"{one} -> {other}" for one, other in pairs) or "no segments"
            remedy = "give the source's and the target's"
            raise MemoryFileError(f"{self.path}: which languages? It has {listed}: {remedy}")
        return source or found[0][0], target or found[0][1]

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
    return -sorted(score for score, _, _ in found)[limit - 1]
