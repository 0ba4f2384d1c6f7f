"""What makes sense: the phrases and clauses of the phrasebook, drawn at random.

A frame draws a verb of its sort, somebody who can do it and what it can be done to, and then perhaps where,
for whom and when. Any construction can be built on any of them, since all are a `Clause`.
"""

from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import TypeVar

from regard.text.phrasebook import grammar, words
from regard.text.phrasebook.grammar import Adverbial, Clause, Determiner, Modal, Phrase, Tense
from regard.text.phrasebook.words import Adjective, Noun, Two, Verb

Choice = TypeVar("Choice")

KINDS = {noun: kind for kind, nouns in words.NOUNS.items() for noun in nouns}
BY_NAME = {noun.english: noun for noun in KINDS}
PEOPLE = words.NOUNS["adult"] + words.NOUNS["child"]
ANIMALS = words.NOUNS["animal"]
ANIMATE = PEOPLE + ANIMALS
THINGS = tuple(noun for noun in KINDS if noun not in PEOPLE + ANIMALS and KINDS[noun] != "place")
PORTABLE = words.NOUNS["text"] + words.NOUNS["clothes"] + words.NOUNS["thing"]
COLOURS = ("red", "black", "green", "white")
NAMES = tuple(grammar.name(text) for text in words.NAMES)


