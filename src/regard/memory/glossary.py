"""Glossaries: terms whose translation is laid down, from files or from a memory.

    term         translation     do_not_translate   case
    station      Hauptbahnhof
    Fraunhofer                   yes                exact

Tables (TSV, CSV) have these columns, by a header or in this order (`source` and `target` are names too, and
so are the languages). A term without a translation is not to be translated. TBX: the terms of two languages
of an entry; all become the preferred one or, if none is, first becomes first. None becomes a deprecated one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from regard.config import ConfigError
from regard.memory.rows import ending, scan_rows
from regard.memory.segments import chosen_pairs
from regard.memory.store import Memory
from regard.text.elements import Element
from regard.text.records import DataError, OnError, Origin, Skipped, sift
from regard.text.terms import Terms
from regard.text.tmx import normal_language, same_language, xml_elements

Case = Literal["usual", "exact", "any"]
"""Whether case counts where a term is looked for: usually, but a capital may begin it, or all be capitals;
always; or never."""
TABLES, TBX, MEMORIES = (".tsv", ".csv"), (".tbx",), (".db", ".sqlite")
LONGEST = 1024
"""Characters of a term."""

_KNOWN = {
    "term": {"term", "source"},
    "translation": {"translation", "target"},
    "do_not_translate": {"do_not_translate", "dnt"},
    "case": {"case"},
}
_YES, _NO = {"1", "yes", "true", "x"}, {"", "0", "no", "false"}


@dataclass(frozen=True, slots=True)
class Entry:
    term: str
    translation: str
    """Empty: it stays as it is."""
    case: Case = "usual"


@dataclass(frozen=True, slots=True)
class Glossary:
    """Terms of one pair of languages."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, given: "Glossary | Mapping[str, str] | str | Path") -> "Glossary":
        """A glossary as it is; a mapping of terms to translations; or a file."""
        if isinstance(given, Glossary):
            return given
        if isinstance(given, Mapping):
            return cls(tuple(Entry(term, translation) for term, translation in given.items()))
        return read_glossary(given)

    @property
    def terms(self) -> Terms:
        return Terms(
            {each.term: each.translation or each.term for each in self.entries},
            exact={each.term for each in self.entries if each.case == "exact"},
            any_case={each.term for each in self.entries if each.case == "any"},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GlossarySettings:
    source: str | None = None
    target: str | None = None
    """Languages; needed where a file has several pairs of them."""
    likely: tuple[str | None, str | None] = (None, None)
    """What they are taken to be where that is not said and a file has several, or may be read both ways."""
    encoding: str | None = None
    """Of the file; unless given, UTF-8, or what TBX says itself."""
    separator: str | None = None
    """Between the cells of a table; unless given, a tab (TSV), or a comma, or a semicolon (CSV)."""

    @property
    def guessed(self) -> tuple[str | None, str | None]:
        return self.source or self.likely[0], self.target or self.likely[1]


def read_glossary(
    path: str | Path,
    *,
    source: str | None = None,
    target: str | None = None,
    settings: GlossarySettings | None = None,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Glossary:
    """Of a file: TSV, CSV, TBX, or a memory (.db). Languages are needed where it has several pairs of
    them."""
    settings = settings or GlossarySettings(source=source, target=target)
    kind = ending(path)
    if kind in MEMORIES:
        return _from_memory(Path(path), settings)
    found: Iterable[Entry | DataError]
    if kind in TABLES:
        found = _from_table(path, settings)
    elif kind in TBX:
        found = _from_tbx(path, settings)
    else:
        listed = ", ".join((*TABLES, *TBX, *MEMORIES))
        raise ConfigError(f"{path}: a glossary is read from {listed}")
    entries = {each.term: each for each in sift(found, on_error, skipped)}  # the last of a term
    if not entries:
        raise DataError(Origin(str(path)), "a glossary without terms", remedy="give one that has some")
    return Glossary(tuple(entries.values()))


def _entry(term: str, translation: str, case: str, origin: Origin) -> Entry | DataError:
    if not term:
        return DataError(origin, "no term")
    if max(len(term), len(translation)) > LONGEST:
        return DataError(origin, f"a term of more than {LONGEST} characters")
    if case and case not in get_args(Case):
        return DataError(origin, "an unknown case", f"{case!r:.40}: choose from {', '.join(get_args(Case))}")
    return Entry(term, translation, cast(Case, case or "usual"))


def _from_table(path: str | Path, settings: GlossarySettings) -> Iterator[Entry | DataError]:
    rows = scan_rows(
        path,
        _KNOWN,
        tuple(_KNOWN),
        languages=settings.guessed,
        encoding=settings.encoding or "utf-8",
        separator=settings.separator,
    )
    for row in rows:
        if isinstance(row, DataError):
            yield row
            continue
        own, stays = row.cells, row.cells["do_not_translate"].lower()
        if stays not in _YES | _NO:
            yield DataError(row.origin, "do_not_translate is neither yes nor no", f"but {stays!r:.40}")
        elif stays in _YES and own["translation"] not in ("", own["term"]):
            yield DataError(row.origin, "a translation of what is not to be translated")
        else:
            yield _entry(own["term"], own["translation"], own["case"].lower(), row.origin)


def _from_tbx(path: str | Path, settings: GlossarySettings) -> Iterator[Entry | DataError]:
    languages: tuple[str, str] | None = None
    for element in xml_elements(path, ("termEntry", "conceptEntry"), encoding=settings.encoding):
        if isinstance(element, DataError):
            yield element
            continue
        origin = Origin(str(path), element.line)
        sections = [*element.find("langSet", "langSec")]
        if languages is None:
            codes = [each.attributes.get("lang", "") for each in sections]
            languages = _languages(codes, settings, origin)
        first, second = (_sections(sections, code) for code in languages)
        if not (first and second):
            continue  # an entry of other languages
        translations = [term for section in second for term in _terms(section)]
        if not translations:
            yield DataError(origin, "an entry without a term")
            continue
        best = min(status for _, status in translations)
        wanted = [term for term, status in translations if status == best and status < DEPRECATED]
        for section in first if wanted else ():
            for place, (term, _) in enumerate(_terms(section)):
                yield _entry(term, wanted[min(place, len(wanted) - 1)], "", origin)


def _languages(codes: Sequence[str], settings: GlossarySettings, origin: Origin) -> tuple[str, str]:
    """Those that are meant: of an entry of two, if one is known the other is the other one."""
    source, target = settings.source, settings.target
    if source is not None and target is not None:
        return source, target
    if len(codes) == 2:
        ways = [(codes[0], codes[1]), (codes[1], codes[0])]
        if source is None and target is None:
            return next((way for way in ways if _agree(way, settings.likely)), ways[0])
        known = [way for way in ways if _agree(way, (source, target))]
        if known:
            return known[0]
    if all(any(code and same_language(own, code) for own in codes) for code in settings.guessed):
        return str(settings.guessed[0]), str(settings.guessed[1])
    there = ", ".join(codes) or "none"
    raise DataError(origin, "which languages?", f"There is {there}", "give the source's and the target's")


def _agree(pair: tuple[str, str], known: tuple[str | None, str | None]) -> bool:
    return all(code is None or same_language(own, code) for own, code in zip(pair, known, strict=True))


def _sections(sections: Sequence[Element], code: str) -> list[Element]:
    """All of a language, those first that spell it so."""
    found = [each for each in sections if same_language(each.attributes.get("lang", ""), code)]
    return sorted(
        found, key=lambda each: normal_language(each.attributes.get("lang", "")) != normal_language(code)
    )


PREFERRED, ADMITTED, DEPRECATED = 0, 1, 2
"""What a termbase says of a term."""


def _terms(section: Element) -> list[tuple[str, int]]:
    """Each with its status."""
    groups = [*section.find("tig", "ntig", "termSec")] or [section]
    return [
        (" ".join(each.text.split()), _status(group))
        for group in groups
        for each in group.find("term")
        if each.text.strip()
    ]


def _status(group: Element) -> int:
    for note in group.find("termNote", "administrativeStatus", "normativeAuthorization"):
        kind = note.attributes.get("type", note.name)
        if kind in ("administrativeStatus", "normativeAuthorization"):
            said = note.text.strip().lower()
            if said.startswith("preferred"):
                return PREFERRED
            if said.startswith(("deprecated", "superseded")):
                return DEPRECATED
    return ADMITTED


def _from_memory(path: Path, settings: GlossarySettings) -> Glossary:
    with Memory(path) as memory:
        every = memory.terms()
    pairs = sorted({(row[0], row[1]) for row in every})
    chosen = chosen_pairs(pairs, (settings.source, settings.target), settings.likely)
    if not pairs:
        raise ConfigError(f"{path}: no terms; regard memory import terms.tbx {path} --glossary puts some in")
    if not chosen:
        wanted = ":".join(code or "any" for code in settings.guessed)
        raise ConfigError(f"{path}: no terms of {wanted}; it has {_listed(pairs)}")
    if len(chosen) > 1 and (settings.source is None or settings.target is None):
        raise ConfigError(f"{path}: terms of several pairs of languages ({_listed(chosen)}); say which")
    rows = [row for row in every if row[:2] in chosen]
    return Glossary(tuple(Entry(term, text, cast(Case, case)) for _, _, term, text, case in rows))


def _listed(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{one}:{other}" for one, other in pairs)


def import_glossary(
    path: str | Path,
    memory: str | Path,
    source: str,
    target: str,
    *,
    encoding: str | None = None,
    separator: str | None = None,
    on_error: OnError = "raise",
) -> tuple[int, Skipped]:
    """The terms of a file into a memory; how many there were, and what was skipped."""
    skipped = Skipped()
    settings = GlossarySettings(source=source, target=target, encoding=encoding, separator=separator)
    found = read_glossary(path, settings=settings, on_error=on_error, skipped=skipped)
    with Memory(memory, create=True) as opened:
        count = opened.add_terms(
            normal_language(source),
            normal_language(target),
            ((each.term, each.translation, each.case) for each in found.entries),
        )
    return count, skipped
