"""A translator with a glossary, a memory and flags."""

import csv
import io
import json

import pytest

from regard.config import ConfigError
from regard.decode import DecodeConfig
from regard.memory import Memory, MemoryFileError, Segment, recall
from regard.tasks.base.sources import source_of
from regard.tasks.translation import commands
from regard.tasks.translation.aids import Aids
from regard.tasks.translation.glossary import Holding, inner_tokens
from regard.tasks.translation.lines import translate_lines, translate_table
from regard.tasks.translation.result import Translation
from regard.text.flags import FlagSettings
from regard.text.terms import Terms
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


CODED = [
    "mirror %(lantern)s",
    "garden {lantern}",
    "https://a.org/lantern bridge",
    '<a id="lantern">garden</a>',
]


@pytest.mark.parametrize("text", CODED)
def test_there_are_no_terms_inside_placeholders_addresses_and_tags(text):
    found = copier().translate(text, glossary={"lantern": "silver"})
    assert found.terms == ()
    assert found.text == copier().translate(text).text


def test_a_placeholder_is_never_taken_for_a_term_that_the_model_wrote():
    told = {"score": 0.0, "ranking": 0.0, "finished": True, "confidence": 1.0, "alternatives": ()}
    made = Translation(
        source="open %(file)s file", text="%(file)s Ding auf", alignment=((0, 2), (1, 0), (2, 1)), **told
    )
    for target, how in (("Datei", "replaced"), ("file", "replaced"), ("Ding", "model")):
        (found,) = Holding(Terms({"file": target})).hold([made], None)
        assert found.text == f"%(file)s {target} auf"
        assert [(use.source, use.how) for use in found.terms] == [("file", how)]
    (found,) = Holding(Terms({"file": "%(file)s Ding"})).hold([made], None)
    assert (found.text, found.terms[0].how) == (made.text, "model"), "a term may have placeholders of its own"


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


def test_what_is_remembered_or_replaced_is_the_first_of_the_best(memory):
    """Lines of n-best are the alternatives: a line that has none is lost."""
    out, two = io.StringIO(), DecodeConfig(beam=2, n_best=2)
    lines = ["mirror garden", "", TEXT]
    translate_lines(copier(), lines, out, decoding=two, memory=recall(memory, "en", "de"))
    written = [line.split(" ||| ") for line in out.getvalue().splitlines()]
    assert {number for number, _, _ in written} == {"0", "1", "2"}
    assert [text for number, text, _ in written if number == "0"] == ["Spiegel Garten 7"]
    holding = Holding(Terms({"lantern": "bridge"}), way="replace")
    (found,) = holding.hold(copier().translate([TEXT], decoding=two, align=True), None)
    assert found.terms[0].how == "replaced"
    assert [each.text for each in found.alternatives][:1] == [found.text]
    assert len(found.alternatives) == 2


def test_terms_that_the_memory_has_missed_are_told(memory):
    how = {"memory": recall(memory, "en", "de"), "glossary": {"mirror": "Wandspiegel", "garden": "Garten"}}
    found = copier().translate("mirror garden", **how)
    assert (found.text, found.remembered) == ("Spiegel\nGarten 7", True)
    assert [(use.target, use.how) for use in found.terms] == [("Wandspiegel", "missed"), ("Garten", "model")]
    counts = translate_lines(copier(), ["mirror garden"], io.StringIO(), **how)
    assert (counts.terms, counts.missed) == (2, {"Wandspiegel": 1})


def test_a_longer_term_is_not_taken_for_a_shorter_one():
    found = copier().translate(TEXT, glossary={"harbour": "garden", "lantern": "garden silver"})
    assert found.text.split().count("garden") == 2
    assert "missed" not in [use.how for use in found.terms]


@pytest.fixture
def said(tmp_path, monkeypatch):
    """What the prompt translates, by a model that copies; whatever it `writes`."""
    (tmp_path / "model").mkdir()
    data = '[data]\ntrain = [{source = "train.en", target = "train.de"}]\n'
    (tmp_path / "model" / "recipe.toml").write_text(data)

    class Copier:
        fuzzy, decoding, languages = None, DecodeConfig(), ()

        def stream(self, lines, *, to, source_language, **how):
            return copier().stream(lines, **how)

    monkeypatch.setattr(commands, "open_by_engine", lambda *_: Copier())

    def translated(text, *, writes=(), **how):
        out = io.StringIO()
        Copier.languages = writes
        commands.translate(tmp_path / "model", [text], out=out, **how)
        return out.getvalue().strip()

    return translated


def test_memory_and_glossary_are_of_the_language_that_is_asked_for(said, tmp_path):
    path = tmp_path / "two.db"
    with Memory(path, create=True) as opened:
        opened.add([Segment("garden", "Garten", "en", "de"), Segment("garden", "jardin", "en", "fr")])
        opened.add_terms("en", "de", [("mirror", "Spiegel", "usual")])
    assert said("garden", memory=path) == "Garten", "as the model's own files are called"
    assert said("garden", memory=path, to="fr") == "jardin"
    assert said("garden", memory=path, to="fr", languages="en:fr") == "jardin"
    assert said("garden", memory=path, to="deu_Latn", languages="en:de") == "Garten"
    assert "Spiegel" in said("mirror", glossary=path, to="de")
    with pytest.raises(ConfigError, match=r"two\.db: no terms of en:fr; it has en:de"):
        said("mirror", glossary=path, to="fr")
    with pytest.raises(ConfigError, match=r"--languages en:de beside --to fr: give the same language"):
        said("mirror", glossary=path, to="fr", languages="en:de")
    with pytest.raises(ConfigError, match=r"no segments from en to it; it has en:de, en:fr"):
        said("garden", memory=path, to="it")
    with pytest.raises(MemoryFileError, match="which languages"):
        said("garden", memory=path, writes=("de", "fr"))


def test_a_memory_of_other_languages_than_the_model_is_refused(said, tmp_path):
    with Memory(tmp_path / "m.db", create=True) as opened:
        opened.add([Segment("garden", "jardin", "en", "fr")])
    with pytest.raises(ConfigError, match="no segments from en to de; it has en:fr: choose with --languages"):
        said("garden", memory=tmp_path / "m.db")
    assert said("garden", memory=tmp_path / "m.db", languages="en:fr") == "jardin"


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
