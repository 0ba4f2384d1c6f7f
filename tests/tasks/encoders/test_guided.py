"""Guided negatives and Matryoshka, against sentence-transformers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch.nn.functional import normalize
from torch.testing import assert_close

import regard
from regard.config import ConfigError
from regard.settings.models import EmbedConfig, PromptConfig
from regard.tasks.base.encoders import open_encoder, save_checkpoint
from regard.tasks.embedding.contrast import contrastive
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.embedding.recipe import ContrastiveConfig
from regard.tasks.embedding.train import prepare
from regard.tasks.registry import as_recipe
from regard.train.ranks import Ranks
from tests.tasks import tiny
from tests.tasks.encoders import toys

ROWS = 12


def drawn(seed: int, width: int = 16) -> torch.Tensor:
    made = torch.randn(ROWS, width, generator=torch.Generator().manual_seed(seed))
    return normalize(made, dim=-1)


def pairs(near: float = 0.5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Vectors of pairs by a model, and by a guide."""
    u, g = drawn(0), drawn(2, 8)
    v, h = (normalize(near * one + drawn(seed, one.shape[1]), dim=-1) for one, seed in ((u, 1), (g, 3)))
    return u, v, torch.arange(2 * ROWS).reshape(-1, 2), torch.stack([g, h], dim=1)


class Given(torch.nn.Module):
    """A model of sentence-transformers that gives these vectors."""

    def __init__(self, vectors: list[torch.Tensor]) -> None:
        super().__init__()
        self.vectors, self.tokenizer, self.max_seq_length = vectors, None, 8

    def get_embedding_dimension(self) -> int:
        return self.vectors[0].shape[1]

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        return {"sentence_embedding": self.vectors[int(features["which"])]}


@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_what_the_guide_finds_nearer_is_no_negative_as_in_gistembed(margin: float) -> None:
    from sentence_transformers.sentence_transformer.losses import GISTEmbedLoss

    u, v, numbers, guide = pairs()
    theirs: Any = GISTEmbedLoss.__new__(GISTEmbedLoss)
    torch.nn.Module.__init__(theirs)
    theirs.model, theirs.guide = Given([u, v]), Given([guide[:, 0], guide[:, 1]])
    theirs.must_retokenize, theirs.gather_across_devices = False, False
    theirs.temperature, theirs.margin, theirs.margin_strategy = 0.05, margin, "absolute"
    theirs.contrast_anchors = theirs.contrast_positives = False
    theirs.similarity_fct = torch.nn.CosineSimilarity(dim=-1)
    theirs.cross_entropy_loss = torch.nn.CrossEntropyLoss()
    wanted = theirs([{"which": 0}, {"which": 1}], None)
    config = ContrastiveConfig(symmetric=False, guide="x", guide_margin=margin)
    sums = contrastive(u, v, numbers, config, guide)
    assert_close(sums.loss / sums.tokens, wanted)
    plain = contrastive(u, v, numbers, ContrastiveConfig(symmetric=False))
    assert sums.loss < plain.loss


def test_both_ways_each_text_is_held_to_its_own_right_answer() -> None:
    u, v, numbers, guide = pairs()
    one_way = ContrastiveConfig(symmetric=False, guide="x")
    there = contrastive(u, v, numbers, one_way, guide).loss
    back = contrastive(v, u, numbers.flip(1), one_way, guide.flip(1)).loss
    both = contrastive(u, v, numbers, ContrastiveConfig(guide="x"), guide).loss
    assert_close(both, (there + back) / 2)
    assert not torch.isclose(there, back)


def test_a_guide_that_finds_every_text_farther_changes_nothing() -> None:
    u, v, numbers, _ = pairs()
    apart = torch.eye(ROWS)
    same = contrastive(u, v, numbers, ContrastiveConfig(guide="x"), torch.stack([apart, apart], dim=1))
    assert_close(same.loss, contrastive(u, v, numbers, ContrastiveConfig()).loss)


def test_matryoshka_is_the_mean_over_cut_vectors_as_in_sentence_transformers() -> None:
    from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss, MultipleNegativesRankingLoss

    u, v, numbers, _ = pairs()
    model: Any = Given([u, v])
    inner = MultipleNegativesRankingLoss(model, scale=20.0)
    wanted = MatryoshkaLoss(model, inner, [16, 8, 3])([{"which": 0}, {"which": 1}], torch.zeros(1))
    config = ContrastiveConfig(symmetric=False, dimensions=(8, 3))
    sums = contrastive(u, v, numbers, config)
    assert_close(3 * sums.loss / sums.tokens, wanted)


