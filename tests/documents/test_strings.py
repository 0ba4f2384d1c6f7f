"""Files of strings: escapes, keys, messages within messages; read again by other parsers."""

import gc
import json
import re
import time
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from ruamel.yaml import YAML

from regard.documents import android, strings, yaml
from regard.documents.base import Result
from regard.documents.icu import read_message
from regard.documents.registry import open_document
from regard.tasks.translation.documents import Carrier
from regard.text import DataError
from tests.documents import samples
from tests.documents.samples import loud, texts, translated
from tests.documents.standin import StandIn

WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=12
)
HARD = st.sampled_from(
    ['"', "'", "\\", "# x", ": y", "{", "- a", "é", "😀", "no", "&amp;", "]]>", "[a]", "@b", "%"]
)
TEXT = (
    st.lists(st.one_of(WORDS, HARD), min_size=1, max_size=4)
    .map(" ".join)
    .map(lambda text: " ".join(text.split()))
)
TRANSLATION = TEXT.filter(bool)


def keyed(opened):
    return {each.key: each.block.view().text for each in opened.segments}


def test_json_strings_have_their_paths():
    assert keyed(strings.JSON.open(samples.JSON.encode(), "en.json", {})) == {
        "menu.open": 'Open {{count}} "files"',
        "menu.list.0": "First",
        "menu.list.0#2": "Second line",
        "eé": "See [X1X] or here",
    }


def test_json_has_the_same_keys_and_the_translations():
    out = json.loads(translated(strings.JSON.open(samples.JSON.encode(), "en.json", {}), loud))
    source = json.loads(samples.JSON)
    assert out["menu"] == {
        "open": 'OPEN <b>{{count}}</b> "FILES"',
        "list": ["FIRST\nSECOND LINE", 3, None, True],
    }
    assert out["eé"] == 'SEE $t(menu.open) OR <a href="x">HERE</a>'
    assert list(out) == list(source)


PLAIN = {
    "json": '{"a": "plain words here"}',
    "arb": '{"a": "plain words here"}',
    "yaml": "a: plain words here\n",
    "properties": "a = plain words here\n",
    "strings": '"a" = "plain words here";\n',
}


@pytest.mark.parametrize("name", PLAIN)
def test_tags_that_a_model_makes_up_are_left_out(name):
    read = []

    def write(text):
        read.append(text)
        return f"<b>x</b> a < b > {text} <!-- y", []

    opened = open_document(f"a.{name}", PLAIN[name].encode())
    (results,) = Carrier(StandIn(write)).translate([opened])
    assert opened.write(results).decode() == PLAIN[name].replace("plain", "x a < b > plain").replace(
        "here", "here y"
    )
    assert len(read) == 2


@pytest.mark.parametrize("text", ["a < b > c", "<a'b> text", "1 <2> x"])
def test_signs_that_are_no_tags_may_stay(text):
    read = []

    def write(text):
        read.append(text)
        return f"{text} y", []

    opened = open_document("a.json", json.dumps({"a": text}).encode())
    (results,) = Carrier(StandIn(write)).translate([opened])
    assert json.loads(opened.write(results)) == {"a": f"{text} y"}
    assert len(read) == 1


def test_strings_are_chosen_by_their_keys():
    raw = b'{"a": {"x": "one", "y": "two"}, "b": {"x": "three"}}'
    assert [*keyed(strings.JSON.open(raw, "f", {"keys": ["a.*"]}))] == ["a.x", "a.y"]
    assert [*keyed(strings.JSON.open(raw, "f", {"skip": ["*.x"]}))] == ["a.y"]
    assert [*keyed(strings.JSON.open(raw, "f", {"keys": ["*.x"], "skip": ["b.*"]}))] == ["a.x"]


@pytest.mark.parametrize(
    ("format_", "raw", "line"),
    [
        (strings.JSON, b'{"a": "x",\n "b": }', 2),
        (strings.PROPERTIES, b"a=1\nb=\\u12x4 word\n", 2),
        (strings.STRINGS, b'"a" = "b";\n\n"c" = ;\n', 3),
        (strings.STRINGS, b'"a" = "b";\n"c" = "d"\n', 2),
        (android.FORMAT, b"<resources>\n<string name='a'>x</resources>", 2),
        (yaml.FORMAT, b"a: b\nc: [x\n", 3),
    ],
)
def test_what_is_broken_is_told_with_its_line(format_, raw, line):
    with pytest.raises(DataError) as caught:
        format_.open(raw, "some.file", {})
    assert (caught.value.origin.file, caught.value.origin.line) == ("some.file", line)


