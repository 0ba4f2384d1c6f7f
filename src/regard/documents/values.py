"""A string of a file of strings: unescaped, cut into its lines and its ICU messages, with its tags and
placeholders, and escaped again.

    "You have <b>{{count}}</b> \\"new\\" messages.\\nClick $t(here)."     two segments
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from html import escape, unescape
from html.entities import html5
from itertools import accumulate
from typing import Literal

from regard.documents.base import Segment
from regard.documents.icu import Argument, Message, read_message
from regard.documents.splicing import Hole, Site, Source
from regard.text.charsets import check_encoding
from regard.text.markup import Notation, block
from regard.text.scanning import BLOCKS, OPAQUE, VOID, OpenTags, Syntax, Token

SYNTAX = Syntax(kind="text", lines=False)
"""Of HTML, where a tag that a model writes is escaped."""
_PLAIN_TEXT = replace(SYNTAX, tags=True)
_TAG = re.compile(
    r"""<(/?)([A-Za-z0-9][\w:.-]*+)((?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+)>"""
    r"|<!--(?:(?!-->|<!--).)*+-->",
    re.DOTALL,
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|([A-Za-z]\w*));")
_MARK = re.compile(
    r"\$t\([^()]*\)|@(?:\.\w+)?:\(?[\w.-]+\)?|<%(?:(?!%>).){0,400}+%>|\{%(?:(?!%\}).){0,400}+%\}", re.DOTALL
)
"""Of i18next: another message, put in here; Vue's way to say so; and template tags."""
_LOOSE = re.compile(r"(\{\w+\})|[{}]")
_PLAIN = re.compile(r"\{\w+\}")
"""An argument that markup.py knows as a placeholder; but for quoted braces, it would be quoted itself."""
_LINE_ENDS = re.compile(r"[\n\r]+")
_HIDDEN = "\0"


@dataclass(frozen=True, kw_only=True, slots=True)
class StringsSettings:
    keys: tuple[str, ...] = ()
    """Only strings whose path of keys fits one of these patterns (menu.*, *.label); all, if there is none."""
    skip: tuple[str, ...] = ()
    """None whose path of keys fits one of these."""
    encoding: str | None = None
    """What the file is in; without it, what its format says."""

    def __post_init__(self) -> None:
        if self.encoding is not None:
            check_encoding(self.encoding)

    def wants(self, path: str) -> bool:
        return _fits(path, self.keys or ("*",)) and not _fits(path, self.skip)


def _fits(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, each) for each in patterns)


@dataclass(frozen=True, slots=True)
class Escapes:
    """How a file writes the characters of a string."""

    pattern: re.Pattern[str]
    """One escape."""
    read: Callable[[str], str]
    """What it means; "" for one that stands for nothing."""
    write: Callable[[str], str]
    """A text with escapes where it needs them."""


@dataclass(slots=True)
class Value:
    """A string, and where each of its characters stands in the file."""

    source: Source
    text: str = ""
    at: list[int] = field(default_factory=list)

    @classmethod
    def read(cls, source: Source, spans: Iterable[tuple[int, int]], escapes: Escapes) -> "Value":
        value = cls(source)
        parts: list[str] = []
        end = 0
        for start, end in spans:
            done = start
            for found in escapes.pattern.finditer(source.text, start, end):
                value._add(parts, source.text[done : found.start()], done)
                char = escapes.read(found[0])
                parts.append(char)
                value.at += [found.start()] * len(char)
                done = found.end()
            value._add(parts, source.text[done:end], done)
        value.text = "".join(parts)
        value.at.append(end)
        return value

    def _add(self, parts: list[str], plain: str, at: int) -> None:
        parts.append(plain)
        self.at += range(at, at + len(plain))

    def raw(self, start: int, end: int) -> str:
        return self.source.text[self.at[start] : self.at[end]]


def value_sites(
    value: Value,
    escapes: Escapes,
    key: str,
    *,
    icu: bool = False,
    quotes: bool = False,
    html: bool | None = None,
    entities: bool = False,
) -> list[Site]:
    """All that is to be translated in one string, each of its lines apart. `icu`: it is a message of ICU,
    where `quotes` says whether apostrophes quote. `html`: its entities are such; None, to go by what is in
    it. `entities`: others are its document's own, and placeholders."""
    return _Cutter(value, escapes, key, quotes, html, entities).sites(icu)


