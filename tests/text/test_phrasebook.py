import re
from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import pytest

from regard.text.phrasebook import corpus as phrasebook
from regard.text.phrasebook import grammar, sense, sentences, words
from regard.text.phrasebook.corpus import Sentence, draw, phrases, share, write
from regard.text.phrasebook.grammar import Adverbial, Clause, phrase
from regard.text.readers import read_pairs

NOUNS = [noun for kind in words.NOUNS.values() for noun in kind]
VERBS = [*words.TRANSITIVE, *words.GIVING, *words.INTRANSITIVE, *words.MOVING, words.PUT]


@cache
def train(seed: int) -> list[Sentence]:
    return draw("train", 15_000, seed)


@cache
def held(split: phrasebook.Split) -> list[Sentence]:
    return draw(split, 300)


def corpus() -> list[Sentence]:
    return train(0)


def built(construction: str) -> list[Sentence]:
    return [sentence for sentence in corpus() if sentence.construction == construction]


def tokens(text: str) -> list[str]:
    return re.findall(r"[\w'-]+|[.,?!]", text)


def noun(english: str) -> words.Noun:
    return next(noun for noun in NOUNS if noun.english == english)


def verb(english: str) -> words.Verb:
    return next(verb for verb in VERBS if verb.english == english)


I, YOU, HE, SHE, WE, THEY = grammar.PRONOUNS  # noqa: E741


# What is promised of the corpus


def test_no_english_sentence_has_two_german_ones() -> None:
    translations: dict[str, str] = {}
    for seed in range(2):
        for sentence in train(seed):
            assert translations.setdefault(sentence.english, sentence.german) == sentence.german


def test_the_same_seed_gives_the_same_text_and_another_seed_another() -> None:
    assert phrases("train", 500, seed=3) == phrases("train", 500, seed=3)
    texts = [{pair.source for pair in phrases("train", 500, seed=seed)} for seed in (3, 4)]
    assert len(texts[0] & texts[1]) < 50


def test_the_text_is_the_same_on_every_machine() -> None:
    """The first sentences, written down: a change here is a change of everybody's corpus."""
    assert [(pair.source, pair.target) for pair in phrases("train", 2)] == [
        ("Although the boys help the uncle, she dances.", "Obwohl die Jungen dem Onkel helfen, tanzt sie."),
        ("Why did Anna play?", "Warum hat Anna gespielt?"),
    ]


def test_more_sentences_begin_with_the_same_ones() -> None:
    assert phrases("test", 60)[:40] == phrases("test", 40)


def test_sentences_are_distinct_and_know_their_line() -> None:
    pairs = phrases("valid", 100)
    assert len({pair.source for pair in pairs}) == len(pairs) == 100
    assert [pair.origin.line for pair in pairs] == list(range(1, 101))
    assert str(pairs[6].origin) == "phrasebook:7"


def test_the_space_is_larger_than_300_000_sentences() -> None:
    """Two samples of n that share m come from n * n / m sentences (Lincoln and Petersen).

    That is too few if some sentences are likelier than others, as short ones are here.
    """
    first, second = ({sentence.english for sentence in train(seed)} for seed in (0, 1))
    assert len(first) * len(second) / len(first & second) > 300_000


def test_sentences_have_3_to_16_words() -> None:
    for sentence in corpus():
        for text in (sentence.english, sentence.german):
            assert 3 <= len(text.split()) <= 16


def test_every_construction_occurs() -> None:
    counts = Counter(sentence.construction for sentence in corpus())
    assert counts.keys() == {name for (name, _), _ in sentences.CONSTRUCTIONS}
    assert all(count > 150 for name, count in counts.items() if name != "time")


def test_the_weights_of_the_constructions_sum_to_1() -> None:
    assert sum(weight for _, weight in sentences.CONSTRUCTIONS) == pytest.approx(1)


def test_the_table_of_the_module_shows_every_construction_in_words_of_the_corpus() -> None:
    rows = [row.split("|") for row in (phrasebook.__doc__ or "").splitlines() if row.startswith("| ")][1:]
    assert [row[1].strip() for row in rows] == [name for (name, _), _ in sentences.CONSTRUCTIONS]
    known = {word for sentence in corpus() for word in tokens(sentence.german.lower())}
    for row in rows:
        assert set(tokens(row[3].strip().lower())) <= known


