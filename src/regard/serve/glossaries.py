"""Glossaries: terms whose translation is laid down, by pairs of languages.

With a memory's file they are kept there, beside its own terms, which are a glossary with the name of the
file; else they are forgotten when the service ends.
"""

import asyncio
import csv
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from regard.memory import Memory, MemoryFileError, NamedGlossary
from regard.serve.line import RefusedError
from regard.tasks.translation.languages import same
from regard.text.terms import Terms

LOG = logging.getLogger("regard.serve")
MOST = 1000
"""Glossaries of a service."""
MOST_ENTRIES = 20_000
"""Of a dictionary."""
LONGEST = 1024
"""Characters of a term."""


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

    def kept(self) -> NamedGlossary:
        """As a memory's file has it."""
        rows = [
            (each.source, each.target, term, translation)
            for each in self.dictionaries
            for term, translation in each.entries.items()
        ]
        return NamedGlossary(self.id, self.name, self.created, tuple(rows))

    def put(self, new: Dictionary, *, merge: bool = False) -> Dictionary:
        """In the place of the one with the same languages; `merge` keeps entries that the new one lacks."""
        others = [each for each in self.dictionaries if not each.reads(new.source, new.target)]
        before = [each for each in self.dictionaries if each.reads(new.source, new.target)]
        if merge and before:
            new = Dictionary(new.source, new.target, _counted({**before[0].entries, **new.entries}))
        self.dictionaries = [*others, new]
        return new


class Glossaries:
    """Threads may share them."""

    def __init__(self, memory: Memory | None = None) -> None:
        """`memory` is a connection of their own, which only reads."""
        self._memory, self._version = memory, -1
        self._lock = threading.Lock()
        self._glossaries: dict[str, Glossary] = {}

    def __iter__(self) -> Iterator[Glossary]:
        return iter([*self._read().values()])

    def get(self, id: str) -> Glossary:
        """By its id or, else, by its name, if one alone has it."""
        known = self._read()
        if id in known:
            return known[id]
        named = [each for each in known.values() if each.name == id]
        if len(named) != 1:
            kept = "" if self._memory else "; they are forgotten when the service ends"
            raise RefusedError(f"no glossary {id!r:.60}{kept}", 404)
        return named[0]

    async def keep(self, glossary: Glossary) -> Glossary:
        """A new one, or one that has changed."""
        if glossary.id not in self._glossaries and len(self._glossaries) >= MOST:
            raise RefusedError(f"there are {MOST} glossaries already: delete some")
        if self._memory is None:
            self._glossaries[glossary.id] = glossary
        else:
            await self._write(self._memory.path, lambda file: file.put_glossary(glossary.kept()))
        return glossary

    async def remove(self, id: str) -> None:
        glossary = self.get(id)
        if self._memory is None:
            del self._glossaries[glossary.id]
        else:
            await self._write(self._memory.path, lambda file: file.remove_glossary(glossary.id))

    def changing(self, id: str) -> Glossary:
        """A copy to change; not of what is the file's own."""
        glossary = self.get(id)
        if glossary.own:
            raise RefusedError(
                f"the glossary {glossary.name!r:.60} has the terms of the memory's file: change them with "
                "regard memory import --glossary",
                403,
            )
        return replace(glossary, dictionaries=[*glossary.dictionaries])

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()

    async def _write(self, path: Path, change: Callable[[Memory], None]) -> None:
        """Beside the loop that serves all callers: another may be writing, and is waited for."""

        def write() -> None:
            with Memory(path) as file:
                change(file)

        try:
            await asyncio.to_thread(write)
        except MemoryFileError as error:
            LOG.exception("a glossary could not be written")
            raise RefusedError("the memory of this service cannot be written at the moment", 503) from error

    def _read(self) -> dict[str, Glossary]:
        """As the file has them now: others write to it too."""
        if self._memory is None:
            return self._glossaries
        with self._lock:
            version = self._memory.version
            if version != self._version:
                self._glossaries = {each.id: each for each in _stored(self._memory)}
                self._version = version
            return self._glossaries


def _stored(memory: Memory) -> Iterator[Glossary]:
    own: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for source, target, term, translation, case in memory.terms():
        own.setdefault((source, target), []).append((term, translation or term, case))
    if own:
        dictionaries = [
            Dictionary(
                *pair,
                {term: translation for term, translation, _ in rows},
                frozenset(term for term, _, case in rows if case == "exact"),
                frozenset(term for term, _, case in rows if case == "any"),
            )
            for pair, rows in own.items()
        ]
        written = datetime.fromtimestamp(memory.path.stat().st_mtime, UTC)
        created = written.isoformat(timespec="microseconds")
        yield Glossary(memory.path.stem, dictionaries, memory.path.stem, created, own=True)
    for each in memory.glossaries():
        entries: dict[tuple[str, str], dict[str, str]] = {}
        for source, target, term, translation in each.rows:
            entries.setdefault((source, target), {})[term] = translation
        yield Glossary(
            each.name, [Dictionary(*pair, rows) for pair, rows in entries.items()], each.id, each.created
        )


def read_entries(text: str, kind: str) -> dict[str, str]:
    """Of lines with tabs (tsv) or commas (csv; languages in a third and fourth column are not looked at)."""
    if kind not in ("tsv", "csv"):
        raise RefusedError(f"entries_format={kind!r:.40} is none of tsv, csv")
    lines = text.splitlines()
    rows = [line.split("\t") for line in lines] if kind == "tsv" else [*csv.reader(lines)]
    entries: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        fields = [each.strip() for each in row]
        if not any(fields):
            continue
        if len(fields) < 2 or (kind == "tsv" and len(fields) > 2) or not (fields[0] and fields[1]):
            raise RefusedError(f"entries, line {number}: a term and its translation are needed")
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
