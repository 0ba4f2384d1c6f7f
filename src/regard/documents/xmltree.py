"""XML as bytes that are spliced: where each element begins and ends, so that all the rest stays as it is.

    tree = read_xml(raw, "manual.xlf")
    tree.root.children[0].attributes
    tree.written([Edit(start, end, "new")])      the same bytes but for these

What a document type defines is refused, and with it every entity but the five that XML knows: nothing is
expanded, nothing is fetched. Depth and size are bounded.
"""

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

from regard.text import DataError, Origin
from regard.text.charsets import check_encoding

LARGEST = 256 * 1024 * 1024
"""Bytes of a file."""
DEEPEST = 90
"""Elements within elements."""
XML = "http://www.w3.org/XML/1998/namespace"
SPACE, LANGUAGE = f"{XML} space", f"{XML} lang"
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][\w.-]*)["']""")
_START_TAG = re.compile(rb"""<(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""")
_CHARACTERS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
FIX = "fix the file, or write it anew with the tool that made it"


@dataclass(slots=True, eq=False)
class Node:
    """An element."""

    space: str
    name: str
    """Without its prefix; `space` is the namespace."""
    attributes: dict[str, str]
    """By name; of another namespace, by "namespace name"."""
    line: int
    start: int
    inner: int
    """Behind its start tag, in bytes."""
    parent: "Node | None"
    inner_end: int = 0
    end: int = 0
    children: "list[Node]" = field(default_factory=list)
    text: str = ""
    """All characters of its own, one after the other."""

    def named(self, name: str) -> "list[Node]":
        """Children in the same namespace."""
        return [each for each in self.children if each.name == name and each.space == self.space]

    def first(self, name: str) -> "Node | None":
        return next(iter(self.named(name)), None)

    def walk(self) -> "Iterator[Node]":
        """It and everything within, in order."""
        yield self
        for each in self.children:
            yield from each.walk()

    def inherited(self, name: str, default: str) -> str:
        """An attribute, of this or of the nearest around it that has one."""
        node: Node | None = self
        while node is not None:
            if name in node.attributes:
                return node.attributes[name]
            node = node.parent
        return default


@dataclass(frozen=True, slots=True)
class Edit:
    start: int
    end: int
    """What is replaced, in bytes."""
    text: str


@dataclass(frozen=True, slots=True)
class Tree:
    root: Node
    file: str
    data: bytes
    """The document in UTF-8: what places are of."""
    encoding: str
    """That it was read in, and is written in."""
    bom: bytes = b""

    def raw(self, node: Node) -> str:
        """What is between its tags, as the file has it."""
        return self.data[node.inner : node.inner_end].decode()

    def error(self, node: Node, reason: str, particulars: str = "", remedy: str = FIX) -> DataError:
        return DataError(Origin(self.file, node.line), reason, particulars, remedy)

    def rewrite(self, node: Node, values: dict[str, str | None], text: str | None = None) -> list[Edit]:
        """Attributes of a start tag, which have no prefix (None takes one away), and what is between the
        tags. What is as it was is not touched."""
        tag = self.data[node.start : node.inner].decode()
        changed = _changed(tag, values)
        if tag.endswith("/>") and text:
            name = re.match(r"<([^\s/>]+)", tag)
            opened = f"{changed[:-2].rstrip()}>{text}</{'' if name is None else name[1]}>"
            return [Edit(node.start, node.end, opened)]
        edits = [] if changed == tag else [Edit(node.start, node.inner, changed)]
        if text is not None and text != self.raw(node):
            edits.append(Edit(node.inner, node.inner_end, text))
        return edits

    def written(self, edits: Iterable[Edit]) -> bytes:
        """The file, with some of it replaced."""
        parts, done = [], 0
        for edit in sorted(edits, key=lambda each: (each.start, each.end)):
            if edit.start < done:
                raise ValueError(f"bytes {edit.start} to {edit.end} are replaced twice")
            parts += [self.data[done : edit.start], clean(edit.text).encode()]
            done = edit.end
        whole = b"".join([*parts, self.data[done:]])
        if self.encoding == "utf-8":
            return self.bom + whole
        return self.bom + whole.decode().encode(self.encoding, "xmlcharrefreplace")


def read_xml(raw: bytes, file: str) -> Tree:
    """Raises `DataError` with file and line for what is not well-formed, or would be dangerous to read."""
    if len(raw) > LARGEST:
        sizes = f"({len(raw)} bytes, {LARGEST} at most)"
        raise DataError(Origin(file), "too large", sizes, "split the file")
    bom, encoding = _encoding(raw, file)
    try:
        text = raw[len(bom) :].decode(encoding)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        what = f"byte {error.start} is not {encoding}"
        raise DataError(
            Origin(file, line), "invalid characters:", what, "save it in the encoding it names"
        ) from error
    except UnicodeError as error:  # of encodings that cannot say where
        raise DataError(Origin(file, 1), "invalid characters:", f"not {encoding}", FIX) from error
    data = text.encode()
    return Tree(_Reader(file, data).read(), file, data, encoding, bom)


