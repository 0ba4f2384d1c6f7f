"""Markup: whatever a translator writes and the links say, each tag and placeholder is there once."""

import re
import time
from collections import Counter
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.markup import Document, parse, read_block
from regard.text.placing import Links
from regard.text.scanning import VOID, Syntax
from regard.text.terms import Terms, enforce

HTML = Syntax(kind="html")
XML = Syntax(kind="xml")


def aligned(text: str, words: dict[str, str] | None = None) -> tuple[str, Links]:
    """Word by word, in order."""
    found = text.split()
    return " ".join((words or {}).get(word, word) for word in found), [(i, i) for i in range(len(found))]


def reversed_words(text: str) -> tuple[str, Links]:
    """Names of marks are lost, as a model may lose them."""
    found = [word.lower() for word in text.split()]
    return " ".join(found[::-1]), [(i, len(found) - 1 - i) for i in range(len(found))]


def through(text: str, syntax: Syntax, translate=aligned) -> str:
    document = parse(text, syntax)
    outputs = []
    for block in document.blocks:
        view = block.view()
        written, links = translate(view.text)
        if not view.keeps(written):
            view = block.view(bare=True)
            written, links = translate(view.text)
        outputs.append(block.place(view, written, links))
    return document.join(outputs)


def texts(document: Document) -> list[str]:
    return [block.view().text for block in document.blocks]


GERMAN = {"Where": "Wo", "is": "ist", "the": "der", "old": "alte", "station?": "Bahnhof?", "map.": "Plan."}


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("Where is <b>the old</b> station?", "Wo ist <b>der alte</b> Bahnhof?"),
        ("Where is the <b>station</b>?", "Wo ist der <b>Bahnhof</b>?"),
        ("Where is the <b>station?</b>", "Wo ist der <b>Bahnhof?</b>"),
        ("<p>the <a href='?a&b'><i>old</i> map.</a></p>", "<p>der <a href='?a&b'><i>alte</i> Plan.</a></p>"),
        ("<b>Where</b> <i>is</i>", "<b>Wo</b> <i>ist</i>"),
        ("\n <p>\n the\n  old\n</p>", "\n <p>\n der alte\n</p>"),
    ],
)
def test_an_element_is_around_the_words_that_its_own_became(source, wanted):
    assert through(source, HTML, lambda text: aligned(text, GERMAN)) == wanted


def test_elements_follow_their_words():
    assert through("one <b>two</b> <i>three four</i>", HTML, reversed_words) == (
        "<i>four three</i> <b>two</b> one"
    )


def test_marks_follow_the_word_before_them():
    assert through("Hello [X0X], good day", Syntax(), reversed_words) == "day good hello [X0X],"
    assert through("one <img src=a> two three", HTML, reversed_words) == "three two one <img src=a>"


def test_very_many_placeholders_take_no_longer():
    text = " ".join(f"a [X{i}X]" for i in range(10_000))
    began = time.process_time()
    assert sorted(through(text, Syntax(), reversed_words).split()) == sorted(text.split())
    assert time.process_time() - began < 10


def test_a_large_glossary_takes_no_longer():
    terms = Terms({f"term {i} of many": f"T{i}" for i in range(20_000)})
    began = time.process_time()
    found = terms.find("what is term 77 of many, and Term 5 of many? " * 2000)
    assert time.process_time() - began < 10
    assert [each.target for each in found] == ["T77", "T5"] * 2000


def test_a_translator_that_keeps_placeholders_says_where_they_are():
    text = "Hello [X0X], see https://a.org/b?c=d and mail a@b.org, {name}: 100% of %s or %(who)s."
    names = parse(text).blocks[0].view().names
    assert {*names} == {"[X0X]", "https://a.org/b?c=d", "a@b.org", "{name}", "%s", "%(who)s"}
    assert through(text, Syntax()) == text


@pytest.mark.parametrize("text", ["[X0X]", "[X1X] [X2X]", "12", "", " \n ", "<p><b></b></p>", "<!-- a -->"])
def test_what_has_no_words_is_not_translated(text):
    for syntax in (Syntax(), HTML, XML):
        document = parse(text, syntax)
        assert document.join([]) == text if not document.blocks else syntax.kind == "text"


