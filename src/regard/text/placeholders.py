"""What stands in a text for something else, and is never to be changed: variables of programs, addresses.

    %s  %1$s  %(name)s  %-10.2f  %%      printf, in C, Python, Java, Objective-C
    %<PRIuMAX>  %1  %L2  %n  %Y-%m-%d    gettext in C, Qt, dates
    {name}  {0:N2}  ${x}  #{x}  %{x}     Python, .NET, JavaScript, Ruby
    {$x}  { $x }  {$a->b}                Angular, Fluent, Smarty, Moodle
    {{x}}  {{{x}}}  $t(key)  %name%      Handlebars, i18next, Symfony
    ${a ? b : c}  {{ x | date: {y: 1} }}   expressions
    {when, date, short}                  ICU
    &amp;                                an entity, in a text that is no markup
    https://...  www.x.org  a@x.org      addresses

A choice of ICU, `{n, plural, one {# file} other {# files}}`, has branches: these are text, the rest is not.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LETTER = r"A-Za-z\u00c0-\u024f\u0370-\u052f"
"""Of Latin, Greek and Cyrillic script: what stands in addresses. Others may follow one at once, as text."""
_URL = rf"{_LETTER}0-9/#&=+$@%~_*|^\\`(\["
_INSIDE = r"(?:[^{}\n]|\{[^{}\n]{0,200}+\}){1,400}+"
"""Of an expression, with objects in it."""
_VARIABLE = (
    r"\[X\d+X\]"
    rf"|\{{\{{\{{{_INSIDE}\}}\}}\}}|\{{\{{{_INSIDE}\}}\}}|[$#]\{{{_INSIDE}\}}|\$t\([^()\n]{{1,80}}\)"
    r"|[$#%]?\{\s{0,2}[\w.!@\[\]-]{0,40}\s{0,2}(?:,\s?-?\d{1,3})?(?::[^{}\s]{0,20})?\}"
    r"|\{\s{0,2}\$[\w.-]{1,40}(?:->\w{1,40}){0,3}\s{0,2}\}"
    r"|\{\s{0,3}[\w.-]{1,40}\s{0,3},\s{0,3}(?:number|date|time|spellout|ordinal|duration)"
    r"\s{0,3}(?:,[^{}\n]{0,60})?\}"
    r"|%[-+#0]{0,3}\d{0,4}<PRI\w{1,10}>"
    r"|%[-^0]?[YymbBHIMdejAa](?:[-/.:, ]{1,2}%[-^0]?[YymbBHIMSpjZAad](?!\w)){1,8}(?!\w)"
    r"|%%|%\([\w.]{1,40}\)[-+#0]?\d{0,4}(?:\.\d{1,3})?[a-zA-Z]"
    r"|%[A-Za-z_]\w{1,40}(?:\.\w{1,40}){0,4}%(?![\w%])"
    rf"|(?:(?<![{_LETTER}0-9_])(?:https?|ftp)://|(?<![{_LETTER}0-9_@./-])www\.(?=\w))"
    rf"(?:[{_URL}.,;:!?)\]'-]|\{{[\w.]{{0,40}}\}})*"
    rf"(?:[{_URL}-]|\{{[\w.]{{0,40}}\}})"
    r"|(?<!\S)@\w+(?:@[\w.-]+\w)?"
    rf"|(?<![{_LETTER}0-9_.+-])[{_LETTER}0-9_.+-]+@[{_LETTER}0-9_-]+(?:\.[{_LETTER}0-9_-]+)+"
)
_FLAGS = r"[-+#0']{0,3}(?:\d{1,4}|\*)?(?:\.(?:\d{1,3}|\*))?(?:hh?|ll?|[qLjzt])?"
_KINDS = "[diouxXeEfFgGaAcCrsSp@]"
_PRINTF = rf"%(?:\d{{1,2}}\$)?{_FLAGS}{_KINDS}"
_LIKELY = (
    rf"|%\d{{1,2}}\${_FLAGS}{_KINDS}|(?<![\w%])%(?:L?[1-9]\d?|n)(?![\w$%])"
    rf"|(?<![\d%]){_PRINTF}(?:(?![A-Za-z]|(?<=@)\w)|(?=(?:s|ms|px|x|h|m|[kKM]i?[bB])\b))"
)
"""In a text of which it is not known whether it is a format: not in 100%discount."""
_ENTITY = r"|&(?:[A-Za-z]\w{1,30}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});"
_NUMBER = r"|(?<![\w.,])\d+(?:[.,:/]\d+)*(?!\w)"
_COUNT = r"|\#"


def placeholders(*, numbers: bool = False, count: bool = False, printf: bool = False) -> re.Pattern[str]:
    """`numbers`: these too; `count`: a # too, as in the branches of a plural; `printf`: it is known to be a
    format of printf's."""
    return _PATTERNS[numbers, count, printf]


_PATTERNS = {
    (numbers, count, printf): re.compile(
        _VARIABLE + (f"|{_PRINTF}" if printf else _LIKELY) + _ENTITY + _NUMBER * numbers + _COUNT * count
    )
    for numbers in (False, True)
    for count in (False, True)
    for printf in (False, True)
}

_BY_PLACE = re.compile(r"(?!%\d+\$|%%|%.*%$)%[^({]*|\{\}")


def by_place(names: Iterable[str]) -> bool:
    """Whether there are several, of which each means the argument whose turn it is: their order counts."""
    return len({name for name in names if _BY_PLACE.fullmatch(name)}) > 1


_CHOICE = re.compile(r"\{\s{0,20}[\w.-]{1,40}\s{0,20},\s{0,20}(plural|selectordinal|select)\s{0,20},")
_SELECTOR = re.compile(r"\s*(?:offset:\s*\d+\s+)?(?:=\d+|[\w-]+)\s*\{")


MOST_BROKEN = 20
"""Of each the rest of the text is read."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of ICU's, in a text."""

    start: int
    end: int
    plural: bool
    """A # in it stands for the number."""
    branches: tuple[tuple[int, int], ...]
    """The text of each, without its braces."""


def choices(text: str) -> Iterator[Choice]:
    """Those that are not within another. What only looks like one is none; where there is much of that, what
    follows is none either."""
    at = broken = 0
    while broken < MOST_BROKEN and (found := _CHOICE.search(text, at)) is not None:
        choice = _choice(text, found)
        if choice is not None:
            yield choice
        broken += choice is None
        at = found.end() if choice is None else choice.end


def _choice(text: str, found: re.Match[str]) -> Choice | None:
    branches, at = [], found.end()
    while (selector := _SELECTOR.match(text, at)) is not None:
        end = _closing(text, selector.end())
        if end < 0:
            return None
        branches.append((selector.end(), end))
        at = end + 1
    rest = re.compile(r"\s*\}").match(text, at)
    if rest is None or not branches:
        return None
    return Choice(found.start(), rest.end(), found[1] != "select", tuple(branches))


def _closing(text: str, at: int) -> int:
    """Where the brace closes that was opened before; -1 if it does not. Between apostrophes, of which the
    first has a brace behind it, braces are text."""
    depth = 1
    while at < len(text):
        match text[at]:
            case "'" if text[at + 1 : at + 2] in ("{", "}"):
                end = text.find("'", at + 1)
                at = at if end < 0 else end
            case "{":
                depth += 1
            case "}":
                depth -= 1
                if depth == 0:
                    return at
        at += 1
    return -1
