"""The grammar of the phrasebook: a clause is said in English and in German from one description.

    English   subject  auxiliary  not  often  verb   objects  elsewhere  time
    German    front    FINITE   subject  pronouns  time  often  nouns  nicht  elsewhere   REST

The finite verb and the rest of the verb (a separable prefix, a participle, an infinitive) hold a German main
clause together like brackets. What is in front comes before the first: the subject, or something else, and
then the subject follows the verb. A question has nothing in front. In a subordinate clause the finite verb
goes to the very end, behind its rest: `weil er das Fenster aufgemacht hat`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, get_args

from regard.text.phrasebook.words import ENDINGS, ONES, TENS, Adjective, Case, Forms, Noun, Two, Verb

CASES: tuple[Case, ...] = get_args(Case)
Table = dict[Case, dict[str, str]]
"""By case, then by gender, or "p" in the plural."""


def table(name: str) -> Table:
    rows = [["" if word == "-" else word for word in row.split()] for row in ENDINGS[name]]
    return {case: dict(zip("mfnp", row, strict=True)) for case, row in zip(CASES, rows, strict=True)}


DEFINITE, INDEFINITE, STRONG = table("definite"), table("indefinite"), table("strong")
MIXED, WEAK, NONE = table("mixed"), table("weak"), table("none")


@dataclass(frozen=True, slots=True)
class Determiner:
    english: str
    english_plural: str
    german: str
    """The part that stays: dies, kein."""
    endings: Table
    """Its own."""
    adjective: Table
    """Those of an adjective behind it."""
    negative: bool = False
    """German says its `not` here: she does not buy *a* book, sie kauft *kein* Buch."""


THE = Determiner("the", "the", "", DEFINITE, WEAK)
THIS = Determiner("this", "these", "dies", STRONG, WEAK)
EVERY = Determiner("every", "", "jed", STRONG, WEAK)
WHICH = Determiner("which", "which", "welch", STRONG, WEAK)
A = Determiner("a", "", "ein", INDEFINITE, MIXED)
NOT_A = Determiner("a", "", "kein", INDEFINITE, MIXED, negative=True)
NOT_ANY = Determiner("", "", "kein", INDEFINITE, MIXED, negative=True)
BARE = Determiner("", "", "", NONE, STRONG)
MANY = Determiner("", "many", "viel", STRONG, STRONG)
HOW_MANY = Determiner("", "how many", "wie viel", STRONG, STRONG)
POSSESSIVE = tuple(
    Determiner(english, english, german, INDEFINITE, MIXED)
    for english, german in zip(
        ("my", "your", "his", "her", "our", "their"),
        ("mein", "dein", "sein", "ihr", "unser", "ihr"),
        strict=True,
    )
)


def number(value: int) -> Two:
    """From 1 to 99, as spoken: 21 is twenty-one, and einundzwanzig."""
    if value < 20:
        return ONES[value - 1]
    english, german = TENS[value // 10 - 2]
    if value % 10 == 0:
        return english, german
    one, eins = ONES[value % 10 - 1]
    return f"{english}-{one}", f"{eins}und{german}"


def counted(value: int) -> Determiner:
    english, german = number(value)
    return Determiner("", english, german, NONE, STRONG)


@dataclass(frozen=True, slots=True, eq=False)
class Phrase:
    """Who or what: a noun with its company, a name or a pronoun."""

    english: str
    english_object: str
    german: dict[Case, str]
    person: int
    """Its place in a verb's forms: ich, du, er, wir, sie."""
    pronoun: bool = False
    noun: Noun | None = None
    adjective: Adjective | None = None
    negative: bool = False

    def combinations(self, verb: Verb | None = None) -> Iterator[Two]:
        """Its noun with its adjective, and with the verb it is the object of."""
        if self.noun and self.adjective:
            yield self.adjective.english, self.noun.english
        if self.noun and verb:
            yield verb.english, self.noun.english


def phrase(
    determiner: Determiner, noun: Noun, adjective: Adjective | None = None, plural: bool = False
) -> Phrase:
    quality = adjective.english + " " if adjective else ""
    english = quality + (noun.english_plural if plural else noun.english)
    article = determiner.english_plural if plural else determiner.english
    if article == "a" and english[0] in "aeiou":
        article = "an"
    english = f"{article} {english}" if article else english
    gender = "p" if plural else noun.gender
    german = {}
    for case in CASES:
        words = [determiner.german + determiner.endings[case][gender]]
        if adjective:
            words.append((adjective.stem or adjective.german) + determiner.adjective[case][gender])
        words.append(decline(noun, case, plural))
        german[case] = " ".join(words).lstrip()
    return Phrase(english, english, german, 4 if plural else 2, False, noun, adjective, determiner.negative)


