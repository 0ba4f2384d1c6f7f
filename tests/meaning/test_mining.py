"""Hard negatives: which are taken, against a naive loop."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from regard.config import ConfigError
from regard.meaning.mining import MiningConfig, mine, mine_negatives
from regard.models import Headed
from regard.settings.models import ClassifyConfig, EmbedConfig, PoolConfig, PromptConfig
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.reranking.reranker import Reranker
from regard.text import DataError
from tests.tasks.encoders import toys
from tests.tasks.encoders.test_encoder_commands import folder_of

TEXTS = toys.texts(60)
PAIRS = [(f"red {toys.WORDS[n % 7]}", TEXTS[n]) for n in range(12)]
"""Some queries have two answers."""


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder(toys.reader(toys.model(EmbedConfig())))


@pytest.fixture(scope="module")
def reranker() -> Reranker:
    return Reranker(
        toys.reader(toys.model(ClassifyConfig(labels=1, pool=PoolConfig(kind="mean")))), "sigmoid"
    )


def naive(
    embedder: Embedder, config: MiningConfig, reranker: Reranker | None = None
) -> list[tuple[Any, ...]]:
    """Query by query: sort everything, leave the answers out, then what scores too much."""
    texts = [*dict.fromkeys([*TEXTS, *(text for _, text in PAIRS)])]
    found, vectors = [], embedder.embed(texts)
    for query, positive in PAIRS:
        near = dict(zip(texts, (vectors @ embedder.embed(query)).tolist(), strict=True))
        right = {text for asked, text in PAIRS if asked == query}
        order = [text for text in sorted(texts, key=lambda each: -near[each]) if text not in {*right, query}]
        kept = order[config.skip : config.among]
        score = near
        if reranker is not None:
            own = reranker.scores([query] * len(texts), texts, raw=True)
            score = dict(zip(texts, own.tolist(), strict=True))
        least = score[positive]
        if config.margin is not None:
            kept = [text for text in kept if score[text] <= least - config.margin]
        if config.relative is not None:
            kept = [text for text in kept if score[text] <= least - config.relative * abs(least)]
        if reranker is not None:
            kept.sort(key=lambda text: -score[text])
        kept = kept[: config.negatives]
        if kept:
            found.append((query, positive, kept, [score[positive], *(score[text] for text in kept)]))
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"skip": 3, "among": 9, "negatives": 20},
        {"margin": 0.05},
        {"relative": 0.1, "negatives": 3},
        {"margin": 0.02, "relative": 0.02},
    ],
)
@pytest.mark.parametrize("taught", [False, True])
def test_they_are_those_of_a_naive_loop(embedder, reranker, settings, taught) -> None:
    config, teacher = MiningConfig(**settings), reranker if taught else None
    found = mine(embedder, PAIRS, TEXTS, config, reranker=teacher)
    wanted = naive(embedder, config, teacher)
    assert [(each.query, each.positive) for each in found] == [row[:2] for row in wanted]
    for each, (_, _, negatives, scores) in zip(found, wanted, strict=True):
        assert each.negatives == negatives
        np.testing.assert_allclose(each.scores, scores, rtol=1e-4, atol=1e-5)


def test_queries_and_texts_are_read_behind_the_models_prompts() -> None:
    """As if they stood in the texts; without them, others are found."""
    torch.manual_seed(0)
    model = toys.model(EmbedConfig())
    prompts = (PromptConfig(name="query", text="red sun "), PromptConfig(name="passage", text="old moon "))
    told = Headed(replace(model.config, head=replace(model.config.head, prompts=prompts))).eval()
    told.load_state_dict(model.state_dict())
    plain, told = Embedder(toys.reader(model)), Embedder(toys.reader(told))
    written = [(f"red sun {query}", f"old moon {text}") for query, text in PAIRS]
    expected = mine(plain, written, [f"old moon {text}" for text in TEXTS])
    found = mine(told, PAIRS, TEXTS)
    for each, other in zip(found, expected, strict=True):
        assert [f"old moon {text}" for text in each.negatives] == other.negatives
        np.testing.assert_allclose(each.scores, other.scores, rtol=1e-4, atol=1e-5)
    assert [each.negatives for each in mine(plain, PAIRS, TEXTS)] != [each.negatives for each in found]


def test_a_margin_keeps_out_what_scores_as_much_as_an_answer(embedder) -> None:
    free, held = (mine(embedder, PAIRS, TEXTS, MiningConfig(margin=each)) for each in (None, 0.1))
    assert any(max(row.scores[1:]) > row.scores[0] for row in free)
    assert held
    assert all(max(row.scores[1:]) <= row.scores[0] - 0.1 + 1e-6 for row in held)


def test_no_answer_of_a_query_is_its_negative(embedder) -> None:
    for row in mine(embedder, PAIRS, (), MiningConfig(negatives=50)):
        right = {text for query, text in PAIRS if query == row.query}
        assert not right & {*row.negatives}
        assert len(row.negatives) == len({text for _, text in PAIRS}) - len(right)


def test_a_query_that_is_a_text_too_is_not_its_own_negative(embedder) -> None:
    """As questions that mean the same are: (A, B) and (C, A), where nothing is nearer to A than A."""
    first, second, third = TEXTS[:3]
    asked = [(first, second), (third, first)]
    for corpus in ((), TEXTS):
        for skip in (0, 2):
            found = mine(embedder, asked, corpus, MiningConfig(negatives=100, skip=skip))
            assert all(row.query not in row.negatives for row in found)
            count = len({*corpus, first, second}) - skip
            # of the first, itself and its answer are left out; the third is in the corpus or in no pair
            wanted = [count - 2, count - 1 - (third in corpus)]
            assert [len(row.negatives) for row in found] == [each for each in wanted if each > 0]
    [own] = mine(embedder, asked[:1], TEXTS, MiningConfig(negatives=5, among=5))
    assert len(own.negatives) == 5


def test_any_of_them_are_drawn_by_the_seed(embedder) -> None:
    first = mine(embedder, PAIRS, TEXTS, MiningConfig(negatives=5, among=40))
    one, same, other = (
        mine(embedder, PAIRS, TEXTS, MiningConfig(negatives=5, among=40, choose="any", seed=seed))
        for seed in (0, 0, 1)
    )
    assert one == same
    assert one != other
    assert one != first
    pool = mine(embedder, PAIRS, TEXTS, MiningConfig(negatives=40, among=40))
    for row, every in zip(one, pool, strict=True):
        assert len(row.negatives) == 5
        assert {*row.negatives} <= {*every.negatives}
        assert row.scores[1:] == sorted(row.scores[1:], reverse=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("embedder") / "model", EmbedConfig())


def mined(folder: Path, out: Path, **how: Any) -> tuple[list[dict[str, Any]], str]:
    files = dict.fromkeys(("pairs", "queries", "qrels", "corpus", "rerank"))
    columns = {"query_column": "query", "positive_column": "positive"}
    said = io.StringIO()
    console = Console(file=said, width=200)
    mine_negatives(folder, out_file=out, device="cpu", console=console, **{**files, **columns, **how})
    return [json.loads(line) for line in out.read_text().splitlines()], said.getvalue()


@pytest.mark.usefixtures("unchecked")
def test_pairs_and_judgements_give_the_same_file(folder: Path, tmp_path: Path) -> None:
    lines = ["query\tpositive", *("\t".join(pair) for pair in PAIRS)]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    numbers = {text: number for number, text in enumerate(TEXTS, 1)}
    asked = [*dict.fromkeys(query for query, _ in PAIRS)]
    (tmp_path / "queries.tsv").write_text(
        "".join(f"q{n}\t{q}\n" for n, q in enumerate(asked)), encoding="utf-8"
    )
    judged = [f"q{asked.index(query)} 0 {numbers[text]} 1\n" for query, text in PAIRS]
    (tmp_path / "qrels.txt").write_text("".join(judged), encoding="utf-8")
    corpus = tmp_path / "corpus.txt"
    one, said = mined(folder, tmp_path / "a.jsonl", pairs=tmp_path / "pairs.tsv", corpus=corpus, negatives=3)
    assert "12 queries with 36 negatives" in said
    files = {"queries": tmp_path / "queries.tsv", "qrels": tmp_path / "qrels.txt", "corpus": corpus}
    other, _ = mined(folder, tmp_path / "b.jsonl", **files, negatives=3)
    key = lambda row: (row["query"], row["positive"])  # noqa: E731
    assert sorted(one, key=key) == sorted(other, key=key)
    _, said = mined(folder, tmp_path / "c.jsonl", **files, margin=1.9)
    assert "0 queries with 0 negatives" in said
    assert "12 have none that scores so much less than their positive" in said


def test_what_is_not_said_or_said_wrongly_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Give --pairs FILE"):
        mined(folder, tmp_path / "a.jsonl")
    with pytest.raises(ConfigError, match="skip=9 and among=9 leave nothing"):
        mined(folder, tmp_path / "a.jsonl", pairs=tmp_path, skip=9, among=9)
    with pytest.raises(ConfigError, match="negatives=0 must be 1 or more"):
        MiningConfig(negatives=0)
    with pytest.raises(ConfigError, match="margin=-1 must be 0 or more"):
        MiningConfig(margin=-1)
    (tmp_path / "pairs.tsv").write_text("query\tpositive\na\t\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"pairs\.tsv:2: an empty query or text"):
        mined(folder, tmp_path / "a.jsonl", pairs=tmp_path / "pairs.tsv")
