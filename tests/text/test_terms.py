"""Terms: where they are found in a source, and whether a translation has them."""

import pytest

from regard.text.terms import Terms, held, inflects


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
    ],
)
def test_other_endings_are_forms_of_a_word(word, term, expected):
    assert inflects(word, term) is expected


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