def decline(noun: Noun, case: Case, plural: bool) -> str:
    if not plural:
        return noun.german_plural if noun.weak and case != "nominative" else noun.german
    ending = "n" if case == "dative" and noun.german_plural[-1] not in "ns" else ""
    return noun.german_plural + ending


def pronoun(english: str, english_object: str, german: str, person: int) -> Phrase:
    """`german` in its three cases, with spaces between."""
    return Phrase(
        english, english_object, dict(zip(CASES, german.split(), strict=True)), person, pronoun=True
    )


PRONOUNS = (
    pronoun("I", "me", "ich mich mir", 0),
    pronoun("you", "you", "du dich dir", 1),
    pronoun("he", "him", "er ihn ihm", 2),
    pronoun("she", "her", "sie sie ihr", 2),
    pronoun("we", "us", "wir uns uns", 3),
    pronoun("they", "them", "sie sie ihnen", 4),
)
WHO = pronoun("who", "whom", "wer wen wem", 2)


def name(text: str) -> Phrase:
    return Phrase(text, text, dict.fromkeys(CASES, text), 2)


@dataclass(frozen=True, slots=True)
class Adverbial:
    """Where, when, with whom: the words of both languages."""

    english: str
    german: str
    combinations: tuple[Two, ...] = ()


CONTRACTED = {"in dem": "im", "in das": "ins", "zu dem": "zum", "zu der": "zur"}


def prepositional(english: str, german: str, case: Case, inside: Phrase) -> Adverbial:
    """German prepositions choose the case, and melt with the article where they can."""
    words = f"{german} {inside.german[case]}"
    first = " ".join(words.split(maxsplit=2)[:2])
    if first in CONTRACTED:
        words = CONTRACTED[first] + words[len(first) :]
    return Adverbial(f"{english} {inside.english_object}", words, tuple(inside.combinations()))


@dataclass(frozen=True, slots=True)
class Modal:
    """A verb that leaves another one in the infinitive."""

    english: str
    """With `to` behind it, it is an ordinary English verb that needs do in questions."""
    german: Forms


WILL = Modal("will", ("werde", "wirst", "wird", "werden", "werden"))
CAN = Modal("can", ("kann", "kannst", "kann", "können", "können"))
MUST = Modal("must", ("muss", "musst", "muss", "müssen", "müssen"))
SHOULD = Modal("should", ("sollte", "solltest", "sollte", "sollten", "sollten"))
WANT = Modal("want to", ("will", "willst", "will", "wollen", "wollen"))

Tense = Literal["present", "past"] | Modal
"""English past is the German perfect, but was is `war` and had is `hatte`."""

HABEN: Forms = ("habe", "hast", "hat", "haben", "haben")
SEIN: Forms = ("bin", "bist", "ist", "sind", "sind")
PRETERITE: dict[str, Forms] = {
    "sein": ("war", "warst", "war", "waren", "waren"),
    "haben": ("hatte", "hattest", "hatte", "hatten", "hatten"),
}


def needs_e(stem: str) -> bool:
    """Arbeitest, zeichnet: what could not be spoken without it."""
    return stem.endswith(("t", "d", "chn"))


@cache
def present(verb: Verb) -> Forms:
    if verb.present:
        return verb.present
    stem = verb.german.removesuffix("en")
    strong = verb.stem or stem
    e = "e" if needs_e(strong) else ""
    s = "" if strong.endswith(("s", "ß", "z")) else "s"
    return f"{stem}e", f"{strong}{e}{s}t", f"{strong}{e}t", verb.german, verb.german


@cache
def imperative(verb: Verb) -> str:
    """To one that is du: lies, gib; but fahr and wasch keep their vowel."""
    stem = verb.german.removesuffix("en")
    if verb.stem and "ä" not in verb.stem:
        return verb.stem
    return stem + "e" if needs_e(stem) or stem.endswith(("ier", "ank", "olg")) else stem


def third(base: str) -> str:
    """The English form for he: reads, watches, carries, picks up."""
    first, *particle = base.split()
    if first == "have":
        first = "has"
    elif first.endswith(("s", "sh", "ch", "x", "o")):
        first += "es"
    elif first.endswith("y") and first[-2] not in "aeiou":
        first = first[:-1] + "ies"
    else:
        first += "s"
    return " ".join([first, *particle])


