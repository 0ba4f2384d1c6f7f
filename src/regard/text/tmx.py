"""Translation memories as TMX, read and written one unit at a time (TMX 1.4b, LISA 2005).

    <tu changedate="20240131T120000Z">
      <tuv xml:lang="en-US"><seg>Press <bpt i="1">&lt;b></bpt>OK<ept i="1">&lt;/b></ept>.</seg></tuv>
      <tuv xml:lang="de"><seg>...</seg></tuv>
    </tu>

Inline elements (bpt ept ph it ut, and sub inside them) stand for code of the document that a segment came
from. They are dropped ("Press OK."), or kept as that code ("Press <b>OK</b>."); one that is empty is kept as
its own tag. Where a dropped one stands for the end of a line, there is a space. The text of hi is text. A
line break and the blanks around it, which editors put in to make XML look well, are one space.

A broken variant costs those who want its language, and no others.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Literal, TextIO, get_args
from xml.sax.saxutils import escape, quoteattr

from regard.text.elements import Element, scan_elements
from regard.text.files import COMPRESSED, LONGEST
from regard.text.languages import base
from regard.text.records import DataError, OnError, Origin, Pair, Skipped, sift
from regard.text.words import without_spaces

Tags = Literal["drop", "keep"]
"""What becomes of inline elements: nothing, or the code that they stand for."""

LOOKED_AT = 1000
"""Units that tell which languages a file has."""
MACHINE = "regard:machine"
"""The author of what a model wrote and nobody has changed."""
_CODES = {"bpt", "ept", "ph", "it", "ut"}
_DATE = re.compile(r"\d{8}T\d{6}Z")
_BREAK = re.compile(r"</?(?:\w+:)?(?:br|p|lb)\b[^<>]*>|\\n|\n|\\(?:line|par)\b", re.IGNORECASE)
"""Codes that end a line."""
_ENDED = "\0"
"""In the place of such a code; XML cannot hold it."""
_CONTROL = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML cannot hold."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One language of a unit."""

    language: str
    """As the file spells it; empty where it does not say."""
    text: str
    origin: Origin
    date: str = ""
    """Of its last change or, where only that is known, of the unit's."""
    author: str = ""
    fault: DataError | None = None
    """Why it cannot be used."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What means the same in several languages."""

    variants: tuple[Variant, ...]
    origin: Origin
    date: str = ""
    """Of its last change, YYYYMMDDTHHMMSSZ; empty where the file does not say of the unit as a whole."""
    author: str = ""
    source: str = ""
    """The language that the others were translated from, as the file says; empty for any."""

    def variant(self, language: str) -> Variant | None:
        """In this language: spelled so, or else the first that matches."""
        wanted = normal_language(language)
        found = [each for each in self.variants if same_language(each.language, wanted)]
        spelled = [each for each in found if normal_language(each.language) == wanted]
        return next(iter([*spelled, *found]), None)

    def fault(self, *wanted: Variant | None) -> DataError | None:
        """Why those that are wanted, None where there are none, cannot be used. One whose language nobody
        knows might be one that is not there."""
        broken = next((each.fault for each in wanted if each is not None and each.fault is not None), None)
        nameless = next((each for each in self.variants if not each.language), None)
        if broken is None and None in wanted and nameless is not None:
            return DataError(nameless.origin, "a variant without xml:lang")
        return broken


def normal_language(code: str) -> str:
    """en_US and EN-us are en-us."""
    return code.strip().replace("_", "-").lower()


def same_language(one: str, other: str) -> bool:
    """en is en-US and en-GB, which are not each other, and eng, which is en."""
    first, second = sorted((_short(normal_language(code)) for code in (one, other)), key=len)
    return bool(first) and (second == first or second.startswith(f"{first}-"))


def _short(code: str) -> str:
    """With two letters for the language, where it has such a code."""
    language, sign, rest = code.partition("-")
    return f"{base(language)}{sign}{rest}"


