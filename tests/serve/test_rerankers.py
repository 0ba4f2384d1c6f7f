"""Rerankers behind /rerank and /v1/rerank: as in Python, whoever asks beside."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from regard.hub import Checkpoint
from regard.serve.models import Named
from regard.serve.service import Service
from regard.settings.models import ClassifyConfig, PoolConfig
from regard.tasks.base.encoders import save_checkpoint
from regard.tasks.reranking.reranker import Reranker, open_reranker, sigmoid
from tests.serve.server import Running, serving
from tests.tasks.encoders import toys
from tests.tasks.encoders.test_encoder_commands import folder_of

TEXTS = ["old house", "red sun", "dog sees river", "sun sun sun"]
LONG = " ".join(toys.WORDS * 12)
MEAN = PoolConfig(kind="mean")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranker") / "model"
    model = toys.model(ClassifyConfig(labels=1, pool=MEAN), vocabulary=len(toys.subwords()))
    weights = dict(model.named_parameters())
    own = {"tokenizer": toys.subwords(), "longest": 64, "problem": "number", "activation": "none"}
    save_checkpoint(Checkpoint(config=model.config, weights=weights, **own), path, "rerank")
    return path


@pytest.fixture(scope="module")
def ranker(folder: Path) -> Reranker:
    return open_reranker(folder, device="cpu")


@pytest.fixture(scope="module")
def ranking(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    pairs = folder_of(
        tmp_path_factory.mktemp("pairs") / "model", ClassifyConfig(labels=2, pool=MEAN), ("no", "yes")
    )
    with serving(f"pairs={pairs}", f"ranker={folder}") as running:
        yield running


def scores(ranker: Reranker, texts: list[str], query: str = "red dog", **how: str) -> np.ndarray:
    return ranker.scores([query] * len(texts), texts, raw=True, **how)


def test_the_reranker_ranks_where_one_is_served(ranking: Running, ranker: Reranker) -> None:
    wanted = scores(ranker, TEXTS)
    order = np.argsort(-wanted).tolist()
    found = ranking.post("/rerank", {"query": "red dog", "texts": TEXTS}).json()
    assert [each["index"] for each in found] == order
    assert_allclose([each["score"] for each in found], sigmoid(wanted[order]), rtol=1e-4)
    raw = ranking.post("/rerank", {"query": "red dog", "texts": TEXTS, "raw_scores": True}).json()
    assert_allclose([each["score"] for each in raw], wanted[order], rtol=1e-4, atol=1e-5)
    asked = {"model": "ranker", "query": "red dog", "documents": TEXTS, "top_n": 2}
    cohere = ranking.post("/v1/rerank", asked).json()
    assert [each["index"] for each in cohere["results"]] == order[:2]
    assert_allclose(
        [each["relevance_score"] for each in cohere["results"]], sigmoid(wanted[order[:2]]), rtol=1e-4
    )


def test_long_texts_are_read_whole_cut_or_refused(ranking: Running, ranker: Reranker) -> None:
    asked = {"query": "red dog", "texts": [LONG], "raw_scores": True}
    found = ranking.post("/rerank", asked).json()[0]["score"]
    assert found == pytest.approx(float(scores(ranker, [LONG])[0]), abs=1e-4)
    short = ranking.post("/rerank", {**asked, "truncate": True}).json()[0]["score"]
    with pytest.warns(UserWarning, match="longer than 64 tokens"):
        assert short == pytest.approx(float(scores(ranker, [LONG], too_long="cut")[0]), abs=1e-4)
    refused = ranking.post("/rerank", {**asked, "truncate": False})
    assert (refused.status_code, refused.json()["error_type"]) == (413, "Validation")
    crowded = ranking.post("/rerank", {"query": LONG, "texts": ["sun"]})
    assert crowded.status_code == 413
    assert "leaves no room" in crowded.json()["error"]


def test_a_classifier_of_pairs_ranks_by_its_last_label(ranking: Running) -> None:
    """Not by the label that is least likely."""
    pairs = [["red dog", text] for text in TEXTS]
    labels = ranking.post("/predict", {"inputs": pairs, "model": "pairs"}).json()
    wanted = [next(each["score"] for each in row if each["label"] == "yes") for row in labels]
    found = ranking.post("/rerank", {"model": "pairs", "query": "red dog", "texts": TEXTS}).json()
    assert {each["index"]: each["score"] for each in found} == pytest.approx(
        dict(enumerate(wanted)), rel=1e-4
    )


def test_what_is_served_says_so(ranking: Running) -> None:
    found = ranking.get("/info").json()
    assert found["models"] == ["pairs", "ranker"]


def test_a_reranker_is_warmed(folder: Path) -> None:
    service = Service([Named.of(f"ranker={folder}")], device="cpu")
    (served,) = service.models
    asked = [service._greeting(served) for _ in range(2)]
    for each in asked:
        served.lane.line.put(each)
        assert len(each.answer.result(timeout=60)) == 1
    service.close()
