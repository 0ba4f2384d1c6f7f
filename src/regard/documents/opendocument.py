"""OpenDocument text (ODT): paragraphs and headings, in the text, in headers and footers, notes, comments and
frames.

    <text:p>The <text:span text:style-name="T1">old station</text:span></text:p>

A paragraph is one segment; tabs and line breaks part it. Spans side by side of one style are one, and those
whose style says nothing but when they were edited are none: both are left out of what is written anew. Two
marks of a pair (the start and the end of a bookmark, a change, a comment) are around what their words became,
or in their order, where they cross others. Notes, comments and frames are marks, fields are placeholders.
What was deleted with changes tracked is not translated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape

from regard.config import from_dict
from regard.documents.base import Segment
from regard.documents.package import REMEDY, OpenedPackage, Package
from regard.documents.splicing import Hole, Site, numbered
from regard.documents.xml import CDATA, OTHER, TEXT, Node, Tree
from regard.text import DataError, Origin
from regard.text.markup import block
from regard.text.scanning import Syntax, Token

NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns:{}:1.0"
PARTS = ("content.xml", "styles.xml")
SYNTAX = Syntax(kind="xml", outline=False)
_PLACED = frozenset(["note", "s", "soft-page-break", "change", "change-start", "change-end"])
"""Marks of the text that stand for no words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenDocumentSettings:
    comments: bool = True
    """Comments are translated too."""


