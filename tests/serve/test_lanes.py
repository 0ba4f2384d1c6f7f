"""What a translator's lane keeps from one request to the next."""

import pytest

from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.translating import ASKED, TranslatorLane
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
