"""Whether two texts have the same numbers, however their languages write them.

    1,000.5   1.000,5   1 000,5   1'000.5     are the same
    1,000     1.000     1000                  too: what a single mark means, nobody knows
    1.05      1,5                             are not, nor are 1,000 and 1,0, nor -5 and 5
    May 5     5月5日                          are the same: a month may be a name

Numbers are compared by their values, wherever in their texts they are; 2 and two are not the same.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_BLANKS = " \u00a0\u2009\u202f"
_MINUS = "[-\u2212\u2013\uff0d]"
_NUMBER = re.compile(
    rf"(?P<minus>(?<![\w.,)%-]){_MINUS}|(?<=[\u0e00-\u0eff\u3040-\u9fff\uac00-\ud7af]){_MINUS})?"
    rf"(?P<digits>\d{{1,3}}(?P<blank>[{_BLANKS}])\d{{3}}(?:(?P=blank)\d{{3}})*(?!\d)(?:[.,]\d+)?"
    r"|\d+(?:[.,'\u2019\u066b\u066c]\d+)*)"
    r"(?P<month>[月월])?"
)
_SAID = re.compile(r"(?:\b(?:minus|moins|menos|meno|минус)\s|マイナス|零下|负|負)$", re.IGNORECASE)
"""A minus in words, which may also mean something else."""
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d{2})+,\d{3}")
"""By thousands or, in India, by hundreds."""

Value = tuple[str, str, str]
"""The sign, the digits before the decimal mark and those behind it."""


@dataclass(frozen=True, slots=True)
class _Number:
    values: frozenset[Value]
    """All that it may mean."""
    month: bool
    """It may be a name in another language."""


def same_numbers(one: str, other: str) -> bool:
    first, second = map(_digits_alike, (one, other))
    if _runs(first) == _runs(second):
        return True  # 10.30 and 10:30
    left = sorted(_numbers(second), key=lambda each: each.month)
    alone = []
    for number in sorted(_numbers(first), key=lambda each: each.month):
        found = next((each for each in left if each.values & number.values), None)
        if found is None:
            alone.append(number)
        else:
            left.remove(found)
    return not (alone and left) and all(each.month for each in alone + left)


def _digits_alike(text: str) -> str:
    """With those of other scripts as 0 to 9."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in text)


def _runs(text: str) -> Counter[tuple[str, str]]:
    """Digits as they stand, the first of a number with its sign."""
    found: Counter[tuple[str, str]] = Counter()
    for match in _NUMBER.finditer(text):
        first, *others = re.findall(r"\d+", match["digits"])
        found.update([("-" if match["minus"] else "", first), *(("", each) for each in others)])
    return found


def _numbers(text: str) -> Iterator[_Number]:
    for match in _NUMBER.finditer(text):
        said = _SAID.search(text, max(match.start() - 12, 0), match.start())
        signs = ("", "-") if said else ("-",) if match["minus"] else ("",)
        for meant in _readings(match["digits"]):
            values = frozenset(
                (sign, whole.lstrip("0") or "0", rest) for whole, rest in meant for sign in signs
            )
            yield _Number(values, match["month"] is not None)


def _readings(written: str) -> list[list[tuple[str, str]]]:
    """The numbers that are written here, one as a rule, with all that each may mean: digits before the
    decimal mark and behind it."""
    plain = re.sub(f"[{_BLANKS}]", "", written)
    parts, marks = re.findall(r"\d+", plain), re.findall(r"\D", plain)
    if not marks:
        return [[(plain, "")]]
    whole, last = "".join(parts[:-1]), parts[-1]
    if len(marks) == 1 and marks[0] in ".,\u066b":
        thousands = len(last) == 3 and len(whole) <= 3 and whole[0] != "0" and marks[0] != "\u066b"
        return [[(whole, last), (whole + last, "")] if thousands and plain == written else [(whole, last)]]
    if len({*marks}) == 1 and _GROUPED.fullmatch(",".join(parts)):
        return [[(whole + last, "")]]
    if marks[-1] not in marks[:-1] and len({*marks[:-1]}) == 1 and _GROUPED.fullmatch(",".join(parts[:-1])):
        return [[(whole, last)]]
    return [[(each, "")] for each in parts]
