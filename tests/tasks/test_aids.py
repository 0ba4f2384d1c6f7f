"""A translator with a glossary, a memory and flags."""

import csv
import io
import json

import pytest

from regard.decode import DecodeConfig
from regard.memory import Memory, Segment, recall
from regard.tasks.base.sources import source_of
from regard.tasks.translation.aids import Aids
from regard.tasks.translation.glossary import inner_tokens
from regard.tasks.translation.lines import translate_lines, translate_table
from regard.text.flags import FlagSettings
from tests.tasks.copying import copier, tokenizer, translator

TEXT = "harbour lantern mirror"


def test_texts_that_have_their_terms_stay_as_they_are():
    copies = copier()
    (found,) = copies.translate([TEXT], glossary={"lantern": "lantern"})
    assert found.text == copies.translate(TEXT).text == TEXT
    assert [(use.source, use.target, use.how) for use in found.terms] == [("lantern", "lantern", "model")]
    assert found.alignment is None
    assert copies.translate(TEXT).terms is None
    assert copies.translate("mirror", glossary={"lantern": "x"}).terms == ()


def test_terms_that_are_missing_are_decoded():
    found = copier().translate(TEXT, glossary={"lantern": "bridge"})
    assert [use.how for use in found.terms] == ["decoded"]
    assert "bridge" in found.text.split()
    assert found.finished
    several = copier().translate([TEXT, "", "garden"], glossary={"lantern": "bridge"})
    assert several[0].text == found.text
    assert (several[1].text, several[2].text) == ("", "garden")


def test_where_no_beam_searches_words_are_replaced():
    greedy = DecodeConfig(method="greedy")
    found = copier().translate(TEXT, glossary={"lantern": "bridge"}, decoding=greedy)
    assert [use.how for use in found.terms] == ["replaced"]
    assert "bridge" in found.text.split()


def test_other_forms_count_if_they_may():
    found = copier().translate(TEXT, glossary={"lantern": "lanterns"})
    assert (found.text, found.terms[0].how) == (TEXT, "inflected")
    found = copier().translate(TEXT, glossary={"lantern": "lanterns"}, inflected=False)
    assert found.terms[0].how in ("decoded", "replaced")
    assert "lanterns" in found.text


def test_glossaries_are_files_too(tmp_path):
    (tmp_path / "terms.csv").write_text("term,translation\nlantern,bridge\n")
    found = copier().translate(TEXT, glossary=tmp_path / "terms.csv")
    assert found.to_dict()["terms"] == [{"source": "lantern", "target": "bridge", "how": "decoded"}]


def test_inner_tokens_are_those_that_go_on_with_a_word():
    own = tokenizer()
    inner = set(inner_tokens(own))
    whole = own.encode("mirror garden").ids
    assert not inner & {id for id in whole if own.decode([whole[0], id]).endswith(" garden")}
    for id in inner:
        assert len(own.decode([whole[0], id]).split()) == 1


@pytest.fixture
def memory(tmp_path):
    with Memory(tmp_path / "m.db", create=True) as opened:
        opened.add(
            [Segment("mirror garden", "Spiegel\nGarten 7", "en", "de"), Segment(TEXT, "x", "fr", "de")]
        )
    return tmp_path / "m.db"


def test_exact_matches_are_taken_and_near_ones_listed(memory):
    aid = recall(memory, "en", "de", at_least=50)
    exact, near, none, blank = copier().translate(
        ["mirror garden", "mirror garden bridge", TEXT, ""], memory=aid
    )
    assert (exact.text, exact.remembered, exact.matches[0].score) == ("Spiegel\nGarten 7", True, 100)
    assert (near.text, near.remembered) == ("mirror garden bridge", False)
    assert [each.score for each in near.matches] == [66]
    assert (none.text, none.matches, none.remembered) == (TEXT, (), False)
    assert (blank.text, blank.matches) == ("", ())
    listed = recall(memory, "en", "de", use="never")
    found = copier().translate("mirror garden", memory=listed)
    assert (found.text, found.matches[0].score, found.remembered) == ("mirror garden", 100, False)
    with pytest.raises(ValueError, match="use='always'"):
        recall(memory, "en", "de", use="always")


def test_lines_and_tables_have_matches_flags_and_terms(memory, tmp_path):
    how = {"memory": recall(memory, "en", "de"), "flags": True, "glossary": {"lantern": "bridge"}}
    out = io.StringIO()
    counts = translate_lines(copier(), ["mirror garden", TEXT], out, as_json=True, **how)
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first["remembered"]
    assert first["flags"] == ["numbers"]
    assert second["terms"][0]["how"] == "decoded"
    assert (counts.lines, counts.blank, counts.remembered, counts.terms, counts.missed.total()) == (
        2,
        0,
        1,
        1,
        0,
    )
    (tmp_path / "in.csv").write_text(f"id,text\n1,mirror garden\n2,{TEXT}\n")
    out = io.StringIO()
    translate_table(copier(), source_of(str(tmp_path / "in.csv")), out, "csv", **how)
    rows = [*csv.DictReader(io.StringIO(out.getvalue()))]
    assert (rows[0]["match"], rows[0]["flags"]) == ("100", "numbers")
    assert rows[1]["match"] == ""


def test_a_translation_that_is_caught_in_a_loop_is_made_again():
    random = translator(decoding=DecodeConfig(beam=2, maximum=40))
    texts = ["mirror garden", "harbour", "silver bridge summer"]
    plain = random.translate(texts)
    flagged = random.translate(texts, flags=FlagSettings(confidence=0))
    assert any("repetition" in each.flags for each in flagged), "a model of random weights repeats itself"
    strict = random.translate(texts, decoding=DecodeConfig(beam=2, maximum=40, no_repeat=4))
    for before, own, other in zip(plain, flagged, strict, strict=True):
        assert own.text == (other.text if "repetition" in own.flags else before.text)
    assert plain[0].flags is None
    assert Aids.of(None, True, None, False) == Aids()
