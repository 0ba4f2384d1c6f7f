"""Documents through a translator: nothing is lost whatever it writes, and nothing is done twice."""

import json
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import ConfigError
from regard.documents.base import Result
from regard.documents.job import LOST
from regard.documents.registry import open_document
from regard.documents.xmltree import read_xml
from regard.memory import Glossary, Match, Recall, Segment
from regard.memory.documents import segments_of
from regard.tasks.translation.documents import TOO_LONG, Carrier, Plan, report_of
from regard.tasks.translation.glossary import Holding
from regard.tasks.translation.result import Translation
from regard.text.terms import Terms
from tests.documents import made
from tests.documents.standin import Linked, StandIn, careless, same, upper

TAG = re.compile(r"<[^<>]*>")
ESCAPED = [re.escape(each) for each in sorted({*made.PLACEHOLDERS, "{who}"}, key=len, reverse=True)]
PLACEHOLDER = re.compile("|".join([*ESCAPED, r"\{n, plural, =0 \{", r"\} one \{", r"\} other \{"]))
"""Found without the help of what is tested."""


def carried(opened, write, **more):
    (results,) = Carrier(StandIn(write), **more).translate([opened])
    return results


def marks(text: str) -> tuple[Counter, Counter]:
    return Counter(TAG.findall(text)), Counter(PLACEHOLDER.findall(text))


