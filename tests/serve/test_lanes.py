"""What a translator's lane keeps from one request to the next, and when a request joins others."""

import math
from types import SimpleNamespace

import pytest

from regard.serve import translating
from regard.serve.lanes import Lane, Reading, _Part
from regard.serve.limits import Limits
from regard.serve.line import Work
from regard.serve.metrics import Metrics
from regard.serve.translating import ASKED, PATIENCE, Translating, TranslatorLane
from regard.text import DataError
from regard.text.records import Origin
from tests.tasks.folders import predictor


def test_what_many_ask_for_is_checked_once_and_some_of_it_is_remembered() -> None:
    lane = TranslatorLane(predictor("translate"), "en-de", Limits(), Metrics())
    one = lane.options({"beam": 4}, {"align": False})
    assert lane.options({"beam": 4}, {"align": False}) is one
    assert one == lane.predictor.options(one.decoding, align=False)
    assert lane.options({"beam": 3}, {"align": False}).decoding.beam == 3
    for number in range(2 * ASKED):
        lane.options({"length_penalty": number / 100}, {})
    assert len(lane._options) <= ASKED
    with pytest.raises(ValueError, match="beam"):
        lane.options({"beam": 0}, {})


def test_one_that_comes_where_none_has_joined_for_a_while_joins_at_once(monkeypatch) -> None:
    now = 1000.0
    monkeypatch.setattr(translating, "time", SimpleNamespace(monotonic=lambda: now))
    lane = TranslatorLane(predictor("translate"), "en-de", Limits(), Metrics())
    options = lane.options({"beam": 1}, {"align": False})
    coming = lane._coming([])

    def come(*texts: str) -> None:
        lane.line.put(Work(Translating(texts, None, options), None, 20, "a", math.inf))

    come("a red dog", "a dog", "a house")
    assert len(next(coming).pieces) == 3
    come("a tree")
    assert next(coming) is None, "three have just joined"
    now += 2 * PATIENCE
    assert len(next(coming).pieces) == 1
    now += 2 * PATIENCE
    assert next(coming) is None, "nobody asks"
    come("a river")
    assert len(next(coming).pieces) == 1


def test_a_text_that_cannot_be_read_is_told_by_its_place_in_the_whole_request() -> None:
    """Also where the request goes through in parts."""

    class Reader:
        device = SimpleNamespace(type="cpu")

        def embed(self, texts: list[str]) -> list[str]:
            for number, text in enumerate(texts, 1):
                if text == "long":
                    raise DataError(Origin("input", number), "too long")
            return texts

    lane = Lane(Reader(), "minilm", Limits(), Metrics())
    texts = ["a"] * 5 + ["long", "a"]
    work = Work(Reading("embed", (texts,)), None, len(texts), "a", math.inf)
    for granted in (4, 3):
        work.granted = granted
        lane._answer([_Part.of(work)])
    assert str(work.answer.exception()).startswith("input:6: too long;")
