"""What every format of documents gives and takes.

    opened = open_document("manual.xlf")          segments to be translated, in the order of the file
    opened.write(results)                         the file's bytes, with a translation for each

A format reads a file into segments and writes it again from the bytes it has read: what is no segment's
target is never touched. So a file without text is the same to the byte, and so is one that is given its own
translations back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from regard.text.markup import Block

State = Literal["new", "draft", "final"]
"""Of what a file has as a translation: none, one that somebody has to look at, one that counts."""
Origin = Literal["file", "memory", "model", "copy"]
"""Where a translation comes from: it stood in the file, in a memory (an exact match), a model made it, or the
source was taken over because there is nothing to translate in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """What is translated at once."""

    key: str
    """What it is called in its file (an id, a key, a number), the same when the file is read again."""
    line: int
    """Where it begins, from 1."""
    block: Block
    """The source, with its tags and placeholders."""
    source: str
    """The same as the file writes it."""
    target: str = ""
    """The translation that the file has, as the file writes it."""
    state: State = "new"
    context: str = ""
    """What tells it apart from another with the same text (msgctxt, a path of keys)."""
    mark: str | None = None
    """What the file says of its translation, in words of its own."""
    longest: int | None = None
    """Characters that its translation may have, where the file says so."""
    forms: tuple[str, ...] = ()
    """Of the plural of a text: all translations that the file has, by the forms of its language."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """A segment's translation."""

    text: str
    """As the file writes it: what `Block.place` gives."""
    origin: Origin = "model"
    confidence: float | None = None
    """0 to 1; None where nothing was computed."""
    flags: tuple[str, ...] = ()
    """What somebody should look at; the file's own states say so, where it has such."""
    state: State | None = None
    """What the file is to say of it; unless given, a model's is a draft, and so is what has flags."""
    mark: str | None = None
    """The same in the file's own words, where it is taken over from another of the same format."""
    forms: tuple[str, ...] = ()
    """Of a plural that is taken over: its translation in each form of the language; `text` where one is
    empty."""
    told: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What a report says of it besides; no file does."""

    @property
    def draft(self) -> bool:
        """Whether somebody has to look at it."""
        return self.state == "draft" if self.state else self.origin == "model" or bool(self.flags)


def as_it_is(segment: Segment, result: Result) -> bool:
    """Whether the file says just this already."""
    same = result.text == segment.target and result.forms in ((), segment.forms)
    return same and segment.state != "new" and result.draft == (segment.state == "draft")


class Opened(Protocol):
    """A file that has been read. Once it is written, it may have `notes`, lines to be said of that, and what
    encoding it `became`, if that is not the one that it was read in."""

    segments: Sequence[Segment]
    source_language: str | None
    """As the file says it."""
    target_language: str | None

    def write(self, results: Sequence[Result | None], target_language: str | None = None) -> bytes:
        """The file, with these translations; None leaves a segment as it is."""
        ...


class Format(Protocol):
    """A kind of file."""

    name: str
    endings: tuple[str, ...]
    """Of file names, in small letters, each with its dot."""

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> Opened:
        """Raises `DataError` with file and line for what is not valid. `settings` are of this format only.
        It is given the target_language, which is said for all, if its attribute `settings` lists it."""
        ...