# The split


def test_every_sentence_of_valid_and_test_holds_a_combination_that_training_never_has() -> None:
    trained = {pair for sentence in corpus() for pair in sentence.combinations}
    for split in ("valid", "test"):
        for sentence in held(split):
            new = {pair for pair in sentence.combinations if share(pair) == split}
            assert new
            assert not new & trained
            assert {share(pair) for pair in sentence.combinations} <= {split, "train"}
    assert {share(pair) for pair in trained} == {"train"}


def test_the_splits_share_no_sentence() -> None:
    texts = [
        {sentence.english for sentence in part} for part in (train(0), train(1), held("valid"), held("test"))
    ]
    texts[:2] = [texts[0] | texts[1]]
    assert sum(map(len, texts)) == len(set().union(*texts))


def test_no_adjective_stands_before_a_noun_uncounted() -> None:
    lemma = {name: one.english for one in NOUNS for name in (one.english, one.english_plural) if name}
    for sentence in [*corpus(), *held("valid"), *held("test")]:
        for first, second in pairwise(tokens(sentence.english)):
            if first in words.ADJECTIVES and second in lemma:
                assert (first, lemma[second]) in sentence.combinations, sentence


def test_what_somebody_does_to_something_is_counted() -> None:
    lemma = {name: one.english for one in NOUNS for name in (one.english, one.english_plural) if name}
    for sentence in corpus():
        found = re.search(r"\b(drink|eat|repair|visit)s? (?:the|a|an|my|this) (\w+)\b", sentence.english)
        if found and found[2] in lemma:
            assert (found[1], lemma[found[2]]) in sentence.combinations, sentence


def test_about_5_in_100_combinations_are_held_out() -> None:
    verbs = [(verb.english, one.english) for verb in VERBS for one in sense.nouns(verb.about)]
    adjectives = [
        (adjective.english, one.english)
        for kind, nouns in words.NOUNS.items()
        for adjective, one in product(words.DESCRIBES[kind], nouns)
    ]
    for pairs in (verbs, adjectives):
        counts = Counter(share(pair) for pair in pairs)
        assert 0.01 < counts["valid"] / len(pairs) < 0.04
        assert 0.015 < counts["test"] / len(pairs) < 0.05


def test_no_verb_and_no_noun_loses_more_than_a_part_to_the_held_out() -> None:
    for one in VERBS:
        shares = [share((one.english, noun.english)) for noun in sense.nouns(one.about)]
        assert not shares or shares.count("train") / len(shares) >= 0.7, one.english
    for kind, nouns in words.NOUNS.items():
        for one in nouns:
            shares = [share((adjective.english, one.english)) for adjective in words.DESCRIBES[kind]]
            assert shares.count("train") / len(shares) >= 0.6, one.english


def test_the_words_of_held_out_sentences_are_known_from_training() -> None:
    counts = Counter(
        word for sentence in corpus() for word in tokens(f"{sentence.english} {sentence.german}")
    )
    found = [
        word
        for split in ("valid", "test")
        for sentence in held(split)
        for word in tokens(f"{sentence.english} {sentence.german}")
    ]
    assert sum(counts[word] == 0 for word in found) / len(found) < 0.001
    assert sum(counts[word] < 10 for word in found) / len(found) < 0.01


def test_files_are_parallel_and_hold_one_sentence_a_line(tmp_path: Path) -> None:
    files = write(tmp_path / "new" / "folder", train=200, valid=20, test=30)
    assert [file.name for file in files] == [
        f"{split}.{language}" for split in ("train", "valid", "test") for language in ("en", "de")
    ]
    for (english, german), (split, count) in zip(
        zip(files[::2], files[1::2], strict=True), (("train", 200), ("valid", 20), ("test", 30)), strict=True
    ):
        found = [(pair.source, pair.target) for pair in read_pairs(str(english), str(german))]
        assert found == [(pair.source, pair.target) for pair in phrases(split, count)]


def test_asking_for_more_than_there_are_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "CONSTRUCTIONS", ((("time", sentences.time), 1.0),))
    monkeypatch.setattr(phrasebook, "PATIENCE", 2000)
    assert len(phrases("train", 48)) == 48  # 12 hours: full, half and two quarters
    with pytest.raises(ValueError, match=r"count=49 train sentences are more than there are: 48 were found"):
        phrases("train", 49)


