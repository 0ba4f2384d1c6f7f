"""HTML: text and attributes, whatever is around them; encodings; entities."""

import re
from collections import Counter

import lxml.html
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import ConfigError
from regard.documents.base import Result
from regard.documents.html import FORMAT
from tests.documents.samples import HTML, loud, result, texts, translated


def read(page: str, **settings):
    return FORMAT.open(page.encode(), "page.html", settings)


def test_what_is_translated_and_what_is_not():
    assert texts(read(HTML)) == [
        "A & B",
        'The "title"',
        "The old closes — now.",
        "Central Station",
        "Next [X1X] line",
        "one",
        "two {{name}}",
    ]


def test_attributes_go_with_their_tags():
    opened = read('<p>The <a href=a title="One">old</a> and <a href=b title="Two">new</a> one</p>')
    words = {"One": "Eins", "Two": "Zwei"}
    out = translated(opened, lambda text: words.get(text, " ".join(reversed(text.split()))))
    assert Counter(re.findall(rb"<a [^>]*>", out)) == Counter(
        [b'<a href=a title="Eins">', b'<a href=b title="Zwei">']
    )


def test_attributes_are_chosen_by_a_setting():
    page = '<img alt="A word" title="Some word"><input placeholder="Your name">'
    page += '<meta name="description" content="A page">'
    assert texts(read(page)) == ["A word", "Some word"]
    assert texts(read(page, attributes=[])) == []
    assert texts(read(page, attributes=["placeholder", "description"])) == ["Your name", "A page"]
    with pytest.raises(ConfigError, match="href"):
        read(page, attributes=["href"])


@pytest.mark.parametrize(
    ("tag", "written"),
    [
        ('<img alt="a">', "<img alt=\"5 &lt; 6 &amp; &quot;x&quot; 'y'\">"),
        ("<img alt='a'>", "<img alt='5 &lt; 6 &amp; \"x\" &#39;y&#39;'>"),
        ("<img alt=a>", "<img alt=\"5 &lt; 6 &amp; &quot;x&quot; 'y'\">"),
    ],
)
def test_a_translated_attribute_is_quoted_as_it_was(tag, written):
    assert translated(read(tag), lambda _: "5 < 6 & \"x\" 'y'") == written.encode()


def test_an_encoding_without_a_character_gets_its_entity():
    page = '<meta charset="iso-8859-1"><p>caf\xe9</p>'.encode("latin-1")
    opened = FORMAT.open(page, "page.html", {})
    assert texts(opened) == ["café"]
    out = translated(opened, lambda _: "кафе é")
    assert out == '<meta charset="iso-8859-1"><p>&#1082;&#1072;&#1092;&#1077; \xe9</p>'.encode("latin-1")
    assert lxml.html.fromstring(out).text_content() == "кафе é"


def test_an_encoding_can_be_said_where_the_page_does_not():
    assert texts(FORMAT.open("<p>слово</p>".encode("koi8-r"), "p.html", {"encoding": "koi8-r"})) == ["слово"]


def test_the_language_of_the_page_becomes_the_new_one():
    opened = read('<!-- <html lang="xx"> --><html dir=ltr lang="en"><p>text</p>')
    assert opened.source_language == "en"
    assert opened.write([None], "de") == b'<!-- <html lang="xx"> --><html dir=ltr lang="de"><p>text</p>'


PIECES = st.sampled_from(
    ["word ", "other", " & ", "&amp;", "<b>", "</b>", "<i class='x'>", "</i>", "<br>", "<p>", "</p>",
     "<code>x y</code>", "<!-- c -->", "<a title=\"the\">", "</a>", "{{n}}", "<", "\n", "é", "<ul><li>",
     "</ul>", "<img alt=pic>"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=25).map("".join))
def test_any_page_keeps_its_tags_and_gives_itself_back(page):
    opened = read(page)
    assert opened.write([Result(text=each.source) for each in opened.segments]) == page.encode()
    out = opened.write(
        [result(each, lambda text: " ".join(reversed(text.split(" ")))) for each in opened.segments]
    )
    tags = re.compile(rb"<[^<>]*>")
    assert Counter(tags.findall(out)) == Counter(tags.findall(page.encode()))


def test_another_parser_sees_the_same_tree_and_the_translations():
    out = translated(read(HTML), loud)
    before, after = lxml.html.fromstring(HTML.encode()), lxml.html.fromstring(out)
    assert [each.tag for each in before.iter()] == [each.tag for each in after.iter()]
    assert after.xpath("//title")[0].text == "A & B"
    assert after.xpath("//img")[0].get("alt") == "CENTRAL STATION"
    assert after.xpath("//p[1]")[0].get("title") == 'THE "TITLE"'
    assert after.xpath("//code")[0].text == "int x"
    assert after.xpath("//p[@class]")[0].text_content() == "stays here"


def test_both_ways_to_say_the_language_become_the_target_language():
    page = '<!-- <html lang="fr"> --><html xml:lang="en" class="a" lang=en><p lang="en">One</p></html>'
    opened = read(page)
    assert opened.source_language == "en"
    assert translated(opened, loud, "de").decode() == (
        '<!-- <html lang="fr"> --><html xml:lang="de" class="a" lang=de><p lang="en">ONE</p></html>'
    )
