"""What an earlier run wrote, where the file itself does not say what it was made from.

    manual.de.json              translations, which somebody may have mended since
    .manual.de.json.sources     of each: its key, its source, and how it was written

The file is read again and its segments are found among those that were written: by their keys, where these
are names; else by their texts, as two versions of a text are compared. So each is a source with a
translation, as in a file that has both.
"""

import hashlib
import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path

from regard.disk import own_partial, read_plain, write_text
from regard.documents.base import Opened, Result, Segment
from regard.text import DataError, Origin
from regard.text.blocks import Block, Break, Inline, Mark, Piece
from regard.text.charsets import check_encoding

_PART = re.compile(r"(?:[#|]\d+)+$")
"""Behind the name of a string: which of its segments it is."""


def sources_beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.sources")


@dataclass(frozen=True, slots=True)
class Sources:
    """What a translated file was made from."""

    digest: str
    """Of the file that was translated."""
    language: str | None
    """That it was translated into."""
    rows: Sequence[tuple[str, str, str]]
    """Of each segment its key, its source, its translation."""
    became: str | None = None
    """The encoding that it was written in, where that of its source lacks a character."""

    @classmethod
    def of(
        cls, raw: bytes, opened: Opened, results: Sequence[Result | None], language: str | None = None
    ) -> "Sources":
        pairs = zip(opened.segments, results, strict=True)
        rows = [(each.key, each.source, each.source if own is None else own.text) for each, own in pairs]
        return cls(_digest(raw), language, rows, getattr(opened, "became", None))

    @classmethod
    def read(cls, target: Path) -> "Sources | None":
        """Those beside a file; None where there are none. Raises `DataError` for what is damaged."""
        path = sources_beside(target)
        try:
            plain = json.loads(read_plain(path))
            rows = [(str(key), str(source), str(text)) for key, source, text in plain["segments"]]
            if (became := plain.get("encoding")) is not None:
                check_encoding(became)
            return cls(plain["digest"], plain["language"], rows, became)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DataError(Origin(str(path)), "damaged", remedy="remove it, or pass --fresh") from error

    def write(self, target: Path) -> None:
        plain = {"digest": self.digest, "language": self.language, "segments": self.rows}
        if self.became is not None:
            plain["encoding"] = self.became
        text = json.dumps(plain, ensure_ascii=False, indent=0) + "\n"
        path = sources_beside(target)
        write_text(path, text, partial=own_partial(path))

    def whole(self, raw: bytes, opened: Opened) -> bool:
        """Whether this is what was translated, to the byte, and read in the same way."""
        same = [(each.key, each.source) for each in opened.segments] == [row[:2] for row in self.rows]
        return same and self.digest == _digest(raw)

    def paired(self, old: Opened, *, named: bool) -> list[Segment]:
        """The segments of the translated file as it is now, each with its source. `named`: their keys are
        names, which do not change when others come or go."""
        pairs = self._by_key(old) if named else self._by_text(old)
        return [
            replace(own, key=key, source=source, target=own.source, state="final")
            for (key, source, _), own in pairs
        ]

    def _by_key(self, old: Opened) -> "Iterator[tuple[tuple[str, str, str], Segment]]":
        """Of a string with several segments all or none: which is which, their keys do not tell."""
        written, now = dict[str, list[tuple[str, str, str]]](), dict[str, list[Segment]]()
        for row in self.rows:
            written.setdefault(_PART.sub("", row[0]), []).append(row)
        for each in old.segments:
            now.setdefault(_PART.sub("", each.key), []).append(each)
        for key, rows in written.items():
            if len(rows) == len(now.get(key, ())):
                yield from zip(rows, now[key], strict=True)

    def _by_text(self, old: Opened) -> "Iterator[tuple[tuple[str, str, str], Segment]]":
        """What is not as it was lies between what is: if there are as many, each is the other's."""
        written, now = (
            [_words(text) for *_, text in self.rows],
            [_words(each.source) for each in old.segments],
        )
        for _, first, last, start, end in SequenceMatcher(None, written, now).get_opcodes():
            if last - first == end - start:
                yield from zip(self.rows[first:last], old.segments[start:end], strict=True)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _words(text: str) -> str:
    return " ".join(text.split())


def as_written(text: str, old: Block, new: Block) -> str:
    """A translation as the file to be written has it, where the old one wrote it otherwise: a string of YAML
    that has quotes now."""
    if old.notation is None or new.notation is None:
        return text
    if html.unescape(old.notation.read(text)) == html.unescape(new.notation.read(text)):
        return text
    return old.before + "".join(_rewritten(old.pieces, old, new)) + old.after


def _rewritten(pieces: Sequence[Piece], old: Block, new: Block) -> Iterator[str]:
    def mark(raw: str) -> str:
        plain = raw if old.notation is None else old.notation.read(raw)
        return html.unescape(new.escape(plain))

    for piece in pieces:
        match piece:
            case str():
                yield new.escape(piece)
            case Mark(raw) | Break(raw):
                yield mark(raw)
            case Inline(opening, closing, inner):
                yield mark(opening)
                yield from _rewritten(inner, old, new)
                yield mark(closing)
