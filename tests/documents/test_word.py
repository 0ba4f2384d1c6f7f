"""Word's DOCX: runs, links, fields, notes, boxes; and what a hostile zip may not do."""

import io
import re
import zipfile
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from regard.documents import package
from regard.documents.base import Result
from regard.documents.word import FORMAT
from regard.text import DataError
from tests.documents.samples import (
    BOX,
    DOCX,
    FIELD,
    NOTE,
    docx,
    loud,
    packed,
    paragraph,
    result,
    run,
    texts,
    translated,
)

NAMES = {"w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main"}


def members(raw: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(raw)) as opened:
        return {each.filename: opened.read(each) for each in opened.infolist()}


def body(raw: bytes) -> str:
    text = members(raw)["word/document.xml"].decode()
    return re.search(r"<w:body>(.*)</w:body>", text, re.DOTALL)[1]  # type: ignore[index]


def open_body(text: str):
    return FORMAT.open(docx(text), "a.docx", {})


def test_what_is_translated():
    assert texts(FORMAT.open(DOCX, "a.docx", {})) == [
        "The old station closes & more.",
        "Text in a box",
        "A link is here on page [X1X].",
        "First",
        "second",
        "third",
        "A cell",
        "A heading",
        "New text",
        "It",
        "A comment.",
    ]
    assert "A comment." not in texts(FORMAT.open(DOCX, "a.docx", {"comments": False}))


def test_other_parts_stay_to_the_byte_in_their_order():
    out = translated(FORMAT.open(DOCX, "a.docx", {}), loud)
    before, after = members(DOCX), members(out)
    assert list(after) == list(before)
    assert {name for name in after if after[name] != before[name]} == {
        "word/document.xml", "word/footnotes.xml", "word/comments.xml",
    }  # fmt: skip
    with zipfile.ZipFile(io.BytesIO(DOCX)) as one, zipfile.ZipFile(io.BytesIO(out)) as other:
        assert [each.compress_type for each in one.infolist()] == [
            each.compress_type for each in other.infolist()
        ]


def test_runs_that_differ_in_nothing_that_is_seen_are_one():
    opened = open_body(
        paragraph(
            '<w:r w:rsidR="1"><w:rPr><w:lang w:val="en"/></w:rPr><w:t>st</w:t></w:r>',
            '<w:proofErr w:type="spellStart"/><w:r><w:rPr><w:noProof/></w:rPr><w:t>ati</w:t></w:r>',
            "<w:r><w:lastRenderedPageBreak/><w:t>on</w:t></w:r>",
        )
    )
    assert [each.source for each in opened.segments] == ["station"]
    assert body(translated(opened, loud)) == paragraph(run("STATION"))


def test_formatting_goes_to_the_words_that_became_its_own():
    opened = open_body(paragraph(run("The old "), run("station", "<w:b/>"), run(" closes")))
    [segment] = opened.segments
    view = segment.block.view()
    text = segment.block.place(view, "Der Bahnhof schließt", [(0, 0), (2, 1), (3, 2)])
    assert body(opened.write([Result(text=text)])) == paragraph(
        run("Der "), run("Bahnhof", "<w:b/>"), run(" schließt")
    )


def test_a_paragraph_of_one_formatting_keeps_it():
    assert body(translated(open_body(paragraph(run("all bold", "<w:b/>"))), loud)) == paragraph(
        run("ALL BOLD", "<w:b/>")
    )


def test_links_fields_and_notes_stay():
    out = body(translated(FORMAT.open(DOCX, "a.docx", {}), loud))
    assert FIELD in out
    assert NOTE in out
    assert (
        '<w:hyperlink w:anchor="x">' + run("IS HERE", '<w:rStyle w:val="Hyperlink"/>') + "</w:hyperlink>"
        in out
    )
    assert '<w:bookmarkStart w:id="1" w:name="b"/>' + run("A HEADING") + '<w:bookmarkEnd w:id="1"/>' in out
    assert "<w:delText>gone</w:delText>" in out
    assert BOX.replace("Text in a box", "TEXT IN A BOX") in out


