"""Ten thousand segments, with nested tags and placeholders, through a model that was hardly trained: all of
them are kept."""

import warnings

import pytest

import regard
from regard.documents.registry import open_document
from regard.tasks.translation.documents import Carrier
from tests.documents.test_carrying import documents, marks
from tests.settings.corpora import recipes
from tests.tasks.encoders import toys


@pytest.mark.long
def test_a_model_that_knows_nothing_loses_nothing(tmp_path):
    plain = recipes(tmp_path / "text")
    toys.train(plain["translate"], tmp_path / "model", check=False)
    translator = regard.load(tmp_path / "model", regard.Translator, device="cpu")
    decoding = regard.DecodeConfig(beam=1, maximum=60)
    carrier = Carrier(translator, settings={"decoding": decoding})
    segments = 0
    for name, text in documents(10_000):
        opened = open_document(name, text.encode())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it does not finish
            (results,) = carrier.translate([opened])
        again = open_document(name, opened.write(results))
        for before, after in zip(opened.segments, again.segments, strict=True):
            assert marks(after.target) == marks(before.source)
        segments += len(again.segments)
    assert segments >= 10_000
