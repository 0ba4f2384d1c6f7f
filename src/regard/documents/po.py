"""gettext's catalogues, PO and POT: entries without a translation get one, marked fuzzy; the rest stays.

    #, python-format                      # regard: numbers
                                          #, fuzzy, python-format
    msgid "%d files"                ->    msgid "%d files"
    msgstr ""                             msgstr "%d Dateien"

Of an entry with plural forms, the singular and the plural are segments. As many forms are written as the
language has: that of one thing gets the singular, every other one the plural; forms that are there stay. A
fuzzy entry counts as a draft, but as new where the catalogue says that it was made for another text
(#| msgid, which goes with that translation), or where `fuzzy = "new"`. A comment says what is flagged, until
the entry gets another translation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from regard.config import check_choices, from_dict
from regard.documents.base import Result, Segment, State, as_it_is
from regard.documents.plurals import Plurals, plurals_of
from regard.documents.po_entries import Catalogue, Entry, read_catalogue
from regard.documents.po_writing import header_edits, text_lines
from regard.text import DataError, Origin
from regard.text.markup import read_block
from regard.text.scanning import Syntax


@dataclass(frozen=True, slots=True)
class _Place:
    entry: Entry
    plural: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class PoSettings:
    fuzzy: Literal["keep", "new"] = "keep"
    """Of entries that are fuzzy: keep what they have, or translate them too. Those that were made for another
    text are translated in any case."""
    target_language: str | None = None

    def __post_init__(self) -> None:
        check_choices(self)


class Po:
    name = "po"
    endings = (".po", ".pot")
    settings = tuple(each.name for each in fields(PoSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> "OpenedPo":
        return OpenedPo(read_catalogue(raw, file), from_dict(PoSettings, settings))


class OpenedPo:
    def __init__(self, catalogue: Catalogue, settings: PoSettings) -> None:
        self._catalogue, self._anew = catalogue, settings.fuzzy == "new"
        self.source_language: str | None = None
        self.target_language: str | None = catalogue.header.get("Language") or None
        self._plurals = self._find_plurals(settings.target_language)
        self._places: list[_Place] = []
        plain = Syntax(kind="text", tags=True)
        printf = replace(plain, printf=True)
        found: list[Segment] = []
        for entry in catalogue.entries:
            forms = [(entry.msgid, False)]
            if entry.msgid_plural is not None:
                forms.append((entry.msgid_plural, True))
            for text, plural in forms:
                if not text.strip():
                    continue
                place = _Place(entry, plural)
                self._places.append(place)
                found.append(
                    Segment(
                        key=f"{entry.context or ''}\x04{entry.msgid}" + ("\x04plural" if plural else ""),
                        line=entry.line,
                        block=read_block(text, printf if entry.printf else plain),
                        source=text,
                        target=entry.forms.get(self._form(place), ""),
                        state=self._state(place),
                        context=entry.context or "",
                        forms=self._all_forms(entry) if plural else (),
                        mark=catalogue.remarked(entry) or None,
                    )
                )
        self.segments: Sequence[Segment] = found

    def _find_plurals(self, told: str | None) -> Plurals | None:
        said = self._catalogue.header.get("Plural-Forms", "")
        if said and "INTEGER" not in said:
            try:
                return Plurals(said)
            except ValueError as error:
                origin = Origin(self._catalogue.file, self._catalogue.header_line)
                remedy = "write it as in nplurals=2; plural=(n != 1);"
                raise DataError(origin, str(error), "", remedy) from error
        return plurals_of(self.target_language or told)

    def _form(self, place: _Place) -> int:
        """Which of the entry's translations is that of this text."""
        if self._plurals is None:
            return int(place.plural)
        return self._plurals.many if place.plural else self._plurals.one

    def _all_forms(self, entry: Entry) -> tuple[str, ...]:
        count = 2 if self._plurals is None else self._plurals.count
        return tuple(entry.forms.get(form, "") for form in range(count))

    def _stale(self, entry: Entry) -> bool:
        return entry.stale or (self._anew and entry.fuzzy)

    def _state(self, place: _Place) -> State:
        """A plural has all forms but that of one thing."""
        entry, own = place.entry, [self._form(place)]
        if place.plural and self._plurals is not None:
            own += [form for form in range(self._plurals.count) if form != self._plurals.one]
        if self._stale(entry) or any(not entry.forms.get(form) for form in own):
            return "new"
        return "draft" if entry.fuzzy else "final"

    @property
    def notes(self) -> list[str]:
        return self._catalogue.notes

    def write(self, results: Sequence[Result | None], target_language: str | None = None) -> bytes:
        own: dict[int, dict[bool, Result]] = {}
        for segment, place, result in zip(self.segments, self._places, results, strict=True):
            if result is not None and not as_it_is(segment, result):
                own.setdefault(place.entry.number, {})[place.plural] = result
        lines = [*self._catalogue.lines]
        for number, given in own.items():
            self._write(lines, self._catalogue.entries[number], given, target_language)
        if own:
            header_edits(self._catalogue, lines, self.target_language or target_language, self._plurals)
        return self._catalogue.joined(lines)

    def _write(
        self, lines: list[str], entry: Entry, given: Mapping[bool, Result], target_language: str | None
    ) -> None:
        """The lines of an entry's translations, in the place of the first of them."""
        catalogue, kept = self._catalogue, False
        if entry.msgid_plural is None:
            forms: dict[int | None, str] = {None: given[False].text}
        else:
            plurals = self._plurals or plurals_of(target_language)
            if plurals is None:
                remedy = "write Plural-Forms into its header, or say a language with --to"
                origin = Origin(catalogue.file, entry.line)
                raise DataError(origin, "plural forms of an unknown language", "", remedy)
            stays = {form: self._stays(entry, form, given, plurals) for form in range(plurals.count)}
            kept = any(entry.forms.get(form) for form, own in stays.items() if own)
            forms = {
                form: entry.forms.get(form, "") if own else _text_of(given, form, plurals)
                for form, own in stays.items()
            }
        written: list[str] = []
        for form, text in forms.items():
            name = "msgstr" if form is None else f"msgstr[{form}]"
            written += text_lines(name, text, catalogue.width, catalogue.end)
        first, last = entry.msgstr
        lines[first] = "".join(written)
        lines[first + 1 : last] = [""] * (last - first - 1)
        for number in () if kept else entry.previous:  # of the translation that is gone
            lines[number] = ""
        catalogue.mark(lines, entry, any(each.draft for each in given.values()) or (entry.fuzzy and kept))
        flags = dict.fromkeys(flag for each in given.values() if each.draft for flag in _flags_of(each))
        catalogue.remark(lines, entry, [*flags])

    def _stays(self, entry: Entry, form: int, given: Mapping[bool, Result], plurals: Plurals) -> bool:
        """What is there stays while other forms of the same text are missing."""
        plural = _is_plural(form, plurals)
        missing = not self._stale(entry) and self._state(_Place(entry, plural)) == "new"
        return plural not in given or (missing and bool(entry.forms.get(form)))


def _flags_of(result: Result) -> Sequence[str]:
    return result.flags if result.mark is None else [each for each in result.mark.split(", ") if each]


def _is_plural(form: int, plurals: Plurals) -> bool:
    return form != plurals.one or plurals.count == 1


def _text_of(given: Mapping[bool, Result], form: int, plurals: Plurals) -> str:
    result = given[_is_plural(form, plurals)]
    taken = result.forms[form] if len(result.forms) == plurals.count else ""
    return taken or result.text
