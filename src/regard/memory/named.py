"""Glossaries with a name of their own in a memory's file, beside its terms: those that a service is given.

Their tables come with the first of them; to a regard that does not know them, the file is a memory like any
other.
"""

import sqlite3
from dataclasses import dataclass

TABLES = """
CREATE TABLE IF NOT EXISTS glossaries (id TEXT PRIMARY KEY, name TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS glossary_terms (
    glossary TEXT NOT NULL REFERENCES glossaries (id), source TEXT NOT NULL, target TEXT NOT NULL,
    term TEXT NOT NULL, translation TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS glossary_terms_by_glossary ON glossary_terms (glossary);
"""


@dataclass(frozen=True, slots=True)
class NamedGlossary:
    id: str
    name: str
    created: str
    rows: tuple[tuple[str, str, str, str], ...]
    """Both languages, term, translation."""


def read_named(file: sqlite3.Connection) -> list[NamedGlossary]:
    """All, in the order in which they were made; inside a transaction."""
    there = file.execute("SELECT 1 FROM sqlite_master WHERE name = 'glossaries'").fetchone()
    if there is None:
        return []
    rows: dict[str, list[tuple[str, str, str, str]]] = {}
    terms = file.execute(
        "SELECT glossary, source, target, term, translation FROM glossary_terms ORDER BY rowid"
    )
    for glossary, source, target, term, translation in terms:
        rows.setdefault(glossary, []).append((source, target, term, translation))
    own = file.execute("SELECT id, name, created FROM glossaries ORDER BY rowid")
    return [NamedGlossary(id, name, created, tuple(rows.get(id, ()))) for id, name, created in own]


def put_named(file: sqlite3.Connection, glossary: NamedGlossary) -> None:
    """In the place of the one with its id, if there is one; inside a transaction."""
    for statement in filter(str.strip, TABLES.split(";")):
        file.execute(statement)
    file.execute("DELETE FROM glossary_terms WHERE glossary = ?", (glossary.id,))
    file.execute(
        "INSERT INTO glossaries (id, name, created) VALUES (?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name",
        (glossary.id, glossary.name, glossary.created),
    )
    file.executemany(
        "INSERT INTO glossary_terms (glossary, source, target, term, translation) VALUES (?, ?, ?, ?, ?)",
        [(glossary.id, *row) for row in glossary.rows],
    )


def remove_named(file: sqlite3.Connection, id: str) -> None:
    file.execute("DELETE FROM glossary_terms WHERE glossary = ?", (id,))
    file.execute("DELETE FROM glossaries WHERE id = ?", (id,))