def test_the_text_of_a_link_that_is_a_field_is_translated():
    link = FIELD.replace(" PAGE ", ' HYPERLINK "http://x.org" ').replace(
        "<w:t>7</w:t>", "<w:t>the page</w:t>"
    )
    opened = open_body(paragraph(run("See "), link, run(" there.")))
    assert texts(opened) == ["See the page there."]
    out = body(translated(opened, loud))
    kinds = re.findall(r'fldCharType="(\w+)"', out)
    assert kinds == ["begin", "separate", "end"]
    assert re.sub(r"<w:instrText>.*?</w:instrText>|<[^>]*>", "", out) == "SEE THE PAGE THERE."


def test_a_field_over_several_paragraphs_parts_and_stays():
    first = FIELD.replace('<w:r><w:fldChar w:fldCharType="end"/></w:r>', "").replace("7", "Contents of it")
    opened = open_body(
        paragraph(first) + paragraph(run("Next"), '<w:r><w:fldChar w:fldCharType="end"/></w:r>')
    )
    assert texts(opened) == ["Contents of it", "Next"]
    assert re.findall(r'fldCharType="(\w+)"', body(translated(opened, loud))) == ["begin", "separate", "end"]


def test_breaks_and_tabs_keep_their_places():
    opened = open_body(
        paragraph("<w:r><w:rPr><w:i/></w:rPr><w:t>one</w:t><w:br/><w:t>two</w:t><w:tab/><w:t>2</w:t></w:r>")
    )
    out = etree.fromstring(members(translated(opened, loud))["word/document.xml"])
    found = [
        each.text or etree.QName(each).localname
        for each in out.xpath("//w:t|//w:br|//w:tab", namespaces=NAMES)
    ]
    assert found == ["ONE", "br", "TWO", "tab", "2"]
    assert len(out.xpath("//w:r", namespaces=NAMES)) == len(out.xpath("//w:r[w:rPr/w:i]", namespaces=NAMES))


def test_a_prefix_may_be_another_one():
    raw = members(docx(paragraph(run("some "), run("text", "<w:b/>"))))
    other = {
        name: each.replace(b"w:", b"ns0:") if name.endswith("document.xml") else each
        for name, each in raw.items()
    }
    other["word/document.xml"] = other["word/document.xml"].replace(b"xmlns:w=", b"xmlns:ns0=")
    out = translated(FORMAT.open(packed(dict(other)), "a.docx", {}), loud)
    assert b"<ns0:b/>" in members(out)["word/document.xml"]
    assert texts(FORMAT.open(out, "a.docx", {})) == ["SOME TEXT"]


def test_a_document_without_text_is_the_same_to_the_byte():
    raw = docx(paragraph() + paragraph(run("12")))
    opened = FORMAT.open(raw, "a.docx", {})
    assert (list(opened.segments), opened.write([])) == ([], raw)


PIECES = st.sampled_from(
    [run("some words "), run("bold", "<w:b/>"), run("italic text", "<w:i/>"), run(" "), NOTE, FIELD, BOX,
     '<w:hyperlink w:anchor="x">' + run("a link", "<w:u/>") + run(" more") + "</w:hyperlink>", run("&amp; x"),
     '<w:bookmarkStart w:id="1" w:name="b"/>', '<w:bookmarkEnd w:id="1"/>', '<w:proofErr w:type="spellEnd"/>',
     "<w:r><w:t>left</w:t><w:footnoteReference w:id='3'/><w:t>right</w:t></w:r>",
     "<w:r><w:t>x</w:t><w:br/><w:t>y</w:t></w:r>"]
)  # fmt: skip
KEPT = re.compile(r"<w:(?:footnoteReference|fldChar|hyperlink|bookmark|br|pict|instrText)[^>]*>")