def _encoding(raw: bytes, file: str) -> tuple[bytes, str]:
    for bom, encoding in _BOMS:
        if raw.startswith(bom):
            return bom, encoding
    if raw[:4] in (b"<\0?\0", b"\0<\0?"):
        return b"", "utf-16-le" if raw[0] else "utf-16-be"
    declared = _DECLARED.match(raw[:200])
    name = "utf-8" if declared is None else declared[1].decode()
    try:
        check_encoding(name)
    except ValueError as error:
        raise DataError(Origin(file, 1), "unknown encoding", repr(name), "save it as UTF-8") from error
    return b"", codecs.lookup(name).name


class _Reader:
    def __init__(self, file: str, data: bytes) -> None:
        self.file, self.data = file, data
        self.parser = parser = expat.ParserCreate(encoding="utf-8", namespace_separator=" ")
        parser.buffer_text = False
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._doctype
        self.root: Node | None = None
        self.open: list[Node] = []
        self.texts: list[list[str]] = []
        """Of each that is open: its characters so far."""

    def read(self) -> Node:
        try:
            self.parser.Parse(self.data, True)
        except expat.ExpatError as error:
            what = expat.errors.messages.get(error.code, str(error))
            raise DataError(Origin(self.file, error.lineno), "not well-formed XML:", what, FIX) from error
        if self.root is None:
            raise DataError(Origin(self.file), "not well-formed XML:", "no element", FIX)
        return self.root

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        at, line = self.parser.CurrentByteIndex, self.parser.CurrentLineNumber
        if len(self.open) >= DEEPEST:
            remedy = "no such file is made by a tool for translators: check where it comes from"
            raise DataError(
                Origin(self.file, line), f"more than {DEEPEST} elements within each other", "", remedy
            )
        tag = _START_TAG.match(self.data, at)
        inner = at if tag is None else tag.end()
        space, _, local = name.rpartition(" ")
        node = Node(space, local, attributes, line, at, inner, self.open[-1] if self.open else None)
        node.inner_end = node.end = inner
        if self.open:
            self.open[-1].children.append(node)
        else:
            self.root = node
        self.open.append(node)
        self.texts.append([])

    def _end(self, name: str) -> None:
        node = self.open.pop()
        node.text = "".join(self.texts.pop())
        at = self.parser.CurrentByteIndex
        if self.data[node.inner - 2 : node.inner] != b"/>":  # such a one has no end tag
            node.inner_end, node.end = at, self.data.index(b">", at) + 1

    def _characters(self, text: str) -> None:
        if self.open:
            self.texts[-1].append(text)

    def _doctype(self, name: str, system: str | None, public: str | None, inside: bool) -> None:
        """A name of a document type is never followed."""
        if inside:
            remedy = "remove it from the <!DOCTYPE ...>: what a document defines itself is not read"
            line = self.parser.CurrentLineNumber
            raise DataError(Origin(self.file, line), "a document type of its own", repr(name), remedy)


def _changed(tag: str, values: dict[str, str | None]) -> str:
    for name, value in values.items():
        found = re.search(rf"""(\s{re.escape(name)}\s*=\s*)("[^"]*"|'[^']*')""", tag)
        if found is not None and found[2][1:-1] != value:
            new = "" if value is None else f"{found[1]}{quoted(value)}"
            tag = tag[: found.start()] + new + tag[found.end() :]
        elif found is None and value is not None:
            place = len(tag) - (2 if tag.endswith("/>") else 1)
            place = len(tag[:place].rstrip())
            tag = f"{tag[:place]} {name}={quoted(value)}{tag[place:]}"
    return tag


def attributes_of(values: Mapping[str, str | None]) -> str:
    """As a start tag has them; those that are None left out."""
    return "".join(f" {name}={quoted(value)}" for name, value in values.items() if value is not None)


def quoted(value: str) -> str:
    """For an attribute."""
    value = value.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return f'"{value}"'


def clean(text: str) -> str:
    """Without characters that XML cannot hold."""
    return _CHARACTERS.sub("", text)


def indent_before(data: bytes, at: int) -> str:
    """The white space before a place, from the end of the line before."""
    found = re.search(rb"(\r?\n[ \t]*)$", data[max(0, at - 200) : at])
    return "" if found is None else found[1].decode()