@given(TRANSLATION)
def test_json_holds_any_translation(text):
    for raw in (b'{"a": "source"}', b'{"a": "sourc\\u00e9"}'):
        [segment] = (opened := strings.JSON.open(raw, "f", {})).segments
        out = opened.write([Result(text=segment.block.escape(text))])
        assert json.loads(out) == {"a": text}
        assert b"\\u" not in raw or out.isascii()


@given(TRANSLATION)
def test_yaml_holds_any_translation(text):
    for raw in (
        b"a: source\n",
        b"a: 'source'\n",
        b'a: "source"\n',
        b"[x, source, y]\n",
        b"- source # c\n",
        b"a: |\n  source\n",
    ):
        opened = yaml.FORMAT.open(raw, "f", {"skip": ["0", "2"]} if raw.startswith(b"[") else {})
        [segment] = opened.segments
        out = opened.write([Result(text=segment.block.escape(text))]).decode()
        found = YAML(typ="safe", pure=True).load(out)
        value = found["a"] if isinstance(found, dict) else found[1] if raw.startswith(b"[") else found[0]
        assert value == (f"{text}\n" if b"|" in raw else text)


def read_properties(text: str) -> dict[str, str]:
    """As java.util.Properties does it, for one line."""
    key, _, value = text.strip("\n").partition("=")
    units = re.sub(r"\\u(....)", lambda found: chr(int(found[1], 16)), value.replace("\\\\", "\0"))
    units = units.encode("utf-16", "surrogatepass").decode("utf-16")
    return {key: units.replace("\0", "\\")}


@given(TRANSLATION)
def test_properties_hold_any_translation(text):
    for encoding in ("ascii", "latin-1", "utf-8"):
        raw = b"a=source" if encoding == "ascii" else "a=sourcé".encode(encoding)
        [segment] = (opened := strings.PROPERTIES.open(raw, "f", {})).segments
        out = opened.write([Result(text=segment.block.escape(text))])
        assert read_properties(out.decode(encoding)) == {"a": text}


@given(TRANSLATION)
def test_android_holds_any_translation(text):
    for raw in (b"<resources><string name='a'>source</string></resources>",
                b"<resources><string name='a'><b>source</b> </string></resources>"):  # fmt: skip
        [segment] = (opened := android.FORMAT.open(raw, "f", {})).segments
        out = opened.write([Result(text=segment.block.escape(text))])
        value = "".join(etree.fromstring(out).find("string").itertext())
        assert re.sub(r"\\(.)", r"\1", value).strip() == text.strip()


def test_properties_are_read_as_java_reads_them():
    assert keyed(strings.PROPERTIES.open(samples.PROPERTIES.encode(), "f", {})) == {
        "menu.open": "Open the file é",
        "menu.count": "It isn't [X1X] files",
        "key with spaces": "Text of it",
        "key with spaces#2": "and a second line",
    }


def test_apostrophes_are_doubled_where_a_message_has_numbers():
    opened = strings.PROPERTIES.open(b"a=Open {0}\nb=Open it\n", "f", {})
    assert (
        translated(opened, lambda text: text.replace("Open", "l'ouvre")) == b"a=l''ouvre {0}\nb=l'ouvre it\n"
    )


def test_messages_of_icu_are_translated_inside_out():
    opened = strings.ARB.open(samples.ARB.encode(), "f", {})
    assert texts(opened) == [
        "[X1X] left",
        "No bag",
        "[X1X] bag",
        "{count} bags of {name}",
        "He is here",
        "They are here",
    ]
    out = json.loads(translated(opened, loud))
    assert out["bags"] == "{count, plural, =0{NO BAG} one{# BAG} other{{count} BAGS OF {name}}} LEFT"
    assert out["who"] == "{gender, select, male{HE IS HERE} other{THEY ARE HERE}}"
    assert out["@bags"] == json.loads(samples.ARB)["@bags"]


