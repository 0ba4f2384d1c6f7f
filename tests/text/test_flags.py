"""Flags: each has a text that raises it, and one next to it that does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.flags import NAMES, FlagSettings, flagger, flags_of

GOOD = "Where is the next station, please?"


@pytest.mark.parametrize(
    ("source", "target", "flags"),
    [
        (GOOD, "Wo ist bitte der nächste Bahnhof?", ()),
        ("", "anything", ()),
        (GOOD, "  ", ("empty",)),
        (GOOD, "Wo ist der der der Bahnhof, bitte?", ("repetition",)),
        ("very very very good", "sehr sehr sehr gut", ()),
        (GOOD, "Wo ist der, wo ist der, wo ist der Bahnhof?", ("repetition",)),
        (GOOD, "an der Ecke da a an der Ecke da b an der Ecke da", ("repetition",)),
        (GOOD, "Wo istististististististist der Bahnhof", ("repetition",)),
        ("Wait......... now", "Warte......... jetzt", ()),
        (GOOD, "Wo?", ("too-short",)),
        ("Yes.", "Ja, das ist so, und", ()),
        ("Yes.", "Ja, das ist so, wie es immer schon gewesen ist", ("too-long",)),
        ("駅はどこですか", "Where is the station?", ()),
        ("It costs 1,000.50 dollars", "Es kostet 1.000,50 Dollar", ()),
        ("It costs 12 dollars", "Es kostet 21 Dollar", ("numbers",)),
        ("It costs 12 dollars", "Es kostet zwölf Dollar", ("numbers",)),
        ("Round 2 of ٣", "Runde 2 von 3", ()),
        ("It is 1.05 m high", "Es ist 1,5 m hoch", ("numbers",)),
        ("It costs 1,000 dollars", "Es kostet 1,0 Dollar", ("numbers",)),
        ("It is -5 degrees there", "Es sind dort 5 Grad", ("numbers",)),
        ("It is -5 degrees there", "Es sind dort \u22125 Grad", ()),
        ("It is -5 degrees there", "Es sind dort minus 5 Grad", ()),
        ("It is -5 degrees there", "那里是-5度左右", ()),
        ("COVID-19 and pages 3-5", "COVID 19 und Seiten 3\u20135", ()),
        ("It costs 1000 dollars", "Es kostet 1.000 Dollar", ()),
        ("It costs 1,000 dollars", "Es kostet 1000 Dollar", ()),
        ("It costs 1,234,567.8 dollars", "Il coûte 1 234 567,8 dollars ici", ()),
        ("It costs 1,00,000 rupees", "Es kostet 100.000 Rupien", ()),
        ("It costs 1,234,567.8 dollars", "Es kostet 1.234.567,9 Dollar", ("numbers",)),
        ("It begins at 10:30 sharp", "Es beginnt um 10.30 Uhr", ()),
        ("It was on 05.06.2024 here", "It was here on 5/6/2024", ()),
        ("It was on May 5 of 2024", "那是2024年5月5日", ()),
        ("那是2024年5月5日", "It was on May 5, 2024", ()),
        ("那是2024年5月5日", "It was on May 6, 2024", ("numbers",)),
        ("那是5月的一天吧", "6月のある日でした", ("numbers",)),
        ("Hello %s, {0} new", "Hallo %s, {0} neue", ()),
        ("30 % d'électeurs indécis", "30 percent of undecided voters", ()),
        ("50 % i Sverige just nu", "50 percent in Sweden just now", ()),
        ("Il 20% e oltre di loro", "20 percent of them and more", ()),
        ("请访问https://example.com了解更多。", "Visit https://example.com to learn more.", ()),
        ("Open $t(key) now", "Jetzt $t(kex) öffnen", ("placeholders",)),
        ("Hello %name% there", "Hallo da, du", ("placeholders",)),
        ("Hello {user.name!r} there", "Hallo {user.name} da", ("placeholders",)),
        ("Hello %s, {0} new", "Hallo %d, {0} neue", ("placeholders",)),
        ("Press <b>OK</b> now", "Drücke <b>OK jetzt", ("placeholders",)),
        ("See https://a.de/x?y=1.", "Siehe https://a.de/x?y=1.", ()),
        ("See https://a.de/x here", "Siehe https://b.de/x hier", ("placeholders",)),
        ("100% sure of it", "100 % sicher", ()),
        ("Where is the station", "Where is the station", ("copied",)),
        ("one two three four five", "one two three four fünf", ("copied",)),
        ("Barack Obama", "Barack Obama", ()),
        ("今天天气很好", "今天天气很好", ("copied",)),
        ("北京市", "北京市", ()),
        ("हिन्दी भाषा अच्छी", "हिन्दी भाषा अच्छी", ("copied",)),
        (
            "The weather is very nice today, is it",
            "今天天气很好今天天气很好今天天气很好今天天气很好",
            ("repetition",),
        ),
        ("Ha ha ha, how very nice it is", "哈哈哈 真的太好了", ()),
        (GOOD, "Wo ist \ufffd der Bahnhof, bitte?", ("characters",)),
        ("a \ufffd in the source of it", "ein \ufffd in der Quelle", ()),
        (GOOD, "Wo ist <unk> der Bahnhof, bitte?", ("placeholders", "characters")),
    ],
)
def test_what_should_be_looked_at_has_a_name(source, target, flags):
    assert flags_of(source, target) == flags


def test_what_the_model_says_is_looked_at_too():
    class Said:
        confidence, finished, unknown = 0.3, False, 2

    good = "Wo ist bitte der nächste Bahnhof?"
    assert flags_of(GOOD, good, 0.39) == ("low-confidence",)
    assert flags_of(GOOD, good, 0.4) == ()
    assert flagger()(GOOD, good, Said()) == ("low-confidence", "unfinished", "unknown")
    assert flagger(FlagSettings(confidence=0))(GOOD, good, Said()) == ("unfinished", "unknown")
    assert flagger()(GOOD, good, None) == ()


@given(st.text(max_size=60), st.text(max_size=60))
def test_flags_are_names_in_their_order_whatever_the_texts(source, target):
    found = flags_of(source, target)
    assert [name for name in NAMES if name in found] == [*found]


@pytest.mark.parametrize(
    "wrong", [{"confidence": 1.5}, {"proportion": 1.0}, {"spare": -1}, {"repeats": 1}, {"ngram": 0}]
)
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FlagSettings(**wrong)
