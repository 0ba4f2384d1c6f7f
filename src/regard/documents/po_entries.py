"""Reading a gettext catalogue line by line: which lines an entry has, and what they say.

    # comment  #. extracted  #: file:line  #, flags  #| previous  #~ obsolete
    msgctxt "..."  msgid "..."  msgid_plural "..."  msgstr "..."  msgstr[0] "..."

The encoding is the one that the header names.
"""

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.text import DataError, Origin
from regard.text.charsets import check_encoding

_KEYWORD = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr(?:\[([0-9]{1,3})\])?)\s*(".*)$')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"\s*$')
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CHARSET = re.compile(rb'charset=([\w.:-]+)\\n"')
_NAMED = re.compile(r"charset=[\w.:-]+")
_PRINTF = ("c-format", "objc-format", "python-format", "php-format", "perl-format", "java-printf-format")
_BEFORE = {
    "msgctxt": ("",),
    "msgid": ("", "msgctxt"),
    "msgid_plural": ("msgid",),
    "msgstr": ("msgid", "msgid_plural", "msgstr"),
}
"""What may come before a keyword in an entry."""
REMARK = "# regard: "
"""Before what somebody should look at."""
FIX = "fix the file; msgfmt -c tells more"


@dataclass(slots=True)
class Entry:
    number: int
    line: int
    """Of its msgid, or msgctxt, from 1."""
    context: str | None = None
    msgid: str = ""
    msgid_plural: str | None = None
    forms: dict[int, str] = field(default_factory=dict)
    """Its translations; one that has no plural is 0."""
    msgstr: tuple[int, int] = (0, 0)
    """The lines of these, from 0."""
    flags: tuple[int, ...] = ()
    """The lines of its flags."""
    fuzzy: bool = False
    printf: bool = False
    """Whether its flags say that it is a format."""
    previous: tuple[int, ...] = ()
    """The lines that say what text its translation was made for."""
    mark: int = 0
    """The line before which flags are written."""
    remarks: tuple[int, ...] = ()
    """The lines that say what somebody should look at."""

    @property
    def stale(self) -> bool:
        """Whether its translation was made for another text."""
        return self.fuzzy and bool(self.previous)


@dataclass(slots=True)
class Catalogue:
    file: str
    encoding: str
    bom: bytes
    lines: list[str]
    """With their ends."""
    entries: list[Entry]
    header_entry: Entry | None
    end: str = "\n"
    """Of lines."""
    width: int | None = None
    """Where lines are wrapped; None if they are not."""
    notes: list[str] = field(default_factory=list)
    """What is to be said of what was written."""

    @property
    def header(self) -> dict[str, str]:
        text = "" if self.header_entry is None else self.header_entry.forms.get(0, "")
        pairs = (line.partition(":") for line in text.split("\n") if ":" in line)
        return {name.strip(): value.strip() for name, _, value in pairs}

    @property
    def header_line(self) -> int:
        return 0 if self.header_entry is None else self.header_entry.line

    def mark(self, lines: list[str], entry: Entry, fuzzy: bool) -> None:
        """Flag an entry as fuzzy, or as not."""
        if entry.fuzzy == fuzzy:
            return
        if not fuzzy:
            for number in entry.flags:
                rest = [each for each in _flags(lines[number]) if each != "fuzzy"]
                lines[number] = f"#, {', '.join(rest)}{self.end}" if rest else ""
        elif entry.flags:
            first = entry.flags[0]
            lines[first] = f"#, {', '.join(['fuzzy', *_flags(lines[first])])}{self.end}"
        else:
            lines[entry.mark] = f"#, fuzzy{self.end}" + lines[entry.mark]

    def remark(self, lines: list[str], entry: Entry, flags: Sequence[str]) -> None:
        """Say what somebody should look at, or that there is nothing any more."""
        for number in entry.remarks:
            lines[number] = ""
        if flags:
            place = entry.flags[0] if entry.flags else entry.mark
            told = " ".join(", ".join(flags).split())
            lines[place] = f"{REMARK}{told}{self.end}{lines[place]}"

    def remarked(self, entry: Entry) -> str:
        """What somebody should look at."""
        return ", ".join(
            self.lines[each].strip().removeprefix(REMARK.strip()).strip() for each in entry.remarks
        )

    def joined(self, lines: list[str]) -> bytes:
        """In its encoding; in UTF-8, and called so, if that lacks a character."""
        text = "".join(lines)
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            missing = f"{self.encoding} has no {text[error.start]!r}"
        first, last = (0, 0) if self.header_entry is None else self.header_entry.msgstr
        header = [_NAMED.sub("charset=UTF-8", line) for line in lines[first:last]]
        self.notes = [f"{self.file}: written in UTF-8, for {missing}"]
        return "".join([*lines[:first], *header, *lines[last:]]).encode()


def read_catalogue(raw: bytes, file: str) -> Catalogue:
    """Raises `DataError` with file and line for what gettext would not read."""
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    encoding = _encoding(raw, file)
    try:
        text = raw[len(bom) :].decode(encoding)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        what = f"byte {error.start} is not {encoding}"
        raise DataError(Origin(file, line), "invalid characters:", what, FIX) from error
    except UnicodeError as error:  # of encodings that cannot say where
        raise DataError(Origin(file, 1), "invalid characters:", f"not {encoding}", FIX) from error
    lines = re.split(r"(?<=\n)", text)
    if lines and not lines[-1]:
        lines.pop()
    found = _Reader(file, lines).read()
    header = next((each for each in found if each.msgid == "" and each.context is None), None)
    entries = [each for each in found if each is not header]
    for number, each in enumerate(entries):
        each.number = number
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    return Catalogue(file, encoding, bom, lines, entries, header, end, _width(lines))


def _width(lines: list[str]) -> int | None:
    """gettext's own, unless there is a line that could have been wrapped and was not."""
    texts = (line.strip() for line in lines if line.startswith(("msg", '"')))
    return None if any(len(text) > 90 and " " in text[10:-10] for text in texts) else 79


def _encoding(raw: bytes, file: str) -> str:
    found = _CHARSET.search(raw[:10_000])
    name = "utf-8" if found is None or found[1] == b"CHARSET" else found[1].decode()
    try:
        check_encoding(name)
    except ValueError as error:
        line = 1 if found is None else raw[: found.start()].count(b"\n") + 1
        raise DataError(Origin(file, line), "unknown charset", repr(name), "save it as UTF-8") from error
    return codecs.lookup(name).name


class _Reader:
    def __init__(self, file: str, lines: list[str]) -> None:
        self.file, self.lines = file, lines
        self.found: list[Entry] = []
        self.entry: Entry | None = None
        self.parts: list[str] = []
        """What belongs to one keyword."""
        self.keyword, self.form = "", 0
        self.comments: list[int] = []

    def read(self) -> list[Entry]:
        for number, line in enumerate(self.lines):
            text = line.strip()
            if text.startswith("#"):
                self._finish(number)
                self.comments.append(number)
            elif not text:
                self._finish(number)
                self.comments = []
            elif text.startswith('"'):
                if not self.keyword:
                    raise self._error(number, "a string that belongs to nothing")
                self.parts.append(self._string(number, text))
                self._extend(number)
            else:
                self._begin(number, text)
        self._finish(len(self.lines))
        self._check_once()
        return self.found

    def _begin(self, number: int, text: str) -> None:
        found = _KEYWORD.match(text)
        if found is None:
            raise self._error(number, "not a line of a catalogue:", repr(text[:40]))
        keyword = "msgstr" if found[1].startswith("msgstr") else found[1]
        self._store()
        if keyword == "msgctxt" or (keyword == "msgid" and self.keyword != "msgctxt"):
            self._finish(number)
            self._open(number)
        if self.entry is None or self.keyword not in _BEFORE[keyword]:
            raise self._error(number, f"{keyword} is out of place")
        if keyword == "msgstr":
            if (found[2] is not None) != (self.entry.msgid_plural is not None):
                raise self._error(number, f"{found[1]}: plural forms go with a msgid_plural")
            self.form = int(found[2] or 0)
            if self.form in self.entry.forms:
                raise self._error(number, f"two of {found[1]}")
            if self.keyword != "msgstr":
                self.entry.msgstr = (number, number + 1)
        self.keyword = keyword
        self.parts = [self._string(number, found[3])]
        self._extend(number)

    def _open(self, number: int) -> None:
        entry = Entry(0, number + 1, mark=number)
        for each in self.comments:
            text = self.lines[each]
            if text.startswith("#,"):
                flags = _flags(text)
                entry.flags += (each,)
                entry.fuzzy |= "fuzzy" in flags
                entry.printf |= any(flag in _PRINTF for flag in flags)
            elif text.startswith(REMARK):
                entry.remarks += (each,)
            elif text.startswith("#|"):
                entry.previous += (each,)
                entry.mark = min(entry.mark, each)
        self.entry, self.comments = entry, []

    def _extend(self, number: int) -> None:
        if self.entry is not None and self.keyword == "msgstr":
            self.entry.msgstr = (self.entry.msgstr[0], number + 1)

    def _store(self) -> None:
        """What has been read of a keyword."""
        if self.entry is None or not self.keyword:
            return
        text = "".join(self.parts)
        match self.keyword:
            case "msgctxt":
                self.entry.context = text
            case "msgid":
                self.entry.msgid = text
            case "msgid_plural":
                self.entry.msgid_plural = text
            case "msgstr":
                self.entry.forms[self.form] = text
        self.parts = []

    def _finish(self, number: int) -> None:
        """An entry ends where a comment, an empty line or the next one comes."""
        if self.entry is None:
            return
        self._store()
        if self.keyword != "msgstr":
            raise self._error(number - 1, "an entry without a msgstr")
        self.found.append(self.entry)
        self.entry, self.keyword = None, ""

    def _string(self, number: int, text: str) -> str:
        found = _STRING.match(text)
        if found is None:
            raise self._error(number, "a string that is not closed, or has a quotation mark in it")
        return unescape(found[1])

    def _check_once(self) -> None:
        seen: dict[tuple[str | None, str], int] = {}
        for entry in self.found:
            key = entry.context, entry.msgid
            if key in seen:
                first = f"{entry.msgid[:40]!r}, first on line {seen[key]}"
                raise DataError(Origin(self.file, entry.line), "the same message twice:", first, FIX)
            seen[key] = entry.line

    def _error(self, number: int, reason: str, particulars: str = "") -> DataError:
        return DataError(Origin(self.file, number + 1), reason, particulars, FIX)


def _flags(line: str) -> list[str]:
    return [each.strip() for each in line[2:].split(",") if each.strip()]


def unescape(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        if code[0] in "01234567":
            return chr(int(code, 8))
        return PLAIN.get(code, code)

    return _ESCAPE.sub(meant, text)
