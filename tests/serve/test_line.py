"""Where requests wait: bounded, fair, and never for nothing."""

import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from regard.serve import line as waiting
from regard.serve.line import BusyError, ClosedError, Line, Work


def work(caller: str = "a", cost: int = 10, seconds: float = 60, kind: Any = None) -> Work:
    return Work(caller, kind, cost, caller, time.monotonic() + seconds)


def test_callers_take_turns_however_many_one_of_them_has():
    line = Line(600, 10**6, pace=1e6)
    for caller, count in (("a", 500), ("b", 2), ("c", 1)):
        for _ in range(count):
            line.put(work(caller))
    taken = [each.caller for each in line.take(60)]
    assert taken == ["a", "b", "c", "a", "b", "a"]


def test_who_has_few_gets_in_where_another_has_filled_the_line():
    line = Line(64, 10**6, pace=1e6)
    for _ in range(56):
        line.put(work("a"))
    with pytest.raises(BusyError):
        line.put(work("a"))
    assert len(line) == 56
    for _ in range(4):
        line.put(work("b"))
    with pytest.raises(BusyError):
        line.put(work("b"))


def test_only_one_kind_is_taken_at_a_time_and_within_the_budget():
    line = Line(64, 10**6)
    for kind in ("x", "y", "x", "y"):
        line.put(work(kind, kind=kind))
    assert [each.kind for each in line.take(100)] == ["x", "x"]
    line.put(work("y", kind="y", cost=1000))
    assert [(each.cost, each.granted) for each in line.take(40)] == [(10, 10), (10, 10), (1000, 10)]


def test_so_many_texts_are_taken_as_there_is_room_for_and_none_of_those_who_have_enough():
    line = Line(64, 10**6)
    for caller, size in (("a", 1), ("b", 3), ("c", 1), ("c", 8)):
        line.put(Work(caller, None, 10, caller, time.monotonic() + 60, size=size))
    assert [each.caller for each in line.take(1000, most=3)] == ["a", "c"]
    assert line.take(1000, wait=False, without={"b", "c"}) == []
    assert [each.caller for each in line.take(1000, most=1, without={"b"})] == ["c"]  # one at least
    assert [each.caller for each in line.take(1000)] == ["b"]


def test_who_gives_up_leaves_the_line_and_who_is_late_is_told():
    line = Line(64, 10**6)
    gone, late, whole = work(), work(seconds=0.05), work()
    for each in (gone, late, whole):
        line.put(each)
    line.leave(gone)
    time.sleep(0.1)
    assert (len(line), line.tokens) == (2, 20)
    assert line.take(100) == [whole]
    assert "too long" in str(late.answer.exception())
    whole.give("done")
    whole.give("again")
    whole.fail(ValueError())
    line.done([whole])
    assert (whole.answer.result(), line.tokens) == ("done", 0)


