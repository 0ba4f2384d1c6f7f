"""The tables of a memory's file; how they are made, and how those of older versions become new.

    sources    every distinct source once, by its language
    targets    its translations; as_of is the date or, without one, the moment of the import
    blocks     the words of all sources as numbers, in the order of their ids: what `Index` is made of
    postings   for each token (a word, the first time or a later one), the sources that have it
    terms      the glossary

Version 2 has as_of, and words with their marks (`regard.text.words`).
"""

import sqlite3

from regard.memory.writing import Lists

APPLICATION = 0x52474D54
VERSION = 2
OLDER = (1,)
"""Versions that are brought up to date when a file is opened."""

_TABLES = """
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, language TEXT NOT NULL, hash INTEGER NOT NULL, text TEXT NOT NULL
);
CREATE INDEX sources_by_hash ON sources (hash);
CREATE TABLE targets (
    id INTEGER PRIMARY KEY, source INTEGER NOT NULL REFERENCES sources (id), language TEXT NOT NULL,
    text TEXT NOT NULL, date TEXT NOT NULL, author TEXT NOT NULL, as_of TEXT NOT NULL DEFAULT ''
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


def kind_and_version(file: sqlite3.Connection) -> tuple[int, int]:
    """The application that made the file, 0 if none did, and the version of its tables."""
    (kind,) = file.execute("PRAGMA application_id").fetchone()
    (version,) = file.execute("PRAGMA user_version").fetchone()
    return kind, version


def create(file: sqlite3.Connection) -> None:
    """Inside a transaction."""
    for statement in filter(str.strip, _TABLES.split(";")):
        file.execute(statement)
    file.execute(f"PRAGMA user_version = {VERSION}")
    file.execute(f"PRAGMA application_id = {APPLICATION}")


def upgrade(file: sqlite3.Connection) -> None:
    """From version 1, inside a transaction: words are counted anew."""
    file.execute("ALTER TABLE targets ADD COLUMN as_of TEXT NOT NULL DEFAULT ''")
    file.execute("UPDATE targets SET as_of = date")
    for table in ("words", "postings", "blocks"):
        file.execute(f"DELETE FROM {table}")
    lists = Lists(file)
    for id, text in file.execute("SELECT id, text FROM sources ORDER BY id"):
        lists.add(id, text)
    lists.flush()
    file.execute(f"PRAGMA user_version = {VERSION}")
