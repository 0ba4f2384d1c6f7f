"""How well an embedder finds, alone and with a reranker; and search at the prompt with one."""

import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from rich.console import Console

from regard.config import ConfigError
from regard.meaning.commands import search
from regard.meaning.evaluating import evaluate, find, measure
from regard.settings.models import ClassifyConfig, EmbedConfig, PoolConfig, PromptConfig
from regard.tasks.base.encoders import open_encoder, save_checkpoint
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.embedding.embedder import open_embedder
from regard.tasks.reranking.reranker import open_reranker
from regard.text.judged import read_judged
from tests.tasks.encoders import toys
from tests.tasks.encoders.test_encoder_commands import folder_of

pytestmark = pytest.mark.usefixtures("unchecked")
TEXTS, ASKED = toys.texts(80), toys.texts(15, seed=3)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    scorer = ClassifyConfig(labels=1, pool=PoolConfig(kind="mean"))
    return folder_of(folder / "embedder", EmbedConfig()), folder_of(folder / "reranker", scorer)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A text is relevant to a query, twice as much or as much, if its words are."""
    folder = tmp_path_factory.mktemp("set")
    names = {name: folder / f"{name}.tsv" for name in ("queries", "corpus")}
    names["queries"].write_text("".join(f"q{n}\t{text}\n" for n, text in enumerate(ASKED)), encoding="utf-8")
    names["corpus"].write_text("".join(f"d{n}\t{text}\n" for n, text in enumerate(TEXTS)), encoding="utf-8")
    judged = [
        f"q{q} 0 d{d} {grade}\n"
        for q, query in enumerate(ASKED)
        for d, text in enumerate(TEXTS)
        if (grade := len({*query.split()} & {*text.split()}) // 2)
    ]
    (folder / "qrels.txt").write_text("".join(judged), encoding="utf-8")
    return {**names, "qrels": folder / "qrels.txt"}


def trec(files: dict[str, Path], run: Path) -> dict[str, float]:
    """trec_eval on the file that was written."""
    judged: dict[str, dict[str, int]] = {}
    for line in files["qrels"].read_text().splitlines():
        query, _, text, grade = line.split()
        judged.setdefault(query, {})[text] = int(grade)
    found: dict[str, dict[str, float]] = {}
    for line in run.read_text().splitlines():
        query, _, text, _, score, _ = line.split()
        found.setdefault(query, {})[text] = float(score)
    rows = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "recall.10", "map"}).evaluate(found)
    names = {"ndcg_at_10": "ndcg_cut_10", "recall_at_10": "recall_10", "map": "map"}
    return {ours: float(np.mean([row[theirs] for row in rows.values()])) for ours, theirs in names.items()}


@pytest.mark.parametrize("how", [{}, {"dimensions": 5}, {"rerank": True, "candidates": 20}])
def test_trec_eval_finds_the_same_figures_in_the_run(models, files, tmp_path, how: dict[str, Any]) -> None:
    embedder, reranker = models
    given = {**how, **({"rerank": reranker} if how.get("rerank") else {})}
    options = EvaluateOptions(**files, **given, run=tmp_path / "run.trec", device="cpu")
    said = io.StringIO()
    found = evaluate(embedder, options, Console(file=said, width=160))
    for name, value in trec(files, tmp_path / "run.trec").items():
        assert found[name] == pytest.approx(value, abs=1e-9), name
    assert "14 queries, 80 texts" in said.getvalue()
    assert "queries without a relevant text, left out: 1" in said.getvalue()
    assert ("reranked" in said.getvalue()) == ("rerank" in how)
    if "rerank" in how:
        assert found["vectors"]["ndcg_at_10"] != found["reranked"]["ndcg_at_10"]
        assert found["vectors"]["recall_at_100"] == found["reranked"]["recall_at_100"]


def test_what_scores_alike_is_in_the_order_of_trec_eval(models, files, tmp_path) -> None:
    twice = tmp_path / "corpus.tsv"
    lines = [f"{name}{n}\t{text}\n" for n, text in enumerate(TEXTS) for name in ("d", "x", "a")]
    twice.write_text("".join(lines), encoding="utf-8")
    for more in ({}, {"rerank": models[1], "candidates": 20}):
        options = EvaluateOptions(**{**files, "corpus": twice}, **more, run=tmp_path / "run", device="cpu")
        found = evaluate(models[0], options, Console(quiet=True))
        for name, value in trec(files, tmp_path / "run").items():
            assert found[name] == pytest.approx(value, abs=1e-9), name


def test_queries_and_texts_are_read_behind_the_models_prompts(models, files, tmp_path) -> None:
    judged = read_judged(*(files[name] for name in ("queries", "corpus", "qrels")))
    start = open_encoder(models[0])
    prompts = (PromptConfig(name="query", text="red sun "), PromptConfig(name="passage", text="old moon "))
    config = replace(start.config, head=replace(start.config.head, prompts=prompts))
    save_checkpoint(replace(start, config=config), tmp_path / "told", "embed")
    written = replace(
        judged,
        queries={id: f"red sun {text}" for id, text in judged.queries.items()},
        corpus={id: f"old moon {text}" for id, text in judged.corpus.items()},
    )
    expected = find_all(models, written)
    found = find_all((tmp_path / "told",), judged)
    for query, hits in found.items():
        ours, theirs = dict(hits), dict(expected[query])
        assert ours == pytest.approx(theirs, abs=1e-5)
    assert found["q1"] != find_all(models, judged)["q1"]


def test_a_query_does_not_find_the_text_that_it_is(models, files, tmp_path) -> None:
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text(files["corpus"].read_text() + f"q3\t{ASKED[3]}\nq4\t{ASKED[4]}\n", encoding="utf-8")
    qrels = tmp_path / "qrels.txt"
    qrels.write_text(files["qrels"].read_text() + "q4 0 q4 1\n")
    judged = read_judged(files["queries"], corpus, qrels)
    found = {query: {text for text, _ in hits} for query, hits in find_all(models, judged).items()}
    assert "q3" not in found["q3"]
    assert "q4" in found["q4"]  # it is judged
    assert "q3" in found["q5"]
    assert {len(each) for each in found.values()} == {81, 82}
    plain, lines = tmp_path / "queries.txt", tmp_path / "corpus.txt"
    plain.write_text("\n".join(ASKED), encoding="utf-8")
    lines.write_text("\n".join(TEXTS), encoding="utf-8")
    qrels.write_text("1 0 2 1\n")
    assert "1" in {text for text, _ in find_all(models, read_judged(plain, lines, qrels))["1"]}


def find_all(models, judged):
    return find(open_embedder(models[0], device="cpu"), judged)


def test_a_reranker_orders_its_candidates_and_leaves_the_rest(models, files) -> None:
    judged = read_judged(*(files[name] for name in ("queries", "corpus", "qrels")))
    found = find(open_embedder(models[0], device="cpu"), judged)
    reranker = open_reranker(models[1], device="cpu")
    done = measure(judged, found, reranker, candidates=7)
    for query, hits in done.found.items():
        before = [text for text, _ in found[query]]
        scores = reranker.scores(
            [judged.queries[query]] * 7, [judged.corpus[text] for text in before[:7]], raw=True
        )
        order = np.argsort(-scores, kind="stable")
        assert [text for text, _ in hits[:7]] == [before[row] for row in order]
        assert [text for text, _ in hits[7:]] == before[7:]
        assert all(one[1] > other[1] for one, other in pairwise(hits[6:]))


def test_the_set_is_given_whole_or_not_at_all(models, files) -> None:
    with pytest.raises(ConfigError, match="give --queries, --corpus and --qrels, all three"):
        evaluate(models[0], EvaluateOptions(queries=files["queries"], device="cpu"), Console(quiet=True))
    with pytest.raises(ConfigError, match="--stride is not for this model: it takes --queries"):
        evaluate(models[0], EvaluateOptions(**files, stride=3), Console(quiet=True))


def hits(models: tuple[Path, Path], file: Path, index: Path, **how: Any) -> list[dict[str, Any]]:
    said = io.StringIO()
    plain: Any = {"kind": "auto", "index": index, "device": "cpu", "as_json": True}
    search(
        models[0], file, ["red sun"], **{"top": 3, **plain, **how}, console=Console(file=said, width=10_000)
    )
    return json.loads(said.getvalue())["hits"]


def test_search_puts_what_vectors_have_found_in_order_by_a_reranker(models, tmp_path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    nearest = hits(models, file, tmp_path / "index", top=12)
    ranked = hits(models, file, tmp_path / "index", rerank=models[1], candidates=12)
    reranker = open_reranker(models[1], device="cpu")
    wanted = reranker.rerank("red sun", [hit["text"] for hit in nearest], top=3)
    assert [hit["text"] for hit in ranked] == [each.text for each in wanted]
    assert [hit["score"] for hit in ranked] == pytest.approx([each.score for each in wanted], rel=1e-5)
    assert [TEXTS[hit["line"] - 1] for hit in ranked] == [hit["text"] for hit in ranked]
    short = hits(models, file, tmp_path / "index", dimensions=3)
    embedder = open_embedder(models[0], device="cpu")
    cosines = embedder.embed([*TEXTS], dimensions=3) @ embedder.embed("red sun", dimensions=3)
    assert short[0]["score"] == pytest.approx(float(cosines.max()), abs=1e-5)
    with pytest.raises(ConfigError, match="--rerank and --dimensions are for texts"):
        hits(models, file, tmp_path / "index", rerank=models[1], words=True)
    with pytest.raises(ConfigError, match="--candidates 0"):
        hits(models, file, tmp_path / "index", rerank=models[1], candidates=0)
