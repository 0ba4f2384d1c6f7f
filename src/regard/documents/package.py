"""A document that is a zip of XML parts (DOCX, ODT): some parts are written anew, all others stay, in the
same order and compressed as they were.
"""

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from regard.documents.base import Result, Segment
from regard.documents.splicing import Sites, Splicing, every
from regard.documents.xml import Tree, read_xml
from regard.text import DataError, Origin

LARGEST = 64 << 20
"""Bytes that one part of XML may have."""
LARGEST_TOTAL = 1 << 30
"""Bytes that all parts may have, unpacked: a zip of a few kilobytes can hold more than any machine."""
MOST = 20_000
"""Parts."""
OTHERS = 5
"""Times the XML, all parts of a document whose XML is bounded."""
REMEDY = "open it in its program, and save it again"

_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, struct.error, lzma.LZMAError),
    *(ValueError, NotImplementedError, RuntimeError, OSError, EOFError),
)
"""What Python's zipfile raises for bytes that are no zip."""


_bound: ContextVar[int | None] = ContextVar("bound", default=None)


@contextmanager
def bounded(most: int) -> Iterator[None]:
    """Documents that are opened inside have so many bytes of XML, all that is read together, and are refused
    if it is more: a few kilobytes can be made to unpack to what takes gigabytes to read."""
    token = _bound.set(most)
    try:
        yield
    finally:
        _bound.reset(token)


class Package:
    def __init__(self, raw: bytes, file: str) -> None:
        self.raw, self.file = raw, file
        self._left = _bound.get()
        largest = LARGEST_TOTAL if self._left is None else min(OTHERS * self._left, LARGEST_TOTAL)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(raw))
        except _DAMAGED as error:
            raise DataError(Origin(file), f"no zip: {error}", remedy=REMEDY) from None
        self._infos = self._zip.infolist()
        total = sum(info.file_size for info in self._infos)
        if total > largest or len(self._infos) > MOST:
            what = f"{len(self._infos)} parts of {total:,} bytes, more than such a document has"
            raise DataError(Origin(file), what, remedy="look at where it comes from")
        names = [info.filename for info in self._infos]
        if len(set(names)) < len(names):
            raise DataError(Origin(file), "two parts of one name", remedy=REMEDY)
        if any(info.flag_bits & 1 for info in self._infos):
            raise DataError(Origin(file), "encrypted", remedy="save it without a password")

    def __contains__(self, name: str) -> bool:
        return any(info.filename == name for info in self._infos)

    def part(self, name: str, largest: int = LARGEST) -> bytes:
        where = Origin(f"{self.file}/{name}")
        info = next((each for each in self._infos if each.filename == name), None)
        if info is None:
            raise DataError(where, "is missing", remedy=REMEDY)
        if info.file_size > largest:
            raise DataError(where, f"{info.file_size:,} bytes", f"are more than {largest:,}", REMEDY)
        try:
            return self._zip.read(info)
        except _DAMAGED as error:
            raise DataError(where, f"cannot be unpacked: {error}", remedy=REMEDY) from None

    def tree(self, name: str) -> Tree:
        if self._left is None:
            raw = self.part(name)
        else:
            raw = self.part(name, self._left)
            self._left -= len(raw)
        return read_xml(raw, f"{self.file}/{name}")

    def written(self, changed: Mapping[str, bytes]) -> bytes:
        """With other parts in the place of these."""
        changed = {name: new for name, new in changed.items() if new != self.part(name)}
        if not changed:
            return self.raw
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as target:
            for info in self._infos:
                new = changed.get(info.filename)
                copy = zipfile.ZipInfo(info.filename, info.date_time)
                for kept in ("compress_type", "comment", "extra", "create_system", "external_attr"):
                    setattr(copy, kept, getattr(info, kept))
                target.writestr(copy, self.part(info.filename, LARGEST_TOTAL) if new is None else new)
            target.comment = self._zip.comment
        return out.getvalue()


class OpenedPackage:
    """What is translated of each part, in the order of the zip (`Opened`)."""

    source_language: str | None = None
    target_language: str | None = None

    def __init__(self, package: Package, parts: Sequence[tuple[str, Tree, Sites]]) -> None:
        self._package, self._parts = package, parts
        self.segments: Sequence[Segment] = [site.segment for _, _, sites in parts for site in every(sites)]

    def write(self, results: Sequence[Result | None], target_language: str | None = None) -> bytes:
        changed: dict[str, bytes] = {}
        done = 0
        for name, tree, sites in self._parts:
            count = sum(1 for _ in every(sites))
            out = Splicing(tree.source.text, sites, results[done : done + count]).out
            changed[name] = tree.source.with_entities(out)
            done += count
        if done != len(results):
            raise ValueError(f"{len(results)} results for {done} segments")
        return self._package.written(changed)
