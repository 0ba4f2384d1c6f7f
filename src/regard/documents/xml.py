"""XML by position: checked by lxml, which resolves no entity and asks no network, then read again as elements
that know where they stand, so that a part of it can be written and the rest stays as it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from regard.config import ConfigError
from regard.documents.splicing import REMEDY, Source
from regard.text import DataError, Origin

TEXT, CDATA, OTHER = "#text", "#cdata", "#other"
"""Names of what is no element; the last is a comment, an instruction or the declaration."""
_ENCODING = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)""")
_PIECE = re.compile(
    r"""(?P<other><!--.*?-->|<\?.*?\?>|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)|<!\[CDATA\[.*?\]\]>
    |<(?P<closing>/?)(?P<name>[^\s/>]+)(?:[^>"']++|"[^"]*+"|'[^']*+')*+>""",
    re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""\s([^\s=/>]+)\s*=\s*("[^"]*"|'[^']*')""")


@dataclass(slots=True, eq=False)
class Node:
    """An element or a piece of text."""

    name: str
    """As it is written, with its prefix."""
    start: int
    inner: int
    """Where its opening tag ends."""
    inner_end: int = 0
    end: int = 0
    children: "list[Node]" = field(default_factory=list)

    def walk(self) -> "Iterator[Node]":
        """It, and all that is in it, in the order of the file."""
        yield self
        for child in self.children:
            yield from child.walk()

    def first(self, name: str) -> "Node | None":
        return next((each for each in self.children if each.name == name), None)


@dataclass(frozen=True, slots=True)
class Tree:
    source: Source
    root: Node
    namespaces: dict[str | None, str]
    """Of its root: prefixes and what they stand for."""

    def raw(self, node: Node) -> str:
        return self.source.text[node.start : node.end]

    def inside(self, node: Node) -> str:
        return self.source.text[node.inner : node.inner_end]

    def attributes(self, node: Node) -> dict[str, str]:
        """As they are written, entities and all."""
        tag = self.source.text[node.start : node.inner]
        return {found[1]: found[2][1:-1] for found in _ATTRIBUTE.finditer(tag)}

    def prefix(self, namespace: str) -> str | None:
        """What names of a namespace begin with: `w:`, or nothing; None where the root knows it not."""
        for prefix, meant in self.namespaces.items():
            if meant == namespace:
                return f"{prefix}:" if prefix else ""
        return None


def read_xml(raw: bytes, file: str, *, doctype: bool = False) -> Tree:
    """Raises `DataError` for what is not well-formed, and, unless it is wanted, for a DOCTYPE."""
    try:
        from lxml import etree
    except ImportError:
        raise ConfigError("XML is read with lxml: pip install regard[desk]") from None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        checked = etree.fromstring(raw, parser)
    except etree.XMLSyntaxError as error:
        reason = f"XML that is not well-formed: {' '.join(str(error.msg).split())}"
        raise DataError(Origin(file, error.lineno or 0), reason, remedy=REMEDY) from None
    except ValueError as error:
        raise DataError(Origin(file), f"no XML: {error}", remedy=REMEDY) from None
    if checked.getroottree().docinfo.internalDTD is not None and not doctype:
        raise DataError(Origin(file, 1), "a DOCTYPE, which such a file may not have", remedy="take it out")
    declared = _ENCODING.match(raw)
    source = Source.read(raw, file, None if declared is None else declared[1].decode("ascii"))
    return Tree(source, _read(source), dict(checked.nsmap))


def _read(source: Source) -> Node:
    text = source.text
    top = Node(OTHER, 0, 0, len(text), len(text))
    stack = [top]
    done = 0
    for found in _PIECE.finditer(text):
        if done < found.start():
            stack[-1].children.append(_leaf(TEXT, done, found.start()))
        done = found.end()
        if found["name"] is None:
            kind = OTHER if found["other"] is not None else CDATA
            stack[-1].children.append(_leaf(kind, *found.span()))
        elif found["closing"]:
            node = stack.pop()
            node.inner_end, node.end = found.span()
        else:
            node = Node(found["name"], found.start(), found.end(), found.end(), found.end())
            stack[-1].children.append(node)
            if not found[0].endswith("/>"):
                stack.append(node)
        if not stack:
            raise source.error(found.start(), "XML that cannot be followed here")
    root = next((each for each in top.children if not each.name.startswith("#")), None)
    if root is None or len(stack) != 1:
        raise source.error(0, "XML that cannot be followed")
    return root


def _leaf(name: str, start: int, end: int) -> Node:
    return Node(name, start, start, end, end)
