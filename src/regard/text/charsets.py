"""How bytes become text: names of encodings and separators, checked; and what a file that is not UTF-8
probably is.

Windows' cp1252 has all letters of Latin-1, and others in the bytes 0x80 to 0x9f, where Latin-1 has control
characters that no text holds: œ, the euro sign, quotation marks, the apostrophe of most text. So cp1252 is
the guess, and Latin-1 never is.
"""

import codecs
import re
from difflib import get_close_matches
from encodings.aliases import aliases

SAMPLE = 1 << 16
"""Bytes that a guess looks at."""

_USUAL = ("utf-8", "cp1252", "latin-1", "utf-16")
MARKS = {  # longer ones first: that of UTF-32 begins like that of UTF-16
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
"""What files of wide characters begin with."""
_CHARACTERS = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_HIGH = re.compile(rb"[\x80-\xff]")
_LETTERS = re.compile(rb"[A-Za-z]")
_ENOUGH = 20


def check_encoding(name: str, called: str = "encoding=") -> None:
    """Raise for what is no encoding of text; the error begins as it was `called`."""
    try:
        if codecs.lookup(name)._is_text_encoding:
            codecs.getincrementaldecoder(name)("surrogateescape").decode(b"a")
            return
        why = "decodes no text"
    except UnicodeError:  # some can only encode
        why = "decodes no text"
    except (LookupError, ValueError):  # ValueError for a name with a NUL in it
        why = "is unknown to Python"
    listed = ", ".join(map(repr, _near(name) or _USUAL))
    raise ValueError(f"{called}{name!r} {why}: did you mean one of {listed}?")


def _near(name: str) -> list[str]:
    """Names of encodings that are spelled like it, each encoding once."""
    spelled = re.sub(r"[\s_-]+", "_", name.strip().lower())
    known = {**{own: own for own in aliases.values()}, **aliases, "latin_1": "latin_1", "utf_8": "utf_8"}
    found = [known[each] for each in get_close_matches(spelled, known, n=6)]
    return [each.replace("_", "-") for each in dict.fromkeys(found) if _is_text(each)][:3]


def _is_text(name: str) -> bool:
    try:
        return codecs.lookup(name)._is_text_encoding
    except LookupError:  # some are of other systems
        return False


def check_separator(given: str | None, called: str = "separator=") -> str | None:
    r"""The character that parts cells. A tab may be written as \t, for a prompt cannot well hold one."""
    separator = "\t" if given in ("\\t", "tab") else given
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        raise ValueError(
            f"{called}{given!r} cannot part cells: give one character, such as ';', or '\\t' for a tab"
        )
    return separator


def is_utf8(name: str) -> bool:
    return codecs.lookup(name).name == "utf-8"


def guess(sample: bytes) -> str | None:
    """The encoding of bytes that are not UTF-8; None where they do not tell. Nothing is said of what is UTF-8
    but for a few bytes: no other encoding would read it."""
    marked = next((name for mark, name in MARKS.items() if sample.startswith(mark)), None)
    if marked is not None:
        return marked
    if b"\0" in sample:
        return wide(sample)
    characters = _CHARACTERS.sub(b"", sample)
    high = len(_HIGH.findall(sample))
    if len(_HIGH.findall(characters)) < high / 2:
        return None
    if high > len(_LETTERS.findall(sample)) and high >= _ENOUGH:
        return None  # hardly a letter of ours: cp1252 would read it, but as nonsense
    try:
        sample.decode("cp1252")
    except UnicodeDecodeError:
        return None
    return "cp1252"


def wide(sample: bytes) -> str | None:
    """UTF-16 without a mark shows itself by the empty half of its every Western letter."""
    low, high = sample[0:1000:2].count(0), sample[1:1000:2].count(0)
    if min(low, high) or max(low, high) <= max(1, len(sample[:1000]) // 4):
        return None
    return "utf-16-be" if low else "utf-16-le"


def remedy(sample: bytes, *, others: bool = False, tried: str = "utf-8") -> str:
    """What to do about bytes that are not of the encoding that was `tried`. `others`: elsewhere in the file,
    letters beyond ASCII were read in it."""
    skip = 'pass on_error="skip"'
    if others:
        return f"other lines are {tried.upper()}: fix this one or {skip}"
    if not is_utf8(tried):
        try:
            codecs.getincrementaldecoder("utf-8")().decode(sample)
        except UnicodeDecodeError:
            pass
        else:
            return f"it is UTF-8: pass encoding='utf-8', fix the file or {skip}"
    found = guess(sample)
    if found is not None and found != tried:
        return f"it is probably {found}: pass encoding='{found}', fix the file or {skip}"
    if not is_utf8(tried):
        return f"pass another encoding=, fix the file or {skip}"
    if len(_CHARACTERS.findall(sample)) > 1:
        return f"other lines are UTF-8: fix this one or {skip}"
    return (
        "if you know its encoding (cp1251, koi8-r, gb18030, shift_jis, ...), pass encoding=; else fix the "
        f"file or {skip}"
    )
