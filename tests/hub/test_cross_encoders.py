"""Cross-encoders of sentence-transformers: read, written, and the same scores either way."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import regard
from regard.hub import HubError, head_kind, read_folder, write_folder
from regard.tasks.base.encoders import save_checkpoint
from regard.tasks.base.folder import FolderError
from regard.tasks.reranking.reranker import open_reranker
from tests.hub.toys import PAIRS, STEMS, toy

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
LONG = ("the cat and the dog", "a dog ran towards it, and sat on the mat. " * 20)
IDENTITY = "torch.nn.modules.linear.Identity"
pytestmark = pytest.mark.usefixtures("unchecked")


def special(family: str) -> dict[str, str]:
    pad = "[PAD]" if family in ("bert", "distilbert", "modernbert") else "<pad>"
    return {"pad_token": pad, "model_max_length": 62}


def change(path: Path, **facts) -> None:
    known = json.loads(path.read_text()) if path.exists() else {}
    known |= facts
    path.write_text(json.dumps({key: value for key, value in known.items() if value is not None}))


def plain(hf, folder: Path, family: str = "bert", **settings) -> Path:
    toy(hf, folder, family, "ForSequenceClassification", num_labels=1, **settings)
    change(folder / "tokenizer_config.json", **special(family))
    return folder


def both(folder: Path, pairs) -> np.ndarray:
    reranker = open_reranker(folder, device="cpu")
    return reranker.scores(*zip(*pairs, strict=True), too_long="cut")


@pytest.mark.parametrize("family", STEMS)
@pytest.mark.parametrize("behind", [None, torch.nn.Identity()])
def test_theirs_is_read_and_ours_is_read_by_them(st, hf, tmp_path, family, behind):
    ours = plain(hf, tmp_path / "plain", family)
    theirs = st.CrossEncoder(str(ours), device="cpu", activation_fn=behind, max_length=62)
    theirs.save_pretrained(str(tmp_path / "theirs"))
    pairs = [*PAIRS, LONG]
    wanted = theirs.predict(pairs)
    with pytest.warns(UserWarning, match="1 of 4 texts"):
        assert_allclose(both(tmp_path / "theirs", pairs), wanted, **CLOSE)
    checkpoint = read_folder(tmp_path / "theirs")
    assert (checkpoint.kind, checkpoint.activation) == ("rank", "none" if behind else "sigmoid")
    write_folder(checkpoint, tmp_path / "back")
    again = st.CrossEncoder(str(tmp_path / "back"), device="cpu")
    assert_allclose(again.predict(pairs), wanted, **CLOSE)
    assert isinstance(regard.load(tmp_path / "back", device="cpu"), regard.Reranker)
    model = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "back")
    assert type(model).__name__.endswith("ForSequenceClassification")


@pytest.mark.parametrize(
    ("facts", "activation"),
    [
        ({}, "sigmoid"),
        ({"sentence_transformers": {"activation_fn": IDENTITY, "version": "4.1.0"}}, "none"),
        ({"sbert_ce_default_activation_function": IDENTITY}, "none"),
        ({"sentence_transformers": {"activation_fn": IDENTITY}, "problem_type": "regression"}, "none"),
    ],
)
def test_older_folders_say_it_in_config_json(st, hf, tmp_path, facts, activation):
    folder = plain(hf, tmp_path / "m")
    change(folder / "config.json", **facts)
    assert read_folder(folder).activation == activation
    assert head_kind(folder) == "rank"
    wanted = st.CrossEncoder(str(folder), device="cpu").predict(PAIRS)
    assert_allclose(both(folder, PAIRS), wanted, **CLOSE)


def test_a_regression_and_a_classifier_are_none(hf, tmp_path):
    folder = plain(hf, tmp_path / "one")
    change(folder / "config.json", problem_type="regression")
    assert read_folder(folder).activation is None
    assert head_kind(folder) == "classify"
    assert isinstance(regard.load(folder, device="cpu"), regard.Classifier)
    assert both(folder, PAIRS).shape == (3,)  # but will do, if it is asked for
    three = toy(hf, tmp_path / "three", "bert", "ForSequenceClassification", num_labels=3)
    assert head_kind(three) == "classify"
    with pytest.raises(FolderError, match="a classifier with 3 labels, where a reranker has one score"):
        open_reranker(three, device="cpu")


def test_what_stands_behind_the_score_is_refused_by_name(hf, tmp_path):
    folder = plain(hf, tmp_path / "m")
    change(folder / "config.json", sentence_transformers={"activation_fn": "torch.nn.Softplus"})
    with pytest.raises(HubError, match=r"activation_fn='torch\.nn\.Softplus' behind the score is not known"):
        read_folder(folder)
    change(folder / "config.json", sentence_transformers=None)
    change(folder / "config_sentence_transformers.json", activation_fn="os.system")
    with pytest.raises(HubError, match=r"os\.system"):
        regard.load(folder, device="cpu")


def test_one_that_pools_otherwise_becomes_modules(st, hf, tmp_path):
    """No class of transformers takes the mean; sentence-transformers makes it of modules."""
    checkpoint = read_folder(plain(hf, tmp_path / "m"))
    from dataclasses import replace

    from regard.settings.models import PoolConfig

    head = replace(checkpoint.config.head, pool=PoolConfig(kind="mean"))
    meant = replace(checkpoint, config=replace(checkpoint.config, head=head), activation="none")
    write_folder(meant, tmp_path / "modules")
    save_checkpoint(meant, tmp_path / "own", "rerank")
    theirs = st.CrossEncoder(str(tmp_path / "modules"), device="cpu")
    assert_allclose(theirs.predict(PAIRS), both(tmp_path / "own", PAIRS), **CLOSE)
    assert_allclose(both(tmp_path / "modules", PAIRS), both(tmp_path / "own", PAIRS), **CLOSE)
    theirs.save_pretrained(str(tmp_path / "theirs"))
    assert_allclose(both(tmp_path / "theirs", PAIRS), both(tmp_path / "own", PAIRS), **CLOSE)
