"""A file's text, and translations put into it at their places: everything else stays as it is.

    site    where a segment stands            The <b>old</b> <img alt="Station"> closes.
    hole    what of it holds other segments                  ^^^^^^^^^^^^^^^^^^^
                                                                        ^^^^^^^ a site again

A segment's translation has each of its holes again, wherever the words went, and in it the translations of
what the hole holds.
"""

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from regard.documents.base import Result, Segment
from regard.text import DataError, Origin
from regard.text.charsets import MARKS, check_encoding, guess

REMEDY = "correct the file"
_LINE_END = re.compile(r"\r\n?|\n")
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Source:
    """A file that has been decoded, and what encodes it again."""

    file: str
    text: str
    encoding: str = "utf-8"
    starts: list[int] = field(default_factory=list, repr=False)
    """Where its lines begin."""

    @classmethod
    def read(cls, raw: bytes, file: str, encoding: str | None = None) -> "Source":
        """A byte order mark counts more than `encoding`; without both it is UTF-8."""
        if raw.startswith(codecs.BOM_UTF8):
            encoding = "utf-8"  # the mark stays in the text: it is written again like everything else
        elif (mark := next((each for each in MARKS if raw.startswith(each)), None)) is not None:
            encoding = MARKS[mark] + ("-le" if mark[0] == 0xFF else "-be")
        encoding = encoding or "utf-8"
        check_encoding(encoding)
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            likely = guess(raw)
            remedy = f"set encoding={likely!r}, if it is that" if likely else "set encoding, or convert it"
            what = f"invalid {encoding} at byte {error.start}"
            raise DataError(Origin(file, line), what, remedy=remedy) from None
        return cls(file, text, encoding, [0, *(found.end() for found in _LINE_END.finditer(text))])

    def line(self, at: int) -> int:
        return bisect_right(self.starts, at)

    def error(self, at: int, reason: str, particulars: str = "", remedy: str = REMEDY) -> DataError:
        return DataError(Origin(self.file, self.line(at)), reason, particulars, remedy)

    @property
    def line_end(self) -> str:
        """The one that it uses."""
        found = _LINE_END.search(self.text)
        return "\n" if found is None else found[0]

    def with_entities(self, text: str) -> bytes:
        """What the encoding does not have is written as an XML entity."""
        return text.encode(self.encoding, "xmlcharrefreplace")

    def lacks(self, text: str) -> str:
        """A character that its encoding does not have; "" for none."""
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError as error:
            return text[error.start]
        return ""


@dataclass(slots=True, eq=False)
class Site:
    start: int
    end: int
    """In the text of the file."""
    segment: Segment
    holes: "list[Hole]" = field(default_factory=list)
    finish: Callable[[str], str] = str
    """What the file needs around a translation."""


@dataclass(slots=True, eq=False)
class Hole:
    """May stand alone too: a part of the file with what is translated in it."""

    start: int
    end: int
    sites: "list[Site] | list[Site | Hole]"
    finish: Callable[[str], str] = str
    """What the file needs around it once something in it is new: quotes."""


Sites = Sequence[Site | Hole]


def every(sites: Iterable[Site | Hole]) -> Iterator[Site]:
    """Each, and then those in its holes."""
    for site in sites:
        if isinstance(site, Hole):
            yield from every(site.sites)
        else:
            yield site
            yield from every(site.holes)


def numbered(sites: Sites) -> None:
    """Segments are called by their number, where a file has no names for them."""
    for i, site in enumerate(every(sites), 1):
        site.segment = replace(site.segment, key=str(i))


class Splicing:
    """Sites of one text, with a result for each, in the order of `every`; and what else is new, by its place,
    which is in no site."""

    def __init__(
        self, text: str, sites: Sites, results: Sequence[Result | None], new: Mapping[Span, str] | None = None
    ) -> None:
        self._text = text
        self._results = {
            id(site): result for site, result in zip(every(sites), results, strict=True) if result is not None
        }
        parts, done = list[str](), 0
        for (start, end), own in sorted((new or {}).items()):
            parts += [self._span(done, start, [each for each in sites if done <= each.start < start]), own]
            done = end
        last = [each for each in sites if each.start >= done]
        self.out = "".join([*parts, self._span(done, len(text), last)])

    def _span(self, start: int, end: int, sites: Iterable[Site | Hole]) -> str:
        parts: list[str] = []
        for site in sorted(sites, key=lambda each: each.start):
            parts.append(self._text[start : site.start])
            parts.append(self._hole(site) if isinstance(site, Hole) else self._site(site))
            start = site.end
        return "".join((*parts, self._text[start:end]))

    def _hole(self, hole: Hole) -> str:
        text = self._span(hole.start, hole.end, hole.sites)
        return text if text == self._text[hole.start : hole.end] else hole.finish(text)

    def _site(self, site: Site) -> str:
        result = self._results.get(id(site))
        if result is None or result.text == site.segment.source:
            return self._span(site.start, site.end, site.holes)
        filled: dict[str, list[str]] = {}
        for hole in site.holes:
            own = self._text[hole.start : hole.end]
            filled.setdefault(own, []).append(self._hole(hole))
        if not filled:
            return site.finish(result.text)
        pattern = re.compile("|".join(map(re.escape, sorted(filled, key=len, reverse=True))))

        def fill(found: re.Match[str]) -> str:
            return filled[found[0]].pop(0) if filled[found[0]] else found[0]

        return site.finish(pattern.sub(fill, result.text))


class Spliced:
    """A file whose translations are put in the place of what is translated (`Opened`), and the language that
    is translated into in the place of its own, where it says so (`languages`)."""

    target_language: str | None = None
    notes: Sequence[str] = ()
    became: str | None = None

    def __init__(
        self,
        source: Source,
        sites: Sites,
        *,
        missing: Literal["utf-8", "entities"] = "utf-8",
        languages: Sequence[Span] = (),
    ) -> None:
        """`missing`: what the encoding does not have makes the file UTF-8, or is written as an XML entity."""
        self._source, self._sites, self._languages = source, sites, languages
        self.source_language = source.text[slice(*languages[0])] or None if languages else None
        self._missing: Literal["utf-8", "entities"] = missing
        self.segments: Sequence[Segment] = [site.segment for site in every(sites)]

    def write(self, results: Sequence[Result | None], target_language: str | None = None) -> bytes:
        new = dict.fromkeys(self._languages, target_language) if target_language else {}
        out = Splicing(self._source.text, self._sites, results, new).out
        source, self.notes, self.became = self._source, (), None
        if self._missing == "entities":
            return source.with_entities(out)
        if lacking := source.lacks(out):
            self.notes = [f"{source.file}: written in UTF-8, for {source.encoding} has no {lacking!r}"]
            self.became = "utf-8"
        return out.encode(self.became or source.encoding)