@pytest.mark.parametrize(
    "text", ["{", "}", "{a", "{a, plural}", "{a, plural, one{x}", "{a b}", "{}", "{a, plural, one x}"]
)
def test_what_is_no_message_of_icu_is_text(text):
    assert read_message(text, quotes=False) is None


def test_a_choice_of_java_stays_and_what_is_no_message_gets_no_quotes():
    written = {
        "a": "{0,number,#.##} in {1,choice,0#no file|1#one file|1<{1} files} here",
        "b": "{0} and {{1}} it''s",
    }
    raw = "".join(f"{key}={text}\n" for key, text in written.items()).encode()
    opened = strings.PROPERTIES.open(raw, "f", {})
    assert texts(opened) == ["[X1X] in [X2X] here", "{0} and {{1}} it''s"]
    out = translated(opened, lambda text: text.replace("here", "hier").replace("and", "und")).decode()
    assert out == raw.decode().replace("here", "hier").replace("and", "und")


def test_a_component_that_is_called_like_a_void_tag_of_html_is_in_its_sentence():
    raw = b"""{"a": "Read <link to='x'>the terms</link> <img> now<br>or <link> later"}"""
    opened = strings.JSON.open(raw, "f", {})
    assert texts(opened) == ["Read the terms now", "or", "later"]
    assert json.loads(translated(opened, loud))["a"] == (
        "READ <link to='x'>THE TERMS</link> <img> NOW<br>OR <link> LATER"
    )


def test_variables_with_a_dollar_are_placeholders():
    raw = b'{"a": "Hello {$INTERPOLATION}, { $who } and {$a->b}", "b": "{n, plural, other {# of {$who}}}"}'
    opened = strings.JSON.open(raw, "f", {})
    ((first, second),) = Carrier(StandIn(lambda text: ("Hallo", []))).translate([opened])
    assert first.text == "{$INTERPOLATION} { $who } Hallo {$a->b}"
    assert first.flags == ("placeholder",)
    assert second.text == "# Hallo {$who}"


def test_symbols_of_ruby_are_no_text_and_none_is_made():
    opened = yaml.FORMAT.open(b"order: [:year, :month]\nnote: Note\nquoted: ':Year'\n", "f", {})
    assert keyed(opened) == {"note": "Note", "quoted": ":Year"}
    assert b'note: ":note"\n' in translated(opened, lambda text: ":note")


def test_quoted_braces_are_text():
    raw = b"{\"a\": \"It''s '{'no argument'}' but {name}\"}"
    opened = strings.ARB.open(raw, "f", {"quotes": True})
    assert texts(opened) == ["It's {no argument} but [X1X]"]
    assert translated(opened, str) == raw


def test_apple_strings_are_unescaped_and_comments_are_none():
    assert keyed(strings.STRINGS.open(samples.STRINGS.encode("utf-16"), "f", {})) == {
        "menu.open": 'Open %@ "files"',
        "key": "Text",
        "key#2": "and more",
    }


def test_android_strings():
    opened = android.FORMAT.open(samples.ANDROID.encode(), "strings.xml", {})
    assert keyed(opened) == {
        "a": "It's my [X1X] & bag",
        "a#2": "next line",
        "c": "Bold text",
        "d": "Quoted text",
        "p.one": "%d bag",
        "p.other": "%d bags",
        "l.0": "first",
    }
    out = etree.fromstring(translated(opened, loud))
    assert unescape(etree.tostring(out.find("string"), encoding="unicode")).count("%1$d</xliff:g>") == 1
    assert [each.get("name") for each in out] == [
        each.get("name") for each in etree.fromstring(samples.ANDROID.encode())
    ]


def test_entities_of_an_android_file_are_not_resolved():
    bomb = b"""<!DOCTYPE resources [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>
<resources><string name="x">Text &b; and &f; here</string></resources>"""
    opened = android.FORMAT.open(bomb, "f", {})
    assert b"&b;" in (out := translated(opened, loud))
    assert b"&f;" in out
    assert b"root" not in out


