"""The threads of a translator."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.translating import ASKED, TranslatorLane
from tests.tasks.folders import predictor


@pytest.fixture
def lane() -> Iterator[TranslatorLane]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield TranslatorLane(predictor("translate"), "en-de", Limits(), Metrics())
    torch.set_num_threads(before)


def test_a_thread_that_works_alone_has_all_cores_and_two_have_one_each(lane: TranslatorLane) -> None:
    def cores(working: bool) -> int:
        lane._share_cores(working)
        return torch.get_num_threads()

    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        for each in (first, second):
            each.submit(torch.set_num_threads, 1).result()
        assert first.submit(cores, True).result() == 2
        assert second.submit(cores, True).result() == 1
        assert first.submit(cores, True).result() == 1
        second.submit(cores, False).result()
        assert first.submit(cores, True).result() == 2


def test_what_many_ask_for_is_checked_once_and_some_of_it_is_remembered(lane: TranslatorLane) -> None:
    one = lane.options({"beam": 4}, {"align": False})
    assert lane.options({"beam": 4}, {"align": False}) is one
    assert one == lane.predictor.options(one.decoding, align=False)
    assert lane.options({"beam": 3}, {"align": False}).decoding.beam == 3
    for number in range(2 * ASKED):
        lane.options({"length_penalty": number / 100}, {})
    assert len(lane._options) <= ASKED
    with pytest.raises(ValueError, match="beam"):
        lane.options({"beam": 0}, {})
