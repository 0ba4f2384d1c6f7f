"""Ten thousand segments, with nested tags and placeholders, through a translator that can translate: all of
them are kept.

The demo's translator knows whole words only, and no placeholder: around those, segments are translated piece
by piece, and flagged. The tags of all others go where its alignment says.
"""

import io
import random
import warnings
from pathlib import Path

import pytest
from rich.console import Console

import regard
from regard.documents.job import LOST
from regard.documents.registry import open_document
from regard.tasks import run
from regard.tasks.translation.documents import Carrier
from regard.text import phrasebook
from tests.documents import made
from tests.documents.test_carrying import documents, marks

ROOT = Path(__file__).parents[2]
STEPS = 400
"""Of the demo's 1,200: enough to translate most sentences as they should be."""


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> regard.Translator:
    folder = ROOT / "runs" / "phrasebook"
    if not (folder / "metrics.json").exists():
        place = tmp_path_factory.mktemp("demo")
        folder = place / "model"
        phrasebook.write(place / "text")
        run.fit(
            ROOT / "recipes" / "phrasebook.toml",
            f"data.root={place / 'text'}",
            f"train.steps={STEPS}",
            out=folder,
            check=False,
            device="cpu",
            console=Console(file=io.StringIO()),
        )
    return regard.load(folder, regard.Translator, device="cpu", precision="int8")


def fragments() -> list[str]:
    """Of sentences that the translator has learned from, some words that stand together."""
    chance = random.Random(0)
    found = []
    for pair in phrasebook.phrases("train", 2000):
        words = pair.source.rstrip(".?!").split()
        at = chance.randrange(len(words))
        found.append(" ".join(words[at : at + chance.randint(2, 6)]))
    return found


@pytest.mark.long
def test_of_ten_thousand_segments_no_tag_and_no_placeholder_is_lost(translator, monkeypatch, record_property):
    monkeypatch.setattr(made, "WORDS", fragments())
    carrier = Carrier(translator, settings={"decoding": regard.DecodeConfig(beam=1, maximum=80)})
    segments = flagged = 0
    for name, text in documents(10_000):
        opened = open_document(name, text.encode())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # not all are finished
            (results,) = carrier.translate([opened])
        again = open_document(name, opened.write(results))
        for before, after in zip(opened.segments, again.segments, strict=True):
            assert marks(after.target) == marks(before.source)
        segments += len(again.segments)
        flagged += sum(result is not None and LOST in result.flags for result in results)
    record_property("cases", segments)
    record_property("flagged", flagged)
    print(f"{flagged:,} of {segments:,} pieced together around what the model lost")  # noqa: T201
    assert segments >= 10_000
    assert segments - flagged > segments / 5
