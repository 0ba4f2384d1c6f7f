"""Subtitles: sentences over several cues, lines, tags; read again by pysubs2."""

import re
import unicodedata
from collections import Counter

import pysubs2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import ConfigError
from regard.documents.cutting import TAG, cut, lines, visible
from regard.documents.subtitles import SRT, VTT
from regard.text import DataError
from tests.documents import samples
from tests.documents.samples import loud, texts, translated


def srt(*cues: str, gap: int = 0, long: int = 2) -> bytes:
    """Cues of two seconds, one after the other."""
    written = []
    for i, cue in enumerate(cues):
        first = i * (long + gap)
        written.append(f"{i + 1}\n00:00:{first:02},000 --> 00:00:{first + long:02},000\n{cue}\n")
    return "\n".join(written).encode()


def shown(raw: bytes, kind: str = "srt") -> list[str]:
    return [
        each.text.replace("\\N", "\n") for each in pysubs2.SSAFile.from_string(raw.decode(), format_=kind)
    ]


def test_a_sentence_over_several_cues_is_translated_whole_and_cut_again():
    opened = SRT.open(srt("I wanted to go home,", "because it was late", "and dark."), "f", {})
    assert texts(opened) == ["I wanted to go home, because it was late and dark."]
    assert [each.key for each in opened.segments] == ["1-3"]
    out = translated(opened, lambda _: "Ich wollte nach Hause, weil es spät war und dunkel.")
    assert shown(out) == ["Ich wollte nach Hause,", "weil es spät war", "und dunkel."]


def test_a_cue_that_stands_longer_gets_more():
    raw = b"1\n00:00:00,000 --> 00:00:01,000\nsome words\n\n2\n00:00:01,000 --> 00:00:09,000\nmore words.\n"
    out = translated(SRT.open(raw, "f", {}), lambda _: "a b c d e f g h i j k l m n o p.")
    assert len(shown(out)[1]) > 1.5 * len(shown(out)[0])


@pytest.mark.parametrize(
    "cues",
    [
        ("It is over.", "and again"),
        ("- Who is", "there?"),
        ("He said", "- Yes."),
        ("He said", "[music]"),
        ("What?", "nothing"),
        ("I wait...", "for you."),
    ],
)
def test_sentences_that_end_are_apart(cues):
    assert len(SRT.open(srt(*cues), "f", {}).segments) == 2


def test_a_pause_or_another_speaker_parts():
    assert len(SRT.open(srt("some words", "and more.", gap=3), "f", {}).segments) == 2
    two = b"WEBVTT\n\n00:01.000 --> 00:02.000\n<v A>some words\n\n00:02.000 --> 00:03.000\n<v B>and more.\n"
    assert len(VTT.open(two, "f", {}).segments) == 2
    assert len(VTT.open(two.replace(b"<v B>", b"<v A>"), "f", {}).segments) == 1


def test_joining_can_be_left():
    assert len(SRT.open(srt("some words", "and more."), "f", {"join": False}).segments) == 2


def test_subtitles_without_any_full_stop_are_not_one_segment():
    opened = SRT.open(srt(*["some words without an end"] * 20), "f", {})
    assert 3 < len(opened.segments) < 20


def test_two_speakers_in_one_cue_are_two_segments():
    opened = SRT.open(srt("- Are you there?\n- No, I am not\nhere."), "f", {})
    assert texts(opened) == ["Are you there?", "No, I am not here."]
    assert shown(translated(opened, loud)) == ["- ARE YOU THERE?\n- NO, I AM NOT HERE."]


def test_a_dash_before_the_second_speaker_alone_is_enough_behind_a_sentence():
    opened = SRT.open(srt("Are you\nthere?\n- No.", "I wanted that\n- and meant it - now."), "f", {})
    assert texts(opened) == ["Are you there?", "No.", "I wanted that - and meant it - now."]
    assert shown(translated(opened, loud))[0] == "ARE YOU THERE?\n- NO."


def test_no_cue_is_left_empty():
    cues = ("I would like to,", "if you do not mind,", "leave now.")
    assert shown(translated(SRT.open(srt(*cues), "f", {}), lambda _: "Los.")) == ["Los.", "...", "..."]


@pytest.mark.parametrize("text", ["ฉันอยากจะไปแล้วถ้าคุณไม่ว่าอะไรนะครับผม", "如果你不介意的话我想现在就离开这里"])
def test_scripts_without_spaces_are_cut_between_characters(text):
    opened = SRT.open(srt("I would like to,", "if you do not mind,", "leave now."), "f", {})
    parts = shown(translated(opened, lambda _: text))
    assert "".join(parts) == text
    assert all(len(each) >= 3 for each in parts)
    assert not any(unicodedata.category(each[0]).startswith("M") for each in parts)


def test_what_a_model_writes_is_neither_times_nor_a_tag_nor_another_speaker():
    opened = SRT.open(srt("Some words.", "Other words."), "f", {})
    out = translated(opened, lambda _: "- a ---> <i>b {\\an8}c.")
    assert shown(out) == ["a -> b c."] * 2
    assert texts(SRT.open(out, "f", {})) == ["a -> b c."] * 2


