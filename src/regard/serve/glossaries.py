"""Glossaries: terms whose translation is laid down, by pairs of languages.

With a memory's file they are kept there, beside its own terms, which are a glossary with the name of the
file; else they are forgotten when the service ends.
"""

import asyncio
import csv
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from regard.memory import Memory, MemoryFileError, NamedGlossary
from regard.serve.line import BusyError, RefusedError
from regard.text.languages import same
from regard.text.terms import Terms

LOG = logging.getLogger("regard.serve")
T = TypeVar("T")
MOST = 1000
"""Glossaries of a service."""
MOST_ENTRIES = 20_000
"""Of a dictionary."""
LONGEST = 1024
"""Characters of a term."""
WAITING = 64
"""Changes that wait for another, or for someone who writes to the file; more are told to come back later."""


@dataclass(frozen=True, slots=True)
class Dictionary:
    source: str
    target: str
    entries: dict[str, str]
    exact: frozenset[str] = frozenset()
    """Terms that are found only as they are spelled,"""
    any_case: frozenset[str] = frozenset()
    """and those found however they are."""
    terms: Terms = field(init=False, compare=False)

    def __post_init__(self) -> None:
        terms = Terms(self.entries, exact=self.exact, any_case=self.any_case)
        object.__setattr__(self, "terms", terms)

    def reads(self, source: str, target: str) -> bool:
        return same(self.source, source) and same(self.target, target)

    @property
    def tsv(self) -> str:
        return "\n".join(f"{source}\t{target}" for source, target in self.entries.items())


@dataclass(slots=True, eq=False)
class Glossary:
    name: str
    dictionaries: list[Dictionary]
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="microseconds"))
    own: bool = False
    """The terms of a memory's file, which are changed there."""

    def dictionary(self, source: str, target: str) -> Dictionary:
        for each in self.dictionaries:
            if each.reads(source, target):
                return each
        raise RefusedError(f"the glossary {self.name!r:.60} has no dictionary from {source} to {target}", 404)

    def rows(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Both languages, term, translation, and whether case counts."""
        for each in self.dictionaries:
            for term, translation in each.entries.items():
                case = "exact" if term in each.exact else "any" if term in each.any_case else "usual"
                yield each.source, each.target, term, translation, case

    def kept(self) -> NamedGlossary:
        """As a memory's file has it."""
        return NamedGlossary(self.id, self.name, self.created, tuple(row[:4] for row in self.rows()))

    def put(self, new: Dictionary, *, merge: bool = False) -> Dictionary:
        """In the place of the one with the same languages; `merge` keeps entries that the new one lacks."""
        others = [each for each in self.dictionaries if not each.reads(new.source, new.target)]
        before = [each for each in self.dictionaries if each.reads(new.source, new.target)]
        if merge and before:
            new = Dictionary(new.source, new.target, _counted({**before[0].entries, **new.entries}))
        self.dictionaries = [*others, new]
        return new


class Glossaries:
    """One thread reads them, another changes them, one after the other: the loop that serves all callers
    never waits for a large file, nor for another who writes to it."""

    def __init__(self, memory: Memory | None = None) -> None:
        """`memory` is a connection of their own, which only reads."""
        self._memory, self._version = memory, -1
        self._lock = threading.Lock()
        self._glossaries: dict[str, Glossary] = {}
        self._reader = ThreadPoolExecutor(1, "regard-glossaries")
        self._writer = ThreadPoolExecutor(1, "regard-glossary-changes")
        self._room = threading.Semaphore(WAITING)

    async def all(self) -> list[Glossary]:
        return [*(await self._known()).values()]

    async def get(self, id: str) -> Glossary:
        """By its id or, else, by its name, if one alone has it."""
        return self._find(id, await self._known())

    async def add(self, glossary: Glossary) -> Glossary:
        def work() -> Glossary:
            if len(self._read()) >= MOST:
                raise RefusedError(f"there are {MOST} glossaries already: delete some")
            self._put(glossary)
            return glossary

        return await self._write(work)

    async def change(self, id: str, edit: Callable[[Glossary], T]) -> T:
        """`edit` is given a copy, as no other change is under way, which then takes the glossary's place."""

        def work() -> T:
            glossary = self._changing(id)
            told = edit(glossary)
            self._put(glossary)
            return told

        return await self._write(work)

    async def remove(self, id: str) -> None:
        def work() -> None:
            glossary = self._changing(id)
            if self._memory is None:
                self._glossaries = {key: each for key, each in self._glossaries.items() if key != glossary.id}
            else:
                with Memory(self._memory.path) as file:
                    file.remove_glossary(glossary.id)

        await self._write(work)

    def close(self) -> None:
        self._writer.shutdown(wait=False, cancel_futures=True)  # what it has begun is done before the end
        self._reader.shutdown(cancel_futures=True)
        if self._memory is not None:
            self._memory.close()

    def _find(self, id: str, known: dict[str, Glossary]) -> Glossary:
        if id in known:
            return known[id]
        named = [each for each in known.values() if each.name == id]
        if len(named) != 1:
            kept = "" if self._memory else "; they are forgotten when the service ends"
            raise RefusedError(f"no glossary {id!r:.60}{kept}", 404)
        return named[0]

    def _changing(self, id: str) -> Glossary:
        """A copy to change; not of what is the file's own."""
        glossary = self._find(id, self._read())
        if glossary.own:
            raise RefusedError(
                f"the glossary {glossary.name!r:.60} has the terms of the memory's file: change them with "
                "regard memory import --glossary",
                403,
            )
        return replace(glossary, dictionaries=[*glossary.dictionaries])

    def _put(self, glossary: Glossary) -> None:
        if self._memory is None:
            self._glossaries = {**self._glossaries, glossary.id: glossary}
        else:
            with Memory(self._memory.path) as file:
                file.put_glossary(glossary.kept())

    async def _write(self, work: Callable[[], T]) -> T:
        """What has begun is done, also where the caller has hung up."""
        if not self._room.acquire(blocking=False):
            raise BusyError(5)
        doing = self._writer.submit(work)
        doing.add_done_callback(lambda _: self._room.release())
        try:
            return await asyncio.wrap_future(doing)
        except MemoryFileError as error:
            LOG.exception("a glossary could not be written")
            raise RefusedError("the memory of this service cannot be written at the moment", 503) from error

    async def _known(self) -> dict[str, Glossary]:
        if self._memory is None:
            return self._glossaries
        try:
            return await asyncio.get_running_loop().run_in_executor(self._reader, self._read)
        except MemoryFileError as error:
            LOG.exception("glossaries cannot be read")
            raise RefusedError("the memory of this service cannot be read at the moment", 503) from error

    def _read(self) -> dict[str, Glossary]:
        """As the file has them now: others write to it too."""
        if self._memory is None:
            return self._glossaries
        with self._lock:
            version = self._memory.version
            if version != self._version:
                self._glossaries = {each.id: each for each in _stored(self._memory, self._glossaries)}
                self._version = version
            return self._glossaries


def _stored(memory: Memory, before: Mapping[str, Glossary]) -> Iterator[Glossary]:
    """Those that are as they were `before` are not made again."""
    rows = [
        (source, target, term, translation or term, case)
        for source, target, term, translation, case in memory.terms()
    ]
    if rows:
        known = before.get(memory.path.stem)
        yield known if known is not None and {*known.rows()} == {*rows} else _own(memory.path, rows)
    for each in memory.glossaries():
        known = before.get(each.id)
        yield known if known is not None and known.kept() == each else _named(each)


def _own(path: Path, rows: Iterable[tuple[str, str, str, str, str]]) -> Glossary:
    """The terms of a memory's file."""
    pairs: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for source, target, term, translation, case in rows:
        pairs.setdefault((source, target), []).append((term, translation, case))
    dictionaries = [
        Dictionary(
            *pair,
            {term: translation for term, translation, _ in own},
            frozenset(term for term, _, case in own if case == "exact"),
            frozenset(term for term, _, case in own if case == "any"),
        )
        for pair, own in pairs.items()
    ]
    created = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="microseconds")
    return Glossary(path.stem, dictionaries, path.stem, created, own=True)


