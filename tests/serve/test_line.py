"""Where requests wait: bounded, fair, and never for nothing."""

import time
from contextlib import suppress
from typing import Any

import pytest

from regard.serve import line as waiting
from regard.serve.line import BusyError, ClosedError, LateError, Line, Work


def work(caller: str = "a", cost: int = 10, seconds: float = 60, kind: Any = None) -> Work:
    return Work(caller, kind, cost, caller, time.monotonic() + seconds)


def test_callers_take_turns_however_many_one_of_them_has():
    line = Line(600, 10**6)
    for caller, count in (("a", 500), ("b", 2), ("c", 1)):
        for _ in range(count):
            line.put(work(caller))
    taken = [each.caller for each in line.take(60)]
    assert taken == ["a", "b", "c", "a", "b", "a"]


def test_who_has_few_gets_in_where_another_has_filled_the_line():
    line = Line(64, 10**6)
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
    assert [each.cost for each in line.take(100)] == [10, 10]
    assert [each.cost for each in line.take(100)] == [1000]


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


def test_what_would_be_late_is_not_let_in(monkeypatch):
    """After ten thousand tokens in half a second, forty thousand that wait are two."""
    monkeypatch.setattr(waiting, "KNOWN", 0.3)
    line = Line(512, 10**6)
    for _ in range(5):
        line.put(work(cost=2500))
    for _ in range(4):
        taken = line.take(100)
        time.sleep(0.125)
        taken[0].give("done")
        line.done(taken)
    line.put(work(cost=40_000))
    line.put(work(cost=10, seconds=60))
    with pytest.raises(BusyError) as busy:
        line.put(work(cost=10, seconds=1))
    assert busy.value.seconds >= 1


def test_no_burst_is_refused_for_how_slow_a_model_was(monkeypatch):
    """A model that is asked for a little at a time, or for the first time, is not slow for it."""
    monkeypatch.setattr(waiting, "KNOWN", 0.1)
    line = Line(512, 10**6)
    for _ in range(8):
        line.put(work(cost=10))
        taken = line.take(10)
        time.sleep(0.02)
        line.done(taken)
    for _ in range(3):
        line.put(work(cost=10_000, seconds=5))


def test_a_model_that_answers_nobody_is_slow_and_not_unknown(monkeypatch):
    monkeypatch.setattr(waiting, "KNOWN", 0.1)
    line = Line(512, 10**6)
    for _ in range(4):
        line.put(work(cost=100))
    line.take(100)
    line.put(work(cost=100, seconds=5))
    time.sleep(0.2)
    with pytest.raises(BusyError):
        line.put(work(cost=100, seconds=5))


def test_where_some_were_late_less_is_let_in_and_more_with_each_answer(monkeypatch):
    def let_in() -> int:
        """How many are, at once."""
        put = []
        with suppress(BusyError):
            for _ in range(512):
                line.put(work(cost=100))
                put += line.take(100)
        for each in put:
            each.give("done")
        line.done(put)
        return len(put)

    line = Line(512, 10**6)
    late = [work(cost=100, seconds=0.05) for _ in range(40)]
    for each in late:
        line.put(each)
    assert line.take(10**6) == late
    time.sleep(0.1)
    for each in late:
        each.fail(LateError("too late"))
        line.done([each])  # all of them were let in before the first was known to be late
    assert [let_in() for _ in range(3)] == [16, 17, 19]
    monkeypatch.setattr(waiting, "FORGOTTEN", 0.05)
    time.sleep(0.1)
    assert let_in() == 512


def test_a_line_that_is_closed_gives_what_it_has_and_takes_no_more():
    line = Line(4, 100)
    line.put(work())
    line.close()
    with pytest.raises(ClosedError):
        line.put(work())
    assert len(line.take(100)) == 1
    assert line.take(100) == []