class _Cutter:
    def __init__(
        self, value: Value, escapes: Escapes, key: str, quotes: bool, html: bool | None, entities: bool
    ) -> None:
        self._value, self._escapes, self._quotes, self._html = value, escapes, quotes, html
        self._key, self._entities, self._count, self._icu = key, entities, 0, False

    def sites(self, icu: bool) -> list[Site]:
        text = self._value.text
        message = read_message(text, quotes=self._quotes) if icu else None
        self._icu = message is not None
        self._quotes = self._quotes and message is not None
        return self._message(message or Message(0, len(text), []))

    def _message(self, message: Message) -> list[Site]:
        text = self._value.text
        marks = [
            (each.start, each.end)
            for each in message.arguments
            if self._quotes or each.messages or not _PLAIN.fullmatch(text, each.start, each.end)
        ]
        hidden = _hide(text, marks)
        marks += [found.span() for found in _MARK.finditer(hidden, message.start, message.end)]
        if self._entities:
            found = _ENTITY.finditer(hidden, message.start, message.end)
            marks += [each.span() for each in found if each[1] is not None and f"{each[1]};" not in html5]
        hidden = _hide(text, marks)
        is_html = _is_html(hidden[message.start : message.end]) if self._html is None else self._html
        tokens = [*_tokens(hidden, marks, message.start, message.end)]
        how = SYNTAX if is_html else _PLAIN_TEXT, self._notation(is_html, message.plural)
        places = [each.start for each in message.arguments]
        sites: list[Site] = []
        for start, end, own in _runs(tokens, text):
            inner = message.arguments[bisect_left(places, start) : bisect_left(places, end)]
            sites += self._run(start, end, own, inner, how)
        return sites

    def _run(
        self,
        start: int,
        end: int,
        tokens: Sequence["_Found"],
        inner: Sequence[Argument],
        how: tuple[Syntax, Notation],
    ) -> list[Site]:
        value = self._value
        own = [Token(each.kind, value.raw(each.start, each.end), stands=each.stands) for each in tokens]
        piece = block(own, *how)
        if piece is None:
            return [site for each in inner for message in each.messages for site in self._message(message)]
        self._count += 1
        key = self._key if self._count == 1 else f"{self._key}#{self._count}"
        segment = Segment(
            key=key,
            line=value.source.line(value.at[start]),
            block=piece,
            source=value.raw(start, end),
            context=self._key,
        )
        site = Site(value.at[start], value.at[end], segment, finish=str.strip)
        for each in inner:
            if held := [found for message in each.messages for found in self._message(message)]:
                site.holes.append(Hole(value.at[each.start], value.at[each.end], held))
        return [site]

    def _notation(self, is_html: bool, plural: bool) -> Notation:
        escapes = self._escapes

        def read(raw: str) -> str:
            text = escapes.pattern.sub(lambda found: escapes.read(found[0]), raw)
            text = unescape(text) if is_html else text
            return _unquote(text, plural) if self._quotes else text

        def write(text: str) -> str:
            if self._quotes:
                text = _quote(text, plural)
            elif self._icu:
                text = _without_signs(text, plural)
            return escapes.write(escape(text, quote=False) if is_html else text)

        return Notation(read, write)


def _quote(text: str, plural: bool) -> str:
    signs = "[{}#]+" if plural else "[{}]+"
    return re.sub(signs, lambda found: f"'{found[0]}'", text.replace("'", "''"))


def _unquote(text: str, plural: bool) -> str:
    signs = "[{}#]" if plural else "[{}]"
    return re.sub(rf"'(')|'({signs}[^']*)'", lambda found: found[1] or found[2], text)


def _without_signs(text: str, plural: bool) -> str:
    """Without what would end or fill a message, where it cannot be quoted."""
    text = _LOOSE.sub(lambda found: found[1] or "", text)
    return text.replace("#", "") if plural else text


def _is_html(text: str) -> bool:
    """Whether its entities are such: it has tags, or an entity."""
    if any(found[2] is None or found[2].lower() in _KNOWN for found in _TAG.finditer(text)):
        return True
    return any(found[1] is None or f"{found[1]};" in html5 for found in _ENTITY.finditer(text))


