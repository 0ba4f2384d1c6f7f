"""Files that no tool writes: tags in a hundred others, and hundreds of thousands that nothing ends. They cost
no more than others of their size, and none stops those beside it."""

import json
import time

import pytest

from regard.documents.registry import open_document
from regard.tasks.translation.documents import Carrier
from regard.text import DataError
from tests.documents.samples import docx, odt, paragraph, run
from tests.documents.standin import StandIn, upper

CUE = "1\n00:00:01,000 --> 00:00:02,000\n{}\n"
UNIT = (
    '<xliff version="1.2"><file source-language="en" target-language="de"><body><trans-unit id="1">'
    "<source>{}</source></trans-unit></body></file></xliff>"
)


def each(pattern: str, count: int, *, back: bool = False) -> str:
    return "".join(pattern.format(i) for i in (reversed(range(count)) if back else range(count)))


DEEP = 600
TAGS = "<i>" * DEEP + "some words" + "</i>" * DEEP
NESTED = {
    "a.json": json.dumps({"a": TAGS}),
    "b.json": json.dumps({"a": TAGS.replace("i>", "other>")}),
    "a.yaml": f"a: '{TAGS}'\n",
    "a.properties": f"a = {TAGS}\n",
    "a.srt": CUE.format(f"look: {TAGS} there"),
    "b.srt": CUE.format(TAGS),
    "a.md": f"look: {TAGS} there\n",
    "b.md": "*a " * DEEP + "some words" + " b*" * DEEP + "\n",
    "a.html": f"<p>look: {TAGS} there</p>",
    "a.po": f'msgid "{TAGS}"\nmsgstr ""\n',
    "a.xlf": UNIT.format(
        "look: " + each('<bx id="{}"/>', DEEP) + "some words" + each('<ex id="{}"/>', DEEP, back=True)
    ),
    "a.docx": docx(
        paragraph(
            run("look: ")
            + each('<w:bookmarkStart w:id="{0}" w:name="b{0}"/>', DEEP)
            + run("some words")
            + each('<w:bookmarkEnd w:id="{}"/>', DEEP, back=True)
            + run(" there")
        )
    ),
    "a.odt": odt(
        "<text:p>look: "
        + each('<text:bookmark-start text:name="b{}"/>', DEEP)
        + "some words"
        + each('<text:bookmark-end text:name="b{}"/>', DEEP, back=True)
        + " there</text:p>"
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_tags_in_hundreds_of_others_are_all_there_again_in_their_order(name):
    raw = NESTED[name] if isinstance(NESTED[name], bytes) else NESTED[name].encode()
    opened = open_document(name, raw)
    (results,) = Carrier(StandIn(upper)).translate([opened])
    written = "".join(result.text for result in results)
    assert "SOME WORDS" in written
    again = open_document(name, opened.write(results))
    assert len(again.segments) == len(opened.segments)
    for result, segment in zip(results, opened.segments, strict=True):
        assert result.text.count("<") == segment.source.count("<")


@pytest.mark.parametrize("ending", ["json", "yaml"])
def test_collections_in_hundreds_of_others_are_refused(ending):
    raw = "[" * 600 + '"x"' + "]" * 600
    with pytest.raises(DataError, match=rf"a\.{ending}:1: .* nested too deeply: more than 100 collections"):
        open_document(f"a.{ending}", raw.encode())


MANY = 20_000
UNENDED = "<i>" * MANY + "some words" + "</b>" * MANY
LONG = {
    "a.json": json.dumps({"a": UNENDED}),
    "b.json": json.dumps({"a": "<!-- some words" * MANY}),
    "a.po": 'msgid "' + "{a, plural, other {" * MANY + '"\nmsgstr ""\n',
    "a.yaml": f"a: '{UNENDED}'\n",
    "a.srt": CUE.format("<i>" * 5 * MANY + "some words"),
    "b.srt": CUE.format("some <" + "a" * 5 * MANY),
    "c.srt": CUE.format(" " * 100 * MANY + "some words"),
    "a.vtt": "WEBVTT\n\nNOTE\n" + "-->\n" * MANY,
    "a.md": "<b>some</b> *words* " * (MANY // 4),
    "b.md": "{% some" * MANY,
    "a.xlf": UNIT.format(each('<bx id="{}"/>', MANY // 2) + "some words" + '<ex id="none"/>' * (MANY // 2)),
    "a.docx": docx(paragraph(run("some") + '<w:bookmarkEnd w:id="1"/>' * (MANY * 3 // 2) + run("words"))),
}
"""Of each some tenths of a second of work, and minutes where each mark looks through all the others."""


@pytest.mark.parametrize("name", LONG)
def test_what_nothing_ends_costs_no_more_than_its_size(name):
    raw = LONG[name] if isinstance(LONG[name], bytes) else LONG[name].encode()
    begin = time.process_time()
    open_document(name, raw)
    assert time.process_time() - begin < 8
