"""Strings of a gettext catalogue, wrapped as gettext wraps them; and what its header has to say."""

import re
import unicodedata

from regard.documents.plurals import Plurals, plurals_of
from regard.documents.po_entries import PLAIN, Catalogue

_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\"} | {char: f"\\{name}" for name, char in PLAIN.items()})


def text_lines(name: str, text: str, width: int | None, end: str) -> list[str]:
    """`width` None: only where the text itself has lines."""
    whole = text.translate(_ESCAPES)
    one = f'{name} "{whole}"'
    inner = "\n" in text[:-1]
    if not inner and (width is None or _wide(one) <= width or " " not in whole.strip()):
        return [one + end]
    lines = [
        f'"{part}"{end}' for line in re.split(r"(?<=\n)", text) if line for part in _wrapped(line, width)
    ]
    return [f'{name} ""{end}', *lines]


def _wrapped(line: str, width: int | None) -> list[str]:
    if width is None:
        return [line.translate(_ESCAPES)]
    parts: list[str] = []
    for word in re.findall(r"\s*\S+\s*|\s+", line):
        written = word.translate(_ESCAPES)
        if parts and _wide(parts[-1]) + _wide(written.rstrip(" ")) + 2 <= width:
            parts[-1] += written
        else:
            parts.append(written)
    return parts


def _wide(text: str) -> int:
    """Columns that a text takes."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def header_edits(
    catalogue: Catalogue, lines: list[str], language: str | None, plurals: Plurals | None
) -> None:
    """What a template's header leaves open is said: charset, language, plural forms."""
    header = catalogue.header_entry
    if header is None:
        return
    first, last = header.msgstr
    plurals = plurals or plurals_of(language)
    said = catalogue.header
    for number in range(first, last):
        lines[number] = lines[number].replace("charset=CHARSET", "charset=UTF-8")
        if language and not said.get("Language"):
            lines[number] = _replaced(lines[number], r'"Language:\s*\\n"', f'"Language: {language}\\n"')
        if plurals and "INTEGER" in said.get("Plural-Forms", ""):
            rule = f'"Plural-Forms: {plurals.rule}\\n"'
            lines[number] = _replaced(lines[number], r'"Plural-Forms:[^"]*"', rule)
    missing = []
    if language and "Language" not in said:
        missing.append(f'"Language: {language}\\n"{catalogue.end}')
    if plurals and "Plural-Forms" not in said and any(each.msgid_plural for each in catalogue.entries):
        missing.append(f'"Plural-Forms: {plurals.rule}\\n"{catalogue.end}')
    text = header.forms.get(0, "")
    if missing and text and not text.endswith("\n"):  # else the last line would go on
        lines[last - 1] = _replaced(lines[last - 1], r'"(?=\s*$)', '\\n"')
    if not lines[last - 1].endswith("\n"):
        lines[last - 1] += catalogue.end
    lines[last - 1] += "".join(missing)


def _replaced(line: str, pattern: str, text: str) -> str:
    return re.sub(pattern, lambda _: text, line)
