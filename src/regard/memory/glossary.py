"""Glossaries: terms whose translation is laid down, from files or from a memory.

    term         translation     do_not_translate   case
    station      Hauptbahnhof
    Fraunhofer                   yes                exact

Tables (TSV, CSV) have these columns, by a header or in this order (`source` and `target` are names too). A
term without a translation is not to be translated. TBX: the terms of two languages of an entry, first with
first.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from regard.config import ConfigError
from regard.memory.rows import ending, scan_rows
from regard.memory.store import Memory
from regard.text.elements import Element, scan_elements
from regard.text.records import DataError, OnError, Origin, Skipped, sift
from regard.text.terms import Terms
from regard.text.tmx import normal_language, same_language

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


def read_glossary(
    path: str | Path,
    *,
    source: str | None = None,
    target: str | None = None,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Glossary:
    """Of a file: TSV, CSV, TBX, or a memory (.db). Languages are needed where it has several pairs of
    them."""
    kind = ending(path)
    if kind in MEMORIES:
        return _from_memory(Path(path), source, target)
    found: Iterable[Entry | DataError]
    if kind in TABLES:
        found = _from_table(path)
    elif kind in TBX:
        found = _from_tbx(path, source, target)
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


def _from_table(path: str | Path) -> Iterator[Entry | DataError]:
    for row in scan_rows(path, _KNOWN, tuple(_KNOWN)):
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


def _from_tbx(path: str | Path, source: str | None, target: str | None) -> Iterator[Entry | DataError]:
    languages = None if source is None or target is None else (source, target)
    for element in scan_elements(path, ("termEntry", "conceptEntry")):
        if isinstance(element, DataError):
            yield element
            continue
        origin = Origin(str(path), element.line)
        sections = [*element.find("langSet", "langSec")]
        codes = [each.attributes.get("lang", "") for each in sections]
        if languages is None:
            if len(codes) != 2:
                there = ", ".join(codes) or "none"
                raise DataError(
                    origin, "which languages?", f"There is {there}", "give the source's and the target's"
                )
            languages = codes[0], codes[1]
        first, second = (
            next((each for each in sections if same_language(each.attributes.get("lang", "x"), code)), None)
            for code in languages
        )
        if first is None or second is None:
            continue  # an entry of other languages
        translations = _terms(second)
        if not translations:
            yield DataError(origin, "an entry without a term")
            continue
        for place, term in enumerate(_terms(first)):
            yield _entry(term, translations[min(place, len(translations) - 1)], "", origin)


def _terms(section: Element) -> list[str]:
    return [" ".join(each.text.split()) for each in section.find("term") if each.text.strip()]


def _from_memory(path: Path, source: str | None, target: str | None) -> Glossary:
    with Memory(path) as memory:
        rows = [
            row
            for row in memory.terms()
            if (source is None or same_language(row[0], source))
            and (target is None or same_language(row[1], target))
        ]
    pairs = sorted({(row[0], row[1]) for row in rows})
    if len(pairs) > 1 and (source is None or target is None):
        listed = ", ".join(f"{one}:{other}" for one, other in pairs)
        raise ConfigError(f"{path}: terms of several pairs of languages ({listed}); say which")
    if not rows:
        raise ConfigError(f"{path}: no terms; regard memory import terms.tbx {path} --glossary puts some in")
    return Glossary(tuple(Entry(term, text, cast(Case, case)) for _, _, term, text, case in rows))


def import_glossary(
    path: str | Path, memory: str | Path, source: str, target: str, *, on_error: OnError = "raise"
) -> tuple[int, Skipped]:
    """The terms of a file into a memory; how many there were, and what was skipped."""
    skipped = Skipped()
    found = read_glossary(path, source=source, target=target, on_error=on_error, skipped=skipped)
    with Memory(memory, create=True) as opened:
        count = opened.add_terms(
            normal_language(source),
            normal_language(target),
            ((each.term, each.translation, each.case) for each in found.entries),
        )
    return count, skipped
