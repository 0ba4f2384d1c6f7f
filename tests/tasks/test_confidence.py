"""A confidence is what such translations are worth."""

import math

import numpy as np
import pytest

import regard
from regard.tasks.translation.confidence import Calibration, fit, quality
from tests.examples import translator, write_lines
from tests.tasks import tiny


def test_what_was_drawn_by_a_curve_gives_it_back():
    chance = np.random.default_rng(0)
    logs = chance.uniform(-3, 0, 20_000)
    worth = 1 / (1 + np.exp(-(1.7 * logs + 1.1)))
    fitted = fit(np.exp(logs), (chance.random(len(logs)) < worth).astype(float))
    assert fitted is not None
    assert fitted.slope == pytest.approx(1.7, abs=0.08)
    assert fitted.offset == pytest.approx(1.1, abs=0.08)


def test_confidences_are_right_on_average_where_probabilities_are_not():
    """A model that is unsure of everything, as label smoothing makes it: in each tenth of its translations,
    the confidence is the mean of what they are worth."""
    chance = np.random.default_rng(1)
    probabilities = chance.uniform(0.2, 0.5, 5000)
    worth = 1 / (1 + np.exp(-(4 * np.log(probabilities) + 5.5)))
    worth = np.clip(worth + chance.normal(0, 0.05, len(probabilities)), 0, 1)
    fitted = fit(probabilities, worth)
    assert fitted is not None
    for tenth in np.array_split(np.argsort(probabilities), 10):
        told = np.mean([fitted(each) for each in probabilities[tenth]])
        assert told == pytest.approx(worth[tenth].mean(), abs=0.02)
        assert abs(probabilities[tenth].mean() - worth[tenth].mean()) > 0.1  # what it was before


def test_it_is_not_fitted_from_little_nor_where_sure_translations_are_worse():
    assert fit([0.5] * 19, [0.5] * 19) is None
    assert fit([*np.linspace(0.1, 0.9, 50)], [*np.linspace(0.9, 0.1, 50)]) is None
    perfect = fit([*np.linspace(0.1, 0.9, 50)], [1.0] * 50)
    assert perfect is None or all(0.9 < perfect(each) <= 1 for each in (0.1, 0.5, 1.0))


def test_any_probability_gives_a_confidence():
    whole = Calibration(slope=1000.0, offset=-3.0)
    assert [whole(each) for each in (0.0, 1e-300)] == [0.0, 0.0] or whole(0.0) < 1e-100
    assert 0 < whole(1.0) < 1
    with pytest.raises(ValueError, match="finite"):
        Calibration(slope=math.inf, offset=0.0)


def test_quality_is_chrf():
    assert quality("Der Hund schläft.", "Der Hund schläft.") == 1.0
    assert quality("xyz", "Der Hund schläft.") == 0.0
    assert 0.3 < quality("Der Hund bellt.", "Der Hund schläft.") < 0.9


def test_a_trained_translator_has_learned_it_and_keeps_it(tmp_path):
    for ending, lines in zip(("en", "de"), zip(*tiny.pairs(60), strict=True), strict=True):
        write_lines(tmp_path / f"train.{ending}", [*lines])
    translator(tmp_path, "en-de")
    own = regard.load(tmp_path / "runs" / "en-de", regard.Translator, device="cpu")
    assert own.calibration is not None
    found = own.translate(["The dog sleeps.", "Zzz qqq xxx vvv"])
    assert all(0 <= each.confidence <= 1 for each in found)
    regard.save(own, tmp_path / "again")
    again = regard.load(tmp_path / "again", regard.Translator, device="cpu")
    assert again.calibration == own.calibration
    again.calibration = None
    plain = again.translate("The dog sleeps.").confidence
    assert found[0].confidence == pytest.approx(own.calibration(plain))
