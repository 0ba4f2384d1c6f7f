"""DeepL's door, asked by DeepL's own package."""

import re

import deepl
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries

from tests.serve.words import german

TREE, DOG = "a dog sees a red tree?", "old dog sees big house."


@pytest.fixture(scope="module")
def client(translating):
    found = deepl.DeepLClient("any", server_url=translating.url)
    yield found
    found.close()


def test_texts_are_translated(client):
    found = client.translate_text([TREE, DOG], target_lang="DE")
    assert [each.text for each in found] == [german(TREE), german(DOG)]
    assert [each.detected_source_lang for each in found] == ["EN", "EN"]
    assert [each.billed_characters for each in found] == [len(TREE), len(DOG)]
    one = client.translate_text(DOG, source_lang="EN", target_lang="de-AT", formality="more", context="a pet")
    assert one.text == german(DOG)


def test_a_form_is_read_as_json_is(translating):
    with translating.client() as asking:
        sent = {"text": [TREE, DOG], "target_lang": "DE", "source_lang": "en"}
        found = asking.post("/v2/translate", data=sent).json()
    assert found == {
        "translations": [{"detected_source_language": "EN", "text": german(text)} for text in (TREE, DOG)]
    }


def test_names_of_lists_may_have_brackets_in_forms(translating):
    """As PHP and Ruby write them; a list of one is a list."""
    with translating.client() as asking:
        for texts in ([TREE, DOG], [DOG]):
            sent = {"text[]": texts, "target_lang": "DE", "source_lang": "en"}
            for more in ({}, {"files": {"nothing": b""}}):  # of both kinds
                found = asking.post("/v2/translate", data=sent, **more).json()
                assert [each["text"] for each in found["translations"]] == [german(text) for text in texts]
            sent = {"q[]": texts, "target": "de", "source": "en"}
            found = asking.post("/translate", data=sent).json()
            assert found == {"translatedText": [german(text) for text in texts]}
        sent = {"text[]": [DOG], "target_lang[]": ["DE"]}
        assert "target_lang=['DE'] should be a text" in asking.post("/v2/translate", data=sent).text


def test_languages_and_usage_are_told(client):
    assert [(each.code, each.name) for each in client.get_source_languages()] == [("EN", "English")]
    (target,) = client.get_target_languages()
    assert (target.code, target.name, target.supports_formality) == ("DE", "German", False)
    assert [(each.source_lang, each.target_lang) for each in client.get_glossary_languages()] == [
        ("en", "de")
    ]
    before = client.get_usage().character.count
    client.translate_text(DOG, target_lang="DE")
    usage = client.get_usage()
    assert usage.character.count == before + len(DOG)
    assert not usage.any_limit_reached


def test_sentences_are_split_as_asked(client):
    text = f"{TREE}\n{DOG}"
    assert client.translate_text(text, target_lang="DE").text == f"{german(TREE)}\n{german(DOG)}"
    for split in ("0", "nonewlines"):
        assert "\n" not in client.translate_text(text, target_lang="DE", split_sentences=split).text


def test_tags_are_around_the_words_that_theirs_became(client):
    read = {"source_lang": "EN", "target_lang": "DE"}
    html = '<p>a dog sees a <a href="/x?a=1&amp;b">red tree</a>?</p><pre>a  dog</pre>'
    assert client.translate_text(html, **read, tag_handling="html").text == (
        '<p>ein hund sieht ein <a href="/x?a=1&amp;b">rot baum</a>?</p><pre>a  dog</pre>'
    )
    xml = "<doc><t>a tree.</t><p>a <b>dog</b> sees a river.</p></doc>"
    assert client.translate_text(xml, **read, tag_handling="xml").text == (
        "<doc><t>ein baum.</t><p>ein <b>hund</b> sieht ein fluss.</p></doc>"
    )


def test_weblates_placeholders_survive(client):
    for text in ('a <x id="4"></x> sees', 'a dog <x id="0"></x><x id="9"></x>?', "<x id='1'></x>"):
        found = client.translate_text(
            text, source_lang="EN", target_lang="DE", tag_handling="xml", ignore_tags=["x"]
        ).text
        assert sorted(re.findall("<x.*?</x>", found)) == sorted(re.findall("<x.*?</x>", text))