def test_lines_are_balanced_and_bounded():
    opened = SRT.open(srt("Two lines of\nsource."), "f", {})
    text = "This is a translation that is a good deal longer than one line may be, so it is cut."
    [out] = shown(translated(opened, lambda _: text))
    assert out.replace("\n", " ") == text
    sizes = [len(each) for each in out.split("\n")]
    assert len(sizes) in (2, 3)
    assert max(sizes) <= 42
    assert min(sizes) > 20
    [short] = shown(translated(opened, lambda _: "Short."))
    assert short == "Short."


def test_a_file_that_does_not_break_lines_gets_no_breaks():
    source = "A line that is far longer than any line of subtitles should be on a screen."
    [out] = shown(translated(SRT.open(srt(source), "f", {}), loud))
    assert "\n" not in out


def test_what_is_no_text_stays_to_the_byte():
    for format_, raw in ((SRT, samples.SRT), (VTT, samples.VTT)):
        out = translated(format_.open(raw.encode(), "f", {}), loud).decode()
        kept = re.compile(
            r"^(?:\d+$|.*-->.*|WEBVTT.*|Kind.*|NOTE.*|that stays|STYLE|::cue.*|intro)$", re.MULTILINE
        )
        assert kept.findall(out) == kept.findall(raw)
        assert Counter(each[0] for each in TAG.finditer(out)) == Counter(
            each[0] for each in TAG.finditer(raw)
        )


def test_times_within_a_cue_rise_and_stay_in_it():
    cue = "WEBVTT\n\n00:01.000 --> 00:02.000\nsome <00:01.300>more <00:01.600>words\n\n"
    cue += "00:02.000 --> 00:03.000\nhere.\n"
    opened = VTT.open(cue.encode(), "f", {})
    assert texts(opened) == ["some more words", "here."]
    out = translated(opened, lambda text: " ".join(reversed(text.split())))
    assert re.findall(rb"<[\d:.]+>", out) == [b"<00:01.300>", b"<00:01.600>"]


def test_times_are_the_same_to_another_parser():
    for format_, raw, kind in ((SRT, samples.SRT, "srt"), (VTT, samples.VTT, "vtt")):
        out = translated(format_.open(raw.encode(), "f", {}), loud).decode()
        before, after = (pysubs2.SSAFile.from_string(each, format_=kind) for each in (raw, out))
        assert [(each.start, each.end) for each in after] == [(each.start, each.end) for each in before]
        assert [each.plaintext.lower().split() for each in before] == [
            each.plaintext.lower().split() for each in after
        ]


@pytest.mark.parametrize(
    ("format_", "raw", "line"),
    [
        (SRT, b"1\n00:00:01,000 -> x --> 2\ntext\n", 2),
        (SRT, b"just some text\n", 1),
        (SRT, b"1\n00:00:01,000 --> 00:00:02,000\ntext\n\n2\nsoon --> later\nmore\n", 6),
        (SRT, b"1\n00:00:01,000 --> 00:00:02,000\ntext\n\n00:00:03.000 -->\nmore\n", 5),
        (VTT, b"1\n00:01.000 --> 00:02.000\ntext\n", 1),
        (VTT, b"WEBVTT\n\n00:01.000 --> soon\ntext\n", 3),
    ],
)
def test_what_is_broken_is_told_with_its_line(format_, raw, line):
    with pytest.raises(DataError) as caught:
        format_.open(raw, "some.srt", {})
    assert caught.value.origin.line == line


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="line=0"):
        SRT.open(b"", "f", {"line": 0})


WORD = st.sampled_from(
    ["a", "word", "longer-word", "end,", "<i>it</i>", "<b>two words</b>", "{\\an8}", "語学校"]
)


@given(st.lists(WORD, min_size=1, max_size=15).map(" ".join), st.integers(1, 5))
def test_a_cut_text_is_the_text(text, count):
    parts = cut(text, [(i + 1) / count for i in range(count)], whole=True)
    assert len(parts) == count
    assert visible("".join(parts)).replace(" ", "") == visible(text).replace(" ", "")
    for part in parts:  # each has its tags whole
        tags = [each[0] for each in TAG.finditer(part) if each[2]]
        assert sum(each.startswith("</") for each in tags) * 2 == len(tags)


@given(st.lists(WORD, min_size=3, max_size=15).map(" ".join))
def test_elements_are_cut_only_where_there_is_no_other_place(text):
    text = f"one {text} two"
    parts = cut(text, [0.5, 1], whole=True)
    assert Counter(each[0] for each in TAG.finditer(" ".join(parts))) == Counter(
        each[0] for each in TAG.finditer(text)
    )


@given(
    st.lists(st.sampled_from(["a", "word", "other", "longer", "end,"]), min_size=1, max_size=40).map(" ".join)
)
def test_no_line_is_too_long(text):
    out = lines(text, 42, "\n").split("\n")
    assert " ".join(out) == text
    assert all(len(each) <= 42 for each in out)
    assert len(out) <= -(-len(text) // 42) + 2


def test_an_arrow_that_somebody_says_is_text_in_srt():
    raw = srt("Paris --> London\nand back.", "On page 4 --> 5.").decode()
    opened = SRT.open(raw.encode(), "f", {})
    assert texts(opened) == ["Paris --> London and back.", "On page 4 --> 5."]
    assert opened.write([None, None]) == raw.encode()
    out = translated(opened, loud)
    assert shown(out) == ["PARIS -> LONDON AND BACK.", "ON PAGE 4 -> 5."]
    assert texts(SRT.open(out, "f", {})) == ["PARIS -> LONDON AND BACK.", "ON PAGE 4 -> 5."]