def normal_date(date: str) -> str:
    """YYYYMMDDTHHMMSSZ, of that or of ISO 8601: 2024-01-31, 2024-01-31T12:00:00+02:00. Without a time zone it
    is UTC. A ValueError for what is no date."""
    if not date or _DATE.fullmatch(date):
        return date
    found = datetime.fromisoformat(date)
    return f"{found.astimezone(UTC) if found.tzinfo else found:%Y%m%dT%H%M%SZ}"


def is_tmx(path: str | Path) -> bool:
    """By its name, compressed or not."""
    name = Path(path)
    return (name.with_suffix("") if name.suffix in COMPRESSED else name).suffix.lower() == ".tmx"


def scan_tmx(
    path: str | Path, *, tags: Tags = "drop", longest: int = LONGEST, encoding: str | None = None
) -> Iterator[Unit | DataError]:
    """All units, and an error in the place of a broken one. `encoding` is for files that lie about theirs."""
    if tags not in get_args(Tags):
        raise ValueError(f"tags={tags!r} is none of {', '.join(get_args(Tags))}")
    file, source, empty = str(path), "", True
    for found in xml_elements(path, ("header", "tu"), longest=longest, encoding=encoding):
        empty = False
        if isinstance(found, DataError):
            yield found
        elif found.name == "header":
            source = found.attributes.get("srclang", "")
        else:
            yield _unit(found, file, source, tags)
    if empty:
        raise DataError(Origin(file), "no TMX: neither a header nor a unit", remedy="give a TMX file")


def xml_elements(
    path: str | Path, names: Collection[str], *, longest: int = LONGEST, encoding: str | None = None
) -> Iterator[Element | DataError]:
    """Those of `scan_elements`; an encoding that expat does not know is told as one."""
    try:
        yield from scan_elements(path, names, longest=longest, encoding=encoding)
    except (ValueError, LookupError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            Origin(str(path)),
            "XML in an encoding that cannot be read",
            f"({error})",
            "convert it to UTF-8: iconv -t UTF-8, and say so in its first line",
        ) from error


def _unit(element: Element, file: str, source: str, tags: Tags) -> Unit:
    here = Origin(file, element.line)
    date, fault = _dated(element, here)
    author = _author(element)
    variants = []
    for each in element.find("tuv"):
        origin = Origin(file, each.line)
        segment = next(each.find("seg"), None)
        text = "" if segment is None else _text(segment, tags)
        own_date, own_fault = _dated(each, origin)
        if not (own_date or own_fault):
            own_date, own_fault = date, fault
        if segment is None:
            own_fault = DataError(origin, "a variant without a segment")
        elif not text:
            own_fault = DataError(origin, "an empty segment")
        language = each.attributes.get("lang", "").strip()
        variants.append(Variant(language, text, origin, own_date, _author(each) or author, own_fault))
    source = element.attributes.get("srclang", source)
    return Unit(tuple(variants), here, date, author, "" if source.lower() == "*all*" else source)


def _dated(element: Element, origin: Origin) -> tuple[str, DataError | None]:
    date = element.attributes.get("changedate") or element.attributes.get("creationdate") or ""
    try:
        return normal_date(date.strip()), None
    except ValueError:
        return "", DataError(origin, "a date that is not YYYYMMDDTHHMMSSZ", f"({date!r:.40})")


def _author(element: Element) -> str:
    return element.attributes.get("changeid") or element.attributes.get("creationid") or ""


def _text(segment: Element, tags: Tags) -> str:
    text = re.sub(r"\s*\n\s*", " ", _plain(segment, tags)).strip()
    return re.sub(f"{_ENDED}+", _parted, text)


def _parted(ended: re.Match[str]) -> str:
    """A space for the end of a line, where words would be joined without."""
    around = (
        ended.string[max(ended.start() - 1, 0) : ended.start()],
        ended.string[ended.end() : ended.end() + 1],
    )
    return " " if all(char and not char.isspace() and not without_spaces(char) for char in around) else ""


