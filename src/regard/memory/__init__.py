"""Translation memories and glossaries: what was translated before, and what terms must become. Knows no
model."""

from regard.memory.glossary import Entry, Glossary, read_glossary
from regard.memory.named import NamedGlossary
from regard.memory.recall import Recall, recall
from regard.memory.segments import Imported, Match, MemoryFileError, Segment
from regard.memory.store import Memory, lookup

__all__ = [
    "Entry",
    "Glossary",
    "Imported",
    "Match",
    "Memory",
    "MemoryFileError",
    "NamedGlossary",
    "Recall",
    "Segment",
    "lookup",
    "read_glossary",
    "recall",
]