class Clock:
    """The line's own, which only we move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: self.now))

    def work(self, caller: str = "a", cost: int = 10, seconds: float = 30, kind: Any = None) -> Work:
        return Work(caller, kind, cost, caller, self.now + seconds, began=self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_what_would_be_late_is_not_let_in(clock):
    """After ten thousand tokens in two seconds, forty thousand that wait are eight."""
    line = Line(512, 10**6)
    for number in range(5):
        line.put(clock.work(cost=2500, seconds=100, kind=number))
    for _ in range(4):
        taken = line.take(10_000)
        clock.now += 0.5
        taken[0].give("done")
        line.progressed(2500)
        line.done(taken)
    line.put(clock.work(cost=40_000, seconds=100))
    line.put(clock.work(cost=10, seconds=60))
    with pytest.raises(BusyError) as busy:
        line.put(clock.work(cost=10, seconds=5))
    assert busy.value.seconds == 9  # of the whole line, from 42,510 tokens


def test_no_burst_is_refused_for_how_slow_a_model_was(clock):
    """A model that is asked for a little at a time, or for the first time, is not slow for it. But nobody
    knows that it is quick either, before it has been."""

    def burst() -> int:
        count = 0
        with suppress(BusyError):
            for number in range(600):
                line.put(clock.work(str(number), cost=1000, seconds=5))
                count += 1
        return count

    line = Line(512, 10**6)
    for _ in range(8):
        line.put(clock.work(cost=10))
        taken = line.take(10)
        clock.now += 2
        line.progressed(10)
        line.done(taken)
    assert burst() == 128
    while taken := line.take(10_000, wait=False):
        clock.now += 0.2
        line.progressed(20_000)
        line.done(taken)
    assert 248 <= burst() <= 251  # at a hundred thousand tokens a second, those can be done in half of five
    while taken := line.take(10_000, wait=False):
        line.done(taken)


def test_a_model_that_answers_nobody_is_slow_and_a_long_batch_is_not(clock):
    line = Line(512, 10**6)
    for number in range(4):
        line.put(clock.work(cost=100, seconds=1000, kind=number))
    assert len(line.take(100)) == 1
    clock.now += 0.9
    line.put(clock.work(cost=100, seconds=5))  # not known yet
    clock.now += 4
    with pytest.raises(BusyError):
        line.put(clock.work(cost=100, seconds=5))
    other = Line(512, 10**6)
    other.put(clock.work(cost=33_000))
    other.take(4096)
    other.put(clock.work(cost=100))
    clock.now += 5.2  # so much can be done in this time
    other.put(clock.work(cost=100))


@pytest.mark.parametrize("callers", [1, 100])
@pytest.mark.parametrize(("rate", "together"), [(5, 4), (10, 4), (10, 30), (30, 4), (30, 30)])
def test_ten_times_what_a_model_can_do_is_refused_and_the_rest_is_in_time(clock, rate, together, callers):
    """A model of so many requests a second is asked for ten times as many, for a minute, from the first
    second on, and for a few hundred at once in the beginning. It does some of them together, and each takes
    three times what was guessed."""
    line = Line(512, 262_144)
    accepted: list[Work] = []
    refused = 0
    batch, ends, asked = [], 0.0, 0
    start = clock.now
    while clock.now < start + 60 or len(line) or batch:
        while asked < 300 + min(clock.now - start, 60) * 10 * rate:
            asked += 1
            try:
                line.put(work := clock.work(caller=str(asked % callers), cost=20))
                accepted.append(work)
            except BusyError:
                refused += 1
        if batch and clock.now >= ends:
            for each in batch:
                each.give(clock.now)
                each.spent = 60
            line.progressed(60 * len(batch))
            line.done(batch)
            batch = []
        if not batch:
            batch = line.take(20 * together, wait=False)
            ends = clock.now + len(batch) / rate
        clock.now += 0.01
    late = sum(each.answer.exception() or each.answer.result() > each.deadline for each in accepted)
    assert late <= 0.01 * len(accepted)
    assert len(accepted) >= 0.9 * 60 * rate  # it has always had something to do
    assert refused > 0.7 * asked
    assert line.tokens == 0


def test_a_large_request_is_taken_in_parts_and_others_come_between(clock):
    line = Line(64, 10**6)
    line.put(large := clock.work("a", cost=10_000))
    assert line.take(4000) == [large]
    assert large.granted == 4000  # nobody else waits
    large.state = "begun"
    line.give_back(large, 6000, 30)
    line.put(small := clock.work("b", cost=100))
    line.put(own := clock.work("a", cost=200))
    assert (len(line), line.tokens, line.size) == (3, 10_300, 32)
    assert line.take(4000, fresh=True) == [small, own]
    assert line.take(4000, fresh=True, wait=False) == []
    line.done([small, own])
    assert line.take(4000) == [large]
    line.give_back(large, 2000, 10)
    line.put(small := clock.work("b", cost=100))
    assert line.take(4000) == [large, small]
    assert large.granted == 1000
    line.give_back(large, 1000, 5)
    line.leave(large)
    line.done([small, large])  # it has left already
    assert (len(line), line.tokens, line.size) == (0, 0, 0)


def test_a_line_that_is_closed_gives_what_it_has_and_takes_no_more():
    line = Line(4, 100)
    line.put(work())
    line.close()
    with pytest.raises(ClosedError):
        line.put(work())
    assert len(line.take(100)) == 1
    assert line.take(100) == []
