"""What the characters of a line tell: its script, and traces of what happened to it before."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_WORDS = re.compile(r"\w+")
_UNSPACED_WORDS = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")

_BEYOND_LATIN = re.compile("[\u0370-\u1dff\u1f00-\u1fff\u2c00-\ud7ff\uf900-\ufaff\ufb10-\ufdff\ufe70-\ufefe]")
_LETTERS = re.compile(r"[^\W\d_]")
_SOME_LETTERS = re.compile(r"(?:[^\W\d_][\W\d_]*){4}")

# What the bytes 0x80 to 0xbf became when they were taken for Windows-1252 or Latin-1. Quotation marks, dashes
# and the ellipsis among them may well follow a capital letter.
_BECAME = "".join(bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xC0)) + "\u0080-\u009f"
_FOLLOWING = re.sub("[\u2013-\u2026\u2039\u203a\u00a0\u00ab\u00bb\u00ad]", "", _BECAME)
_SUSPECT = re.compile("[ÂÃÄÅÎÏÐÑØÙâ\ufffd\u2047\u2581]")
_TRACES = re.compile(
    "(?P<control>[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff])"
    "|(?P<replacement>\ufffd)"
    r"|(?P<unknown><unk>|<UNK>|\[UNK\]|\u2047)"
    rf"|(?P<mojibake>[ÂÃ][{_BECAME}]|[ÄÅÎÏÐÑØÙ][{_FOLLOWING}]|â[\u20ac\u201a\u201e\u0080-\u0084][{_BECAME}])"
    r"|(?P<markup>&(?:[a-zA-Z]{2,8}|\#\d{1,6}|\#x[0-9a-fA-F]{1,5});|</?[a-zA-Z][a-zA-Z0-9]*(?:\s[^<>]*)?/?>)"
    r"|(?P<subwords>(?<=\w)@@(?=\s|$)|(?:^|\s)\u2581\w)"
)


def find_words(text: str) -> list[str]:
    """Words without regard to case; letters, where the script sets no spaces between words."""
    text = text.casefold()
    spaced = text.isascii() or _IS_UNSPACED.search(text) is None
    return (_WORDS if spaced else _UNSPACED_WORDS).findall(text)


def traces(line: str) -> Iterator[tuple[str, str]]:
    """Kinds of damage and what shows it, each kind once: control, replacement, unknown, mojibake, markup,
    subwords."""
    if (
        line.isprintable()
        and "<" not in line
        and "&" not in line
        and "@@" not in line
        and "[UNK]" not in line
        and (line.isascii() or _SUSPECT.search(line) is None)
    ):
        return  # as nearly all do
    seen = set()
    for match in _TRACES.finditer(line):
        kind = str(match.lastgroup)
        if kind not in seen and (kind != "mojibake" or _was_utf8(match[0])):
            seen.add(kind)
            yield kind, match[0]


def script(line: str) -> str:
    """The script of most letters; empty where there are too few to say."""
    if _SOME_LETTERS.search(line) is None:
        return ""
    if line.isascii() or _BEYOND_LATIN.search(line) is None:
        return "LATIN"
    return Counter(map(_script_of, _LETTERS.findall(line))).most_common(1)[0][0]


@lru_cache(maxsize=1 << 16)
def _script_of(letter: str) -> str:
    """Names of letters begin with their script: CYRILLIC SMALL LETTER A. Japanese is written in three."""
    first = unicodedata.name(letter, "UNNAMED").split(" ")[0].split("-")[0]
    return "KANA" if first in ("HIRAGANA", "KATAKANA") else first


def _was_utf8(text: str) -> bool:
    """Whether characters are UTF-8 that was read as Windows-1252 or Latin-1."""
    for encoding in ("cp1252", "latin-1"):
        try:
            text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
        return True
    return False