def test_unknown_splits_and_negative_counts_are_errors() -> None:
    with pytest.raises(ValueError, match=r"split='dev' is unknown: choose from train, valid, test"):
        phrases("dev", 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"count=-1"):
        phrases("train", -1)


# Nouns, articles and adjectives

DECLENSION = """
the    nom  der gute Mann      die gute Frau      das gute Kind      die guten Kinder
the    acc  den guten Mann     die gute Frau      das gute Kind      die guten Kinder
the    dat  dem guten Mann     der guten Frau     dem guten Kind     den guten Kindern
this   nom  dieser gute Mann   diese gute Frau    dieses gute Kind   diese guten Kinder
this   acc  diesen guten Mann  diese gute Frau    dieses gute Kind   diese guten Kinder
this   dat  diesem guten Mann  dieser guten Frau  diesem guten Kind  diesen guten Kindern
a      nom  ein guter Mann     eine gute Frau     ein gutes Kind     -
a      acc  einen guten Mann   eine gute Frau     ein gutes Kind     -
a      dat  einem guten Mann   einer guten Frau   einem guten Kind   -
not a  nom  kein guter Mann    keine gute Frau    kein gutes Kind    keine guten Kinder
not a  acc  keinen guten Mann  keine gute Frau    kein gutes Kind    keine guten Kinder
not a  dat  keinem guten Mann  keiner guten Frau  keinem guten Kind  keinen guten Kindern
our    nom  unser guter Mann   unsere gute Frau   unser gutes Kind   unsere guten Kinder
our    acc  unseren guten Mann  unsere gute Frau  unser gutes Kind   unsere guten Kinder
our    dat  unserem guten Mann  unserer guten Frau  unserem guten Kind  unseren guten Kindern
bare   nom  guter Mann         gute Frau          gutes Kind         gute Kinder
bare   acc  guten Mann         gute Frau          gutes Kind         gute Kinder
bare   dat  gutem Mann         guter Frau         gutem Kind         guten Kindern
three  nom  -                  -                  -                  drei gute Kinder
three  acc  -                  -                  -                  drei gute Kinder
three  dat  -                  -                  -                  drei guten Kindern
many   nom  -                  -                  -                  viele gute Kinder
many   dat  -                  -                  -                  vielen guten Kindern
"""
CASES = {"nom": "nominative", "acc": "accusative", "dat": "dative"}
DETERMINERS = {
    "the": grammar.THE,
    "this": grammar.THIS,
    "a": grammar.A,
    "not a": grammar.NOT_ANY,
    "our": grammar.POSSESSIVE[4],
    "bare": grammar.BARE,
    "three": grammar.counted(3),
    "many": grammar.MANY,
}


@pytest.mark.parametrize("row", DECLENSION.strip().splitlines(), ids=lambda row: " ".join(row.split()[:3]))
def test_articles_and_adjectives_bend_as_in_the_grammar_book(row: str) -> None:
    determiner, case, *expected = re.split(r"\s{2,}", row)
    good = words.ADJECTIVES["good"]
    shapes = [(noun("man"), False), (noun("woman"), False), (noun("child"), False), (noun("child"), True)]
    for (one, plural), text in zip(shapes, expected, strict=True):
        if text != "-":
            found = phrase(DETERMINERS[determiner], one, good, plural)
            assert found.german[CASES[case]] == text  # type: ignore[index]


@pytest.mark.parametrize(
    ("english", "plural", "dative"),
    [
        ("boy", False, "dem Jungen"),
        ("neighbour", False, "dem Nachbarn"),
        ("student", False, "dem Studenten"),
        ("teacher", True, "den Lehrern"),
        ("girl", True, "den Mädchen"),
        ("car", True, "den Autos"),
        ("city", True, "den Städten"),
        ("key", True, "den Schlüsseln"),
    ],
)
def test_nouns_have_their_dative(english: str, plural: bool, dative: str) -> None:
    assert phrase(grammar.THE, noun(english), plural=plural).german["dative"] == dative


