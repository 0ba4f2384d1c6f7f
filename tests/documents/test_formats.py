"""What holds for every format: its own translations give the file back, nothing else is touched, damage is
told."""

import random
from dataclasses import replace

import pytest

from regard.config import ConfigError
from regard.documents.base import Result
from regard.text import DataError
from tests.documents.samples import FILES, TEXTUAL, loud, texts, translated

EMPTY = {
    "html": b"<p> 12 <img src=x> </p><script>var word</script>",
    "markdown": b"# 1\n\n```\ncode\n```\n\n- 2\n",
    "srt": b"1\n00:00:01,000 --> 00:00:02,000\n...\n",
    "vtt": b"WEBVTT\n\n00:01.000 --> 00:02.000\n42\n",
    "json": b'{"a": [1, "2", "", "http://x.org/a"], "word": null}',
    "arb": b'{"@@locale": "en", "a": "{name}"}',
    "properties": b"# words\na=1\nb\n",
    "strings": b'/* words */ "a" = "1";',
    "android": b'<resources><string name="a">1</string><!-- words --></resources>',
    "yaml": b"# words\na: 1\nb: yes\nc: [null, ~]\n",
}


@pytest.mark.parametrize("name", FILES)
def test_its_own_text_gives_the_file_back_to_the_byte(name):
    format_, raw = FILES[name]
    opened = format_.open(raw, "file", {})
    assert len(opened.segments) > 1
    assert opened.write([Result(text=each.source) for each in opened.segments]) == raw
    assert opened.write([None] * len(opened.segments)) == raw


@pytest.mark.parametrize("name", FILES)
def test_a_translated_file_has_as_many_segments_each_the_translation(name):
    format_, raw = FILES[name]
    opened = format_.open(raw, "file", {})
    again = format_.open(translated(opened, loud), "file", {})
    assert texts(again) == [loud(each) for each in texts(opened)]
    assert [each.key for each in again.segments] == [each.key for each in opened.segments]


@pytest.mark.parametrize("name", FILES)
def test_one_translation_touches_no_other_segment(name):
    format_, raw = FILES[name]
    opened = format_.open(raw, "file", {})
    for i, segment in enumerate(opened.segments):
        results: list[Result | None] = [None] * len(opened.segments)
        view = segment.block.view()
        results[i] = Result(text=segment.block.place(view, loud(view.text)))
        found = texts(format_.open(opened.write(results), "file", {}))
        wanted = texts(opened)
        wanted[i] = loud(wanted[i])
        assert found == wanted


@pytest.mark.parametrize("name", FILES)
def test_keys_are_distinct_and_lines_do_not_go_back(name):
    format_, raw = FILES[name]
    segments = format_.open(raw, "file", {}).segments
    assert len({each.key for each in segments}) == len(segments)
    assert all(each.line >= 1 for each in segments)


@pytest.mark.parametrize("name", EMPTY)
def test_a_file_without_text_has_no_segment_and_is_written_as_it_was(name):
    opened = FILES[name][0].open(EMPTY[name], "file", {})
    assert list(opened.segments) == []
    assert opened.write([]) == EMPTY[name]


@pytest.mark.parametrize("name", TEXTUAL)
def test_line_ends_of_windows_stay(name):
    format_, raw = FILES[name]
    opened = format_.open(raw.replace(b"\n", b"\r\n"), "file", {})
    plain = format_.open(raw, "file", {})
    assert texts(opened) == texts(plain)
    assert [each.line for each in opened.segments] == [each.line for each in plain.segments]
    out = translated(opened, loud)
    assert out.count(b"\n") == out.count(b"\r\n") > 0
    assert out.replace(b"\r\n", b"\n") == translated(plain, loud)


@pytest.mark.parametrize("name", TEXTUAL)
def test_a_byte_order_mark_stays(name):
    format_, raw = FILES[name]
    opened = format_.open(b"\xef\xbb\xbf" + raw, "file", {})
    assert texts(opened) == texts(format_.open(raw, "file", {}))
    assert translated(opened, loud) == b"\xef\xbb\xbf" + translated(format_.open(raw, "file", {}), loud)


@pytest.mark.parametrize("name", ["markdown", "srt", "vtt", "strings", "html", "json", "yaml"])
def test_utf_16_stays(name):
    format_, raw = FILES[name]
    for order in ("le", "be"):
        wide = ("\ufeff" + raw.decode()).encode(f"utf-16-{order}")
        out = translated(format_.open(wide, "file", {}), loud)
        assert (
            out.decode(f"utf-16-{order}")
            == "\ufeff" + translated(format_.open(raw, "file", {}), loud).decode()
        )


@pytest.mark.parametrize("name", FILES)
def test_damage_is_told_with_the_file_or_does_no_harm(name):
    """200 files with some bytes changed: each is read and written again, or refused by name."""
    format_, raw = FILES[name]
    draw = random.Random(7)
    refused: list[DataError] = []
    for _ in range(200):
        damaged = bytearray(raw)
        for _ in range(draw.choice((1, 1, 3, 10))):
            match draw.randrange(3):
                case 0:
                    damaged[draw.randrange(len(damaged))] = draw.randrange(256)
                case 1:
                    start = draw.randrange(len(damaged))
                    del damaged[start : start + draw.randrange(1, 20)]
                case _:
                    damaged.insert(draw.randrange(len(damaged)), draw.choice(b"<>&\"'{}[]\\:|\n\x00\xff-*`"))
        try:
            opened = format_.open(bytes(damaged), "some.file", {})
            results = [Result(text=each.source) for each in opened.segments]
            assert opened.write(results) == bytes(damaged)
            translated(opened, loud)
        except DataError as error:
            refused.append(error)
    assert len(refused) < 200
    assert all(each.origin.file.startswith("some.file") and each.remedy for each in refused)


@pytest.mark.parametrize("name", FILES)
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(ConfigError, match="unknown key 'colour'"):
        FILES[name][0].open(FILES[name][1], "file", {"colour": 1})


@pytest.mark.parametrize("name", TEXTUAL)
def test_bytes_that_are_no_text_are_told_with_their_line(name):
    if name == "properties":  # such a file is ISO-8859-1
        return
    format_, raw = FILES[name]
    lines = raw.split(b"\n")
    lines[3] += b" \xe9\xff\xe9"
    with pytest.raises(DataError) as caught:
        format_.open(b"\n".join(lines), "some.file", {})
    assert caught.value.origin == replace(caught.value.origin, file="some.file", line=4)
