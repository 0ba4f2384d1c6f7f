"""A question and a text as a model reads them: every token of the text, in windows that overlap."""

import hypothesis
import pytest
from hypothesis import strategies as st

from regard.tasks.answering.windows import QuestionError, lay_out
from regard.text import Gold, Tokenizer, TokenizerConfig

LETTERS = Tokenizer.train(["abcdefghij ?"] * 3, TokenizerConfig(kind="characters", vocabulary=40))


def laid(question="a?", context="abcdefghij", longest=64, overlap=2):
    return lay_out(LETTERS, question, context, longest=longest, overlap=overlap)


def test_a_short_text_is_one_window_with_the_question_before_it():
    found = laid()
    [window] = found.windows
    encoding = LETTERS.encode("a?", "abcdefghij", template="cls")
    assert tuple(window.ids) == encoding.ids
    assert tuple(window.segments) == encoding.segments
    assert (window.first, window.begin, window.count) == (4, 0, 10)
    assert found.offsets == [(i, i + 1) for i in range(10)]


@hypothesis.given(st.integers(1, 40), st.integers(13, 30), st.integers(0, 30))
def test_windows_have_every_token_and_overlap(count, longest, overlap):
    context = "abcdefghij" * 4
    found = laid(context=context[:count], longest=longest, overlap=overlap)
    room = longest - 5
    wanted = LETTERS.encode("a?", context[:count], template="cls")
    own = [wanted.ids[place] for place, text in enumerate(wanted.texts) if text == 1]
    covered = set()
    for window in found.windows:
        assert len(window.ids) <= longest
        assert [*window.ids[window.first : window.first + window.count]] == own[
            window.begin : window.begin + window.count
        ]
        covered |= {*range(window.begin, window.begin + window.count)}
        assert len(window.ids) == len(window.segments)
    assert covered == {*range(count)}
    assert (found.windows[0].begin, found.windows[-1].begin + found.windows[-1].count) == (0, count)
    for one, other in zip(found.windows, found.windows[1:], strict=False):
        assert one.begin + one.count - other.begin >= min(overlap, room // 2)


@hypothesis.given(st.integers(0, 39), st.integers(1, 8))
def test_an_answer_no_longer_than_the_overlap_is_whole_in_some_window(start, size):
    context = "abcdefghij" * 4
    found = laid(context=context, longest=25, overlap=8)
    gold = Gold(context[start : start + size], start)
    [(first, last)] = found.spans([gold])
    assert (first, last) == (start, start + len(gold.text) - 1)
    places = [
        (window, place) for window in found.windows for place in window.places([(first, last)]) if place[0]
    ]
    assert places
    for window, (begin, end) in places:
        assert LETTERS.decode([*window.ids[begin : end + 1]]) == gold.text


def test_a_window_without_the_answer_points_to_the_first_token():
    found = laid(context="abcdefghij" * 4, longest=25, overlap=8)
    spans = found.spans([Gold("c", 2)])
    assert found.windows[0].places(spans) == [(6, 6)]
    assert found.windows[-1].places(spans) == [(0, 0)]
    assert found.windows[0].places([]) == [(0, 0)]


def test_tokens_of_an_answer_cover_it_even_where_it_begins_within_one():
    words = Tokenizer.train(["sunny days are over"] * 3, TokenizerConfig(kind="words", vocabulary=40))
    found = lay_out(words, "are", "sunny days are over", longest=64, overlap=2)
    assert found.spans([Gold("ny da", 3)]) == [(0, 1)]
    assert found.spans([Gold(" ", 5)]) == []
    assert found.spans([Gold("days", 6), Gold("days", 6), Gold("over", 15)]) == [(1, 1), (3, 3)]


def test_a_question_that_leaves_no_room_is_refused():
    with pytest.raises(QuestionError, match=r"leaves 3 of the 18 tokens .* to the text, where 8 at least"):
        laid(question="abcabcabcabc", longest=18, context="abcdefghij")
    assert len(laid(question="abcabcabcabc", longest=18, context="abc").windows) == 1


def test_a_text_without_tokens_has_no_window():
    assert laid(context="").windows == []
