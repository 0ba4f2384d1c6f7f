"""The words of the phrasebook: what they mean, how they bend, and what goes with what.

Every word has one translation. Nouns come in kinds, and the kinds decide what makes sense: verbs name the
kinds they are about, and each kind has its adjectives. German verbs are given by infinitive and participle;
`stem` is the stem of du and er where the vowel changes (lesen: du *liest*). They stand in words.toml.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, TypeVar

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]
Forms = tuple[str, str, str, str, str]
"""A verb for ich, du, er, wir, sie."""


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    english: str
    english_plural: str
    """Empty where the noun has no plural: milk, bread."""
    german: str
    german_plural: str
    gender: Gender
    weak: bool = False
    """Der Junge, den Jungen: outside the nominative it looks like its plural."""


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    english: str
    german: str
    stem: str = ""
    """What endings are put to, where it differs: müde, ein müd-er Hund."""
    more: tuple[str, str] | None = None
    """The comparative, where it is used."""


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    english: str
    past: str
    german: str
    """The infinitive, without a separable prefix."""
    participle: str
    """Without the prefix too."""
    prefix: str = ""
    stem: str = ""
    sein: bool = False
    """The perfect is made with sein: er ist gegangen."""
    about: str = ""
    """The kinds of its object, or single nouns in English; empty for none."""
    case: Case = "accusative"
    """The case of that object."""
    animals: bool = False
    """Animals do it too."""
    stays: bool = False
    """It may be said where it is done."""
    company: bool = False
    """It may be done with somebody."""
    gift: bool = False
    """It may be done for somebody."""
    willed: bool = True
    """It can be wanted: not so to have, to lose."""
    told: bool = True
    """It can be told to somebody, if it can be wanted."""
    present: Forms | None = None
    """Where the rules would not give it."""


Word = TypeVar("Word", Noun, Adjective, Verb)
Two = tuple[str, str]
"""English and German."""

_TABLES = tomllib.loads(files(__package__).joinpath("words.toml").read_text(encoding="utf-8"))


def _rows(kind: type[Word], rows: Iterable[list[Any]]) -> tuple[Word, ...]:
    """Words from rows: fields in order, then a table of the others that are set."""
    found = []
    for row in rows:
        *fields, last = row
        named = last if isinstance(last, dict) else {}
        given = fields if isinstance(last, dict) else row
        found.append(kind(*given, **{name: _frozen(value) for name, value in named.items()}))
    return tuple(found)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _pairs(rows: Iterable[list[str]]) -> tuple[Two, ...]:
    return tuple((english, german) for english, german in rows)


NOUNS: dict[str, tuple[Noun, ...]] = {kind: _rows(Noun, rows) for kind, rows in _TABLES["nouns"].items()}
NAMES = tuple(_TABLES["names"])
ADJECTIVES = {each.english: each for each in _rows(Adjective, _TABLES["adjectives"]["every"])}
DESCRIBES = {
    kind: tuple(ADJECTIVES[english] for english in words.split())
    for kind, words in _TABLES["describes"].items()
}
"""What may be said of each kind of noun."""
SCALES = {
    ADJECTIVES[english]: scale
    for scale, group in enumerate(_TABLES["adjectives"]["scales"])
    for english in group.split()
}
"""Of two on the same scale only one is said of a thing."""
TRANSITIVE, GIVING, INTRANSITIVE, MOVING, (PUT, BE, COST) = (
    _rows(Verb, _TABLES["verbs"][group])
    for group in ("transitive", "giving", "intransitive", "moving", "others")
)
"""Giving: somebody something, two objects. Moving: to a place, or into it."""
KIN, UNOWNED, NEAR, TO, PLEASING = (_TABLES[name] for name in ("kin", "unowned", "near", "to", "pleasing"))
"""Who is mostly somebody's, and what is not; places to be behind, or in front of, and places to go to; what
people are asked how they like."""
WEATHER = Noun(*_TABLES["weather"])
"""Which nobody has, sees or sells."""
FREQUENCIES, ALWAYS, PRESENT, PAST, FUTURE = (
    _pairs(_TABLES["adverbials"][name]) for name in ("frequencies", "always", "present", "past", "future")
)
"""How often; times that go with every tense, and with one."""
Decisions = tuple[tuple[tuple[str, bool], float], ...]
"""Determiners, each with whether the noun is in the plural and its weight."""
DECISIONS: dict[str, Decisions] = {
    name: tuple(((word, plural), weight) for word, plural, weight in rows)
    for name, rows in _TABLES["decisions"].items()
}
ENDINGS: dict[str, list[str]] = _TABLES["endings"]
"""A row for each case; in it m, f, n and plural. A dash is an empty place."""
ONES, TENS = (_pairs(_TABLES["numbers"][name]) for name in ("ones", "tens"))