class OpenDocumentFormat:
    name = "odt"
    endings = (".odt", ".ott")
    settings = tuple(each.name for each in fields(OpenDocumentSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> OpenedPackage:
        own = from_dict(OpenDocumentSettings, settings)
        package = Package(raw, file)
        if "content.xml" not in package:
            raise DataError(Origin(file), "no OpenDocument: it has no content.xml", remedy=REMEDY)
        if "META-INF/manifest.xml" in package and b"encryption-data" in package.part("META-INF/manifest.xml"):
            raise DataError(Origin(file), "encrypted", remedy="save it without a password")
        parts = []
        for name in PARTS:
            if name in package:
                tree = package.tree(name)
                parts.append((name, tree, _Part(tree, own.comments).sites))
        numbered([site for _, _, sites in parts for site in sites])
        return OpenedPackage(package, parts)


@dataclass(slots=True)
class _Piece:
    """Something in a paragraph."""

    start: int
    end: int
    tokens: list[Token] = field(default_factory=list)
    worded: bool = False
    opening: str = ""
    """Of a span."""
    parting: bool = False
    """Two segments: it is a break, or there is one in it."""
    inside: "list[_Piece]" = field(default_factory=list)
    """Of one that parts."""


class _Part:
    def __init__(self, tree: Tree, comments: bool) -> None:
        self._tree, self._comments, self._count = tree, comments, 0
        prefix = tree.prefix(NAMESPACE.format("text"))
        self._text = "text:" if prefix is None else prefix
        self._office = tree.prefix(NAMESPACE.format("office")) or "office:"
        self._silent = self._silent_styles()
        self.sites: list[Site | Hole] = self._paragraphs(tree.root)

    def _silent_styles(self) -> frozenset[str]:
        """Styles of spans that only say when something was edited."""
        style = self._tree.prefix(NAMESPACE.format("style")) or "style:"
        found = set()
        for node in self._tree.root.walk():
            own = self._tree.attributes(node) if node.name == f"{style}style" else {}
            if own.get(f"{style}family") != "text" or f"{style}parent-style-name" in own:
                continue
            said = [each for each in node.children if each.name not in (TEXT, OTHER)]
            names = {name for each in said for name in self._tree.attributes(each)}
            if not any(each.children for each in said) and names <= {"officeooo:rsid"}:
                found.add(own.get(f"{style}name", ""))
        return frozenset(found)

    def _paragraphs(self, node: Node) -> list[Site | Hole]:
        if node.name in (f"{self._text}p", f"{self._text}h"):
            return self._paragraph(node)
        if node.name == f"{self._text}tracked-changes":
            return []
        if node.name == f"{self._office}annotation" and not self._comments:
            return []
        return [site for child in node.children for site in self._paragraphs(child)]

    def _paragraph(self, node: Node) -> list[Site | Hole]:
        self._count += 1
        number = self._count
        inner: list[Hole] = []
        sites: list[Site | Hole] = []
        for group in _groups(self._pieces(node, inner)):
            tokens = [token for each in group for token in each.tokens]
            crossing = _pair(tokens)
            found = block(tokens, SYNTAX)
            if found is None:
                continue
            found = replace(found, ordered=True) if crossing else found
            segment = Segment(key="", line=number, block=found, source=found.raw)
            site = Site(group[0].start, group[-1].end, segment)
            site.holes = [hole for hole in inner if site.start <= hole.start and hole.end <= site.end]
            inner = [hole for hole in inner if hole not in site.holes]
            sites.append(site)
        return sorted([*sites, *inner], key=lambda each: each.start)

    def _pieces(self, parent: Node, inner: list[Hole]) -> list[_Piece]:
        pieces: list[_Piece] = []
        for node in parent.children:
            piece = self._piece(node, inner)
            last = pieces[-1] if pieces else None
            if last is not None and piece.opening and piece.opening == last.opening:
                last.tokens = [*last.tokens[:-1], *piece.tokens[1:]]
                last.end, last.worded = piece.end, last.worded or piece.worded
            else:
                pieces.append(piece)
        return pieces

    def _piece(self, node: Node, inner: list[Hole]) -> _Piece:
        raw = self._tree.raw(node)
        if node.name in (TEXT, CDATA):
            plain = raw if node.name == TEXT else escape(raw[9:-3], quote=False)
            return _Piece(node.start, node.end, [Token("text", plain)], bool(plain.strip()))
        name = node.name.removeprefix(self._text) if node.name.startswith(self._text) else ""
        if name in ("line-break", "tab"):
            return _Piece(node.start, node.end, parting=True)
        if name in ("span", "a", "meta") and node.children:
            return self._element(node, inner)
        if sites := self._paragraphs(node):
            inner.append(Hole(node.start, node.end, sites))
        stands = bool(name) and name not in _PLACED and not name.startswith(("bookmark", "reference-mark"))
        stands = stands or name in ("bookmark-ref", "reference-ref")
        token = Token("mark", raw, self._side(node), stands=stands, blank=name == "s")
        return _Piece(node.start, node.end, [token], stands)

    def _side(self, node: Node) -> str:
        """Of a mark that has another one: which it is, and what both are called."""
        kind, _, side = node.name.rpartition("-")
        if node.name == f"{self._office}annotation":
            kind, side = node.name, "start"
        if side not in ("start", "end"):
            return ""
        named = (f"{self._text}name", f"{self._text}id", f"{self._text}change-id", f"{self._office}name")
        own = self._tree.attributes(node)
        name = next((own[each] for each in named if each in own), None)
        return "" if name is None else f"{side} {kind} {name}"

    def _element(self, node: Node, inner: list[Hole]) -> _Piece:
        inside = self._pieces(node, inner)
        worded = any(each.worded for each in inside)
        if any(each.parting for each in inside):
            return _Piece(node.start, node.end, parting=True, inside=inside)
        tokens = [token for each in inside for token in each.tokens]
        opening = self._tree.source.text[node.start : node.inner]
        style = self._tree.attributes(node).get(f"{self._text}style-name")
        if node.name == f"{self._text}span" and style in self._silent:
            return _Piece(node.start, node.end, tokens, worded)
        if not worded:
            blank = any(each.blank for each in tokens)
            return _Piece(node.start, node.end, [Token("mark", self._tree.raw(node), blank=blank)])
        closing = self._tree.source.text[node.inner_end : node.end]
        tokens = [Token("open", opening), *tokens, Token("close", closing)]
        return _Piece(
            node.start, node.end, tokens, worded, opening if node.name == f"{self._text}span" else ""
        )


def _pair(tokens: Sequence[Token]) -> bool:
    """Make tags of two marks of a pair. Whether some cannot be, since they cross others."""
    stack: list[Token] = []
    begun: set[str] = set()
    crossing = False
    for token in tokens:
        side, _, name = token.name.partition(" ")
        if token.kind == "open":
            stack.append(token)
        elif token.kind == "close":
            while stack.pop().kind != "open":
                pass
        elif side == "start":
            stack.append(token)
            begun.add(name)
        elif side == "end" and stack and stack[-1].name == f"start {name}":
            stack.pop().kind, token.kind = "open", "close"
        elif side == "end":
            crossing = crossing or name in begun
    return crossing


def _groups(pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
    """What lies between breaks, from the first words to the last: marks at its ends stay where they are."""
    own: list[_Piece] = []
    for piece in [*pieces, _Piece(0, 0, parting=True)]:
        if not piece.parting:
            own.append(piece)
            continue
        worded = [i for i, each in enumerate(own) if each.worded]
        if worded:
            yield own[worded[0] : worded[-1] + 1]
        own = []
        yield from _groups(piece.inside) if piece.inside else ()


FORMAT = OpenDocumentFormat()