_INLINE = "a abbr b big cite del em font i ins q s small span strong sub sup u"
_OPAQUE = OPAQUE | {"var", "xliff:g"}
_NEVER = frozenset(["br", "hr", "wbr"])
"""Void, whatever follows. Others of HTML's are not where their closing tag is: <link>here</link>."""
_KNOWN = BLOCKS | VOID | OPAQUE | frozenset(_INLINE.split())


@dataclass(slots=True)
class _Found:
    """A token of a string, by where it stands in it."""

    kind: Literal["text", "open", "close", "mark"]
    start: int
    end: int
    name: str = ""
    stands: bool = False
    parts: bool = False


def _hide(text: str, spans: Iterable[tuple[int, int]]) -> str:
    parts, done = list[str](), 0
    for start, end in sorted(spans):
        parts += [text[done:start], _HIDDEN * (end - max(start, done))]
        done = max(done, end)
    return "".join([*parts, text[done:]])


def _tokens(hidden: str, marks: Sequence[tuple[int, int]], start: int, end: int) -> Iterator[_Found]:
    """Tags, marks and text. What parts blocks: tags of blocks, and those that have none to match; lines."""
    found = [_tag(each) for each in _TAG.finditer(hidden, start, end)]
    found += [_Found("mark", first, last, stands=True) for first, last in marks if start <= first < end]
    found += [_Found("mark", *each.span(), parts=True) for each in _LINE_ENDS.finditer(hidden, start, end)]
    found.sort(key=lambda each: each.start)
    done = start
    for token in _matched(_apart(found)):
        if done < token.start:
            yield _Found("text", done, token.start)
        yield token
        done = token.end
    if done < end:
        yield _Found("text", done, end)


def _apart(found: Sequence[_Found]) -> list[_Found]:
    """Without those that begin within another."""
    kept: list[_Found] = []
    for each in found:
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept


def _tag(found: re.Match[str]) -> _Found:
    start, end = found.span()
    if found[2] is None:
        return _Found("mark", start, end)
    name = found[2].lower()
    if found[1]:
        return _Found("close", start, end, name)
    if found[3].endswith("/") or name in _NEVER:
        return _Found("mark", start, end, name, stands=name not in VOID, parts=name in BLOCKS)
    return _Found("open", start, end, name)


def _matched(found: Sequence[_Found]) -> Iterator[_Found]:
    """Tags with their other one; elements that are not translated in one piece."""
    opened = OpenTags()
    pairs: dict[int, int] = {}
    for i, token in enumerate(found):
        if token.kind == "open":
            opened.begin(token.name, i)
        elif token.kind == "close" and (first := opened.end(token.name)) is not None:
            pairs[first] = i
    closed = set(pairs.values())
    for i, token in enumerate(found):
        if (token.kind == "open" and i not in pairs) or (token.kind == "close" and i not in closed):
            known = BLOCKS if token.kind == "open" and token.name in VOID else _KNOWN
            token.kind, token.parts = "mark", token.name in known
            token.stands = not (token.parts or token.name in VOID)
    for first, last in pairs.items():
        if found[first].name in BLOCKS - VOID:
            found[first].parts = found[last].parts = True
    before = [0, *accumulate(each.parts for each in found)]
    for first, last in pairs.items():
        if before[last] > before[first + 1]:
            found[first].parts = found[last].parts = True
    i = 0
    while i < len(found):
        token = found[i]
        if token.kind == "open" and token.name in _OPAQUE:
            whole = found[pairs[i]].end
            yield _Found("mark", token.start, whole, token.name, stands=not token.parts, parts=token.parts)
            i = pairs[i]
        else:
            yield token
        i += 1


def _runs(tokens: Sequence[_Found], text: str) -> Iterator[tuple[int, int, list[_Found]]]:
    """Tokens between those that part blocks, without white space at the ends."""
    own: list[_Found] = []
    for token in [*tokens, _Found("mark", len(text), len(text), parts=True)]:
        if not token.parts:
            own.append(token)
            continue
        if own and own[0].kind == "text":
            plain = text[own[0].start : own[0].end]
            own[0].start += len(plain) - len(plain.lstrip())
        if own and own[-1].kind == "text":
            plain = text[own[-1].start : own[-1].end]
            own[-1].end -= len(plain) - len(plain.rstrip())
        if own:
            yield own[0].start, own[-1].end, own
        own = []
