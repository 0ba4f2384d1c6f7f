"""Word's DOCX: the text of the document, its headers, footers, notes, comments and text boxes.

    <w:r><w:t>The </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>old station</w:t></w:r>      The old station

A paragraph is one segment; tabs and line breaks part it. Runs of one formatting are one: what Word notes of
spelling, languages and editing sessions counts for nothing, and is left out of what is written anew. The
formatting that most of the segment has is its own; other runs, links, marked changes and bookmarks are inline
elements (where bookmarks cross, marks in their order), footnote marks and pictures are marks, and fields, but
for links, are placeholders. Text that was deleted with changes tracked is not translated.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from html import escape, unescape

from regard.config import from_dict
from regard.documents.base import Segment
from regard.documents.package import REMEDY, OpenedPackage, Package
from regard.documents.runs import Item, crossing, groups, most, paired, wrapped
from regard.documents.splicing import Hole, Site, numbered
from regard.documents.xml import CDATA, OTHER, TEXT, Node, Tree
from regard.text import DataError, Origin
from regard.text.markup import block
from regard.text.scanning import Syntax, Token

NAMESPACES = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_TYPE = re.compile(
    r"application/vnd\.(?:openxmlformats-officedocument\.wordprocessingml|ms-word)\.(?:[\w.-]*\.)?"
    r"(?:document|template|header|footer|footnotes|endnotes|comments)(?:\.macroEnabled)?\.?(?:main)?\+xml"
)
SYNTAX = Syntax(kind="xml", outline=False)

_WRAPS = frozenset(["hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdt", "dir", "bdo"])
_DROPPED = frozenset(["proofErr", "lastRenderedPageBreak", "softHyphen"])
_BREAKS = frozenset(["br", "cr", "tab", "ptab"])
_STANDING = frozenset(["fldSimple", "sym", "ruby", "pgNum"])
_PAIR = re.compile(r"(\w+)(Start|End)")
"""Two marks around a part of the text: bookmarkStart, commentRangeEnd."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordSettings:
    comments: bool = True
    """Comments are translated too."""


