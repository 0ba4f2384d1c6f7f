"""A trained model with another vocabulary says what it said."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from regard.config import ConfigError
from regard.data.packing import pack
from regard.decode import DecodeConfig
from regard.tasks import run
from regard.tasks.translation.opening import open_translator
from regard.tasks.translation.translator import Translator
from regard.tasks.vocabulary import Change, changed, vocabulary
from regard.text.vocabulary import extended, reduced
from tests.tasks import tiny

GREEDY = DecodeConfig(method="greedy")
TEXTS = [source for source, _ in tiny.pairs(60, start=300)]
NEW = ["a red kangaroo sees a house", "ein rot känguru sieht ein haus"] * 3


KINDS: dict[str, dict[str, Any]] = {
    "tied": {"kind": "bpe"},
    "apart": {"kind": "bpe"},
    "without bytes": {"kind": "bpe", "byte_fallback": False},
    "unigram": {"kind": "unigram", "byte_fallback": False},
    "wordpiece": {"kind": "wordpiece"},
    "words": {"kind": "words"},
}


OFTEN = ("tied", "unigram", "wordpiece")
"""Those that every run of the tests has; the others are the gauntlet's."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=[] if kind in OFTEN else [pytest.mark.long]) for kind in KINDS],
)
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    place = tmp_path_factory.mktemp("vocabulary")
    model: dict[str, Any] = {}
    if request.param == "apart":
        model = {"tied": False, "shared": False, "decoder": {"head_bias": True}}
    tokenizer = {**KINDS[request.param], "vocabulary": 500}
    return fit(place, tiny.recipe(place / "corpus", model=model, tokenizer=tokenizer, train={"steps": 300}))


def fit(place: Path, plain: dict[str, Any]) -> Path:
    run.fit(plain, out=place / "model", device="cpu", check=False, console=Console(file=io.StringIO()))
    return place / "model"


def change(folder: Path, out: Path, texts: list[str], **how: Any) -> Change:
    file = out.with_suffix(".txt")
    file.write_text("".join(f"{line}\n" for line in texts), encoding="utf-8")
    return vocabulary(folder, out, text=[file], console=Console(file=io.StringIO()), **how)


def written(translator: Translator) -> list[str]:
    return [each.text for each in translator.translate(TEXTS, decoding=GREEDY)]


def test_a_model_with_more_pieces_translates_as_before(folder: Path, tmp_path: Path) -> None:
    found = change(folder, tmp_path / "more", NEW, add=20)
    before, after = (open_translator(each, device="cpu") for each in (folder, tmp_path / "more"))
    assert found.pieces == (len(before.tokenizer), len(after.tokenizer))
    assert 0 < len(found.added) <= 20
    assert found.dropped == 0
    assert (found.tokens[1], found.unknown[1]) < (found.tokens[0], found.unknown[0])
    old, new = ([each.tokenizer.encode_batch(TEXTS)] for each in (before, after))
    assert old == new  # old text, in old pieces
    assert written(before) == written(after)
    assert len(set(written(before))) > 10


def test_what_was_unknown_is_not_written_for_the_unknown(tmp_path: Path) -> None:
    """Half of the words that this model learned from were unknown: it would write that token often."""
    tokenizer = {"kind": "words", "vocabulary": 18}
    folder = fit(tmp_path, tiny.recipe(tmp_path / "corpus", tokenizer=tokenizer, train={"steps": 300}))
    before = open_translator(folder, device="cpu")
    change(folder, tmp_path / "more", ["kangaroo känguru"] * 3)
    after = open_translator(tmp_path / "more", device="cpu")
    source, target = ([each.encode_batch(TEXTS[:1])[0]] for each in (before.tokenizer, after.tokenizer))
    likeliest = scores(before, before.model, source[0], target[0]).argmax(dim=1)
    assert before.tokenizer.ids.unknown in likeliest.tolist(), "no case: the unknown is not likely"
    assert written(after) == written(before)


def test_a_model_without_unused_pieces_translates_as_before(folder: Path, tmp_path: Path) -> None:
    before = open_translator(folder, device="cpu")
    kept = [*TEXTS, *written(before)]
    found = change(folder, tmp_path / "less", kept, add=0, drop_unused=True)
    after = open_translator(tmp_path / "less", device="cpu")
    assert found.dropped > 0
    assert found.added == ()
    assert found.parameters[1] < found.parameters[0]
    assert found.tokens[0] == found.tokens[1]
    assert written(before) == written(after)


def scores(translator: Translator, model: Any, source: list[int], target: list[int]) -> torch.Tensor:
    one, other = pack([source]), pack([target])
    states = model(one.ids, one.layout, other.ids, other.layout)
    return model.decoder.head(states)


def test_rows_are_means_of_rows_and_scores_of_scores(folder: Path) -> None:
    translator = open_translator(folder, device="cpu")
    more = extended(translator.tokenizer, NEW, most=20)
    both = more.then(reduced(more.tokenizer, [*NEW, *TEXTS[:5]]))
    before = translator.model.double()
    after = changed(before, both).double()
    tokenizer = both.tokenizer
    source, target = (tokenizer.encode_batch(TEXTS[:1])[0] for _ in range(2))
    singles = [both.made_of[id][0] for id in source]
    ours = scores(translator, after, source, target)
    theirs = scores(translator, before, singles, singles)
    ids, special = (
        tokenizer.vocabulary.values(),
        {tokenizer.vocabulary[token] for token in tokenizer.specials},
    )
    unknown = translator.tokenizer.ids.unknown
    strange = {id for id in ids if unknown in both.made_of[id]} - special
    plain = [both.made_of[id][0] for id in {*ids} - special - strange if len(both.made_of[id]) == 1]
    made_of = [plain if id in strange else ids for id, ids in enumerate(both.made_of)]
    expected = torch.stack([theirs[:, list(ids)].mean(dim=1) for ids in made_of], dim=1)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


def test_what_is_there_is_not_written_over(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="already holds"):
        change(folder, folder, NEW)


def test_any_tasks_model_can_be_changed(tmp_path: Path) -> None:
    text = tmp_path / "train.txt"
    text.write_text("".join(f"{source}\n" for source, _ in tiny.pairs(100)), encoding="utf-8")
    small = {"preset": "tiny", "d_model": 16, "heads": 2, "layers": 1, "d_ff": 32}
    for task in ("language", "pretrain"):
        plain = {
            "task": task,
            "data": {"train": [str(text)], "documents": "line"},
            "tokenizer": {"kind": "bpe", "vocabulary": 330},
            "model": small,
            "batch": {"tokens": 128},
            "train": {"steps": 2},
            **({"context": {"tokens": 16}} if task == "language" else {}),
        }
        console = Console(file=io.StringIO())
        run.fit(plain, out=tmp_path / task, device="cpu", check=False, console=console)
        found = change(tmp_path / task, tmp_path / f"{task}-more", NEW, add=10, drop_unused=True)
        assert found.dropped > 0
        assert len(found.added) > 0
