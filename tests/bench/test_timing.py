"""Sides take turns, and a clock that we move says how long each took."""

from types import SimpleNamespace

import pytest

from regard.bench import timing
from regard.bench.timing import in_turns, one_round, rates, seconds


@pytest.fixture
def clock(monkeypatch):
    """Whose hand is moved by `clock.work(seconds)`; `clock.seen` is who moved it."""
    moved = SimpleNamespace(now=100.0, seen=[])

    def work(name, took):
        def do():
            moved.seen.append(name)
            moved.now += took

        return do

    moved.work = work
    monkeypatch.setattr(timing.time, "perf_counter", lambda: moved.now)
    return moved


def test_every_round_another_side_goes_first(clock):
    in_turns({name: clock.work(name, 1.0) for name in "abc"}, rounds=4)
    assert "".join(clock.seen) == "abc" + "bca" + "cab" + "abc"


def test_each_side_has_its_own_time_of_every_round(clock):
    assert in_turns({"quick": clock.work("quick", 1.0), "slow": clock.work("slow", 2.5)}, rounds=3) == {
        "quick": [1.0, 1.0, 1.0],
        "slow": [2.5, 2.5, 2.5],
    }


def test_sides_keep_their_order_whoever_goes_first(clock):
    sides = {name: clock.work(name, 1.0) for name in "ab"}
    assert list(one_round(sides, 1)) == ["a", "b"]
    assert clock.seen == ["b", "a"]


def test_what_a_device_still_does_counts_and_what_it_did_before_does_not(clock):
    pending = [7.0]  # asked for before the clock starts

    def wait():
        clock.now += sum(pending)
        pending.clear()

    assert seconds(lambda: pending.append(3.0), wait) == 3.0


def test_a_rate_is_a_count_by_a_time():
    assert rates(10, [2.0, 5.0]) == [5.0, 2.0]