def test_every_dative_plural_ends_in_n_or_s() -> None:
    for one in NOUNS:
        if one.german_plural:
            assert grammar.decline(one, "dative", plural=True)[-1] in "ns"


def test_expensive_and_tired_lose_an_e() -> None:
    car, dog = noun("car"), noun("dog")
    assert phrase(grammar.A, car, words.ADJECTIVES["expensive"]).german["nominative"] == "ein teures Auto"
    assert phrase(grammar.A, dog, words.ADJECTIVES["tired"]).german["nominative"] == "ein müder Hund"


def test_a_is_an_before_a_vowel_and_only_there() -> None:
    for sentence in corpus():
        for first, second in pairwise(sentence.english.lower().split()):
            if first in ("a", "an"):
                assert (first == "an") == (second[0] in "aeiou"), sentence.english


def test_adjectives_in_the_corpus_have_an_ending_that_their_article_allows() -> None:
    """After der, dieser and the like only -e and -en; after ein-words never -em."""
    stems = {adjective.stem or adjective.german for adjective in words.ADJECTIVES.values()}
    inflected = {stem + ending: ending for stem in stems for ending in ("e", "en", "er", "es", "em")}
    definite = {"der", "die", "das", "den", "dem", "im", "ins", "zum", "zur"}
    for sentence in corpus():
        for first, second in pairwise(tokens(sentence.german[0].lower() + sentence.german[1:])):
            if second not in inflected:
                continue
            if first in definite or first.startswith(("dies", "jede", "welch")):
                assert inflected[second] in ("e", "en"), sentence.german
            if first in ("eine", "keine", "meine", "unsere"):
                assert inflected[second] in ("e", "en"), sentence.german
            if first in ("ein", "kein", "mein", "unser"):
                assert inflected[second] in ("er", "es"), sentence.german
            if first.endswith(("inem", "inen", "iner", "serem", "seren", "serer")):
                assert inflected[second] == "en", sentence.german


@pytest.mark.parametrize(
    ("value", "english", "german"),
    [
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (66, "sixty-six", "sechsundsechzig"),
        (77, "seventy-seven", "siebenundsiebzig"),
        (99, "ninety-nine", "neunundneunzig"),
    ],
)
def test_numbers_are_spoken_units_first(value: int, english: str, german: str) -> None:
    assert grammar.number(value) == (english, german)


# Verbs


@pytest.mark.parametrize(
    ("english", "forms"),
    [
        ("read", "lese liest liest lesen lesen"),
        ("eat", "esse isst isst essen essen"),
        ("work", "arbeite arbeitest arbeitet arbeiten arbeiten"),
        ("draw", "zeichne zeichnest zeichnet zeichnen zeichnen"),
        ("clean", "putze putzt putzt putzen putzen"),
        ("wash", "wasche wäschst wäscht waschen waschen"),
        ("dance", "tanze tanzt tanzt tanzen tanzen"),
        ("find", "finde findest findet finden finden"),
        ("invite", "lade lädst lädt laden laden"),
        ("help", "helfe hilfst hilft helfen helfen"),
        ("have", "habe hast hat haben haben"),
        ("run", "laufe läufst läuft laufen laufen"),
        ("see", "sehe siehst sieht sehen sehen"),
    ],
)
def test_verbs_have_their_persons(english: str, forms: str) -> None:
    assert " ".join(grammar.present(verb(english))) == forms


@pytest.mark.parametrize(
    ("english", "german"),
    [("read", "lies"), ("give", "gib"), ("drive", "fahr"), ("wash", "wasch"), ("find", "finde")],
)
def test_only_e_to_i_verbs_change_their_vowel_in_a_command(english: str, german: str) -> None:
    assert grammar.imperative(verb(english)) == german


@pytest.mark.parametrize(
    ("base", "form"),
    [("go", "goes"), ("wash", "washes"), ("play", "plays"), ("have", "has"), ("pick up", "picks up")],
)
def test_he_has_an_s(base: str, form: str) -> None:
    assert grammar.third(base) == form


# Clauses: each rule on a clause of its own

