"""Markdown: what is text, and that another parser sees the same structure in what is written."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from regard.documents.base import Result
from regard.documents.markdown import FORMAT
from tests.documents.samples import MARKDOWN, loud, result, texts, translated


def read(page: str, **settings):
    return FORMAT.open(page.encode(), "page.md", settings)


def shape(page: str) -> Counter[tuple[str, ...]]:
    """Every token but text, with its address or code."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(page)
    found: Counter[tuple[str, ...]] = Counter()
    for token in tokens:
        found[token.type, token.markup, token.content if token.type in ("fence", "code_block") else ""] += 1
        for inner in token.children or []:
            if inner.type not in ("text", "softbreak"):
                address = str(inner.attrs.get("href") or inner.attrs.get("src") or "")
                code = " ".join(inner.content.split()) if inner.type in ("code_inline", "html_inline") else ""
                found[inner.type, address, code] += 1
    return found


def test_what_is_translated_and_what_is_not():
    assert texts(read(MARKDOWN)) == [
        "The old station",
        "A paragraph with bold [X1X] and a link here, 5 * 3 & more.",
        "Quoted text with tags over lines.",
        "an item goes on",
        "some picture",
        "after a break",
        "nested ref",
        "Head",
        "Other | head",
        "cell",
        "[X1X] text",
        "In the title",
        "Some text of HTML",
        "Heading below",
        "The footnote itself.",
    ]


def test_front_matter_stays_but_for_what_a_setting_names():
    assert texts(read(MARKDOWN, front_matter=["title", "description"]))[0] == "A title"
    out = translated(read(MARKDOWN, front_matter=["title"]), loud)
    assert out.startswith(b"---\ntitle: A TITLE\ntags: [one, two]\n---\n# THE *OLD* STATION #\n")


def test_a_translation_has_the_structure_of_its_source():
    out = translated(read(MARKDOWN), loud).decode()
    body = MARKDOWN.partition("---\n# ")[2]
    assert shape(out.partition("---\n# ")[2]) == shape(body)


@pytest.mark.parametrize(
    ("source", "translation", "written"),
    [
        ("A text", "1. text", "1\\. text"),
        ("A text", "- text", "\\- text"),
        ("A text", "# text", "\\# text"),
        ("A text", "> text", "\\> text"),
        ("A text", "a *star* `tick` <b> a_b _c_ &amp;", "a \\*star\\* \\`tick\\` \\<b> a_b \\_c\\_ \\&amp;"),
        ("A text", "a [x](y) b", "a \\[x\\](y) b"),
        ("A text", "5 * 3 < 20 [1]", "5 * 3 < 20 [1]"),
    ],
)
def test_a_translation_is_text_whatever_is_in_it(source, translation, written):
    out = translated(read(source), lambda _: translation).decode()
    assert out == written
    [_, inline, _] = MarkdownIt("commonmark").parse(out)
    assert "".join(each.content for each in inline.children) == translation


def test_a_cell_of_a_table_stays_one():
    page = "| a | b |\n|---|---|\n| c | d |\n"
    assert translated(read(page), lambda text: f"{text}|{text}").decode() == (
        "| a\\|a | b\\|b |\n|---|---|\n| c\\|c | d\\|d |\n"
    )


def test_a_link_that_is_its_own_reference_keeps_it():
    page = "See [station] and [map][].\n\n[station]: s.md\n[map]: m.md\n"
    out = translated(read(page), loud).decode()
    assert out == "SEE [STATION][station] AND [MAP][map].\n\n[station]: s.md\n[map]: m.md\n"


def test_emphasis_without_words_is_left_out():
    opened = read("The _old_ and **new** one")
    [segment] = opened.segments
    text = segment.block.place(segment.block.view(), "Eins", [])
    assert opened.write([Result(text=text)]) in (b"**Eins**", b"_Eins_")


def test_hard_breaks_part_and_their_spaces_stay():
    opened = read("One line  \nand another\\\nthird")
    assert texts(opened) == ["One line", "and another", "third"]
    assert translated(opened, loud) == b"ONE LINE  \nAND ANOTHER\\\nTHIRD"