@dataclass(slots=True)
class Clause:
    subject: Phrase
    verb: Verb
    tense: Tense = "present"
    receiver: Phrase | None = None
    """To whom, in the dative."""
    object: Phrase | None = None
    """In the case that the verb asks for."""
    time: Adverbial | None = None
    often: Adverbial | None = None
    """English says it before the verb."""
    elsewhere: list[Adverbial] = field(default_factory=list)
    """Where or where to, then with whom or for whom; or what something is like. German turns them round."""
    negative: bool = False

    def combinations(self) -> Iterator[Two]:
        """Adjectives with nouns, and verbs with nouns: what a split may hold out."""
        yield from self.subject.combinations()
        for thing in (self.receiver, self.object):
            if thing:
                yield from thing.combinations(self.verb)
        for adverbial in self.elsewhere:
            yield from adverbial.combinations


def english_verb(clause: Clause, support: bool) -> tuple[str, str]:
    """The auxiliary, which may be empty, and the verb. With `support` there must be one: do."""
    base, tense, person = clause.verb.english, clause.tense, clause.subject.person
    if isinstance(tense, Modal) and not tense.english.endswith(" to"):
        return tense.english, base
    if base == "be":
        past = tense == "past"
        forms = ("was", "were", "was", "were", "were") if past else ("am", "are", "is", "are", "are")
        return forms[person], ""
    if isinstance(tense, Modal):
        base, tense = f"{tense.english} {base}", "present"
    if tense == "past":
        return ("did", base) if support else ("", clause.verb.past)
    if person == 2:
        return ("does", base) if support else ("", third(base))
    return ("do", base) if support else ("", base)


def english(clause: Clause, *, inverted: bool = False) -> str:
    """A clause, or with the auxiliary before the subject the body of a question."""
    auxiliary, verb = english_verb(clause, support=inverted or clause.negative)
    subject = clause.subject.english
    words = [auxiliary, subject] if inverted else [subject, auxiliary]
    words.append("not" if clause.negative else "")
    words.append(clause.often.english if clause.often else "")
    words += english_predicate(clause, verb)
    return " ".join(word for word in words if word).replace("can not", "cannot")


def english_predicate(clause: Clause, verb: str) -> list[str]:
    """The verb and all behind it. A pronoun comes before a particle: picks up the boy, picks him up."""
    things = [thing.english_object for thing in (clause.receiver, clause.object) if thing]
    first, _, particle = verb.rpartition(" ")
    if particle in ("on", "off", "up") and clause.object and clause.object.pronoun:
        words = [first, *things, particle]
    else:
        words = [verb, *things]
    words += [adverbial.english for adverbial in clause.elsewhere]
    return [*words, clause.time.english if clause.time else ""]


Order = Literal["first", "second", "last"]
"""Where the finite verb stands: in questions, in main clauses, in subordinate ones."""


def german_verb(clause: Clause) -> tuple[str, str]:
    """The finite verb, and the rest that stands at the end: a prefix, a participle, an infinitive."""
    verb, person = clause.verb, clause.subject.person
    if isinstance(clause.tense, Modal):
        return clause.tense.german[person], verb.prefix + verb.german
    if clause.tense == "present":
        return present(verb)[person], verb.prefix
    if verb.german in PRETERITE:
        return PRETERITE[verb.german][person], ""
    return (SEIN if verb.sein else HABEN)[person], verb.prefix + verb.participle


def german(clause: Clause, order: Order = "second", front: str = "") -> str:
    """`front` is what stands before the verb in place of the subject."""
    finite, rest = german_verb(clause)
    subject = clause.subject.german["nominative"]
    middle = german_middle(clause)
    match order:
        case "first":
            words = [finite, subject, *middle, rest]
        case "second" if front:
            words = [front, finite, subject, *middle, rest]
        case "second":
            words = [subject, finite, *middle, rest]
        case "last" if clause.tense == "present":
            words = [subject, *middle, rest + finite]
        case "last":
            words = [subject, *middle, rest, finite]
    return " ".join(word for word in words if word)


def german_middle(clause: Clause) -> list[str]:
    """What stands between the brackets, behind the subject."""
    things: list[tuple[Phrase, Case]] = []
    if clause.receiver:
        things.append((clause.receiver, "dative"))
    if clause.object:
        things.append((clause.object, clause.verb.case))
    words = [thing.german[case] for thing, case in things if thing.pronoun]
    words += [adverbial.german for adverbial in (clause.time, clause.often) if adverbial]
    words += [thing.german[case] for thing, case in things if not thing.pronoun]
    if clause.negative and not (clause.object and clause.object.negative):
        words.append("nicht")
    return words + [adverbial.german for adverbial in reversed(clause.elsewhere)]


def command(clause: Clause) -> Two:
    """The imperative. Subject and tense do not matter."""
    verb = clause.verb
    said = ["do not" if clause.negative else "", *english_predicate(clause, verb.english)]
    words = [imperative(verb), *german_middle(clause), verb.prefix]
    return " ".join(filter(None, said)), " ".join(filter(None, words))
