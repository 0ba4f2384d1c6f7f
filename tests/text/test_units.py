"""Units: words, and characters of scripts without spaces."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.units import units, words


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The (old) station.", "The|(old)|station."),
        ("旧车站、很近。", "旧|车|站、|很|近。"),
        ("《书》和 Regard2打开", "《书》|和|Regard2|打|开"),
        ("きょうはー", "きょ|う|はー"),
        ("ไปแล้วนะ", "ไป|แล้|ว|นะ"),
        ("កម្ពុជា", "ក|ម្ពុ|ជា"),
    ],
)
def test_units_are_words_or_characters_with_what_belongs_to_them(text, wanted):
    assert "|".join(text[slice(*each)] for each in units(text)) == wanted


@given(st.text(st.sampled_from("ab ,.(「」、。旧车ไปแ้ွာきょー가é\u0301"), max_size=30))
def test_units_are_all_of_the_text_and_each_is_in_one_word(text):
    assert "".join(text[slice(*each)] for each in units(text)) == "".join(text.split())
    around = words(text)
    for start, end in units(text):
        assert any(first <= start and end <= last for first, last in around)


def test_no_mark_begins_a_unit_but_where_it_follows_nothing():
    text = "ฉันอยากจะไปแล้วถ้าคุณไม่ว่าอะไรนะครับผม"
    assert not any(unicodedata.category(text[start])[0] == "M" for start, _ in units(text))


def test_many_brackets_take_no_longer():
    begun = time.process_time()
    assert len([*units("(" * 50_000 + "a")]) == 1
    assert time.process_time() - begun < 1