WINDOW = phrase(grammar.THE, noun("window"))
BOOK = phrase(grammar.THE, noun("book"))
BOY = phrase(grammar.THE, noun("boy"))
TODAY = Adverbial("today", "heute")
OPEN = Clause(SHE, verb("open"), object=WINDOW)
OPENED = Clause(SHE, verb("open"), "past", object=WINDOW)
WANTS = Clause(SHE, verb("open"), grammar.WANT, object=WINDOW)


@pytest.mark.parametrize(
    ("clause", "english", "second", "last"),
    [
        (OPEN, "she opens the window", "macht * das Fenster auf", "das Fenster aufmacht"),
        (OPENED, "she opened the window", "hat * das Fenster aufgemacht", "das Fenster aufgemacht hat"),
        (
            WANTS,
            "she wants to open the window",
            "will * das Fenster aufmachen",
            "das Fenster aufmachen will",
        ),
    ],
)
def test_the_verb_makes_brackets(clause: Clause, english: str, second: str, last: str) -> None:
    assert grammar.english(clause) == english
    assert grammar.german(clause) == "sie " + second.replace(" *", "")
    assert grammar.german(clause, front="heute") == "heute " + second.replace("*", "sie")
    assert grammar.german(clause, "first") == second.replace("*", "sie")
    assert grammar.german(clause, "last") == "sie " + last


@pytest.mark.parametrize(
    ("clause", "english", "german"),
    [
        (Clause(HE, verb("go"), "past"), "he went", "er ist gegangen"),
        (Clause(I, verb("help"), object=HE), "I help him", "ich helfe ihm"),
        (Clause(I, verb("visit"), object=HE), "I visit him", "ich besuche ihn"),
        (Clause(I, verb("pick up"), object=THEY), "I pick them up", "ich hole sie ab"),
        (Clause(I, verb("pick up"), object=BOY), "I pick up the boy", "ich hole den Jungen ab"),
        (Clause(I, verb("look for"), object=SHE), "I look for her", "ich suche sie"),
        (
            Clause(WE, verb("give"), receiver=BOY, object=BOOK, time=TODAY),
            "we give the boy the book today",
            "wir geben heute dem Jungen das Buch",
        ),
        (
            Clause(WE, verb("give"), receiver=YOU, object=BOOK, time=TODAY),
            "we give you the book today",
            "wir geben dir heute das Buch",
        ),
        (
            Clause(HE, verb("read"), object=BOOK, negative=True),
            "he does not read the book",
            "er liest das Buch nicht",
        ),
        (
            Clause(HE, verb("read"), object=phrase(grammar.NOT_A, noun("book")), negative=True),
            "he does not read a book",
            "er liest kein Buch",
        ),
        (
            Clause(SHE, verb("open"), "past", object=WINDOW, negative=True),
            "she did not open the window",
            "sie hat das Fenster nicht aufgemacht",
        ),
        (Clause(HE, verb("work"), grammar.CAN, negative=True), "he cannot work", "er kann nicht arbeiten"),
        (
            Clause(THEY, words.BE, "past", elsewhere=[Adverbial("tired", "müde")]),
            "they were tired",
            "sie waren müde",
        ),
        (
            Clause(I, verb("work"), elsewhere=[Adverbial("here", "hier"), Adverbial("with you", "mit dir")]),
            "I work here with you",
            "ich arbeite mit dir hier",
        ),
    ],
)
def test_a_clause_is_said_in_both_languages(clause: Clause, english: str, german: str) -> None:
    assert (grammar.english(clause), grammar.german(clause)) == (english, german)


def test_prepositions_choose_the_case_and_melt_with_the_article() -> None:
    garden, school = phrase(grammar.THE, noun("garden")), phrase(grammar.THE, noun("school"))
    assert grammar.prepositional("in", "in", "dative", garden).german == "im Garten"
    assert grammar.prepositional("into", "in", "accusative", garden).german == "in den Garten"
    assert grammar.prepositional("to", "zu", "dative", school).german == "zur Schule"
    assert (
        grammar.prepositional("into", "in", "accusative", phrase(grammar.THE, noun("house"))).german
        == "ins Haus"
    )
    for sentence in corpus():
        assert not re.search(r"\b(in (dem|das)|zu (dem|der))\b", sentence.german.lower()), sentence.german


# The corpus, looked at from outside

