"""Splitting loses nothing, and cuts where it hurts least."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.splitting import join, pieces, sentences


def texts(text, spans):
    return [text[start:end] for start, end in spans]


def bare(text):
    return "".join(text.split())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith met Prof. Jones. They spoke.", ["Dr. Smith met Prof. Jones.", "They spoke."]),
        ("J. S. Bach wrote it. Yes.", ["J. S. Bach wrote it.", "Yes."]),
        ("See e.g. Chapter two. It helps.", ["See e.g. Chapter two.", "It helps."]),
        ("Am 3. Oktober, z.B. Dienstag. Danach nicht.", ["Am 3. Oktober, z.B. Dienstag.", "Danach nicht."]),
        (
            "It costs 3.50 today. Visit example.com. Bye.",
            ["It costs 3.50 today.", "Visit example.com.", "Bye."],
        ),
        ('"Stop!" he said. "No."', ['"Stop!" he said.', '"No."']),
        ("He left (at last.) Then rain.", ["He left (at last.)", "Then rain."]),
        ("Wait... what? Oh… and so on.", ["Wait... what?", "Oh… and so on."]),
        ("你好。再见！「好。」他说", ["你好。", "再见！", "「好。」", "他说"]),  # noqa: RUF001
        ("यह एक है। वह दो है।", ["यह एक है।", "वह दो है।"]),
        ("هل هذا جيد؟ نعم.", ["هل هذا جيد؟", "نعم."]),
        ("A title\n\nThen text over\ntwo lines", ["A title", "Then text over\ntwo lines"]),
        ("  \n ", []),
    ],
)
def test_sentences_end_where_they_end(text, wanted):
    assert texts(text, sentences(text)) == wanted


def test_what_fits_is_not_cut_and_a_longer_text_goes_by_sentence():
    text = "One two three. Four five."
    assert pieces("One two", lambda part: True) == [(0, 7)]
    assert texts(text, pieces(text, lambda part: len(part) < 20)) == ["One two three.", "Four five."]


def test_a_long_sentence_is_cut_at_clauses_then_spaces_then_inside_words():
    def cut(text, most):
        return texts(text, pieces(text, lambda part: len(part) <= most))

    text = "at 12:30, over 1,000 birds came; they sang: none of them left"
    assert cut(text, 32) == ["at 12:30, over 1,000 birds came;", "they sang: none of them left"]
    assert cut(text, 12) == ["at 12:30,", "over 1,000", "birds came;", "they sang:", "none of them", "left"]
    assert cut("ab abcdefgh", 3) == ["ab", "abc", "def", "gh"]
    assert cut("one, 你好，再见", 5) == ["one,", "你好，再见"]  # noqa: RUF001
    assert cut("ee\u0301e\u0301", 2) == ["e", "e\u0301", "e\u0301"]


ALPHABET = st.sampled_from("ab1é字가ก .,;:!?\n\t。！।؟\"')»-\u0301")  # noqa: RUF001


@given(st.text(ALPHABET, max_size=60) | st.text(max_size=30), st.integers(1, 12))
def test_pieces_lose_nothing_and_fit(text, most):
    spans = pieces(text, lambda part: len(part) <= most)
    parts = texts(text, spans)
    assert bare("".join(parts)) == bare(text)
    assert bare(join(parts, text, spans)) == bare(text)
    for (_, end), (start, _) in pairwise(spans):
        assert text[end:start].strip() == ""
    for part in parts:
        assert part == part.strip() != ""
        if len(part) > most:  # nothing but a character and its accents
            assert pieces(part, lambda part: False) == [(0, len(part))]


def test_pieces_are_found_without_asking_for_every_prefix():
    text = "word " * 20_000
    asked = []

    def fits(part):
        asked.append(len(part))
        return len(part) <= 500

    assert len(pieces(text, fits)) == 200
    assert len(asked) < 200 * 20
    assert sorted(asked)[-6] < 1500  # apart from the whole text, only what is near the limit


@pytest.mark.parametrize(
    ("text", "outputs", "wanted"),
    [
        ("One.  Two.\nThree.", ["Eins.", "Zwei.", "Drei."], "Eins.  Zwei.\nDrei."),
        ("One. Two.", ["一。", "二。"], "一。二。"),
        ("一。二。", ["One.", "Two."], "One. Two."),
        ("One. Two.", ["하나.", "둘."], "하나. 둘."),
        ("One. Two. Three.", ["Eins.", "", "Drei."], "Eins. Drei."),
    ],
)
def test_outputs_are_joined_as_the_source_was_and_as_their_script_wants(text, outputs, wanted):
    assert join(outputs, text, sentences(text)) == wanted


def test_a_torn_word_is_put_together_again():
    text = "abcdef gh"
    spans = pieces(text, lambda part: len(part) <= 3)
    assert join(texts(text, spans), text, spans) == text
