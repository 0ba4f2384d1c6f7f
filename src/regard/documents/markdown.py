"""Markdown (CommonMark, tables, strikethrough, front matter), parsed by markdown-it-py and written back by
position.

    ## The **old** [station](map.md)         The old station: the rest goes where its words go

Headings, paragraphs, list items and cells of tables are segments, and so is what an image says; a hard line
break parts them. Code, addresses, HTML tags, footnote marks and link definitions stay. A paragraph that was
wrapped over several lines is written in one. A link whose text is its own reference ([station]) gets that
reference spelled out: [Bahnhof][station].
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from html import unescape
from html.entities import html5
from typing import Any, Literal

from regard.config import from_dict
from regard.documents.base import Segment
from regard.documents.dialects import MARKS, of_dialect, overlaps
from regard.documents.html import attribute_sites, html_sites
from regard.documents.inlines import Inline, Parser
from regard.documents.splicing import Hole, Site, Source, Spliced, numbered
from regard.documents.yaml import yaml_sites
from regard.text.markup import Notation, block
from regard.text.scanning import OPAQUE, VOID, Syntax, Token

SYNTAX = Syntax(kind="text", lines=False)
_FRONT = re.compile(
    r"\ufeff?(?:(---)[ \t]*(?:\r\n?|\n)(.*?)(?<=[\r\n])(?:---|\.\.\.)|\+\+\+[ \t]*[\r\n].*?[\r\n]\+\+\+)"
    r"[ \t]*(?=[\r\n]|$)",
    re.DOTALL,
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|(\w+));")
_SPECIAL = re.compile(
    r"`|(?<!\s)\*|\*(?!\s)|<(?=[A-Za-z/!?])|(?<![^\W_])_(?!\s)|(?<!\s)_(?![^\W_])|~(?=~)|(?<=~)~"
)
"""What would be taken for markup."""
_HTML_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_LEADING = re.compile(r"(?:[-+*](?=\s|$)|#{1,6}(?=\s|$)|>|=+\s*$|-+\s*$|~~~|```|:::)")
_LEADING_NUMBER = re.compile(r"(\d{1,9})([.)])(?=\s|$)")


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkdownSettings:
    front_matter: tuple[str, ...] = ()
    """Keys of the front matter (YAML between ---) whose strings are translated: title, description."""
    attributes: tuple[str, ...] = ("alt", "title")
    """Of HTML in it: attributes that are translated."""
    encoding: str | None = None


class MarkdownFormat:
    name = "markdown"
    endings = (".md", ".markdown", ".mkd")
    settings = tuple(each.name for each in fields(MarkdownSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> Spliced:
        own = from_dict(MarkdownSettings, settings)
        source = Source.read(raw, file, own.encoding)
        sites = [*_Document(source, own).sites()]
        numbered(sites)
        return Spliced(source, sites)


class _Document:
    def __init__(self, source: Source, settings: MarkdownSettings) -> None:
        self._source, self._settings = source, settings
        text = source.text.replace("\0", "\ufffd")
        front = _FRONT.match(text)
        self._front = None if front is None or front[1] is None else front.span(2)
        end = 0 if front is None else front.end()
        if text.startswith("\ufeff"):
            end = max(end, 1)
        self._text = re.sub(r"[^\r\n]", " ", text[:end]) + text[end:]
        self._row = (-1, 0)

    def sites(self) -> Iterator[Site | Hole]:
        if self._front is not None and self._settings.front_matter:
            yield from yaml_sites(
                self._source, *self._front, lambda path: path in self._settings.front_matter
            )
        before: Any = None
        for token in Parser().parse(self._text):
            if token.type == "inline":
                cell = before.type in ("th_open", "td_open")
                found = self._cell(token) if cell else self._places(token)
                if found is not None:
                    yield from self._inline(token, found, cell, before.type == "paragraph_open")
            elif token.type == "html_block" and token.level == 0:
                start, end = (self._line(each) for each in token.map)
                yield from html_sites(self._source, start, end, self._settings.attributes)
            before = token

    def _line(self, number: int) -> int:
        """Where a line begins, from 0."""
        starts = self._source.starts
        return starts[number] if number < len(starts) else len(self._text)

    def _places(self, token: Any) -> list[int] | None:
        """Where each character of what a token holds stands; its lines are the ends of those of the file."""
        places: list[int] = []
        lines = token.content.split("\n")
        for number, line in enumerate(lines, token.map[0]):
            start = self._line(number)
            own = self._text[start : self._line(number + 1)].rstrip("\r\n")
            bare = line.strip()
            at = own.rfind(bare)
            if at < 0 or own[at + len(bare) :].strip(" \t#\f\v\xa0"):
                return None
            indent = len(line) - len(line.lstrip())
            places += [max(start + at - indent + i, 0) for i in range(len(line))]
            places.append(start + at + len(bare))  # the line end, or the end of all
        return places

    def _cell(self, token: Any) -> list[int] | None:
        number = token.map[0]
        start, end = self._line(number), self._line(number + 1)
        begin = self._row[1] if self._row[0] == number else start
        pattern = "".join(r"\\?\|" if char == "|" else re.escape(char) for char in token.content)
        found = re.compile(pattern).search(self._text, begin, end)
        if found is None:
            return None
        self._row = (number, found.end())
        places, at = [], found.start()
        for char in token.content:
            places.append(at)
            at += 2 if char == "|" and self._text[at] == "\\" else 1
        return [*places, at]

    def _inline(
        self, token: Any, places: Sequence[int], cell: bool, paragraph: bool
    ) -> Iterator[Site | Hole]:
        content = token.content
        for start, end, tokens, inlines in _groups(content, token.meta["inlines"], paragraph):
            found = block(tokens, SYNTAX, _NOTATION)
            begins = not cell and not content[content.rfind("\n", 0, start) + 1 : start].strip()
            finish = partial(_finish, cell=cell, begins=begins)
            holes = [hole for each in inlines for hole in self._hole(content, each, places)]
            if found is None:
                for hole in holes:
                    hole.finish = finish
                yield from holes
                continue
            line = self._source.line(places[start])
            segment = Segment(key="", line=line, block=found, source=found.raw)
            yield Site(places[start], places[end], segment, holes, finish)

    def _hole(self, content: str, inline: Inline, places: Sequence[int]) -> Iterator[Hole]:
        """What is translated by itself: what an image says, and attributes of a tag."""
        start, end = places[inline.start], places[inline.end]
        own = self._text[start:end]
        if own != content[inline.start : inline.end] or "\n" in own or "\r" in own:
            return
        if inline.kind == "image":
            sites = _alt(self._source, inline, places)
        else:
            sites = [*attribute_sites(self._source, start, own, self._settings.attributes)]
        if sites:
            yield Hole(start, end, sites)


def _alt(source: Source, image: Inline, places: Sequence[int]) -> list[Site | Hole]:
    start, end = places[image.inner[0]], places[image.inner[1]]
    raw = source.text[start:end]
    found = block([Token("text", raw)], SYNTAX, _NOTATION)
    if found is None or image.shortcut:
        return []
    segment = Segment(key="", line=source.line(start), block=found, source=raw, context="@alt")
    return [Site(start, end, segment)]


def _groups(
    content: str, inlines: Sequence[Inline], paragraph: bool
) -> Iterator[tuple[int, int, list[Token], list[Inline]]]:
    """Tokens between hard line breaks, without white space at the ends, and images and tags in them."""
    events = sorted(_events(content, inlines, paragraph), key=lambda each: (each[0], each[1]))
    groups: list[list[tuple[int, int, Token, Inline | None]]] = [[]]
    depth = done = 0
    for start, end, token, inline in events:
        if start < done:
            continue
        if done < start:
            groups[-1].append((done, start, Token("text", content[done:start]), None))
        depth += (token.kind == "open") - (token.kind == "close")
        if token.parts and depth == 0:
            groups.append([])
        else:
            groups[-1].append((start, end, token, inline))
        done = end
    if done < len(content):
        groups[-1].append((done, len(content), Token("text", content[done:]), None))
    for group in groups:
        own = _stripped(group)
        if own:
            inlines = [each for *_, each in own if each is not None]
            yield own[0][0], own[-1][1], [token for _, _, token, _ in own], inlines


_Event = tuple[int, int, Token, Inline | None]


def _stripped(group: Sequence[_Event]) -> list[_Event]:
    own = [*group]
    for last in (0, -1):
        while own and own[last][2].kind == "text":
            start, end, token, _ = own[last]
            bare = token.raw.lstrip() if last == 0 else token.raw.rstrip()
            if bare:
                cut = len(token.raw) - len(bare)
                span = (start + cut, end) if last == 0 else (start, end - cut)
                own[last] = (*span, replace(token, raw=bare), None)
                break
            del own[last]
    return own


def _events(content: str, inlines: Sequence[Inline], paragraph: bool) -> Iterator[_Event]:
    """Tags and marks; what is within a mark comes with it."""
    dialect = [*of_dialect(content, inlines, paragraph)]
    for start, end, parts in dialect:
        yield start, end, Token("mark", content[start:end], parts=parts, stands=not parts), None
    spans = [(start, end) for start, end, _ in dialect]
    left = [each for each in inlines if not overlaps(spans, each.start, each.end, wholly=True)]
    inlines = _collapsed(content, left)
    tags = _html_pairs(content, inlines)
    covered = [*spans]
    for each in inlines:
        inner = each.inner if each.kind == "pair" else (each.end, each.end)
        covered += ((each.start, inner[0]), (inner[1], each.end))
        raw = content[each.start : each.end]
        match each.kind:
            case "pair":
                first, last = each.inner
                closing = content[last : each.end]
                if each.shortcut:
                    closing = f"][{content[first:last]}]"
                yield each.start, first, Token("open", content[each.start : first]), None
                yield last, each.end, Token("close", closing), None
            case "break":
                yield each.start, each.end, Token("mark", "\\\n", parts=True), None
            case "html" if (each.start, each.end) in tags:
                yield each.start, each.end, Token(tags[each.start, each.end], raw), each
            case "html" if raw[:3].lower() == "<br":
                yield each.start, each.end, Token("mark", raw, parts=True), None
            case "opaque" | "code":
                yield each.start, each.end, Token("mark", re.sub(r"\n[ \t]*", " ", raw), stands=True), None
            case _:
                yield each.start, each.end, Token("mark", re.sub(r"\n[ \t]*", " ", raw)), each
    covered.sort()
    for found in MARKS.finditer(content):
        if not overlaps(covered, *found.span()):
            yield *found.span(), Token("mark", found[0], stands=not found[0].startswith("[")), None


def _collapsed(content: str, inlines: Sequence[Inline]) -> list[Inline]:
    """Elements of HTML that are not translated, in one piece; and a footnote's mark that has been taken for a
    link."""
    own = [
        Inline("image", each.start, each.end, each.inner, shortcut=True)
        if each.kind == "pair" and each.shortcut and content.startswith("^", each.inner[0])
        else each
        for each in inlines
    ]
    tags = [_HTML_TAG.match(content, each.start) if each.kind == "html" else None for each in own]
    around = _around(own)
    endings: dict[str, list[int]] = {}
    for i, tag in enumerate(tags):
        if tag is not None and tag[1]:
            endings.setdefault(tag[2].lower(), []).append(i)
    kept: list[Inline] = []
    done = 0
    for i, (each, tag) in enumerate(zip(own, tags, strict=True)):
        if each.end <= done:
            continue
        if tag is not None and not tag[1] and tag[2].lower() in OPAQUE | {"var"}:
            there = endings.get(tag[2].lower(), [])
            last = there[k] if (k := bisect_right(there, i)) < len(there) else None
            if last is not None and around[last] == around[i]:
                done = own[last].end
                kept.append(Inline("opaque", each.start, done))
                continue
        kept.append(each)
    return kept


def _around(inlines: Sequence[Inline]) -> list[int | None]:
    """Of each: which one is the innermost pair that it stands in."""
    found: list[int | None] = []
    open_: list[int] = []
    for i, each in enumerate(inlines):
        while open_ and inlines[open_[-1]].end <= each.start:
            open_.pop()
        found.append(open_[-1] if open_ else None)
        if each.kind == "pair":
            open_.append(i)
    return found


def _html_pairs(content: str, inlines: Sequence[Inline]) -> dict[tuple[int, int], Literal["open", "close"]]:
    """Tags of HTML that have their other one, with no pair of Markdown cut by them."""
    stack: list[tuple[str, Inline, int | None]] = []
    found: dict[tuple[int, int], Literal["open", "close"]] = {}
    for each, pair in zip(inlines, _around(inlines), strict=True):
        tag = _HTML_TAG.match(content, each.start) if each.kind == "html" else None
        if tag is None or tag[2].lower() in VOID | OPAQUE or content[each.end - 2] == "/":
            continue
        if not tag[1]:
            stack.append((tag[2].lower(), each, pair))
        elif stack and stack[-1][0] == tag[2].lower():
            _, opening, begun_in = stack.pop()
            if begun_in == pair:
                found[opening.start, opening.end], found[each.start, each.end] = "open", "close"
    return found


def _read(text: str) -> str:
    """Without escapes: entities first, for an escaped & begins none."""
    parts = re.split(r"(\\[!-/:-@\[-`{-~])", text)
    return "".join(part[1:] if i % 2 else unescape(part) for i, part in enumerate(parts))


def _write(text: str) -> str:
    text = re.sub(r"\\(?=[!-/:-@\[-`{-~]|\Z)", r"\\\\", text)
    text = _SPECIAL.sub(r"\\\g<0>", _ENTITY.sub(_amp, text))
    links = re.search(r"\][\[(:]", text) or re.search(r"[\[\]]", re.sub(r"\[[^\[\]]*\]", "", text))
    return re.sub(r"[\[\]]", r"\\\g<0>", text) if links else text


def _amp(found: re.Match[str]) -> str:
    return f"\\{found[0]}" if found[1] is None or f"{found[1]};" in html5 else found[0]


def _at_start(text: str) -> str:
    """At the start of a line, what would make something else of it."""
    text = _LEADING_NUMBER.sub(r"\1\\\2", text, count=1) if _LEADING_NUMBER.match(text) else text
    return f"\\{text}" if _LEADING.match(text) else text


def _finish(text: str, cell: bool, begins: bool) -> str:
    text = _at_start(text) if begins else text
    return text.replace("|", "\\|") if cell else text


_NOTATION = Notation(_read, _write, {"*": "*", "_": "*", "**": "**", "__": "**", "~~": "~~"})
FORMAT = MarkdownFormat()
