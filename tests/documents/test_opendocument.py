"""OpenDocument text: spans, notes, frames; what was deleted; other parts."""

import io
import re
import zipfile

import pytest
from lxml import etree

from regard.documents.base import Result
from regard.documents.opendocument import FORMAT
from regard.text import DataError
from tests.documents.samples import ODT, SILENT, loud, odt, packed, texts, translated


def content(raw: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(raw)) as opened:
        return re.search(r"<office:text>(.*)</office:text>", opened.read("content.xml").decode(), re.DOTALL)[
            1
        ]  # type: ignore[index]


def test_what_is_translated():
    assert texts(FORMAT.open(ODT, "a.odt", {})) == [
        "The old station",
        "A note, and bold on page [X1X].",
        "Text of it.",
        "First line",
        "second",
        "third & last",
        "In a frame",
        "A header",
    ]


def test_spans_that_are_edited_apart_are_one():
    out = content(translated(FORMAT.open(ODT, "a.odt", {}), loud))
    assert 'A NOTE<text:note text:id="n">' in out
    assert '<text:span text:style-name="T1">BOLD</text:span>' in out
    assert "<text:page-number>7</text:page-number>." in out
    assert "<text:note-body><text:p>TEXT OF IT.</text:p></text:note-body>" in out
    assert "FIRST LINE<text:line-break/>SECOND<text:tab/>THIRD &amp; LAST" in out


def test_a_style_that_says_more_is_no_silent_one():
    bold = SILENT.replace(
        "<style:text-properties", '<style:text-properties fo:font-weight="bold" xmlns:fo="f"'
    )
    opened = FORMAT.open(
        odt('<text:p>no<text:span text:style-name="T9">te</text:span></text:p>', bold), "a.odt", {}
    )
    assert "<text:span" in opened.segments[0].source


def test_spans_go_to_the_words_that_became_their_own():
    opened = FORMAT.open(
        odt('<text:p>The <text:span text:style-name="B">old</text:span> station</text:p>'), "a.odt", {}
    )
    [segment] = opened.segments
    text = segment.block.place(segment.block.view(), "Bahnhof alter", [(0, 1), (1, 1), (2, 0)])
    assert content(opened.write([Result(text=text)])) == (
        '<text:p>Bahnhof <text:span text:style-name="B">alter</text:span></text:p>'
    )


def test_a_space_that_is_an_element_parts_words():
    bold = '<text:span text:style-name="B">{}</text:span>'
    body = f"<text:p>This is<text:s/>{bold.format('very<text:s/>')}old and <text:s/>new</text:p>"
    opened = FORMAT.open(odt(body), "a.odt", {})
    assert texts(opened) == ["This is very old and new"]
    out = content(translated(opened, loud))
    assert "THIS IS<text:s/><text:span" in out
    assert "AND <text:s/>NEW</text:p>" in out


def test_what_was_deleted_and_comments_by_a_setting():
    body = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>gone</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes>"
        "<text:p>A text<office:annotation><text:p>A comment</text:p></office:annotation> here</text:p>"
    )
    assert texts(FORMAT.open(odt(body), "a.odt", {})) == ["A text here", "A comment"]
    assert texts(FORMAT.open(odt(body), "a.odt", {"comments": False})) == ["A text here"]


def test_a_span_with_a_break_in_it_is_parted():
    body = '<text:p><text:span text:style-name="B">one<text:line-break/>two</text:span></text:p>'
    opened = FORMAT.open(odt(body), "a.odt", {})
    assert texts(opened) == ["one", "two"]
    assert content(translated(opened, loud)) == body.replace("one", "ONE").replace("two", "TWO")


def test_other_parts_stay_and_the_first_is_stored():
    out = translated(FORMAT.open(ODT, "a.odt", {}), loud)
    with zipfile.ZipFile(io.BytesIO(ODT)) as one, zipfile.ZipFile(io.BytesIO(out)) as other:
        assert one.namelist() == other.namelist()
        assert other.infolist()[0].compress_type == zipfile.ZIP_STORED
        assert one.read("Pictures/a.png") == other.read("Pictures/a.png")
        for name in ("content.xml", "styles.xml"):
            before, after = (etree.fromstring(each.read(name)) for each in (one, other))
            assert sum(1 for _ in after.iter()) <= sum(1 for _ in before.iter())
    assert out.startswith(b"PK\x03\x04")
    assert b"mimetypeapplication/vnd.oasis.opendocument.text" in out[:120]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (packed({"mimetype": "x"}), "no content.xml"),
        (packed({"content.xml": "<a>"}), "not well-formed"),
        (packed({"content.xml": "<a/>", "META-INF/manifest.xml": "<encryption-data/>"}), "encrypted"),
    ],
)
def test_what_is_no_document_is_told(raw, said):
    with pytest.raises(DataError, match=said):
        FORMAT.open(raw, "a.odt", {})


PAIRS = [
    ('<text:bookmark-start text:name="b"/>', '<text:bookmark-end text:name="b"/>'),
    ('<text:change-start text:change-id="c"/>', '<text:change-end text:change-id="c"/>'),
    ('<office:annotation office:name="1"><text:p>12</text:p></office:annotation>',
     '<office:annotation-end office:name="1"/>'),
]  # fmt: skip


def reversed_words(opened) -> bytes:
    results = []
    for each in opened.segments:
        view = each.block.view()
        words = view.text.split()
        links = [(i, len(words) - 1 - i) for i in range(len(words))]
        results.append(Result(text=each.block.place(view, " ".join(reversed(words)), links)))
    return opened.write(results)


@pytest.mark.parametrize(("start", "end"), PAIRS)
def test_the_start_of_a_pair_is_before_its_end_around_the_same_words(start, end):
    opened = FORMAT.open(odt(f"<text:p>One {start}two three{end} four</text:p>"), "a.odt", {})
    assert content(reversed_words(opened)) == f"<text:p>four {start}three two{end} one</text:p>".replace(
        "one", "One"
    )


def test_pairs_that_cross_stay_in_their_order():
    (a, a_end), (b, b_end), _ = PAIRS
    opened = FORMAT.open(odt(f"<text:p>One {a}two {b}three {a_end}four{b_end} five</text:p>"), "a.odt", {})
    out = content(reversed_words(opened))
    assert re.findall("<text:[bc][^>]*>", out) == [a, b, a_end, b_end]