def test_vectors_are_cut_and_of_length_1_again() -> None:
    embedder = Embedder(toys.reader(toys.model(EmbedConfig())))
    texts = [*toys.texts(5)]
    whole, short = embedder.embed(texts), embedder.embed(texts, dimensions=6)
    assert short.shape == (5, 6)
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(
        short, whole[:, :6] / np.linalg.norm(whole[:, :6], axis=1, keepdims=True), rtol=1e-5
    )
    raw = embedder.embed(texts, normalised=False, dimensions=6)
    np.testing.assert_array_equal(raw, embedder.embed(texts, normalised=False)[:, :6])
    assert embedder.embed("sun", dimensions=6).shape == (6,)
    assert embedder.embed([], dimensions=6).shape == (0, 6)
    with pytest.raises(ValueError, match="dimensions=17 must be from 1 to 16"):
        embedder.embed(texts, dimensions=17)


def recipe(folder: Any, **loss: Any) -> dict[str, Any]:
    tiny.write_pairs(folder, "train", tiny.pairs(60))
    return {
        "task": "embed",
        "data": {"train": ["train.en", "train.de"], "root": str(folder), "hold_out": 10},
        "tokenizer": {"kind": "words", "vocabulary": 60},
        "model": toys.TINY,
        "batch": {"tokens": 200},
        "optimizer": {"learning_rate": 3e-3, "warmup": 2},
        "train": {"steps": 6, "validate_every": 6, "log_every": 2},
        "loss": loss,
    }


@pytest.mark.usefixtures("unchecked")
def test_an_embedder_is_trained_with_both_and_its_recipe_names_the_guide(tmp_path, monkeypatch) -> None:
    toys.train(recipe(tmp_path / "text"), tmp_path / "first")
    monkeypatch.chdir(tmp_path)
    toys.train(recipe(tmp_path / "text", guide="first", dimensions=[8, 4]), tmp_path / "second")
    written = (tmp_path / "second" / "recipe.toml").read_text()
    assert f'guide = "{(tmp_path / "first").resolve()}"' in written
    embedder = regard.load(tmp_path / "second", regard.Embedder, device="cpu")
    assert embedder.embed(["sun"], dimensions=4).shape == (1, 4)


@pytest.mark.usefixtures("unchecked")
def test_a_guide_reads_sources_and_targets_behind_its_own_prompts(tmp_path) -> None:
    toys.train(recipe(tmp_path / "text"), tmp_path / "plain")
    start = open_encoder(tmp_path / "plain")
    first, second = (text.split()[0] for text in tiny.pairs(1)[0])
    prompts = (PromptConfig(name="query", text=f"{first} "), PromptConfig(name="passage", text=f"{second} "))
    config = replace(start.config, head=replace(start.config.head, prompts=prompts))
    save_checkpoint(replace(start, config=config), tmp_path / "guide", "embed")
    written = as_recipe(recipe(tmp_path / "text", guide=str(tmp_path / "guide")))
    (tmp_path / "out").mkdir()
    job = prepare(written, tmp_path / "out", Ranks.join("cpu"), Console(quiet=True))
    guide = regard.load(tmp_path / "guide", regard.Embedder, device="cpu")
    known = tiny.pairs(60)
    for side, name in enumerate(("query", "passage")):
        texts = [pair[side] for pair in known]
        expected = guide.embed(texts, prompt=name, normalised=True)
        plain = guide.embed(texts, prompt="", normalised=True)
        found = job.feed.batch(np.arange(5), None, 0).guide[:, side].numpy()
        for row in found:
            assert np.abs(expected - row).max(axis=1).min() < 1e-5
            assert np.abs(plain - row).max(axis=1).min() > 1e-4


def test_dimensions_and_guides_that_cannot_be_are_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"loss.dimensions=\[16\].*16"):
        toys.train(recipe(tmp_path / "text", dimensions=[16]), tmp_path / "out")
    with pytest.raises(ConfigError, match="without a guide"):
        toys.train(recipe(tmp_path / "text", guide_margin=0.1), tmp_path / "out")
    with pytest.raises(ValueError, match="nowhere: no such folder"):
        toys.train(recipe(tmp_path / "text", guide="nowhere"), tmp_path / "out")