@pytest.mark.parametrize(
    "opaque",
    [
        "<script>if (a < b) { x = '<p>one</p>' }</script>",
        "<style>p > b { color: red }</style>",
        "<code>x <b>y</b> z</code>",
        "<pre> a\n  b </pre>",
        '<span translate="no">Foo <i>Bar</i></span>',
        "<b class='x notranslate'>Foo</b>",
        "<kbd>Ctrl</kbd>",
        '<a href="/@y" class="u-url mention">@<span>y</span></a>',
        '<a href="https://y.org/Foo"><span class="invisible">https://</span><span>y.org/Foo</span></a>',
        "<!-- a <b>comment</b> -->",
    ],
)
def test_what_is_not_to_be_translated_is_as_it_was(opaque):
    source = f"<p>one two {opaque} three</p>"
    for translate in (aligned, reversed_words):
        assert opaque in through(source, HTML, translate)
    words = " ".join(texts(parse(source, HTML)))
    assert not {"Foo", "Ctrl", "comment", "color", "y"} & {*re.findall(r"\w+", words)}


def test_blocks_are_parted_where_tags_part_them():
    assert texts(parse("<ul><li>a <b>b</b><li>c</ul>d<br>e", HTML)) == ["a b", "c", "d", "e"]
    assert texts(parse("<b><p>a</p><p>b</p></b>", HTML)) == ["a", "b"]
    assert texts(parse("one\n\ntwo\r\n three ", Syntax())) == ["one", "two", "three"]
    assert texts(parse("one\ntwo", Syntax(lines=False))) == ["one two"]
    assert texts(parse("<doc><title>a</title>\n<par>b <i>c</i></par></doc>", XML)) == ["a", "b c"]
    assert texts(parse("<g>one</g> <g>two</g>", XML)) == ["one two"]
    assert texts(parse("one<s>two</s>", Syntax(kind="xml", splitting=frozenset("s")))) == ["one", "two"]
    flat = Syntax(kind="xml", outline=False)
    assert texts(parse("<d><t>a</t>\n<p>b</p></d>", flat)) == ["a b"]


def test_tags_of_xml_that_are_ignored_or_empty_are_placeholders():
    source = 'Hello <x id="5"></x>, <y a="1"/> and <z>not this</z>'
    syntax = Syntax(kind="xml", opaque=frozenset("z"))
    (read,) = texts(parse(source, syntax))
    assert read == "Hello [X1X], [X2X] and [X3X]"
    assert through(source, syntax) == source
    assert Counter(re.findall("<[^>]*>", through(source, syntax, reversed_words))) == Counter(
        re.findall("<[^>]*>", source)
    )


def test_entities_are_read_and_written():
    source = "Fish &amp; chips &lt; 3 &copy; caf&eacute; &#8364; <b>a&amp;b</b> R&D < 5"
    assert texts(parse(source, HTML)) == ["Fish & chips < 3 © café € a&b R&D < 5"]
    assert through(source, HTML) == "Fish &amp; chips &lt; 3 © café € <b>a&amp;b</b> R&amp;D &lt; 5"
    assert through("say &brand; now", XML) == "say &brand; now"  # its document may know it
    assert through("a < b & c", Syntax()) == "a < b & c"


@pytest.mark.parametrize(
    "part", ["<a ", "<!--", '<a "', "<b>x", "<i>a</i> ", "a [X1X] ", "{{", "a@", "<b>", "{a,select,b{"]
)
def test_reading_takes_time_in_proportion(part):
    """Each would take minutes if what is never closed were looked for again and again."""
    text = part * (100_000 // len(part))
    began = time.process_time()
    through(text, HTML, reversed_words)
    assert time.process_time() - began < 10


TAGS = st.sampled_from(["b", "i", "a", "em", "span"])
WORDS = st.lists(
    st.sampled_from(["one", "two,", "(three)", "four.", "a&b", "<5", "ünf", "日本", "6"]),
    min_size=1,
    max_size=4,
).map(" ".join)
MARKS = st.sampled_from(
    ["[X{}X]", '<img src="{}">', "<!-- {} -->", "<code>c {}</code>", "<wbr id={}>", "%({})s", "<u></u>"]
)


@st.composite
def inline(draw: st.DrawFn, depth: int = 0) -> str:
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.integers(0, 3 if depth < 3 else 2))
        if kind <= 1:
            parts.append(draw(WORDS).replace("&", "&amp;").replace("<", "&lt;"))
        elif kind == 2:
            parts.append(draw(MARKS).format(draw(st.integers(0, 9))))
        else:
            tag = draw(TAGS)
            inner = draw(inline(depth + 1))
            parts.append(f"<{tag} id='{draw(st.integers(0, 99))}'>{inner}</{tag}>")
    return draw(st.sampled_from(["", " ", "\n"])).join(parts)