def documents(count: int):
    yield "a.xlf", made.xliff(count * 2 // 5, 1)
    yield "b.xlf", made.xliff(count * 2 // 5, 2)
    yield "c.po", made.po(count - 2 * (count * 2 // 5))


def test_of_two_thousand_segments_no_tag_and_no_placeholder_is_lost():
    segments = 0
    for name, text in documents(2_000):
        opened = open_document(name, text.encode())
        results = carried(opened, careless)
        for segment, result in zip(opened.segments, results, strict=True):
            assert marks(result.text) == marks(segment.source), (segment.source, result.text)
        written = opened.write(results)
        again = open_document(name, written)  # well-formed, and as the standard wants it
        assert [each.source for each in again.segments] == [each.source for each in opened.segments]
        assert [each.key for each in again.segments] == [each.key for each in opened.segments]
        for segment, result in zip(again.segments, results, strict=True):
            assert segment.target == result.text
        segments += len(opened.segments)
    assert segments >= 2_000


@pytest.mark.parametrize(("name", "text"), [*documents(100)], ids=["xliff-1.2", "xliff-2.1", "po"])
def test_what_a_model_leaves_as_it_is_stays_so_to_the_byte(name, text):
    opened = open_document(name, text.encode())
    results = carried(opened, same)
    assert [each.text for each in results] == [each.source for each in opened.segments]
    written = opened.write(results)
    again = open_document(name, written)
    assert again.write([Result(text=each.target, state=each.state) for each in again.segments]) == written
    assert again.write([None] * len(again.segments)) == written
    assert opened.write([None] * len(opened.segments)) == text.encode()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([1, 2]), st.booleans())
def test_any_segment_keeps_its_marks_in_a_file_that_is_well_formed(seed, version, windows):
    text = made.xliff(3, version, seed)
    raw = (text.replace("\n", "\r\n") if windows else text).encode()
    opened = open_document("a.xlf", raw)
    written = opened.write(carried(opened, careless))
    tree = read_xml(written, "a.xlf")
    assert tree.root.name == "xliff"
    for before, after in zip(opened.segments, open_document("a.xlf", written).segments, strict=True):
        assert marks(after.target) == marks(before.source)
    if windows:
        assert b"\n" not in written.replace(b"\r\n", b"")


PO = b'msgid "a"\nmsgstr ""\n\nmsgctxt "c"\nmsgid "a"\nmsgstr "A"\n\nmsgid "b"\nmsgstr "B"\n'


def test_only_what_is_new_is_translated():
    old = open_document("a.po", b'msgid "a"\nmsgstr "alt"\n\nmsgctxt "c"\nmsgid "a"\nmsgstr ""\n')
    translator = StandIn(upper)
    (results,) = Carrier(translator).translate([open_document("a.po", PO)], [old])
    assert results == [Result(text="alt", origin="file", state="final"), None, None]
    assert translator.read == []
    (results,) = Carrier(translator).translate([open_document("a.po", PO)])
    assert results[0].text == "A"  # by the model: the other "a" means something else
    assert (results[0].origin, translator.read) == ("model", ["a"])


def test_a_draft_that_is_taken_over_stays_one():
    first = open_document("a.po", PO)
    written = first.write(carried(first, upper))
    assert written.startswith(b'#, fuzzy\nmsgid "a"\nmsgstr "A"\n')
    (results,) = Carrier(StandIn(upper)).translate([first], [open_document("a.po", written)])
    assert first.write(results) == written


def test_a_text_that_several_formats_have_is_written_as_each_of_them_writes_it():
    files = {
        "a.json": b'{"a": "say it"}',
        "a.yaml": b"a: say it\n",
        "a.md": b"say it\n",
        "b.yaml": b"b: say it\n",
    }
    opened = [open_document(name, raw) for name, raw in files.items()]
    translator = StandIn(lambda text: ('SAG: "es" *jetzt*', []))
    found = Carrier(translator).translate(opened)
    written = [each.write(results).decode() for each, results in zip(opened, found, strict=True)]
    quoted = '"SAG: \\"es\\" *jetzt*"'
    assert written == [f'{{"a": {quoted}}}', f"a: {quoted}\n", 'SAG: "es" \\*jetzt\\*\n', f"b: {quoted}\n"]
    assert translator.read == ["say it"] * 2  # strings may hold no tag that a model makes up, Markdown may


def test_the_targets_of_a_file_that_count_are_what_a_memory_can_learn():
    unit = "<trans-unit id='{}'><source>{}</source><target{}>{}</target></trans-unit>"
    body = (
        unit.format(1, "a &amp; b", "", "c &lt; %s")
        + unit.format(2, "draft", " state='needs-review-translation'", "Entwurf")
        + unit.format(3, "with <g id='1'>tags</g>", "", "mit <g id='1'>Tags</g>")
        + unit.format(4, "a mark", "", "eine Marke<x id='1'/>")
        + unit.format(5, "empty", "", "")
        + unit.format(6, "approved", " state='final'", "gut")
        + unit.format(7, "<g id='1'>see <x id='2'/></g>", "", "<g id='1'>siehe <x id='2'/></g>")
    )
    file = "<file source-language='en' target-language='de'>"
    raw = f"<xliff version='1.2'>{file}<body>{body}</body></file></xliff>"
    left = Counter()
    assert [*segments_of(open_document("a.xlf", raw.encode()), left=left)] == [
        Segment("a & b", "c < %s", "en", "de"),
        Segment("with tags", "mit Tags", "en", "de"),
        Segment("approved", "gut", "en", "de"),
    ]
    assert +left == {"fuzzy or to be reviewed": 1, "with marks that stand for words": 2}
    more = '\nmsgid "two\\nlines"\nmsgstr "zwei\\nZeilen"\n\nmsgid "a <b>c</b>"\nmsgstr "ein <b>c</b>"\n'
    catalogue = open_document("a.po", PO + b'\n#, fuzzy\nmsgid "d"\nmsgstr "D"\n' + more.encode())
    left = Counter()
    assert [*segments_of(catalogue, "en", "de", left)] == [
        Segment("a", "A", "en", "de"),
        Segment("b", "B", "en", "de"),
        Segment("a c", "ein c", "en", "de"),
    ]
    assert +left == {"fuzzy or to be reviewed": 1, "of several lines or branches": 1}
    with pytest.raises(ConfigError, match="does not say its source language"):
        [*segments_of(catalogue)]


def test_a_text_is_translated_once_for_all_files():
    text = b'msgid "one two"\nmsgstr ""\n'
    opened = [open_document("a.po", text), open_document("b.po", text)]
    translator = StandIn(upper)
    results = Carrier(translator).translate(opened)
    assert translator.read == ["one two"]
    assert [each.text for own in results for each in own] == ["ONE TWO"] * 2


def test_a_text_that_the_file_has_elsewhere_is_taken_from_there():
    unit = "<trans-unit id='{}'><source>{}</source>{}</trans-unit>"
    body = unit.format(1, "a &amp; b", "") + unit.format(2, "a &amp; b", "<target>A und B</target>")
    raw = f"<xliff version='1.2'><file source-language='en'><body>{body}</body></file></xliff>".encode()
    opened = open_document("a.xlf", raw)
    results = carried(opened, upper)
    assert results == [Result(text="A und B", origin="file", state="final"), None]


def test_memories_terms_and_flags_have_their_place():
    text = b'msgid "the station"\nmsgstr ""\n\nmsgid "the river"\nmsgstr ""\n\nmsgid "%s: 1"\nmsgstr ""\n'
    memory = {"the station": ("der Bahnhof", 100), "the river": ("der See", 90)}

    def look_up(text):
        return [Match(text, *memory[text], "en", "de")] if text in memory else []

    results = carried(
        open_document("a.po", text),
        upper,
        memory=Recall(look_up),
        terms=Terms({"river": "Fluss"}),
        flags=lambda source, target, translation: ("odd",) if target == "THE RIVER" else (),
    )
    assert results == [
        Result(text="der Bahnhof", origin="memory"),
        Result(text="THE Fluss", origin="model", confidence=0.5, flags=("odd",)),
        Result(text="%s: 1", origin="copy"),
    ]


UNITS = "<xliff version='1.2'><file source-language='en'><body>{}</body></file></xliff>"
UNIT = "<trans-unit id='{}'><source>{}</source></trans-unit>"


def units(*sources):
    body = "".join(UNIT.format(number, source) for number, source in enumerate(sources))
    return open_document("a.xlf", UNITS.format(body).encode())


def test_what_a_memory_has_is_written_as_the_file_writes_it_and_tags_go_where_its_words_went():
    memory = Recall(lambda text: [Match(text, "c < d", 100, "en", "de")])
    found = carried(units("a &amp; b", "a &amp; <g id='1'>b</g>"), upper, memory=memory)
    assert [(each.text, each.origin, each.draft) for each in found] == [
        ("c &lt; d", "memory", False),
        ("c &lt; <g id='1'>d</g>", "memory", True),
    ]


def test_tags_are_put_into_what_a_memory_has_by_the_links_of_its_words():
    class Swapping(StandIn):
        def align(self, source, target, **languages):
            return Linked(((0, 1), (1, 0)))

    memory = Recall(lambda text: [Match(text, "Haus altes", 100, "en", "de")])
    ((found,),) = Carrier(Swapping(upper), memory=memory).translate([units("<g id='1'>old</g> house")])
    assert found.text == "Haus <g id='1'>altes</g>"


def test_all_lines_of_a_message_may_come_from_a_memory_but_not_some():
    known = {"one": "eins", "two": "zwei"}
    memory = Recall(lambda text: [Match(text, known[text], 100, "en", "de")] if text in known else [])
    text = b'msgid "one\\ntwo"\nmsgstr ""\n\nmsgid "two\\nthree"\nmsgstr ""\n'
    found = carried(open_document("a.po", text), upper, memory=memory)
    assert [(each.text, each.origin) for each in found] == [("eins\nzwei", "memory"), ("TWO\nTHREE", "model")]


def test_a_model_is_given_near_matches_and_the_report_lists_the_best():
    given = []

    class Reading(StandIn):
        def stream(self, lines, *, memory, **settings):
            for each in super().stream(lines, **settings):
                matches = tuple(memory.search(each.source))
                given.append([match.score for match in matches])
                yield replace(each, matches=matches, match_given=bool(matches))

    def search(text):
        near = [Match("the old river", "der alte Fluss", 66, "en", "de")] if "river" in text else []
        return near + [Match("a river", "ein Fluss", 50, "en", "de")] * bool(near)

    opened = units("the <g id='1'>river</g>", "the house")
    (results,) = Carrier(Reading(upper), memory=Recall(search)).translate([opened])
    assert given == [[66, 50], []]
    assert report_of("a.xlf", opened, results).near == [
        {
            "line": 1,
            "key": opened.segments[0].key,
            "score": 66,
            "source": "the old river",
            "target": "der alte Fluss",
            "given": True,
        }
    ]


def test_the_report_says_what_became_of_terms_and_which_are_missed_where():
    class Held(StandIn):
        def stream(self, lines, **settings):
            holding = Holding(settings["glossary"].terms)
            return (holding.looked_at(each) for each in super().stream(lines, **settings))

    glossary = Glossary.of({"river": "RIVER", "house": "Haus", "dog": "Dackel"})
    memory = Recall(lambda text: [Match(text, "Hund", 100, "en", "de")] if text == "dog" else [])
    opened = units("the river and the %(house)s", "the house", "dog")
    carrier = Carrier(Held(upper), memory=memory, settings={"glossary": glossary})
    report = report_of("a.xlf", opened, carrier.translate([opened])[0])
    assert report.terms == {"model": 1, "missed": 2}
    assert [(each["flags"], each["terms"]) for each in report.flagged] == [
        (["term"], [{"source": "house", "target": "Haus", "how": "missed"}]),
        (["term"], [{"source": "dog", "target": "Dackel", "how": "missed"}]),
    ]
    assert report.line().endswith("1 from memory, 2 by the model, 2 flagged, 2 terms missed")
    assert json.loads(json.dumps(report.to_dict()))["terms"] == {"model": 1, "missed": 2}


def test_a_placeholder_that_the_model_loses_is_put_back_and_flagged():
    opened = open_document("a.po", b'msgid "open %(file)s now"\nmsgstr ""\n')
    (result,) = carried(opened, lambda text: (text.replace("%(file)s", "").upper(), []))
    assert result.text == "OPEN %(file)s NOW"
    assert result.flags == (LOST,)
    (result,) = carried(opened, upper)
    assert (result.text, result.flags) == ("OPEN %(file)s NOW", ())


def test_what_is_too_long_for_its_place_is_flagged():
    raw = (
        b"<xliff version='1.2'><file source-language='en'><body>"
        b"<trans-unit id='1' maxwidth='7' size-unit='char'>"
        b"<source>one <g id='1'>two</g></source></trans-unit></body></file></xliff>"
    )
    opened = open_document("a.xlf", raw)
    assert opened.segments[0].longest == 7
    assert carried(opened, upper)[0].flags == ()
    assert carried(opened, lambda text: (text + " three", []))[0].flags == (TOO_LONG,)


def test_branches_of_a_message_are_translated_and_its_frame_is_kept():
    message = b"You have {n, plural, offset:1 =0 {no mail} one {# new mail} other {{name} and #}} now"
    text = b'msgid "' + message + b'"\nmsgstr ""\n'
    translator = StandIn(upper)
    ((result,),) = Carrier(translator).translate([open_document("a.po", text)])
    assert result.text == (
        "YOU HAVE {n, plural, offset:1 =0 {NO MAIL} one {# NEW MAIL} other {{name} AND #}} NOW"
    )
    assert translator.read == ["You have [X1X] now", "no mail", "# new mail", "{name} and #"]


def test_branches_with_codes_in_them_are_translated_and_their_frame_is_kept():
    source = (
        "{VAR_PLURAL, plural, =0 {just now} other {<x id='INTERPOLATION'/> minutes ago, "
        "{VAR_SELECT, select, male {by <bpt id='1'>b</bpt>him<ept id='1'>b</ept>} other {by them}}}}"
    )
    ((result,),) = Carrier(StandIn(upper)).translate([units(source)])
    assert result.text == (
        "{VAR_PLURAL, plural, =0 {JUST NOW} other {<x id='INTERPOLATION'/> MINUTES AGO, "
        "{VAR_SELECT, select, male {BY <bpt id='1'>b</bpt>HIM<ept id='1'>b</ept>} other {BY THEM}}}}"
    )


def test_tags_of_paragraphs_part_what_a_message_says():
    message = "<p>Save it<br/>now.</p><ul><li><b>One</b> dog</li><li>Two dogs</li></ul> mkdir <dir> <option>"
    translator = StandIn(upper)
    text = f'msgid "{message}"\nmsgstr ""\n'.encode()
    ((result,),) = Carrier(translator).translate([open_document("a.po", text)])
    assert translator.read == ["Save it", "now.", "One dog", "Two dogs", "mkdir"]
    assert result.text == (
        "<p>SAVE IT<br/>NOW.</p><ul><li><b>ONE</b> DOG</li><li>TWO DOGS</li></ul> MKDIR <dir> <option>"
    )


def test_lines_of_a_message_stay_lines():
    opened = open_document("a.po", b'msgid "Usage:\\n  run %s\\n\\n  -x\\n"\nmsgstr ""\n')
    (result,) = carried(opened, upper)
    assert result.text == "USAGE:\n  RUN %s\n\n  -X\n"


def test_the_report_counts_everything():
    opened = open_document("a.po", PO + b'\nmsgid "%s open"\nmsgstr ""\n\nmsgid "1"\nmsgstr ""\n')
    results = carried(opened, lambda text: (text.replace("%s", "").upper(), []))
    report = report_of("a.po", opened, results)
    counts = (report.segments, report.words, report.file_kept, report.model, report.copied)
    assert counts == (5, 6, 2, 2, 1)
    assert [each["flags"] for each in report.flagged] == [[LOST]]
    assert json.loads(json.dumps(report.to_dict()))["file"] == "a.po"
    assert report.line() == (
        "a.po: 5 segments, 6 words: 2 there already, 2 by the model, 1 without words, 1 flagged"
    )


def test_no_confidence_at_all_is_not_taken_for_all_of_it():
    told = {"score": 0.0, "ranking": 0.0, "finished": True, "alternatives": ()}
    found = Translation(source="One", text="Eins", confidence=0.0, **told)
    plan = Plan([open_document("a.json", b'{"a": "One"}')])
    ((part, work),) = plan.parts
    for each in (found, replace(found, confidence=0.9)):
        plan.note(part, work, each)
        assert work.confidence == 0.0


@pytest.mark.parametrize(
    "expression",
    [
        "{{ 'k' | translate: {a: b} }}",
        "{{ user.name | truncate: 20 | default: 'nobody at all, whoever that may be here' | escape }}",
        "${a ? 'b' : 'c'}",
        "${items.map(item => { return item })}",
        "#{user.name || 'you'}",
        "www.example.org/a?b=c",
    ],
)
def test_expressions_and_addresses_are_kept_whatever_is_in_them(expression):
    opened = open_document("a.json", json.dumps({"a": f"Hello {expression}, you."}).encode())
    assert [*opened.segments[0].block.view().names] == [expression]
    (result,) = carried(opened, lambda text: (text.replace(expression, "").upper(), []))
    assert json.loads(f'"{result.text}"').count(expression) == 1
    assert result.flags == (LOST,)


@pytest.mark.parametrize("text", ["{{a} or {b}}", "see www. or x", "$ {a b}", "a www.", "{a, b and c}"])
def test_what_only_looks_like_an_expression_is_text(text):
    opened = open_document("a.json", json.dumps({"a": text}).encode())
    assert not {text, "www."} & {*opened.segments[0].block.view().names}
