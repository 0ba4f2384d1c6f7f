"""A glossary on Multi30k: the terms are there, and BLEU does not pay for them."""

import pytest

import regard
from tests.conftest import ROOT
from tests.gauntlet.glossaries import make_glossary, measure

MODEL = ROOT / "runs" / "multi30k-en-de"


@pytest.mark.long
def test_terms_are_there_and_bleu_is_kept(shared_data):
    data = shared_data / "multi30k"
    if not (data.is_dir() and MODEL.is_dir()):
        pytest.skip("needs Multi30k and a model of it in runs/multi30k-en-de")
    found = measure(regard.load(MODEL, regard.Translator), data, make_glossary(data, 30))
    plain, held = found["no glossary"], found["decoded, inflected forms count"]
    assert plain["terms"] < 50, "the model has most terms by itself: they say nothing"
    assert held["terms"] >= 95
    assert held["inflected too"] >= 99
    assert held["BLEU"] >= plain["BLEU"] - 0.3