def test_references_of_android_stay_and_none_is_made():
    names = ("@string/app", "?attr/colour", "@android:string/ok", "@null")
    items = "".join(f"<item>{each}</item>" for each in names)
    page = f'<string-array name="a">{items}</string-array><string name="b">Really</string>'
    opened = android.FORMAT.open(f"<resources>{page}</resources>".encode(), "f", {})
    assert keyed(opened) == {"b": "Really"}
    for written in ("?wirklich", "@wirklich ja", "ja? Nein"):
        out = translated(opened, lambda _, written=written: written).decode()
        escaped = f"\\{written}" if written[0] in "?@" else written
        assert f'<string name="b">{escaped}</string>' in out
        assert texts(android.FORMAT.open(out.encode(), "f", {})) == [written]


@pytest.mark.parametrize("quotes", [False, True])
@pytest.mark.parametrize("added", [" {", " }", " #", " { x # }", " '{"])
def test_signs_of_a_model_are_no_part_of_a_message(quotes, added):
    raw = b'{"a": "{n, plural, one{A bag of {who}} other{# bags}} left"}'
    opened = strings.ARB.open(raw, "f", {"quotes": quotes})
    out = translated(opened, lambda text: text + added)
    message = read_message(json.loads(out)["a"], quotes=quotes)
    assert message is not None
    [choice] = message.arguments
    signs = [sum(each.end - each.start == 1 for each in own.arguments) for own in choice.messages]
    assert signs == [0, 1]


def test_numbers_of_any_length_are_json():
    raw = b"[" + b"1" * 5000 + b', "a text"]'
    assert texts(strings.JSON.open(raw, "f", {})) == ["a text"]


def test_the_locale_of_an_arb_file_becomes_the_target_language():
    opened = strings.ARB.open(b'{"a": "One", "@@locale": "en", "b": "Two"}', "f", {})
    assert opened.source_language == "en"
    assert translated(opened, loud, "pt-BR") == b'{"a": "ONE", "@@locale": "pt_BR", "b": "TWO"}'
    assert translated(opened, loud) == b'{"a": "ONE", "@@locale": "en", "b": "TWO"}'


def test_a_long_string_of_html_takes_time_in_proportion():
    def seconds(count: int) -> float:
        raw = json.dumps({"a": "<p>Hello <b>x</b> {{n}} world</p>\n" * count}).encode()
        gc.disable()  # it would count what other tests have left
        begun = time.process_time()
        assert len(strings.JSON.open(raw, "f", {}).segments) == count
        took = time.process_time() - begun
        gc.enable()
        return took

    seconds(100)
    assert seconds(8000) < 40 * max(seconds(800), 0.02)


def test_yaml_strings():
    assert keyed(yaml.FORMAT.open(samples.YAML.encode(), "en.yml", {})) == {
        "en.plain": "Some text",
        "en.folded": "runs over two lines",
        "en.double": 'A "quoted" text',
        "en.single": "It's here",
        "en.block": "First line",
        "en.block|2": "indented line",
        "en.block|3": "last line",
        "en.long": "A paragraph over two lines",
        "en.long|2": "and another",
        "en.list.0": "one thing",
        "en.list.1": "other",
        "en.list.4": "x",
        "en.anchor": "Text with anchor",
    }


def test_yaml_is_the_same_but_for_its_strings():
    out = translated(yaml.FORMAT.open(samples.YAML.encode(), "en.yml", {}), loud).decode()
    plain = re.sub(r"!thing", "", out)
    found = YAML(typ="safe", pure=True).load(plain)["en"]
    assert found["block"] == "FIRST LINE\n  INDENTED LINE\n\nLAST LINE\n"
    assert found["long"] == "A PARAGRAPH OVER TWO LINES\nAND ANOTHER"
    assert found["list"] == ["ONE THING", "OTHER", 3, True, "X"]
    assert found["again"] == found["anchor"] == "TEXT WITH ANCHOR"
    assert "# behind it\n" in out


@pytest.mark.parametrize(
    ("translation", "written"), [("no", '"no"'), ("12", '"12"'), ("a: b", '"a: b"'), ("nein", "nein")]
)
def test_a_plain_string_of_yaml_stays_a_string(translation, written):
    assert (
        translated(yaml.FORMAT.open(b"a: text # c", "f", {}), lambda _: translation).decode()
        == f"a: {written} # c"
    )


def test_a_plain_string_within_brackets_begins_no_key():
    out = translated(yaml.FORMAT.open(b"a: [text, x]", "f", {}), lambda text: f"?{text}")
    assert YAML(typ="safe", pure=True).load(out.decode()) == {"a": ["?text", "?x"]}
