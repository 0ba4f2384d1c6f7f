"""The sentences of the phrasebook: one function for each construction, made of clauses."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from regard.text.phrasebook import grammar, sense, words
from regard.text.phrasebook.grammar import Clause, Tense
from regard.text.phrasebook.sense import Dice
from regard.text.phrasebook.words import Two

SHORTEST, LONGEST = 3, 16
"""Words in a sentence."""

Draft = tuple[Two, str, list[Clause]]
"""A sentence in both languages, the mark that ends it, and the clauses in it."""


@dataclass(frozen=True, slots=True)
class Sentence:
    english: str
    german: str
    construction: str
    combinations: frozenset[Two]


def compose(dice: Dice) -> Sentence:
    """Any sentence, of any split."""
    while True:
        construction, make = dice.weigh(CONSTRUCTIONS)
        (english, german), mark, clauses = make(dice)
        lengths = len(english.split()), len(german.split())
        if min(lengths) >= SHORTEST and max(lengths) <= LONGEST:
            break
    combinations = frozenset(pair for clause in clauses for pair in clause.combinations())
    return Sentence(capital(english) + mark, capital(german) + mark, construction, combinations)


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def both(clause: Clause) -> Two:
    return grammar.english(clause), grammar.german(clause)


def statement(dice: Dice) -> Draft:
    clause = sense.clause(dice)
    return both(clause), ".", [clause]


def inversion(dice: Dice) -> Draft:
    """The time comes first, and the subject goes behind the German verb."""
    clause = willed(dice, negative=dice.chance(0.2))
    time = sense.moment(dice, clause.tense)
    clause = replace(clause, time=None, often=None)
    english = f"{time.english} {grammar.english(clause)}"
    return (english, grammar.german(clause, front=time.german)), ".", [clause]


def negation(dice: Dice) -> Draft:
    clause = sense.clause(dice, negative=True)
    return both(clause), ".", [clause]


def question(dice: Dice) -> Draft:
    """In the present, of verbs that begin German questions in so many forms, it is asked of you or of him."""
    you = grammar.PRONOUNS[1]
    while True:
        clause = sense.clause(dice, plain=dice.chance(0.6))
        said = [clause.receiver, clause.object, *(adverbial.english[-4:] for adverbial in clause.elsewhere)]
        if clause.tense != "present" or clause.verb in (words.BE, words.COST) or clause.subject.person == 2:
            break
        if you not in said and " you" not in said:
            clause = replace(clause, subject=you)
            break
    return (grammar.english(clause, inverted=True), grammar.german(clause, "first")), "?", [clause]


def asking(dice: Dice) -> Draft:
    """What is asked for stands in front; what has been asked for is missing behind."""
    match dice.weigh((("who", 0.25), ("what", 0.4), ("when", 0.35))):
        case "who":
            clause = replace(willed(dice, plain=dice.chance(0.6)), subject=grammar.WHO)
            return both(clause), "?", [clause]
        case "what":
            return asking_what(dice)
        case _:
            front = dice.pick((("when", "wann"), ("why", "warum")))
            clause = replace(willed(dice, plain=True), time=None, often=None)
            return fronted(clause, front, [clause])


def asking_what(dice: Dice) -> Draft:
    """What, whom, which book, how many books."""
    clause = sense.doing(dice, True, False, words.TRANSITIVE)
    verb = clause.verb
    noun = dice.pick([noun for noun in sense.nouns(verb.about) if noun != clause.subject.noun])
    determiner, plural = grammar.WHICH, False
    if noun.english_plural and dice.chance(0.4):
        determiner, plural = dice.weigh(((grammar.WHICH, 0.4), (grammar.HOW_MANY, 0.6))), True
    thing = grammar.phrase(determiner, noun, sense.adjective(dice, noun, 0.25), plural)
    if not any(noun in sense.ANIMATE for noun in sense.nouns(verb.about)) and dice.chance(0.35):
        thing = WHAT
    elif noun in sense.PEOPLE and dice.chance(0.4):
        thing = grammar.WHO
    asked = replace(clause, object=None)
    held = replace(clause, object=thing)
    return fronted(asked, (thing.english_object, thing.german[verb.case]), [held])


def liking(dice: Dice) -> Draft:
    """German turns it round: what is liked, pleases."""
    you = grammar.PRONOUNS[1]
    who = (
        you if dice.chance(0.6) else sense.other(grammar.PRONOUNS[0], lambda: sense.person(dice, plain=True))
    )
    if dice.chance(0.3):
        thing = grammar.phrase(dice.pick((grammar.THE, grammar.THE, grammar.THIS)), words.WEATHER)
    else:
        noun = dice.pick(sense.nouns(words.PLEASING))
        thing = sense.describe(dice, noun, sense.KNOWN)
    when, wann = dice.pick((("", ""), ("today", "heute"), ("now", "jetzt")))
    does = "does" if who.person == 2 else "do"
    pleases = "gefallen" if thing.person == 4 else "gefällt"
    english = f"how {does} {who.english} like {thing.english_object} {when}".rstrip()
    german = f"wie {pleases} {who.german['dative']} {thing.german['nominative']} {wann}".rstrip()
    return (english, german), "?", [Clause(who, words.BE), Clause(thing, words.BE)]


WHAT = grammar.pronoun("what", "what", "was was wem", 2)


def fronted(clause: Clause, front: Two, clauses: list[Clause]) -> Draft:
    english = f"{front[0]} {grammar.english(clause, inverted=True)}"
    return (english, grammar.german(clause, front=front[1])), "?", clauses


def willed(dice: Dice, *, plain: bool = False, negative: bool = False) -> Clause:
    """A clause about what people do on purpose."""
    while True:
        clause = sense.doing(dice, plain, negative)
        if clause.verb.willed:
            return clause


def command(dice: Dice) -> Draft:
    negative = dice.chance(0.25)
    you = grammar.PRONOUNS[1]
    while True:
        clause = willed(dice, plain=True, negative=negative)
        others = [thing for thing in (clause.receiver, clause.object) if thing]
        if clause.verb.told and you not in others and not (clause.object and clause.object.negative):
            break
    clause = replace(clause, subject=you)
    if negative or dice.chance(0.5):
        return grammar.command(clause), "!", [clause]
    english, _ = grammar.command(clause)
    _, german = grammar.command(replace(clause, time=grammar.Adverbial("", "bitte")))
    return (f"please {english}", german), "!", [clause]


def subordinate(dice: Dice) -> Draft:
    """The main clause first."""
    conjunction = dice.pick((("because", "weil"), ("although", "obwohl"), ("while", "während")))
    main, side = events(dice, timeless=conjunction[0] == "while")
    english = f"{grammar.english(main)} {conjunction[0]} {grammar.english(side)}"
    german = f"{grammar.german(main)}, {conjunction[1]} {grammar.german(side, 'last')}"
    return (english, german), ".", [main, side]


def events(dice: Dice, timeless: bool = False) -> tuple[Clause, Clause]:
    """Two that happen at one time; a timeless second one is in the plain present, and the first not past."""
    if timeless or dice.chance(0.6):
        tenses: tuple[Tense, ...] = ("present", *(modal for modal, _ in sense.MODALS))
        later: tuple[Tense, ...] = ("present",) if timeless else tenses
    else:
        tenses = later = ("past",)
    first = event(dice, tenses)
    while True:
        second = event(dice, later)
        one, other = first.subject, second.subject
        same = one.noun == other.noun if one.noun else one.english == other.english and not one.pronoun
        if not same and second.verb != first.verb:
            return first, second


def event(dice: Dice, tenses: tuple[Tense, ...]) -> Clause:
    return sense.clause(dice, plain=True, negative=dice.chance(0.15), tenses=tenses, frames=sense.EVENTS)


def conditional(dice: Dice) -> Draft:
    """The subordinate clause first: it takes the place before the verb of the main clause."""
    conjunction = dice.pick((("if", "wenn"), ("because", "weil"), ("although", "obwohl")))
    main, side = events(dice, timeless=conjunction[0] == "if")
    english = f"{conjunction[0]} {grammar.english(side)}, {grammar.english(main)}"
    german = f"{conjunction[1]} {grammar.german(side, 'last')}, {grammar.german(main, 'first')}"
    return (english, german), ".", [side, main]


REPORTS: tuple[tuple[str, words.Forms], ...] = (
    ("know", ("weiß", "weißt", "weiß", "wissen", "wissen")),
    ("say", ("sage", "sagst", "sagt", "sagen", "sagen")),
    ("think", ("glaube", "glaubst", "glaubt", "glauben", "glauben")),
    ("hear", ("höre", "hörst", "hört", "hören", "hören")),
)


def reported(dice: Dice) -> Draft:
    """What somebody knows or says; and what somebody does not know."""
    doubt = dice.chance(0.25)
    told = sense.clause(dice, plain=dice.chance(0.7), negative=not doubt and dice.chance(0.15))
    who = sense.person(dice, plain=True)
    speaker = who.german["nominative"]
    if doubt:
        (_, forms), link = REPORTS[0], ("whether", "ob")
        verb, german = f"{'does' if who.person == 2 else 'do'} not know", f"{forms[who.person]} nicht"
    else:
        (base, forms), link = dice.pick(REPORTS), ("that", "dass")
        verb, german = grammar.third(base) if who.person == 2 else base, forms[who.person]
    speech = Clause(who, words.BE)
    english = f"{who.english} {verb} {link[0]} {grammar.english(told)}"
    return (english, f"{speaker} {german}, {link[1]} {grammar.german(told, 'last')}"), ".", [speech, told]


def joined(dice: Dice) -> Draft:
    and_, und = dice.pick(((" and ", " und "), (", but ", ", aber ")))
    first, second = events(dice)
    english = grammar.english(first) + and_ + grammar.english(second)
    return (english, grammar.german(first) + und + grammar.german(second)), ".", [first, second]


COMPARED = ("adult", "child", "animal", "text", "clothes", "device", "vehicle", "surface", "place")


def comparison(dice: Dice) -> Draft:
    kind = dice.pick(COMPARED)
    nouns = words.NOUNS[kind]
    first = sense.describe(dice, dice.pick(nouns), sense.KNOWN)
    second = sense.other(first, lambda: sense.describe(dice, dice.pick(nouns), sense.KNOWN, plain=True))
    more, mehr = dice.pick([quality.more for quality in sense.qualities(kind, first, second) if quality.more])
    than = grammar.Adverbial(
        f"{more} than {second.english}",
        f"{mehr} als {second.german['nominative']}",
        tuple(second.combinations()),
    )
    clause = Clause(first, words.BE, elsewhere=[than])
    return both(clause), ".", [clause]


def existence(dice: Dice) -> Draft:
    """There is, there are: German puts the place first."""
    noun = dice.pick(sense.nouns("animal vehicle man woman boy girl"))
    thing = sense.describe(dice, noun, words.DECISIONS["existing"])
    where = sense.spot(dice, outside=noun in words.NOUNS["vehicle"])
    tense: Tense = "past" if dice.chance(0.3) else "present"
    clause = Clause(thing, words.BE, tense, elsewhere=[where])
    there, _ = grammar.english_verb(clause, support=False)
    german = grammar.german(replace(clause, elsewhere=[]), front=where.german)
    return (f"there {there} {thing.english} {where.english}", german), ".", [clause]


def time(dice: Dice) -> Draft:
    english, german = sense.clock(dice)
    return (f"it is {english}", f"es ist {german}"), ".", []


CONSTRUCTIONS: tuple[tuple[tuple[str, Callable[[Dice], Draft]], float], ...] = tuple(
    ((make.__name__, make), weight)
    for make, weight in (
        (statement, 0.28),
        (inversion, 0.11),
        (negation, 0.1),
        (question, 0.11),
        (asking, 0.09),
        (liking, 0.02),
        (command, 0.05),
        (subordinate, 0.06),
        (conditional, 0.04),
        (reported, 0.06),
        (joined, 0.02),
        (comparison, 0.03),
        (existence, 0.027),
        (time, 0.003),
    )
)
