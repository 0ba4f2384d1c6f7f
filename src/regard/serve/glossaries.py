"""Glossaries: terms whose translation is laid down, by pairs of languages. They are kept in memory."""

import csv
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from regard.serve.models import same
from regard.serve.service import RefusedError
from regard.text.terms import Terms

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
    terms: Terms = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", Terms(self.entries))

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

    def dictionary(self, source: str, target: str) -> Dictionary:
        for each in self.dictionaries:
            if each.reads(source, target):
                return each
        raise RefusedError(f"the glossary {self.name!r:.60} has no dictionary from {source} to {target}", 404)

    def put(self, new: Dictionary, *, merge: bool = False) -> Dictionary:
        """In the place of the one with the same languages; `merge` keeps entries that the new one lacks."""
        others = [each for each in self.dictionaries if not each.reads(new.source, new.target)]
        before = [each for each in self.dictionaries if each.reads(new.source, new.target)]
        if merge and before:
            new = Dictionary(new.source, new.target, _counted({**before[0].entries, **new.entries}))
        self.dictionaries = [*others, new]
        return new


class Glossaries:
    def __init__(self) -> None:
        self._glossaries: dict[str, Glossary] = {}

    def __iter__(self) -> Iterator[Glossary]:
        return iter([*self._glossaries.values()])

    def add(self, glossary: Glossary) -> Glossary:
        if len(self._glossaries) >= MOST:
            raise RefusedError(f"there are {MOST} glossaries already: delete some")
        self._glossaries[glossary.id] = glossary
        return glossary

    def get(self, id: str) -> Glossary:
        if id not in self._glossaries:
            raise RefusedError(f"no glossary {id!r:.60}; they are forgotten when the service ends", 404)
        return self._glossaries[id]

    def remove(self, id: str) -> None:
        del self._glossaries[self.get(id).id]


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