FINITE = {
    form
    for one in [*VERBS, words.BE, words.COST]
    for form in (*grammar.present(one), *grammar.PRETERITE["sein"], *grammar.PRETERITE["haben"])
}
FINITE |= {form for modal, _ in sense.MODALS for form in modal.german}
FINITE |= {form for _, forms in sentences.REPORTS for form in forms}
TIMES = [german for group in (words.ALWAYS, words.PRESENT, words.PAST, words.FUTURE) for _, german in group]


def test_in_an_inversion_the_verb_follows_the_time() -> None:
    for sentence in built("inversion"):
        text = sentence.german[0].lower() + sentence.german[1:]
        time = re.match(r"um (\w+ Uhr|halb \w+|Viertel (vor|nach) \w+) ", text)
        front = time[0] if time else max((t for t in TIMES if text.lower().startswith(t.lower())), key=len)
        assert tokens(text[len(front) :])[0] in FINITE, sentence.german


def test_questions_begin_with_the_verb_or_with_what_is_asked_for() -> None:
    for sentence in built("question"):
        assert tokens(sentence.german.lower())[0] in FINITE, sentence.german
    for sentence in built("asking"):
        assert re.match(r"(Wer|Wen|Wem|Was|Wann|Warum|Wie vielen?|Welch\w+) ", sentence.german), (
            sentence.german
        )


def test_what_is_liked_pleases() -> None:
    asked = {sentence.english: sentence.german for sentence in built("liking")}
    assert asked["How do you like the weather today?"] == "Wie gefällt dir das Wetter heute?"
    for english, german in asked.items():
        assert re.match(r"How (do|does) .+ like ", english), english
        several = re.search(
            r" (die|seine|ihre|meine|deine|unsere) (\w+n )?[A-ZÄÖÜ]\w+( heute| jetzt)?\?$", german
        )
        assert german.startswith(("Wie gefällt ", "Wie gefallen ")), german
        assert several or german.startswith("Wie gefällt "), german


@pytest.mark.parametrize("construction", ["subordinate", "conditional", "reported"])
def test_subordinate_clauses_end_with_the_verb(construction: str) -> None:
    prefixed = {one.prefix + form for one in VERBS for form in grammar.present(one)}
    for sentence in built(construction):
        found = re.search(
            r"(?:^|, )(?:weil|obwohl|während|wenn|dass|ob) ([^,.]+)", sentence.german, re.IGNORECASE
        )
        assert found, sentence.german
        assert found[1].split()[-1] in FINITE | prefixed, sentence.german


def test_after_a_subordinate_clause_the_main_verb_comes_at_once() -> None:
    for sentence in built("conditional"):
        assert sentence.german.split(", ")[1].split()[0] in FINITE, sentence.german


def test_a_separable_prefix_ends_a_main_clause() -> None:
    openings = [sentence for sentence in built("statement") if re.search(r"\bopens?\b", sentence.english)]
    present = [s for s in openings if not re.search(r"\b(will|can|must|should|wants?)\b", s.english)]
    assert len(present) > 10
    for sentence in present:
        assert sentence.german.endswith(" auf."), sentence.german


def test_a_negated_sentence_has_one_german_negation() -> None:
    for sentence in built("negation"):
        assert re.search(r"\b(not|cannot)\b", sentence.english)
        found = [
            word for word in tokens(sentence.german.lower()) if word == "nicht" or word.startswith("kein")
        ]
        assert len(found) == 1, sentence.german


def test_commands_begin_with_the_imperative() -> None:
    imperatives = {grammar.imperative(one) for one in VERBS}
    for sentence in built("command"):
        assert tokens(sentence.german.lower())[0] in imperatives
        assert ("please" in sentence.english.lower()) == ("bitte" in sentence.german)


def test_words_are_translated_the_same_way_everywhere() -> None:
    """A noun, in whatever case, number and construction, has its one German noun beside it."""
    german: dict[str, set[str]] = defaultdict(set)
    for one in NOUNS:
        forms = {
            grammar.decline(one, case, plural)
            for case in grammar.CASES
            for plural in (False, bool(one.german_plural))
        }
        for name in {one.english, one.english_plural} - {""}:
            german[name] |= forms
    for sentence in corpus()[:5000]:
        there = set(tokens(sentence.german))
        for word in tokens(sentence.english):
            if word in german:
                assert german[word] & there, sentence
