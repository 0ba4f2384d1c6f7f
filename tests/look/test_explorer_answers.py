"""Answers on the page, against the answerer: probabilities of words are sums over all spans."""

import pytest

from regard.look.explorer.answers import asked
from regard.look.explorer.explorer import Explorer, Refused
from regard.settings.models import EmbedConfig, SpanConfig
from regard.tasks.answering.answerer import Answerer
from regard.tasks.embedding.embedder import Embedder
from tests.tasks.encoders import toys

QUESTION, TEXT = "who likes the sun", "a red dog likes  the old river, tree"


def answerer(longest: int = 512, threshold: float | None = 0.0) -> Answerer:
    made = toys.model(SpanConfig(), len(toys.subwords())).eval()
    reader = toys.reader(made, longest, own=toys.subwords())
    return Answerer(reader, longest_answer=4, overlap=4, threshold=threshold)


@pytest.mark.parametrize("longest", [512, 24])
def test_every_word_has_the_sum_of_the_spans_that_begin_or_end_there(longest):
    task = answerer(longest)
    found = Explorer(task).ask("answer", {"text": QUESTION, "second": TEXT})
    every = task.answer(QUESTION, TEXT, n_best=10_000)
    assert found["windows"] == (1 if longest == 512 else len(task.lay_out([QUESTION], [TEXT])[0].windows))
    assert "".join(gap + word for gap, word in zip(found["gaps"], found["words"], strict=True)) == TEXT
    at, places = 0, []
    for gap, word in zip(found["gaps"], found["words"], strict=True):
        places.append((at + len(gap), at + len(gap) + len(word)))
        at = places[-1][1]
    for number, (begin, end) in enumerate(places):
        starts = sum(span.probability for span in every.spans if begin <= span.start < end)
        ends = sum(span.probability for span in every.spans if begin < span.end <= end)
        assert found["starts"][number] == pytest.approx(starts, abs=1e-9)
        assert found["ends"][number] == pytest.approx(ends, abs=1e-9)
    assert sum(found["starts"]) + found["none"] == pytest.approx(1)
    assert found["none"] == pytest.approx(every.none)
    assert [span["text"] for span in found["spans"]] == [span.text for span in every.spans[:5]]


def test_words_of_the_answer_are_marked_and_none_where_there_is_none():
    found = Explorer(answerer(threshold=None)).ask("answer", {"text": QUESTION, "second": TEXT})
    best = found["spans"][0]["text"]
    inside = [word for word, own in zip(found["words"], found["inside"], strict=True) if own]
    assert found["answered"]
    assert best.split()[0] in inside[0]
    assert best.split()[-1].strip(",") in inside[-1]
    never = Explorer(answerer(threshold=-1e9)).ask("answer", {"text": QUESTION, "second": TEXT})
    assert not never["answered"]
    assert not any(never["inside"])


def test_a_question_alone_and_a_model_that_does_not_answer_are_refused():
    with pytest.raises(Refused, match="write it into the second field"):
        Explorer(answerer()).ask("answer", {"text": QUESTION})
    embedder = Embedder(toys.reader(toys.model(EmbedConfig())))
    with pytest.raises(Refused, match="answers no questions"):
        Explorer(embedder).ask("answer", {"text": QUESTION, "second": TEXT})


def test_a_saved_page_carries_the_answer():
    assert [*asked(Explorer(answerer()), QUESTION, TEXT, None)] == [
        ("answer", {"text": QUESTION, "second": TEXT})
    ]
    assert [*asked(Explorer(answerer()), QUESTION, None, None)] == []


def test_the_tour_ends_at_starts_and_ends():
    tour = Explorer(answerer()).ask("tour", {"text": QUESTION, "second": TEXT})
    last = tour["steps"][-1]
    assert last["title"] == "Where an answer begins and ends"
    assert [each["name"] for each in last["shows"]] == ["begins at", "ends at"]