@pytest.mark.parametrize("written", ["Nah.", "Ein.", "Ein Ding."])
def test_emphasis_without_words_leaves_no_sign(written):
    opened = read("A **bold** and *very* near ~~old~~ thing, **all *of* it**.")
    [segment] = opened.segments
    out = opened.write([Result(text=segment.block.place(segment.block.view(), written, [(0, 0)]))]).decode()
    [_, inline, _] = MarkdownIt("commonmark").enable("strikethrough").parse(out)
    assert "".join(each.content for each in inline.children) == written


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("> [!NOTE]\n> Useful words\n> here.\n", "> [!NOTE]\n> USEFUL WORDS HERE.\n"),
        (":::tip\nSome words\nhere\n:::\n", ":::tip\nSOME WORDS HERE\n:::\n"),
        ('!!! warning "Be *careful*"\n    Some words.\n', '!!! warning "Be *careful*"\n    SOME WORDS.\n'),
        ("Term\n: What it is\n", "TERM\n: WHAT IT IS\n"),
        ("Take $x_1*y*z$ and $$a_b$$ now.\n", "TAKE $x_1*y*z$ AND $$a_b$$ NOW.\n"),
        ("It is $5 or US$ 6, `$a` or ${b}/${c}.\n", "IT IS $5 OR US$ 6, `$a` OR ${b}/${c}.\n"),
        ("From $one more word to$ end.\n", "FROM $ONE MORE WORD TO$ END.\n"),
        ('Some <img src="a" alt="old map"> here.\n', 'SOME <img src="a" alt="OLD MAP"> HERE.\n'),
        ('A <b title="old map">bold</b> one.\n', 'A <b title="OLD MAP">BOLD</b> ONE.\n'),
        ("[^1]: Word\n", "[^1]: WORD\n"),
        ("Some <%= x %> words.\n", "SOME <%= x %> WORDS.\n"),
    ],
)
def test_what_dialects_add_stays(page, wanted):
    def write(text):
        words = re.split(r"(\[X\d+X\]|\$\{\w\})", text)
        return "".join(each if i % 2 else each.upper() for i, each in enumerate(words))

    assert translated(read(page), write).decode() == wanted


def test_line_ends_and_brackets_of_a_model_break_nothing():
    page = "# Title\n\n| a | b |\n|---|---|\n| c | d |\n\nSee [the map](m.md) ![a map](i.png) <b>now</b>\n"
    opened = read(page)
    for text in ("one\n\ntwo", "] one [", "one \\"):
        out = opened.write([result(each, lambda _, text=text: text) for each in opened.segments]).decode()
        assert shape(out) == shape(page)


def test_emphasis_within_a_word_is_written_with_stars():
    [segment] = read("The _old_ station is __near__ us").segments
    out = segment.block.place(segment.block.view(), "旧车站离我们很近", [(0, 0)])
    [_, inline, _] = MarkdownIt("commonmark").parse(out)
    assert Counter(each.type for each in inline.children)["em_open"] == 1
    assert Counter(each.type for each in inline.children)["strong_open"] == 1


def test_a_mark_at_the_end_of_emphasis_has_no_space_behind_it():
    [segment] = read("Some **words `code`** here, more").segments
    view = segment.block.view(bare=True)
    links = [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert segment.block.place(view, "Einige Worte. Hier mehr", links) == "Einige **Worte `code`**. Hier mehr"


PIECES = st.sampled_from(
    ["word ", "other", " *", "* ", "**", "_", "`", "`code`", "[", "](u)", "![pic](i)", "<b>", "</b>", "\n",
     "\n\n", "> ", "- ", "# ", "1. ", "&amp;", "\\*", "<http://x.y>", "[r]", "~~", "  \n", "|", "<div>\n",
     "é", "{{n}}", "[^1]"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=25).map("".join))
def test_any_page_gives_itself_back_and_can_be_translated(page):
    page += "\n\n[r]: u2\n"
    opened = read(page)
    assert opened.write([Result(text=each.source) for each in opened.segments]) == page.encode()
    opened.write([result(each, loud) for each in opened.segments])


INLINE = st.sampled_from(
    ["plain", "words here", "*one*", "**two words**", "_three_", "`code`", "[link here](a_b)", "[r]", "a_b",
     "**bold *and* more**", "![a picture](i.png)", "<b>html</b>", "<http://x.y>", "~~gone~~", "5 \\* 3",
     "AT&amp;T", "{{n}}."]
)  # fmt: skip
LINES = st.lists(INLINE, min_size=1, max_size=6).map(" ".join)
START = st.sampled_from(["", "# ", "- ", "> ", "1. ", "> - ", "    - "])


@given(st.lists(st.builds(str.__add__, START, LINES), max_size=5).map("\n\n".join))
def test_whatever_the_order_of_words_becomes_the_structure_is_the_same(page):
    page += "\n\n[r]: u2\n"
    opened = read(page)
    out = opened.write(
        [result(each, lambda text: " ".join(reversed(text.split(" ")))) for each in opened.segments]
    )
    assert shape(out.decode()) == shape(page)