def test_a_glossary_is_held_to(client):
    entries = {"tree": "Linde", "red house": "Hütte"}
    glossary = client.create_glossary("words", "EN", "DE", entries)
    assert (glossary.entry_count, glossary.source_lang, glossary.ready) == (2, "EN", True)
    try:
        assert client.get_glossary(glossary.glossary_id).name == "words"
        assert client.get_glossary_entries(glossary) == entries
        assert glossary.glossary_id in {each.glossary_id for each in client.list_glossaries()}
        found = client.translate_text_with_glossary(["a dog sees a red house.", TREE, DOG], glossary)
        assert [each.text for each in found] == [
            "ein hund sieht ein Hütte.",
            "ein hund sieht ein rot Linde?",
            german(DOG),
        ]
        tagged = {"source_lang": "EN", "target_lang": "DE", "tag_handling": "html", "glossary": glossary}
        assert client.translate_text("<p>a dog sees a <b>tree</b>?</p>", **tagged).text == (
            "<p>ein hund sieht ein <b>Linde</b>?</p>"
        )
    finally:
        client.delete_glossary(glossary)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(glossary.glossary_id)


def test_a_glossary_of_several_languages_is_served(client):
    def entries(source: str, target: str, **own: str) -> MultilingualGlossaryDictionaryEntries:
        return MultilingualGlossaryDictionaryEntries(source, target, own)

    dictionaries = [entries("EN", "DE", house="Hütte"), entries("DE", "EN", Hund="hound")]
    glossary = client.create_multilingual_glossary("both", dictionaries)
    id = glossary.glossary_id
    assert [each.entry_count for each in glossary.dictionaries] == [1, 1]
    assert id in {each.glossary_id for each in client.list_multilingual_glossaries()}
    sent = {"source_lang": "EN", "target_lang": "DE", "glossary": glossary}
    assert client.translate_text(DOG, **sent).text == "alt hund sieht gross Hütte."
    client.update_multilingual_glossary_dictionary(id, entries("EN", "DE", tree="Linde"))
    assert client.translate_text(DOG, **sent).text == "alt hund sieht gross Hütte."
    (found,) = client.get_multilingual_glossary_entries(id, "EN", "DE").dictionaries
    assert found.entries == "house\tHütte\ntree\tLinde"
    assert (
        client.replace_multilingual_glossary_dictionary(id, entries("EN", "DE", tree="Linde")).entry_count
        == 1
    )
    assert client.translate_text(DOG, **sent).text == german(DOG)
    assert client.update_multilingual_glossary_name(id, "other").name == "other"
    client.delete_multilingual_glossary_dictionary(id, source_lang="DE", target_lang="EN")
    assert len(client.get_multilingual_glossary(id).dictionaries) == 1
    client.delete_multilingual_glossary(id)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(id)


def test_glossaries_come_as_csv_too(client):
    glossary = client.create_glossary_from_csv(
        "csv", "EN", "DE", 'dog,Dackel,en,de\n"the cat, too",Mieze,en,de\n'
    )
    assert client.get_glossary_entries(glossary) == {"dog": "Dackel", "the cat, too": "Mieze"}
    client.delete_glossary(glossary)
    glossary = client.create_glossary_from_csv("csv", "EN", "DE", "\ufeffdog,Dackel\r\ncat,Mieze\r\n")
    assert client.get_glossary_entries(glossary) == {"dog": "Dackel", "cat": "Mieze"}
    client.delete_glossary(glossary)
    with pytest.raises(deepl.DeepLException, match="entries: field larger than field limit"):
        client.create_glossary_from_csv("csv", "EN", "DE", "dog" * 50_000 + ",Dackel")
    for entries in ('dog,Dackel\n"a\tcat",Mieze\n', 'dog,Dackel\ncat,"Mie\nze"\n'):
        with pytest.raises(deepl.DeepLException, match="line 2: a term has no tab and no end of line"):
            client.create_glossary_from_csv("csv", "EN", "DE", entries)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"text": "a"}, "target_lang"),
        ({"target_lang": "DE"}, "text should be"),
        ({"text": "a", "source_lang": "FR", "target_lang": "DE"}, "FR-DE=FOLDER"),
        ({"text": "a", "source_lang": "EN", "target_lang": "DE", "tag_handling": "md"}, "tag_handling"),
        ({"text": "a", "target_lang": "DE", "glossary_id": "x"}, "source_lang"),
    ],
)
def test_errors_say_what_is_wrong(translating, fields, told):
    answer = translating.post("/v2/translate", fields)
    assert answer.status_code == 400
    assert [*answer.json()] == ["message"]
    assert told in answer.json()["message"]


def test_entries_that_are_none_are_refused_by_their_line(translating):
    sent = {"name": "a", "source_lang": "EN", "target_lang": "DE", "entries_format": "tsv"}
    for entries, told in (("a\tb\nc", "line 2"), ("a\tb\na\tc", "twice"), (" ", "needs entries")):
        answer = translating.post("/v2/glossaries", {**sent, "entries": entries})
        assert (answer.status_code, told in answer.json()["message"]) == (400, True)
