"""Chance, as others compute it."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from regard.lab.stats import holm, paired_bootstrap, paired_t


def test_t_over_seeds_is_scipys():
    one, other = [0.91, 0.89, 0.93, 0.90], [0.88, 0.87, 0.92, 0.86]
    assert paired_t(one, other) == pytest.approx(scipy_stats.ttest_rel(one, other).pvalue)
    assert math.isnan(paired_t([1.0], [2.0]))
    assert paired_t([1.0, 2.0], [1.0, 2.0]) == 1
    assert math.isnan(paired_t([2.0, 3.0], [1.0, 2.0]))  # equal gaps are no measure of chance
    assert math.isnan(paired_t([0.95, 0.9], [0.85, 0.8]))


def test_the_bootstrap_finds_what_is_there_and_nothing_where_there_is_nothing():
    chance = np.random.default_rng(0)
    same = chance.random((3, 400))
    assert paired_bootstrap(same, same) == 1
    noisy = same + chance.normal(0, 0.2, size=same.shape)
    assert paired_bootstrap(noisy - noisy.mean() + same.mean(), same) > 0.05
    assert paired_bootstrap(same + 0.05 + chance.normal(0, 0.2, size=same.shape), same) < 0.01
    assert math.isnan(paired_bootstrap(np.ones((1, 5)), np.zeros((1, 5))))  # a handful


def test_false_alarms_are_as_rare_as_they_say():
    chance = np.random.default_rng(1)
    alarms = [paired_bootstrap(*chance.normal(size=(2, 1, 60))) < 0.05 for _ in range(200)]
    assert np.mean(alarms) < 0.12


def test_holms_correction():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    found = holm([float("nan"), 0.02, 0.5])
    assert math.isnan(found[0])
    assert found[1:] == pytest.approx([0.04, 0.5])
