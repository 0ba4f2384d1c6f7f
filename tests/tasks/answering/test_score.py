"""Exact match and F1 are SQuAD's."""

import random

import pytest

from regard.tasks.answering.score import exact, f1, normalised, squad

WORDS = ["the", "cat", "a", "Cat!", "sat", "on", "mat.", "An", "U.S.", "état", "it's", "—", "2,000"]


def test_case_punctuation_articles_and_spaces_do_not_count():
    assert normalised("  The  U.S., an\tOLD  (a) state!") == "us old state"


@pytest.mark.parametrize("seed", range(5))
def test_figures_are_those_of_torchmetrics(seed):
    torchmetrics = pytest.importorskip("torchmetrics")
    chance = random.Random(seed)
    found = [" ".join(chance.choices(WORDS, k=chance.randint(0, 5))) for _ in range(60)]
    golds = [
        [" ".join(chance.choices(WORDS, k=chance.randint(1, 5))) for _ in range(chance.randint(1, 3))]
        for _ in found
    ]
    metric = torchmetrics.text.SQuAD()
    metric.update(
        [{"prediction_text": text, "id": str(number)} for number, text in enumerate(found)],
        [
            {"answers": {"text": each, "answer_start": [0] * len(each)}, "id": str(number)}
            for number, each in enumerate(golds)
        ],
    )
    wanted = metric.compute()
    mine = squad(found, golds)
    assert mine["exact"] == pytest.approx(float(wanted["exact_match"]), abs=1e-4)
    assert mine["f1"] == pytest.approx(float(wanted["f1"]), abs=1e-4)


def test_of_several_gold_answers_the_best_counts():
    assert f1("cat sat", ["dog", "cat sat here"]) == pytest.approx(0.8)
    assert exact("Cat", ["dog", "the cat"]) == 1


def test_no_answer_is_right_where_there_is_none_and_only_there():
    assert (exact("", []), f1("", [])) == (1, 1)
    assert (exact("x", []), f1("x", [])) == (0, 0)
    assert (exact("", ["x"]), f1("", ["x"])) == (0, 0)
    figures = squad(["", "cat", "x"], [[], ["cat"], []])
    assert figures["unanswered"] == 50
    assert figures["answered_f1"] == 100
    assert figures["f1"] == pytest.approx(200 / 3)
