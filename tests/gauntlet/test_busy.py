"""On a shared machine nothing becomes terribly slow: threads that wait for one another spin only briefly."""

import json
import statistics

import pytest

from regard.bench.busy import busy, measured

ROUNDS = 3


@pytest.mark.alone
def test_beside_a_busy_process_for_each_core_work_takes_at_most_two_and_a_half_times_as_long(record_property):
    idle, beside = [], []
    for _ in range(ROUNDS):
        idle.append(measured())
        with busy():
            beside.append(measured())
    ratios = {
        key: statistics.median(b[key] / a[key] for a, b in zip(idle, beside, strict=True))
        for key in ("sentence", "steps")
    }
    record_property("figures", json.dumps(ratios))
    print(ratios)  # noqa: T201
    assert max(ratios.values()) < 2.5, ratios
