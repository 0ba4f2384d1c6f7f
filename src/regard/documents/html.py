"""HTML: its text, and those attributes that are read. Tags, comments, scripts, code, white space and whatever
is marked as not to be translated stay as they are to the byte.

    <p>The <b>old</b> <img alt="Station"> closes.      two segments: the paragraph, and `Station`

A page in an encoding that lacks a character gets it as an entity. `lang` and `xml:lang` of <html> become the
language that is translated into, where one is given.
"""

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from html import unescape

from regard.config import ConfigError, from_dict
from regard.documents.base import Segment
from regard.documents.splicing import Hole, Site, Source, Spliced, numbered
from regard.text.charsets import check_encoding
from regard.text.markup import Notation, block, parse
from regard.text.scanning import Syntax, Token, scan

TRANSLATED = ("alt", "title", "placeholder", "aria-label", "label", "summary", "description")
"""Attributes that are read by people; `description` is the content of <meta name="description">."""
SYNTAX = Syntax(kind="html", opaque=frozenset(["var"]))

_HEAD = 1024
_CHARSET = re.compile(
    rb"""<meta[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)|<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)""",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"""\s([A-Za-z][\w:-]*)\s*=\s*("[^"]*"|'[^']*'|[^\s"'=<>`/]+)""")
_ONE_TAG = re.compile(r"""<[A-Za-z](?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""")
_EMPTY = re.compile(rf"({_ONE_TAG.pattern})</[A-Za-z][\w:-]*\s*>")
_HTML = re.compile(r"""<html\b(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""", re.IGNORECASE)
_LANG = re.compile(r"""\s(?:xml:)?lang\s*=\s*["']?([\w-]+)""", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class HtmlSettings:
    attributes: tuple[str, ...] = ("alt", "title")
    """Attributes that are translated: alt, title, placeholder, aria-label, label, summary, and description,
    which is that of the page."""
    encoding: str | None = None
    """What the page is in, where neither a byte order mark nor the page says so; else UTF-8."""

    def __post_init__(self) -> None:
        for each in self.attributes:
            if each not in TRANSLATED:
                raise ConfigError(f"attributes: {each!r} is none of {', '.join(TRANSLATED)}")


class HtmlFormat:
    name = "html"
    endings = (".html", ".htm", ".xhtml")
    settings = tuple(each.name for each in fields(HtmlSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> Spliced:
        own = from_dict(HtmlSettings, settings)
        source = Source.read(raw, file, _declared(raw) or own.encoding)
        sites = html_sites(source, 0, len(source.text), own.attributes)
        numbered(sites)
        return Spliced(source, sites, missing="entities", languages=_languages(source.text))


def html_sites(source: Source, start: int, end: int, attributes: Sequence[str]) -> list[Site | Hole]:
    """Of this part of the text."""
    sites: list[Site | Hole] = []
    at = start
    for part in parse(source.text[start:end], SYNTAX).parts:
        if isinstance(part, str):
            for token, place in _tags(part, at):
                sites += attribute_sites(source, place, token, attributes)
            at += len(part)
            continue
        segment = Segment(key="", line=source.line(at + len(part.before)), block=part, source=part.raw)
        site = Site(at, at + len(part.raw), segment)
        for token, place in _tags(part.raw, at):
            if inner := [*attribute_sites(source, place, token, attributes)]:
                site.holes.append(Hole(place, place + len(token), inner))
        sites.append(site)
        at += len(part.raw)
    return sites


def _tags(raw: str, at: int) -> Iterator[tuple[str, int]]:
    """Tags, but for what is in elements that are not translated."""
    for token in scan(raw, SYNTAX):
        if token.kind != "text":
            empty = _EMPTY.fullmatch(token.raw)
            yield token.raw if empty is None else empty[1], at
        at += len(token.raw)


def attribute_sites(source: Source, at: int, tag: str, attributes: Sequence[str]) -> Iterator[Site | Hole]:
    """Those of a tag that are translated. What is more than one tag is not translated, whatever is in it."""
    if not attributes or _ONE_TAG.fullmatch(tag) is None:
        return
    found = {each[1].lower(): each for each in _ATTRIBUTE.finditer(tag)}
    if _says(found, "translate") == "no" or "notranslate" in _says(found, "class").split():
        return
    wanted = {name: each for name, each in found.items() if name in attributes}
    described = _says(found, "name") == "description" and tag[1:5].lower() == "meta"
    if described and "description" in attributes and "content" in found:
        wanted["content"] = found["content"]
    for match in wanted.values():
        value, quote = match[2], match[2][0] if match[2][0] in "\"'" else ""
        bare = value[1:-1] if quote else value
        piece = block([Token("text", bare)], SYNTAX, _ATTRIBUTES.get(quote, _UNQUOTED))
        if piece is None:
            continue
        start = at + match.start(2) + len(quote)
        segment = Segment(
            key="", line=source.line(start), block=piece, source=bare, context=f"@{match[1].lower()}"
        )
        site = Site(start, start + len(bare), segment)
        yield site if quote else Hole(start, start + len(bare), [site], _quoted)


def _says(found: Mapping[str, re.Match[str]], name: str) -> str:
    return found[name][2].strip("\"'").lower() if name in found else ""


def _write(text: str, quote: str = '"') -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace(quote, "&quot;" if quote == '"' else "&#39;")


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[^\s\"'=<>`/]+", text) else f'"{text}"'


_UNQUOTED = Notation(unescape, _write)
_ATTRIBUTES = {'"': _UNQUOTED, "'": Notation(unescape, partial(_write, quote="'"))}


def _languages(text: str) -> list[tuple[int, int]]:
    """Where the page says its language; not in a comment."""
    head = _COMMENT.sub(lambda found: " " * len(found[0]), text[: _HEAD * 4])
    tag = _HTML.search(head)
    return [] if tag is None else [found.span(1) for found in _LANG.finditer(head, *tag.span())]


def _declared(raw: bytes) -> str | None:
    """The encoding that a page says it is in; None where Python does not know it, and for UTF-16, which a
    page that can be read so cannot be in."""
    found = _CHARSET.search(_COMMENTS.sub(b"", raw[:_HEAD]))
    if found is None:
        return None
    name = (found[1] or found[2]).decode("ascii", "replace").lower()
    try:
        check_encoding(name)
    except ValueError:
        return None
    name = codecs.lookup(name).name
    if name.startswith(("utf-16", "utf-32")):
        return None
    if name in ("iso8859-1", "ascii"):  # browsers read both as Windows' own, which lacks five bytes
        return "latin-1" if re.search(rb"[\x81\x8d\x8f\x90\x9d]", raw) else "cp1252"
    return name


_COMMENTS = re.compile(rb"<!--.*?-->", re.DOTALL)
FORMAT = HtmlFormat()
