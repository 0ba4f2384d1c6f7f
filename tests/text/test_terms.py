"""Terms: where they are found in a source, and whether a translation has them."""

import pytest

from regard.text.terms import Terms, enforce, held, inflects


def found(terms: Terms, text: str) -> list[str]:
    return [each.target for each in terms.find(text)]


def test_case_counts_as_each_term_says():
    entries = {"station": "Bahnhof", "Apple": "Apfel GmbH", "regard": "regard"}
    terms = Terms(entries, exact={"Apple"}, any_case={"regard"})
    assert found(terms, "Station, STATION and station") == ["Bahnhof"] * 3
    assert found(terms, "stAtion") == []
    assert found(terms, "Apple, apple, APPLE") == ["Apfel GmbH"]
    assert found(terms, "reGard") == ["reGard"]


@pytest.mark.parametrize(
    ("word", "term", "expected"),
    [
        ("Leitern", "Leiter", True),
        ("Häuser", "Haus", True),
        ("Hauses", "Haus", True),
        ("Jungs", "Junge", True),
        ("Bahnhöfe", "Bahnhof", True),
        ("leiter", "Leiter", True),
        ("Balkon", "Ball", False),
        ("Hausboot", "Haus", False),
        ("Bah", "Bahnhof", False),
        ("Universitäten", "Universität", True),
        ("Ein", "Ei", False),
        ("it", "IT", False),
        ("used", "US", False),
        ("Gott", "Go", False),
        ("Artist", "Art", False),
        ("Torte", "Tor", False),
        ("Hausa", "NATO", False),
        ("nator", "NATO", False),
        ("ringing", "Ring", False),
        ("Ringer", "ring", False),
        ("Ringe", "Ring", True),
        ("Wein", "Wein", True),
        ("городов", "город", True),
        ("домов", "дома", False),
    ],
)
def test_other_endings_are_forms_of_a_word(word, term, expected):
    assert inflects(word, term) is expected


def test_short_terms_and_names_have_no_other_forms():
    wanted = Terms({"egg": "Ei", "IT": "IT", "Windows": "Windows", "go": "los"}).find
    assert held("Ein Mann isst ein Omelett.", wanted("an egg"), inflected=True) == [None]
    assert held("it is here", wanted("IT"), inflected=True) == [None]
    assert held("Windowsen", wanted("Windows"), inflected=True) == [None]
    assert held("Windows", wanted("Windows"), inflected=True) == ["exact"]
    assert held("Na dann: Los!", wanted("go"), inflected=True) == ["inflected"]
    assert held("Das Los", wanted("go"), inflected=True) == [None], "a capital in the midst of a sentence"


def test_longer_terms_take_their_places_first():
    terms = Terms({"harbour": "garden", "lantern": "garden silver"})
    source, text = "harbour lantern", "mirror garden silver"
    wanted = terms.find(source)
    assert held("garden silver and garden", wanted) == ["exact", "exact"]
    assert held(text, wanted) == [None, "exact"]
    made, _ = enforce(source, text, [(0, 0), (1, 1), (1, 2)], wanted)
    assert made == "garden garden silver"
    assert held(made, wanted) == ["exact", "exact"]


@pytest.mark.parametrize(
    ("term", "text", "written"),
    [
        ("railway station", "the railway  station", "railway  station"),
        ("railway station", "the railway\u00a0station", "railway\u00a0station"),
        ("railway station", "the railway\n station.", "railway\n station"),
        ("Café", "a Cafe\u0301!", "Cafe\u0301"),
        ("Cafe\u0301", "a Café!", "Café"),
        ("driver's seat", "the driver\u2019s seat", "driver\u2019s seat"),
        ("driver\u2019s seat", "the driver's seat", "driver's seat"),
        ("กรุงเทพ", "ผมรักกรุงเทพมาก", "กรุงเทพ"),
        ("हिन्द", "हिन्द महासागर", "हिन्द"),
        ("한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8 x", "\u1112\u1161\u11ab\u1100\u116e\u11a8"),
    ],
)
def test_a_term_is_found_however_its_characters_are_written(term, text, written):
    (found,) = Terms({term: "X"}).find(text)
    assert text[found.start : found.end] == written
    (found,) = Terms({"x": term}).find("x")
    assert held(text, [found]) == ["exact"]


@pytest.mark.parametrize(("term", "text"), [("हिन्द", "हिन्दी"), ("Cafe", "Cafe\u0301"), ("ก", "กั")])
def test_no_term_is_found_in_a_part_of_a_word_or_a_character(term, text):
    assert Terms({term: "X"}).find(text) == []


def test_each_term_needs_a_place_of_its_own():
    terms = Terms({"house": "Haus", "big house": "großes Haus", "dog": "Hund"})
    wanted = terms.find("The dog in the big house by the house")
    assert held("Der Hund im großes Haus beim Haus", wanted) == ["exact"] * 3
    assert held("Der Hund im großen Haus beim Häuschen", wanted) == ["exact", None, "exact"]
    assert held("Die Hunde im großen Haus beim Hause", wanted) == [None, None, "exact"]
    assert held("Die Hunde im großen Hause beim Haus", wanted, inflected=True) == [
        "inflected",
        "inflected",
        "exact",
    ]
    assert held("Hundert Haustiere", wanted) == [None] * 3
    assert held("[X1X] Hund", wanted[:1], names=["Hund"]) == [None]