def _named(glossary: NamedGlossary) -> Glossary:
    entries: dict[tuple[str, str], dict[str, str]] = {}
    for source, target, term, translation in glossary.rows:
        entries.setdefault((source, target), {})[term] = translation
    dictionaries = [Dictionary(*pair, rows) for pair, rows in entries.items()]
    return Glossary(glossary.name, dictionaries, glossary.id, glossary.created)


def read_entries(text: str, kind: str) -> dict[str, str]:
    """Of lines with tabs (tsv) or commas (csv; languages in a third and fourth column are not looked at)."""
    if kind not in ("tsv", "csv"):
        raise RefusedError(f"entries_format={kind!r:.40} is none of tsv, csv")
    text = text.removeprefix("\ufeff")
    try:
        rows = (
            [line.split("\t") for line in text.splitlines()]
            if kind == "tsv"
            else [*csv.reader(text.splitlines(keepends=True))]
        )
    except csv.Error as error:
        raise RefusedError(f"entries: {error}") from error
    entries: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        fields = [each.strip() for each in row]
        if not any(fields):
            continue
        if len(fields) < 2 or (kind == "tsv" and len(fields) > 2) or not (fields[0] and fields[1]):
            raise RefusedError(f"entries, line {number}: a term and its translation are needed")
        if re.search(r"[\t\n\r]", fields[0] + fields[1]):
            raise RefusedError(f"entries, line {number}: a term has no tab and no end of line in it")
        if max(map(len, fields[:2])) > LONGEST:
            raise RefusedError(f"entries, line {number}: longer than {LONGEST} characters")
        if fields[0] in entries:
            raise RefusedError(f"entries, line {number}: the term {fields[0]!r:.60} is there twice")
        entries[fields[0]] = fields[1]
    return _counted(entries)


def _counted(entries: dict[str, str]) -> dict[str, str]:
    if not entries:
        raise RefusedError("a glossary needs entries")
    if len(entries) > MOST_ENTRIES:
        raise RefusedError(f"{len(entries)} entries: at most {MOST_ENTRIES} are taken")
    return entries
