"""Glossaries from files of every kind, and from a memory."""

import pytest

from regard.config import ConfigError
from regard.memory import Entry, Glossary, Memory, read_glossary
from regard.memory.glossary import import_glossary
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
    Memory(tmp_path / "empty.db", create=True).close()
    with pytest.raises(ConfigError, match="no terms; regard memory import"):
        read_glossary(tmp_path / "empty.db")


def test_a_mapping_is_a_glossary():
    glossary = Glossary.of({"dog": "Hund", "Windows": ""})
    assert [each.target for each in glossary.terms.find("A dog in Windows")] == ["Hund", "Windows"]
    assert Glossary.of(glossary) is glossary
