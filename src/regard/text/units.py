"""Words, and in scripts that are written without spaces their characters: where tags may go, and lines end.

    The old station     The | old | station
    旧车站很近。         旧 | 车 | 站 | 很 | 近。
    ฉันไป                ฉั | น | ไป

Vowels and marks stay with their consonant, punctuation with what it closes or opens.
"""

import re
from collections.abc import Iterator

Span = tuple[int, int]

UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
_BOUND = (
    r"\u0e30-\u0e3a\u0e45-\u0e4e\u0eb0-\u0ebc\u0ec6-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064"
    r"\u1067-\u106d\u1071-\u1074\u1082-\u108d\u17b4-\u17d3\u17dd\u3005\u3099\u309aーぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ"
)
"""What begins no line: vowels and marks behind a consonant, small kana."""
_LEADING = r"\u0e40-\u0e44\u0ec0-\u0ec4"
"""Vowels before their consonant."""
_STACKED = rf"[\u1039\u17d2][{UNSPACED}]"
_OPENING = r"([{«„“‘「『（《【〈〔"  # noqa: RUF001
_UNIT = re.compile(
    rf"[{_OPENING}]{{0,4}}[{_LEADING}]?[{UNSPACED}](?:{_STACKED}|[{_BOUND}])*(?:(?![{_OPENING}])[^\w\s])*"
    rf"|(?:(?![{_OPENING}]{{0,4}}[{UNSPACED}])\S)+"
)
_WORD = re.compile(r"\S+")


def words(text: str) -> list[Span]:
    """What white space parts."""
    return [found.span() for found in _WORD.finditer(text)]


def units(text: str, span: Span | None = None) -> Iterator[Span]:
    """One after the other, with the punctuation that is at them; all that is no white space is in one."""
    start, end = (0, len(text)) if span is None else span
    return (found.span() for found in _UNIT.finditer(text, start, end))
