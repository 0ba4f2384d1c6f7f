"""Files of strings: JSON, ARB, Java's .properties, Apple's .strings. Keys, order, comments and layout stay.

    "bag": "Where is my \\"bag\\"?"         JSON, nested; {{x}} and $t(x) of i18next are kept
    bag = Where is my bag?                 .properties: escapes, continued lines, ISO-8859-1
    "bag" = "Where is my bag?";            .strings

Each string is one segment, or one for each of its lines (`values.py`); it is called by its path of keys.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from regard.config import from_dict
from regard.documents.base import Result
from regard.documents.splicing import REMEDY, Site, Source, Spliced
from regard.documents.values import Escapes, StringsSettings, Value, value_sites
from regard.text import DataError, Origin
from regard.text.scanning import DEEPEST

PAIR = r"\\[uU][dD][89abAB][0-9a-fA-F]{2}\\[uU][dD][c-fC-F][0-9a-fA-F]{2}"
"""Two escapes for one character beyond 16 bits."""
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "0": "\0", "a": "\a", "v": "\v"}
_WRITTEN = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def read_escape(escape: str) -> str:
    """A backslash and what follows, as most languages mean it. Half a pair of surrogates is no character."""
    if escape[1] in "uU":
        units = bytes.fromhex("".join(re.findall(r"\\[uU]([0-9a-fA-F]{4})", escape)))
        return units.decode("utf-16-be", "replace")
    return _SHORT.get(escape[1], escape[1:])


def hexadecimal(text: str, sign: str = "\\u") -> str:
    r"""Everything beyond ASCII as \uXXXX."""
    units = "".join(
        char if char < "\x80" else re.sub("(....)", r"%\1", char.encode("utf-16-be").hex()) for char in text
    )
    return re.sub("%(....)", lambda found: sign + found[1], units) if not text.isascii() else text


@dataclass(frozen=True, kw_only=True, slots=True)
class ArbSettings(StringsSettings):
    quotes: bool = False
    """Of ICU messages: apostrophes quote braces, and are doubled (use-escaping of Flutter's l10n.yaml)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonSettings(ArbSettings):
    icu: bool | None = None
    """Strings are ICU messages, as those of FormatJS are. Unless given, those with branches are."""


# JSON

_TOO_DEEP = f"JSON nested too deeply: more than {DEEPEST} collections within each other"
_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)
_BRANCHES = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,")
_JSON_ESCAPE = re.compile(rf"{PAIR}|\\u[0-9a-fA-F]{{4}}|\\.")