class Dice:
    """Only `Random.random` is the same on every version of Python, so all choices are made of it."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, choices: Sequence[Choice]) -> Choice:
        return choices[int(self._random() * len(choices))]

    def weigh(self, choices: Sequence[tuple[Choice, float]]) -> Choice:
        """One by its weight. They sum to 1, or the last one gets what is missing."""
        level = self._random()
        for choice, weight in choices:
            level -= weight
            if level < 0:
                return choice
        return choices[-1][0]


@cache
def nouns(about: str) -> tuple[Noun, ...]:
    """Those of the kinds and the words in `about`."""
    return tuple(noun for word in about.split() for noun in words.NOUNS.get(word, ()) or (BY_NAME[word],))


KIN, UNOWNED, NEAR, TO = map(nouns, (words.KIN, words.UNOWNED, words.NEAR, words.TO))

# Noun phrases

COUNTED, MASS, SUBJECT, KNOWN = (words.DECISIONS[name] for name in ("counted", "mass", "subject", "known"))
KNOWN_MASS = MASS[1:]
DETERMINERS = {"the": grammar.THE, "a": grammar.A, "this": grammar.THIS, "every": grammar.EVERY}
DETERMINERS |= {"bare": grammar.BARE, "many": grammar.MANY}


def determiner(dice: Dice, word: str, noun: Noun) -> Determiner:
    if word == "my":
        return dice.pick(grammar.POSSESSIVE)
    if word == "number":
        many = KINDS[noun] in ("food", "text", "thing") and dice.chance(0.5)
        return grammar.counted(dice.pick(range(13, 100) if many else range(2, 13)))
    return DETERMINERS[word]


def adjective(dice: Dice, noun: Noun, probability: float) -> Adjective | None:
    return dice.pick(words.DESCRIBES[KINDS[noun]]) if dice.chance(probability) else None


def describe(dice: Dice, noun: Noun, decisions: words.Decisions, plain: bool = False) -> Phrase:
    if not noun.english_plural:
        decisions = KNOWN_MASS if decisions is KNOWN else MASS
    word, plural = dice.weigh(decisions)
    if noun in KIN and word not in ("the", "number"):
        word = "my"
    elif noun in UNOWNED and word == "my":
        word = "the"
    article = determiner(dice, word, noun)
    return grammar.phrase(article, noun, adjective(dice, noun, 0.12 if plain else 0.4), plural)


def person(dice: Dice, plain: bool = False) -> Phrase:
    """Somebody known: a pronoun, a name, my mother."""
    level = dice.weigh((("me or you", 0.16), ("pronoun", 0.34), ("name", 0.12), ("noun", 0.38)))
    if level == "me or you":
        return dice.pick(grammar.PRONOUNS[:2])
    if level == "pronoun":
        return dice.pick(grammar.PRONOUNS)
    return dice.pick(NAMES) if level == "name" else describe(dice, dice.pick(PEOPLE), KNOWN, plain)


def subject(dice: Dice, verb: Verb, plain: bool, known: bool) -> Phrase:
    if not known and dice.chance(0.3):
        return describe(dice, dice.pick(PEOPLE), SUBJECT, plain)
    if verb.animals and dice.chance(0.25):
        return describe(dice, dice.pick(ANIMALS), KNOWN if known else SUBJECT, plain)
    return person(dice, plain)


def other(first: Phrase, draw: Callable[[], Phrase]) -> Phrase:
    """Somebody else: nobody meets himself, and we do not meet me."""
    while True:
        second = draw()
        own = {0, 3} if first.person in (0, 3) else {1} if first.person == 1 else set()
        if second.pronoun and second.person in own:
            continue
        if second.english != first.english and (second.noun is None or second.noun != first.noun):
            return second


def target(dice: Dice, verb: Verb, first: Phrase, plain: bool, negative: bool) -> Phrase:
    """What the verb is done to. Under a negation, `a book` is said with kein, and `the book` with nicht."""
    choices = nouns(verb.about)
    noun = dice.pick(choices)
    if noun in PEOPLE and dice.chance(0.4):
        return other(first, lambda: dice.pick(grammar.PRONOUNS if dice.chance(0.75) else NAMES))
    while noun == first.noun:
        noun = dice.pick(choices)
    if not negative:
        return describe(dice, noun, COUNTED, plain)
    if noun in PEOPLE or dice.chance(0.5):
        return describe(dice, noun, KNOWN, plain)
    plural = bool(noun.english_plural) and dice.chance(0.3)
    kein = grammar.NOT_A if noun.english_plural and not plural else grammar.NOT_ANY
    return grammar.phrase(kein, noun, adjective(dice, noun, 0.12 if plain else 0.4), plural)


# Adverbials


def clock(dice: Dice) -> Two:
    """Half past seven is halb acht: half of the eighth hour."""
    hour = dice.pick(range(1, 13))
    said, named = grammar.number(hour)
    if dice.chance(0.4):
        return f"{said} o'clock", f"{named} Uhr"
    if dice.chance(0.4):
        return f"half past {said}", f"halb {hour_alone(hour % 12 + 1)}"
    if dice.chance(0.5):
        return f"a quarter past {said}", f"Viertel nach {hour_alone(hour)}"
    return f"a quarter to {said}", f"Viertel vor {hour_alone(hour)}"


def hour_alone(hour: int) -> str:
    return "eins" if hour == 1 else grammar.number(hour)[1]


def moment(dice: Dice, tense: Tense) -> Adverbial:
    """When: a time that goes with the tense."""
    if dice.chance(0.15):
        said, named = clock(dice)
        return Adverbial(f"at {said}", f"um {named}")
    special = words.PRESENT if tense == "present" else words.PAST if tense == "past" else words.FUTURE
    return Adverbial(*dice.pick(words.ALWAYS if dice.chance(0.55) else special))


def spot(dice: Dice, outside: bool = False) -> Adverbial:
    """Where: in the dative."""
    if not outside and dice.chance(0.65):
        return prepositional(dice, "in", "in", "dative", words.NOUNS["place"])
    english, german = dice.pick((("behind", "hinter"), ("in front of", "vor"), ("next to", "neben")))
    return prepositional(dice, english, german, "dative", NEAR)


def prepositional(
    dice: Dice, english: str, german: str, case: words.Case, choices: tuple[Noun, ...]
) -> Adverbial:
    noun = dice.pick(choices)
    article = dice.weigh((("my", 0.0 if noun in UNOWNED else 0.2), ("a", 0.1), ("the", 0.7)))
    inside = grammar.phrase(determiner(dice, article, noun), noun, adjective(dice, noun, 0.25))
    return grammar.prepositional(english, german, case, inside)


def details(dice: Dice, clause: Clause) -> None:
    """With whom, for whom, where and how often, as far as the verb allows."""
    verb, chance = clause.verb, dice.chance
    if verb.stays and chance(0.35):
        clause.elsewhere.append(spot(dice))
    elif verb.gift and chance(0.3):
        friend = other(clause.subject, lambda: person(dice, plain=chance(0.5)))
        clause.elsewhere.append(grammar.prepositional("for", "für", "accusative", friend))
    if verb.company and chance(0.35):
        friend = other(clause.subject, lambda: person(dice, plain=chance(0.5)))
        clause.elsewhere.append(grammar.prepositional("with", "mit", "dative", friend))
    if verb.willed and not isinstance(clause.tense, Modal) and chance(0.2):
        clause.often = Adverbial(*dice.pick(words.FREQUENCIES))
    elif verb.willed and chance(0.35):
        clause.time = moment(dice, clause.tense)


# Frames

MODALS: tuple[tuple[Modal, float], ...] = (
    (grammar.WILL, 0.32),
    (grammar.CAN, 0.2),
    (grammar.WANT, 0.2),
    (grammar.SHOULD, 0.13),
    (grammar.MUST, 0.15),
)


def tense(dice: Dice, verb: Verb, first: Phrase, negative: bool) -> Tense:
    """I read and I put look the same in the past, so there it is left to others."""
    if verb.willed and dice.chance(0.3):
        return dice.weigh(MODALS[:-1] if negative else MODALS)  # "must not" is no "muss nicht"
    ambiguous = verb.past == verb.english and first.person != 2
    return "past" if not ambiguous and dice.chance(0.42) else "present"


def doing(dice: Dice, plain: bool, negative: bool, verbs: tuple[Verb, ...] | None = None) -> Clause:
    """Somebody does something."""
    group = dice.weigh(
        ((words.TRANSITIVE, 0.57), (words.GIVING, 0.13), (words.INTRANSITIVE, 0.2), (words.MOVING, 0.1))
        if dice.chance(0.96)
        else (((words.PUT,), 1.0),)
    )
    verb = dice.pick(verbs or group)
    first = subject(dice, verb, plain, known=plain or negative)
    clause = Clause(first, verb, tense(dice, verb, first, negative), negative=negative)
    if verb in words.GIVING:
        clause.receiver = other(first, lambda: person(dice, plain))
    if verb.about:
        clause.object = target(dice, verb, first, plain, negative)
    if verb in words.MOVING:
        clause.elsewhere.append(destination(dice, verb))
    elif verb is words.PUT:
        onto = dice.pick((("on", "auf"), ("under", "unter")))
        clause.elsewhere.append(prepositional(dice, *onto, "accusative", words.NOUNS["surface"]))
    if not plain and not negative:
        details(dice, clause)
    return clause


def destination(dice: Dice, verb: Verb) -> Adverbial:
    if verb.german == "fahren" or dice.chance(0.5):
        return prepositional(dice, "to", "zu", "dative", TO)
    return prepositional(dice, "into", "in", "accusative", words.NOUNS["place"])


def qualities(kind: str, *described: Phrase) -> list[Adjective]:
    """What can be added to what has been said."""
    said = [phrase.adjective for phrase in described if phrase.adjective]
    scales = [words.SCALES.get(adjective, -1) for adjective in said]
    return [
        adjective
        for adjective in words.DESCRIBES[kind]
        if adjective not in said and words.SCALES.get(adjective, -2) not in scales
    ]


def being(dice: Dice, plain: bool, negative: bool) -> Clause:
    """Somebody or something is like this."""
    sort = dice.weigh((("person", 0.35), ("noun", 0.65)))
    first = person(dice, plain) if sort == "person" else describe(dice, dice.pick(tuple(KINDS)), KNOWN, plain)
    quality = dice.pick(qualities(KINDS[first.noun] if first.noun else "adult", first))
    combinations = ((quality.english, first.noun.english),) if first.noun else ()
    very = dice.chance(0.3) and quality.english not in COLOURS and not negative
    like = Adverbial("very " * very + quality.english, "sehr " * very + quality.german, combinations)
    tense: Tense = "past" if dice.chance(0.3) else "present"
    return Clause(first, words.BE, tense, elsewhere=[like], negative=negative)


def lying(dice: Dice, plain: bool, negative: bool) -> Clause:
    """Something is on something."""
    first = describe(dice, dice.pick(PORTABLE), KNOWN, plain)
    where = dice.pick((("on", "auf"), ("under", "unter"), ("next to", "neben")))
    on = prepositional(dice, *where, "dative", words.NOUNS["surface"])
    tense: Tense = "past" if dice.chance(0.3) else "present"
    return Clause(first, words.BE, tense, elsewhere=[on], negative=negative)


def numbered(dice: Dice, plain: bool, negative: bool) -> Clause:
    """How old somebody is, and what something costs."""
    if dice.chance(0.5):
        first = person(dice, plain)
        young = first.noun in words.NOUNS["child"]
        said, named = grammar.number(dice.pick(range(2, 18) if young else range(18, 100)))
        age = Adverbial(f"{said} years old", f"{named} Jahre alt")
        return Clause(first, words.BE, elsewhere=[age], negative=negative)
    first = describe(dice, dice.pick(tuple(noun for noun in THINGS if noun.english_plural)), KNOWN[:3], plain)
    said, named = grammar.number(dice.pick(range(2, 100)))
    price = Adverbial(f"{said} euros", f"{named} Euro")
    return Clause(first, words.COST, elsewhere=[price], negative=negative)


Frame = Callable[[Dice, bool, bool], Clause]
Frames = tuple[tuple[Frame, float], ...]
FRAMES: Frames = ((doing, 0.76), (being, 0.1), (lying, 0.05), (numbered, 0.09))
EVENTS: Frames = ((doing, 0.86), (being, 0.14))


def clause(
    dice: Dice,
    *,
    plain: bool = False,
    negative: bool = False,
    tenses: tuple[Tense, ...] | None = None,
    frames: Frames = FRAMES,
) -> Clause:
    """Any clause. A plain one is short; a negative one has nothing that `not` could be about but the verb."""
    while True:
        drawn = dice.weigh(frames)(dice, plain, negative)
        if tenses is None or drawn.tense in tenses:
            return drawn
