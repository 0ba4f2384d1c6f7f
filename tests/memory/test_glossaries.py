"""Glossaries from files of every kind, and from a memory."""

import pytest

from regard.config import ConfigError
from regard.memory import Entry, Glossary, Memory, read_glossary
from regard.memory.glossary import GlossarySettings, import_glossary
from regard.text import DataError, Skipped

TBX = """<?xml version="1.0"?>
<!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX"><text><body>
<termEntry id="1">
 <langSet xml:lang="en-US"><tig><term>railway station</term></tig><tig><term>train
   station</term></tig></langSet>
 <langSet xml:lang="de"><ntig><termGrp><term>Bahnhof</term></termGrp></ntig></langSet>
</termEntry>
<termEntry id="2"><langSet xml:lang="en"><tig><term>dog</term></tig></langSet>
 <langSet xml:lang="fr"><tig><term>chien</term></tig></langSet></termEntry>
</body></text></martif>"""
TBX_3 = """<tbx xmlns="urn:iso:std:iso:30042:ed-2" type="TBX-Basic" style="dca"><text><body>
<conceptEntry id="1"><langSec xml:lang="en"><termSec><term>dog</term></termSec></langSec>
<langSec xml:lang="de"><termSec><term>Hund</term></termSec></langSec></conceptEntry>
</body></text></tbx>"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "term,translation,do_not_translate,case\nstation,Bahnhof,,\nWindows,,yes,exact\n"),
        ("t.csv", "case,target,note,source\n,Bahnhof,x,station\nEXACT,,y,Windows\n"),
        ("t.tsv", "station\tBahnhof\t\t\nWindows\t\tx\texact\n"),
        ("t.tsv", "old\tx\t\t\nstation\talt\t\t\nstation\tBahnhof\nWindows\tWindows\t1\texact\n"),
    ],
)
def test_tables_have_terms_and_how_they_are_found(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found = {each.term: each for each in read_glossary(tmp_path / name).entries}
    assert found["station"] == Entry("station", "Bahnhof")
    assert found["Windows"].case == "exact"
    terms = read_glossary(tmp_path / name).terms
    assert [each.target for each in terms.find("Windows in a station; windows")] == ["Windows", "Bahnhof"]


def test_tbx_of_both_versions_is_read(tmp_path):
    (tmp_path / "a.tbx").write_text(TBX)
    entries = read_glossary(tmp_path / "a.tbx", source="en", target="de").entries
    assert entries == (Entry("railway station", "Bahnhof"), Entry("train station", "Bahnhof"))
    (tmp_path / "b.tbx").write_text(TBX_3)
    assert read_glossary(tmp_path / "b.tbx").entries == (Entry("dog", "Hund"),)
    assert read_glossary(tmp_path / "b.tbx", source="de", target="en").entries == (Entry("Hund", "dog"),)
    with pytest.raises(DataError, match="a glossary without terms"):
        read_glossary(tmp_path / "b.tbx", source="it", target="en")


def entry(*sections):
    inside = "".join(
        f'<langSet xml:lang="{code}">'
        + "".join(
            f'<tig><term>{term}</term><termNote type="administrativeStatus">{status}</termNote></tig>'
            for term, status in terms
        )
        + "</langSet>"
        for code, terms in sections
    )
    return f'<martif type="TBX"><text><body><termEntry>{inside}</termEntry></body></text></martif>'


def test_deprecated_terms_are_found_but_never_written(tmp_path):
    deprecated, preferred = "deprecatedTerm-admn-sts", "preferredTerm-admn-sts"
    english = ("en", [("car", ""), ("motorcar", deprecated)])
    german = ("de", [("Kraftwagen", deprecated), ("Wagen", ""), ("Auto", preferred)])
    (tmp_path / "a.tbx").write_text(entry(english, german))
    entries = read_glossary(tmp_path / "a.tbx", source="en", target="de").entries
    assert entries == (Entry("car", "Auto"), Entry("motorcar", "Auto"))
    (tmp_path / "a.tbx").write_text(entry(english, ("de", [("Kraftwagen", deprecated)])))
    with pytest.raises(DataError, match="a glossary without terms"):
        read_glossary(tmp_path / "a.tbx", source="en", target="de")


def test_every_spelling_of_a_language_has_its_terms(tmp_path):
    sections = ("en-GB", [("lift", "")]), ("en-US", [("elevator", "")]), ("de", [("Aufzug", "")])
    (tmp_path / "a.tbx").write_text(entry(*sections))
    entries = read_glossary(tmp_path / "a.tbx", source="en", target="de").entries
    assert entries == (Entry("lift", "Aufzug"), Entry("elevator", "Aufzug"))
    entries = read_glossary(tmp_path / "a.tbx", source="de", target="en-us").entries
    assert entries == (Entry("Aufzug", "elevator"),)


def test_one_known_language_says_which_way_a_glossary_is_read(tmp_path):
    (tmp_path / "a.tbx").write_text(entry(("de", [("Hund", "")]), ("en", [("dog", "")])))
    wanted = (Entry("dog", "Hund"),)
    assert read_glossary(tmp_path / "a.tbx", target="de-AT").entries == wanted
    assert read_glossary(tmp_path / "a.tbx", source="en").entries == wanted
    likely = GlossarySettings(likely=("en", None))
    assert read_glossary(tmp_path / "a.tbx", settings=likely).entries == wanted
    with pytest.raises(DataError, match="which languages"):
        read_glossary(tmp_path / "a.tbx", target="fr")


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("en,de-DE\ndog,Hund\n", {"source": "en-US", "target": "de"}),
        ("de;note;en\nHund;x;dog\n", {"likely": ("en", "de")}),
        ("English,German (Austria)\ndog,Hund\n", {"source": "en", "target": "de"}),
        ("GERMAN,English\nHund,dog\n", {"likely": ("eng_Latn", "deu_Latn")}),
        ("dog;Hund\n", {}),
        ("dog|Hund\n", {"separator": "|"}),
    ],
)
def test_headers_and_separators_are_recognised(tmp_path, text, settings):
    (tmp_path / "t.csv").write_text(text)
    found = read_glossary(tmp_path / "t.csv", settings=GlossarySettings(**settings))
    assert found.entries == (Entry("dog", "Hund"),)


def test_broken_rows_are_told_or_skipped(tmp_path):
    text = "good,gut\n,leer\nsame,anders,yes\nodd,x,maybe\ncase,x,,upper\n"
    text += "x" * 2000 + ",y\nlast,letzter\n"
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=r"t\.csv:2"):
        read_glossary(tmp_path / "t.csv")
    skipped = Skipped()
    found = read_glossary(tmp_path / "t.csv", on_error="skip", skipped=skipped)
    assert [each.term for each in found.entries] == ["good", "last"]
    assert skipped.total == 5
    with pytest.raises(ConfigError, match=r"t\.txt: a glossary is read from \.tsv"):
        read_glossary(tmp_path / "t.txt")


def test_a_memory_keeps_terms_of_several_languages(tmp_path):
    (tmp_path / "t.csv").write_text("station,Bahnhof,,any\n")
    (tmp_path / "f.csv").write_text("station,gare\n")
    assert import_glossary(tmp_path / "t.csv", tmp_path / "m.db", "en-US", "de")[0] == 1
    assert read_glossary(tmp_path / "m.db").entries == (Entry("station", "Bahnhof", "any"),)
    import_glossary(tmp_path / "f.csv", tmp_path / "m.db", "en", "fr")
    with pytest.raises(ConfigError, match=r"several pairs of languages \(en:fr, en-us:de\); say which"):
        read_glossary(tmp_path / "m.db")
    assert read_glossary(tmp_path / "m.db", source="en", target="fr").entries == (Entry("station", "gare"),)
    (tmp_path / "t.csv").write_text("station,Hauptbahnhof\n")
    import_glossary(tmp_path / "t.csv", tmp_path / "m.db", "en-US", "de")
    assert read_glossary(tmp_path / "m.db", target="de").entries == (Entry("station", "Hauptbahnhof"),)
    likely = GlossarySettings(likely=("en", "fr"))
    assert read_glossary(tmp_path / "m.db", settings=likely).entries == (Entry("station", "gare"),)
    with pytest.raises(ConfigError, match=r"no terms of any:it; it has en:fr, en-us:de"):
        read_glossary(tmp_path / "m.db", target="it")
    Memory(tmp_path / "empty.db", create=True).close()
    with pytest.raises(ConfigError, match="no terms; regard memory import"):
        read_glossary(tmp_path / "empty.db")


def test_a_mapping_is_a_glossary():
    glossary = Glossary.of({"dog": "Hund", "Windows": ""})
    assert [each.target for each in glossary.terms.find("A dog in Windows")] == ["Hund", "Windows"]
    assert Glossary.of(glossary) is glossary