def _plain(element: Element, tags: Tags) -> str:
    parts = []
    for child in element.children:
        if isinstance(child, str):
            parts.append(child)
        elif child.name not in _CODES:
            parts.append(_plain(child, tags))
        elif tags == "keep":
            own = "".join(f" {name}={quoteattr(value)}" for name, value in child.attributes.items())
            parts.append(child.text or f"<{child.name}{own}/>")
        elif child.attributes.get("type") in ("lb", "br") or _BREAK.search(child.text):
            parts.append(_ENDED)
    return "".join(parts)


def read_tmx(
    path: str | Path,
    *,
    source: str,
    target: str,
    tags: Tags = "drop",
    longest: int = LONGEST,
    encoding: str | None = None,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Pair]:
    """The pairs of two languages. A unit that lacks one of them is passed over; a file in which all do is
    refused."""

    def pairs() -> Iterator[Pair | DataError]:
        present: set[str] = set()
        found = False
        for unit in scan_tmx(path, tags=tags, longest=longest, encoding=encoding):
            if isinstance(unit, DataError):
                yield unit
                continue
            first, second = unit.variant(source), unit.variant(target)
            fault = unit.fault(first, second)
            if fault is not None:
                yield fault
            elif first is not None and second is not None and first is not second:
                found = True
                yield Pair(first.text, second.text, first.origin, second.origin)
            elif not found and len(present) < 20:
                present |= {each.language for each in unit.variants}
        if present and not found:
            languages = ", ".join(sorted(present))
            raise DataError(
                Origin(str(path)),
                f"no unit has both {source!r} and {target!r}",
                remedy=f"there is {languages}",
            )

    return sift(pairs(), on_error, skipped)


def tmx_languages(path: str | Path) -> tuple[str, str]:
    """The source language and the other one, of a file whose first units have two."""
    units = islice((each for each in scan_tmx(path) if isinstance(each, Unit)), LOOKED_AT)
    present: dict[str, str] = {}
    source = ""
    for unit in units:
        source = source or unit.source
        for each in filter(lambda variant: variant.language, unit.variants):
            present.setdefault(normal_language(each.language), each.language)
    if len(present) != 2:
        listed = ", ".join(present.values()) or "none"
        remedy = 'name two of them in a recipe: train = ["memory.tmx", "en", "de"]'
        raise DataError(Origin(str(path)), f"which languages? There are {listed}", remedy=remedy)
    first, second = present
    return (second, first) if source and same_language(source, second) else (first, second)


def write_tmx(out: TextIO, units: Iterable[Unit], *, source: str = "*all*") -> int:
    """A file of its own, in UTF-8; how many units it has. Characters that XML cannot hold become U+FFFD."""
    from regard import __version__

    out.write(
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n'
    )
    out.write(
        f'<header creationtool="regard" creationtoolversion="{__version__}" segtype="sentence" '
        f'o-tmf="regard" adminlang="en" srclang={_quoted(source)} datatype="plaintext"/>\n<body>\n'
    )
    count = 0
    for count, unit in enumerate(units, 1):  # noqa: B007  # what is counted is what was written
        own = {"srclang": unit.source, "changedate": unit.date, "changeid": unit.author}
        facts = "".join(f" {name}={_quoted(value)}" for name, value in own.items() if value)
        out.write(f"<tu{facts}>\n")
        for each in unit.variants:
            text = escape(_CONTROL.sub("\ufffd", each.text))
            out.write(f"<tuv xml:lang={_quoted(each.language)}><seg>{text}</seg></tuv>\n")
        out.write("</tu>\n")
    out.write("</body>\n</tmx>\n")
    return count


def _quoted(value: str) -> str:
    return quoteattr(_CONTROL.sub("\ufffd", value))