class WordFormat:
    name = "docx"
    endings = (".docx", ".docm", ".dotx", ".dotm")
    settings = tuple(each.name for each in fields(WordSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> OpenedPackage:
        own = from_dict(WordSettings, settings)
        package = Package(raw, file)
        parts = []
        for name in _text_parts(package, own.comments):
            tree = package.tree(name)
            parts.append((name, tree, _Part(tree).sites))
        numbered([site for _, _, sites in parts for site in sites])
        return OpenedPackage(package, parts)


def _text_parts(package: Package, comments: bool) -> list[str]:
    """Those that hold text, by what they are said to be; the document itself first."""
    tree = package.tree("[Content_Types].xml")
    found: list[str] = []
    for node in tree.root.walk():
        own = tree.attributes(node) if node.name.endswith("Override") else {}
        kind, name = own.get("ContentType", ""), unescape(own.get("PartName", "")).lstrip("/")
        if _TYPE.fullmatch(kind) and name in package and (comments or "comments" not in kind):
            found.append(name) if "main" not in kind else found.insert(0, name)
    if not found:
        raise DataError(Origin(package.file), "no Word document: it names no part with text", remedy=REMEDY)
    return found


class _Part:
    """One part of XML."""

    def __init__(self, tree: Tree) -> None:
        self._tree, self._text = tree, tree.source.text
        prefix = next((found for each in NAMESPACES if (found := tree.prefix(each)) is not None), None)
        if prefix is None:
            raise tree.source.error(tree.root.start, "no namespace of Word", remedy=REMEDY)
        self._w = prefix
        self._count = 0
        self._quiet = re.compile(
            rf"<{prefix}(?:lang|noProof)\b[^>]*/>|<{prefix}lang\b[^>]*>\s*</{prefix}lang>"
        )
        self.sites: list[Site | Hole] = self._paragraphs(tree.root)

    def _name(self, node: Node) -> str:
        return node.name.removeprefix(self._w) if node.name.startswith(self._w) else node.name

    def _paragraphs(self, node: Node) -> list[Site | Hole]:
        if node.name == f"{self._w}p":
            return self._paragraph(node)
        return [site for child in node.children for site in self._paragraphs(child)]

    def _paragraph(self, node: Node) -> list[Site | Hole]:
        self._count += 1
        number = self._count
        sites: list[Site | Hole] = []
        inner: list[Hole] = []
        items = paired([*self._items(node, inner)])
        for group in groups(items):
            if (site := self._site(group, number)) is not None:
                site.holes = [hole for hole in inner if site.start <= hole.start and hole.end <= site.end]
                inner = [hole for hole in inner if hole not in site.holes]
                sites.append(site)
        return sorted([*sites, *inner], key=lambda each: each.start)

    def _items(self, parent: Node, inner: list[Hole]) -> Iterator[Item]:
        """What is in a paragraph, or in something that wraps a part of one."""
        children = [each for each in parent.children if each.name not in (TEXT, OTHER)]
        fields = self._fields(children)
        i = 0
        while i < len(children):
            node = children[i]
            name = self._name(node)
            if i in fields:
                last = children[fields[i]]
                yield self._field(children[i : fields[i] + 1], node.start, last.end, inner)
                i = fields[i]
            elif name == "r":
                yield from self._run(node, inner)
            elif name in _WRAPS:
                yield self._wrap(node, inner)
            elif (mark := _PAIR.fullmatch(name)) is not None:
                pair = f"{mark[1]} {self._tree.attributes(node).get(f'{self._w}id', '')}"
                yield Item(mark[2].lower(), node.start, node.end, self._tree.raw(node), pair=pair)
            elif name not in _DROPPED and name != "pPr":
                self._hold(node, inner)
                stands = name in _STANDING or name.endswith(("oMath", "oMathPara"))
                yield Item("mark", node.start, node.end, self._tree.raw(node), stands=stands)
            i += 1

    def _hold(self, node: Node, inner: list[Hole]) -> None:
        """Paragraphs in it: those of text boxes."""
        if sites := self._paragraphs(node):
            inner.append(Hole(node.start, node.end, sites))

    def _wrap(self, node: Node, inner: list[Hole]) -> Item:
        content = node
        if self._name(node) == "sdt":
            content = node.first(f"{self._w}sdtContent") or node
        opening, closing = self._text[node.start : content.inner], self._text[content.inner_end : node.end]
        items = paired([*self._items(content, inner)])
        return wrapped(Item("wrap", node.start, node.end, opening, closing=closing, items=items), self._text)

    def _run(self, run: Node, inner: list[Hole]) -> Iterator[Item]:
        properties = run.first(f"{self._w}rPr")
        full = "" if properties is None else self._tree.raw(properties)
        own = self._quiet.sub("", full)
        own = "" if re.fullmatch(rf"<{self._w}rPr\s*/>|<{self._w}rPr>\s*</{self._w}rPr>", own) else own
        pieces = [
            each
            for each in run.children
            if each is not properties and each.name not in (TEXT, OTHER) and self._name(each) not in _DROPPED
        ]
        opening = f"<{self._w}r>{full}"
        for i, piece in enumerate(pieces):
            item = self._piece(piece, own, inner)
            if i == 0:
                item.start = run.start
            else:
                item.before = f"</{self._w}r>"
            if i == len(pieces) - 1:
                item.end = run.end
            else:
                item.after = opening
            if item.kind != "text":
                item.raw = f"{opening}{item.raw}</{self._w}r>"
            yield item

    def _piece(self, piece: Node, own: str, inner: list[Hole]) -> Item:
        name = self._name(piece)
        if name == "t":
            return Item("text", piece.start, piece.end, self._plain(piece), own)
        if name == "noBreakHyphen":
            return Item("text", piece.start, piece.end, "\u2011", own)
        if name in _BREAKS or name in ("fldChar", "instrText"):
            return Item("break", piece.start, piece.end, self._tree.raw(piece))
        self._hold(piece, inner)
        return Item("mark", piece.start, piece.end, self._tree.raw(piece), stands=name in _STANDING)

    def _plain(self, node: Node) -> str:
        parts = [
            escape(self._text[each.start + 9 : each.end - 3], quote=False)
            if each.name == CDATA
            else self._tree.raw(each)
            for each in node.children
            if each.name in (TEXT, CDATA)
        ]
        text = "".join(parts)
        kept = self._tree.attributes(node).get("xml:space") == "preserve"
        return text if kept else text.strip(" \t\r\n")

    def _fields(self, children: Sequence[Node]) -> dict[int, int]:
        """Where fields begin and end that are whole here; those within others are part of them."""
        found: dict[int, int] = {}
        open_: list[int] = []
        for i, node in enumerate(children):
            for piece in node.children if self._name(node) == "r" else ():
                if self._name(piece) != "fldChar":
                    continue
                kind = self._tree.attributes(piece).get(f"{self._w}fldCharType")
                if kind == "begin":
                    open_.append(i)
                elif kind == "end" and open_:
                    first = open_.pop()
                    found = {a: b for a, b in found.items() if a < first}
                    found[first] = i
        return found

    def _field(self, nodes: Sequence[Node], start: int, end: int, inner: list[Hole]) -> Item:
        """A link's text is translated; of others nothing is: they are computed."""
        raw = self._text[start:end]
        code = re.search(rf"<{self._w}instrText\b[^>]*>\s*HYPERLINK\b", raw)
        kinds = [self._field_kind(each) for each in nodes]
        if code and kinds.count("separate") == 1 and kinds[-1] == "end" and raw.count("fldCharType") == 3:
            cut = kinds.index("separate")
            middle = replace(nodes[0], children=list(nodes[cut + 1 : -1]))
            items = paired([*self._items(middle, inner)])
            opening, closing = self._text[start : nodes[cut].end], self._tree.raw(nodes[-1])
            return wrapped(Item("wrap", start, end, opening, closing=closing, items=items), self._text)
        for node in nodes:
            self._hold(node, inner)
        return Item("mark", start, end, raw, stands=True)

    def _field_kind(self, node: Node) -> str:
        """Of a run that holds nothing else."""
        pieces = [each for each in node.children if self._name(each) not in ("rPr", TEXT)]
        if len(pieces) != 1 or self._name(pieces[0]) != "fldChar":
            return ""
        return self._tree.attributes(pieces[0]).get(f"{self._w}fldCharType", "")

    def _site(self, group: Sequence[Item], number: int) -> Site | None:
        base = most(group)
        tokens = [*self._tokens(group, base)]
        found = block(tokens, SYNTAX)
        if found is None:
            return None
        found = replace(found, ordered=True) if crossing(group) else found
        segment = Segment(key="", line=number, block=found, source=found.raw)
        finish = partial(self._finish, before=group[0].before, base=base, after=group[-1].after)
        return Site(group[0].start, group[-1].end, segment, finish=finish)

    def _opening(self, format_: str) -> str:
        return f'<{self._w}r>{format_}<{self._w}t xml:space="preserve">'

    @property
    def _closing(self) -> str:
        return f"</{self._w}t></{self._w}r>"

    def _tokens(self, items: Sequence[Item], base: str) -> Iterator[Token]:
        """Written as if all were in one run of the `base` formatting."""
        current = base
        for item in items:
            if item.kind == "text":
                wanted = item.format if item.raw.strip() else current
                if wanted != current:
                    if current != base:
                        yield Token("close", self._closing + self._opening(base))
                    if wanted != base:
                        yield Token("open", self._closing + self._opening(wanted))
                    current = wanted
                yield Token("text", item.raw)
                continue
            if current != base:
                yield Token("close", self._closing + self._opening(base))
                current = base
            if item.kind == "wrap":
                own = most(item.items)
                yield Token("open", self._closing + item.raw + self._opening(own))
                yield from self._tokens(item.items, own)
                yield Token("close", self._closing + item.closing + self._opening(base))
            else:
                yield Token("mark", self._closing + item.raw + self._opening(base), stands=item.stands)
        if current != base:
            yield Token("close", self._closing + self._opening(base))

    def _finish(self, text: str, before: str, base: str, after: str) -> str:
        whole = before + self._opening(base) + text + self._closing + after
        empty = re.escape(f'<{self._w}t xml:space="preserve"></{self._w}t></{self._w}r>')
        format_ = rf"<{self._w}rPr>(?:(?!</?{self._w}rPr>).)*+</{self._w}rPr>"
        return re.sub(rf"<{self._w}r>(?:{format_})?{empty}", "", whole, flags=re.DOTALL)


FORMAT = WordFormat()