@given(st.lists(PIECES, max_size=10))
@example([FIELD, run(" "), run("bold", "<w:b/>"), "<w:r><w:t>x</w:t><w:br/><w:t>y</w:t></w:r>"])
def test_any_paragraph_keeps_its_marks_its_text_and_its_form(pieces):
    opened = open_body(paragraph(*pieces))
    for each in (str, lambda text: " ".join(reversed(text.split(" ")))):
        out = opened.write([result(segment, each) for segment in opened.segments])
        assert Counter(KEPT.findall(body(out))) == Counter(KEPT.findall(paragraph(*pieces)))
        root = etree.fromstring(members(out)["word/document.xml"])
        assert not root.xpath(
            "//w:t[ancestor::w:t]|//w:r[parent::w:r]|//w:t[not(parent::w:r)]", namespaces=NAMES
        )
        assert letters(out) == letters(docx(paragraph(*pieces)))


def letters(raw: bytes) -> Counter[str]:
    """Of all that is shown."""
    shown = etree.fromstring(members(raw)["word/document.xml"]).xpath("//w:t/text()", namespaces=NAMES)
    return Counter("".join("".join(shown).split()))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"no zip at all", "no zip"),
        (packed({"a.txt": "x"}), r"\[Content_Types\].xml: is missing"),
        (packed({"[Content_Types].xml": "<Types/>"}), "names no part with text"),
        (docx("<w:p>"), "not well-formed"),
        (docx(paragraph(run("x"))).replace(b"PK\x01\x02", b"PK\x01\x03", 1), "no zip"),
    ],
)
def test_what_is_no_document_is_told(raw, said):
    with pytest.raises(DataError, match=said) as caught:
        FORMAT.open(raw, "a.docx", {})
    assert caught.value.origin.file.startswith("a.docx")


def test_a_doctype_is_refused_and_nothing_is_read_from_elsewhere():
    raw = members(docx(paragraph(run("&f;"))))
    evil = b'<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">]>'
    raw["word/document.xml"] = re.sub(rb"(<w:document)", evil + rb"\1", raw["word/document.xml"])
    with pytest.raises(DataError, match="DOCTYPE"):
        FORMAT.open(packed(dict(raw)), "a.docx", {})


def test_a_zip_bomb_is_refused(monkeypatch):
    monkeypatch.setattr(package, "LARGEST_TOTAL", 1 << 20)
    raw = members(docx(paragraph(run("x"))))
    with pytest.raises(DataError, match="more than such a document has"):
        FORMAT.open(packed(raw | {"bomb": bytes(1 << 21)}), "a.docx", {})


def test_a_part_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(package.Package.part, "__defaults__", (1000,))
    with pytest.raises(DataError, match="are more than 1,000"):
        FORMAT.open(docx(paragraph(run("x" * 5000))), "a.docx", {})


def test_bookmarks_that_cross_stay_in_their_order():
    marks = ["bookmarkStart 1", "bookmarkStart 2", "bookmarkEnd 1", "bookmarkEnd 2"]
    parts = [run("One ")]
    for i, mark in enumerate(marks):
        name, number = mark.split()
        parts += [f'<w:{name} w:id="{number}"/>', run(f"word{i} ")]
    opened = FORMAT.open(docx(paragraph(*parts)), "a.docx", {})
    [segment] = opened.segments
    view = segment.block.view()
    words = view.text.split()
    links = [(i, len(words) - 1 - i) for i in range(len(words))]
    out = opened.write([Result(text=segment.block.place(view, " ".join(reversed(words)), links))])
    assert [" ".join(each) for each in re.findall(r'<w:(bookmark\w+) w:id="(\d)"/>', body(out))] == marks


def test_a_superscript_in_a_word_is_around_the_same_letters():
    high = run("2", '<w:vertAlign w:val="superscript"/>')
    opened = FORMAT.open(docx(paragraph(run("Some 5 m"), high, run(" here"))), "a.docx", {})
    assert run("SOME 5 M") + high + run(" HERE") in body(translated(opened, loud))