class JsonFormat:
    name = "json"
    endings = (".json",)
    settings = tuple(each.name for each in fields(JsonSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> Spliced:
        own = from_dict(JsonSettings, settings)
        return Spliced(*_json(raw, file, own, icu=own.icu, quotes=own.quotes))


class OpenedArb(Spliced):
    def __init__(self, source: Source, sites: list[Site]) -> None:
        strings = _json_strings(source)
        languages = [(start, end) for path, start, end in strings if path == ["@@locale"]]
        super().__init__(source, sites, languages=languages)

    def write(self, results: Sequence[Result | None], target_language: str | None = None) -> bytes:
        """A language is written as Flutter wants it: pt_BR."""
        return super().write(results, None if target_language is None else target_language.replace("-", "_"))


class ArbFormat:
    """JSON whose values are ICU messages; keys that begin with @ say things about others."""

    name = "arb"
    endings = (".arb",)
    settings = tuple(each.name for each in fields(ArbSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> OpenedArb:
        own = from_dict(ArbSettings, settings)
        return OpenedArb(*_json(raw, file, own, icu=True, quotes=own.quotes, arb=True))


def _json(
    raw: bytes, file: str, own: StringsSettings, *, icu: bool | None, quotes: bool, arb: bool = False
) -> tuple[Source, list[Site]]:
    source = Source.read(raw, file, own.encoding)
    try:
        json.loads(source.text.removeprefix("\ufeff"), parse_int=str)  # of any length
    except json.JSONDecodeError as error:
        raise DataError(Origin(file, error.lineno), f"no JSON: {error.msg}", remedy=REMEDY) from None
    except RecursionError:
        raise source.error(0, _TOO_DEEP) from None
    escaped = source.text.removeprefix("\ufeff").isascii() and "\\u" in source.text
    escapes = Escapes(_JSON_ESCAPE, read_escape, lambda text: json.dumps(text, ensure_ascii=escaped)[1:-1])
    sites: list[Site] = []
    for path, start, end in _json_strings(source):
        key = ".".join(path)
        if own.wants(key) and not (arb and any(each.startswith("@") for each in path)):
            value = Value.read(source, [(start, end)], escapes)
            message = bool(_BRANCHES.search(source.text, start, end)) if icu is None else icu
            sites += value_sites(value, escapes, key, icu=message, quotes=message and quotes)
    return source, sites


def _json_strings(source: Source) -> Iterator[tuple[list[str], int, int]]:
    """Strings that are values: their paths of keys, and where they stand without their quotes."""
    text = source.text
    path: list[str | int] = []
    closing: list[str] = []
    key = False
    for found in _JSON.finditer(text):
        match found[0]:
            case "{" | "[" as opening:
                if len(path) == DEEPEST:
                    raise source.error(found.start(), _TOO_DEEP)
                closing.append(opening)
                path.append("" if opening == "{" else 0)
                key = opening == "{"
            case "}" | "]":
                closing.pop()
                path.pop()
                key = False
            case ",":
                key = closing[-1] == "{"
                if isinstance(last := path[-1], int):
                    path[-1] = last + 1
            case ":":
                key = False
            case string if key:
                path[-1] = json.loads(string, strict=False)
            case _:
                yield [str(each) for each in path], found.start() + 1, found.end() - 1


# .properties

_LOGICAL = re.compile(r"(?:[^\\\r\n]|\\(?:\r\n|[\s\S]))*", re.DOTALL)
_BLANK = r"(?:[ \t\f]|\\(?:\r\n|\r|\n))*+"
_ENTRY = re.compile(rf"{_BLANK}((?:[^\\\s=:]|\\(?:\r\n|[\s\S]))+){_BLANK}[=:]?{_BLANK}")
_PROPERTY_ESCAPE = re.compile(rf"{PAIR}|\\u[0-9a-fA-F]{{4}}|\\(?:\r\n|\r|\n)[ \t\f]*|\\[\s\S]")
_NUMBERED = re.compile(r"\{\d")


class PropertiesFormat:
    """UTF-8 where it is such, else ISO-8859-1, as Java reads it; what is beyond ASCII in a file that has only
    ASCII becomes \\uXXXX, which both know. A value with {0} in it is one of MessageFormat: apostrophes are
    doubled."""

    name = "properties"
    endings = (".properties",)
    settings = tuple(each.name for each in fields(StringsSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> Spliced:
        own = from_dict(StringsSettings, settings)
        encoding = own.encoding or ("utf-8" if _is_utf8(raw) else "latin-1")
        source = Source.read(raw, file, encoding)
        plain = "ascii" if source.text.removeprefix("\ufeff").isascii() else source.encoding

        def write(text: str) -> str:
            text = re.sub(r"[\\\n\r\t\f]", lambda found: _WRITTEN.get(found[0], "\\\\"), text)
            return "".join(char if _has(plain, char) else hexadecimal(char) for char in text)

        escapes = Escapes(_PROPERTY_ESCAPE, _read_property, write)
        sites: list[Site] = []
        for key, start, end in _properties(source):
            if own.wants(key):
                value = Value.read(source, [(start, end)], escapes)
                message = _NUMBERED.search(value.text) is not None
                sites += value_sites(value, escapes, key, icu=message, quotes=message)
        return Spliced(source, sites)


def _properties(source: Source) -> Iterator[tuple[str, int, int]]:
    at = 0
    text = source.text
    while at < len(text):
        if text[at] in " \t\f\r\n\ufeff":
            at += 1
        elif text[at] in "#!":
            at = next((i for i in range(at, len(text)) if text[i] in "\r\n"), len(text))
        else:
            end = _LOGICAL.match(text, at).end()  # type: ignore[union-attr]  # it matches anything
            if (broken := re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})", text[at:end])) is not None:
                raise source.error(at + broken.start(), "malformed \\uXXXX")
            entry = _ENTRY.match(text, at, end)
            if entry is not None:
                key = _PROPERTY_ESCAPE.sub(lambda found: _read_property(found[0]), entry[1])
                yield key, entry.end(), end
            at = max(end, at + 1)


def _read_property(escape: str) -> str:
    return "" if escape[1] in "\r\n" else read_escape(escape) if escape[1] in "utnrf" else escape[1:]


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _has(encoding: str, char: str) -> bool:
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


# .strings

_STRINGS = re.compile(
    r"""(?P<skip>\s+|/\*.*?\*/|//[^\n\r]*|\ufeff)|(?P<text>"(?:[^"\\]|\\.)*"|[\w.$/:-]+)|(?P<sign>[=;])""",
    re.DOTALL,
)
_APPLE_ESCAPE = re.compile(rf"{PAIR}|\\[uU][0-9a-fA-F]{{4}}|\\[\s\S]")


class StringsFormat:
    name = "strings"
    endings = (".strings",)
    settings = tuple(each.name for each in fields(StringsSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> Spliced:
        own = from_dict(StringsSettings, settings)
        source = Source.read(raw, file, own.encoding or _wide(raw))
        escapes = Escapes(_APPLE_ESCAPE, _read_apple, _write_apple)
        sites: list[Site] = []
        for key, start, end in _strings(source):
            if own.wants(key):
                sites += value_sites(Value.read(source, [(start, end)], escapes), escapes, key)
        return Spliced(source, sites)


def _strings(source: Source) -> Iterator[tuple[str, int, int]]:
    tokens: list[re.Match[str]] = []
    at = 0
    while at < len(source.text):
        found = _STRINGS.match(source.text, at)
        if found is None:
            raise source.error(at, "neither a string, a comment, = nor ;:", repr(source.text[at : at + 20]))
        at = found.end()
        if found["skip"] is not None:
            continue
        tokens.append(found)
        if found[0] == ";":
            shape = "".join("t" if each["text"] is not None else each[0] for each in tokens)
            if shape not in ("t=t;", "t;"):
                raise source.error(tokens[0].start(), 'an entry is no "key" = "value";')
            value = tokens[-2]
            if value[0].startswith('"'):
                key = _APPLE_ESCAPE.sub(lambda each: _read_apple(each[0]), tokens[0][0].strip('"'))
                yield key, value.start() + 1, value.end() - 1
            tokens = []
    if tokens:
        raise source.error(tokens[0].start(), "an entry has no end", remedy="write a ; behind it")


def _read_apple(escape: str) -> str:
    return read_escape(escape) if len(escape) > 2 or escape[1] not in "uU" else escape[1:]


def _write_apple(text: str) -> str:
    return re.sub(r'[\\"\n\r\t\f]', lambda found: _WRITTEN.get(found[0], "\\" + found[0]), text)


def _wide(raw: bytes) -> str | None:
    """UTF-16 without a byte order mark: older files have none."""
    if len(raw) >= 2 and raw[0] == 0 and raw[1] != 0:
        return "utf-16-be"
    return "utf-16-le" if len(raw) >= 2 and raw[1] == 0 and raw[0] != 0 else None


JSON, ARB, PROPERTIES, STRINGS = JsonFormat(), ArbFormat(), PropertiesFormat(), StringsFormat()