@st.composite
def pages(draw: st.DrawFn) -> str:
    blocks = draw(st.lists(inline(), min_size=1, max_size=3))
    around = draw(st.sampled_from(["<p>{}</p>", "<li>{}", "{}<br>", "<div><b>{}</div>", "{}</i>", "{}"]))
    return "\n".join(around.format(block) for block in blocks)


def any_translator(draw):
    """Any words, with any links; it may copy what stands for marks, lose it or double it."""

    def translate(text: str) -> tuple[str, Links]:
        source = text.split()
        written = draw(st.lists(st.sampled_from([*source, "x", "y?", "(z", "<", "漢字"]), max_size=8))
        if draw(st.booleans()):
            written = draw(st.permutations(source))
        several = st.tuples(st.integers(0, len(source)), st.integers(0, len(written)))
        links = draw(st.none() | st.lists(several, max_size=12))
        return " ".join(written), links

    return translate


def marks(text: str) -> Counter[str]:
    return Counter(re.findall(r"<[a-z/!][^>]*>|\[X\d+X\]|%\(\w+\)s", text))


class Nesting(HTMLParser):
    """Fails where a tag is closed that is not the last one opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@given(pages(), st.data())
def test_no_tag_and_no_placeholder_is_lost_or_doubled(page, data):
    assert marks(through(page, HTML, any_translator(data.draw))) == marks(page)


@given(inline(), st.data())
def test_elements_nest(block, data):
    parser = Nesting()
    parser.feed(through(block, HTML, any_translator(data.draw)))
    parser.close()
    assert parser.open == []


@given(inline())
def test_a_translator_that_changes_nothing_changes_no_words(block):
    def words(text: str) -> str:
        return "".join(unescape(re.sub("<[^>]*>", "", text)).split())

    assert words(through(block, HTML)) == words(block)


@given(st.text(alphabet="<>/ab \"'=!-&;[]X1", max_size=60), st.sampled_from([Syntax(), HTML, XML]))
def test_any_text_can_be_read(text, syntax):
    document = parse(text, syntax)
    joined = document.join(block.place(block.view(), block.view().text) for block in document.blocks)
    assert len(joined) >= 0
    if syntax.kind == "text":
        assert joined == text


@pytest.mark.parametrize(
    ("source", "words", "wanted"),
    [
        ("Drink H<sub>2</sub>O, on 5 m<sup>2</sup>.", {}, "Drink H<sub>2</sub>O, on 5 m<sup>2</sup>."),
        ("about CO<sub>2</sub>", {"CO2": "CO2-Gas"}, "about CO<sub>2</sub>-Gas"),
        ("an <b>un</b>broken one", {"unbroken": "unversehrtes"}, "an <b>un</b>versehrtes one"),
        ("the 1<sup>st</sup> one", {"1st": "1."}, "the <sup>1</sup>. one"),
        ("x<sub>1</sub><sup>2</sup> is", {}, "x<sub>1</sub><sup>2</sup> is"),
        ("<b>5 m<sup>2</sup></b> wide", {}, "<b>5 m<sup>2</sup></b> wide"),
        ("in aba<i>b</i>ab now", {"ababab": "bbb"}, "in <i>bbb</i> now"),
    ],
)
def test_an_element_in_a_word_is_around_the_same_letters_if_they_are_there(source, words, wanted):
    assert through(source, HTML, lambda text: aligned(text, words)) == wanted


@pytest.mark.parametrize("links", [None, [(0, 0)], [(i, 0) for i in range(9)]])
@pytest.mark.parametrize("text", ["旧车站非常近、点击这里。", "สถานีเก่าอยู่ใกล้มากคลิกที่นี่"])
def test_no_element_is_empty_in_a_script_without_spaces(text, links):
    source = 'The <b>old</b> station is <i>very</i> near, <a href="x">click here</a>.'
    out = through(source, HTML, lambda _: (text, links))
    found = [re.search(f"<{tag}[^>]*>(.+?)</{tag}>", out) for tag in "bia"]
    assert all(found)
    assert [each.start() for each in found] == sorted(each.start() for each in found)
    assert re.sub("<[^>]*>", "", out) == text


def test_a_link_is_around_the_end_of_a_chinese_sentence_if_it_was_at_the_end():
    out = through('To leave, <a href="x">click here</a>', HTML, lambda _: ("要离开请点击这里", [(0, 0)]))
    assert out == '要离开请<a href="x">点击这里</a>'


def test_words_of_other_scripts_are_found_in_a_chinese_sentence():
    out = through(
        "Install <b>Regard</b> now, with CO<sub>2</sub>", HTML, lambda _: ("现在用CO2安装Regard", [])
    )
    assert out == "现在用CO<sub>2</sub>安装<b>Regard</b>"


def test_a_line_end_that_a_model_writes_is_a_space():
    assert through("<h1>one two</h1>", HTML, lambda _: ("eins\n\nzwei", [])) == "<h1>eins  zwei</h1>"


def test_template_tags_stay_and_stay_in_their_order():
    page = "<p>Hello {% if a < b %}dear friend{% endif %} of <%= name %> now</p>"
    assert texts(parse(page, HTML)) == ["Hello [X1X]dear friend[X2X] of [X3X] now"]
    out = through(page, HTML, reversed_words)
    assert re.findall(r"\{%.*?%\}|<%.*?%>", out) == ["{% if a < b %}", "{% endif %}", "<%= name %>"]
    assert texts(parse("{% never closed <b>one</b>", HTML)) == ["{% never closed one"]


def test_messages_within_messages_are_bounded():
    deep = "{n, plural, one {" * 500 + "x" + "} other {y}}" * 500
    block = read_block(deep, Syntax())
    assert block.written() == deep
    count = 0
    while block.inside:
        block, count = block.inside[0], count + 1
    assert count <= 21


def test_a_brace_of_a_model_ends_no_branch():
    block = read_block("{n, plural, one {a file of {x}} other {files}}", Syntax())
    inner = block.inside[0]
    assert inner.place(inner.view(), "eine } Datei { von {x} '{'") == "eine  Datei  von {x} '{'"


ENTRIES = {"station": "Hauptbahnhof", "old dog": "Köter", "猫": "Mieze"}


@pytest.mark.parametrize(
    ("source", "text", "wanted"),
    [
        ("Where is the station?", "Wo ist der Bahnhof?", "Wo ist der Hauptbahnhof?"),
        ("Station and stations", "Bahnhof und Bahnhöfe", "Hauptbahnhof und Bahnhöfe"),
        ("The old dog, sleeps", "Der alte Hund, schläft", "Der Köter, schläft"),
        ("the station", "Hauptbahnhof der", "Hauptbahnhof der"),
    ],
)
def test_a_term_is_in_the_place_of_what_its_words_became(source, text, wanted):
    links = [(i, i) for i in range(len(source.split()))]
    assert enforce(source, text, links, Terms(ENTRIES).find(source))[0] == wanted


@given(
    st.lists(st.sampled_from(["the", "station", "old", "dog", "Station.", "猫", "[X1X]"]), max_size=8),
    st.lists(st.sampled_from(["der", "Hauptbahnhof", "Köter!", "Hund", "漢字", "[X1X]"]), max_size=8),
    st.none() | st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8))),
)
def test_every_term_is_there_whatever_was_written(source, written, links):
    """And what stands for marks is, too; and the links lead to words that are there."""
    text = " ".join(source)
    found = Terms(ENTRIES).find(text, ["[X1X]"])
    result, new = enforce(text, " ".join(written), links, found, ["[X1X]"])
    wanted = Counter(term.target for term in found)
    assert all(result.count(term) >= count for term, count in wanted.items())
    assert result.count("[X1X]") == written.count("[X1X]")
    assert all(0 <= i < len(source) and 0 <= j < len(result.split()) for i, j in new)
