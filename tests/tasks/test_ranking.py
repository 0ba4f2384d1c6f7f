"""Figures of rankings, against trec_eval and sentence-transformers."""

import random
from typing import Any

import numpy as np
import pytest
import pytrec_eval

from regard.tasks.base.ranking import ranking

TREC = {
    "ndcg_at_10": "ndcg_cut_10",
    "recall_at_1": "recall_1",
    "recall_at_10": "recall_10",
    "recall_at_100": "recall_100",
    "map": "map",
}


def drawn(seed: int, graded: bool) -> tuple[dict[str, list[str]], dict[str, dict[str, int]]]:
    """Queries with rankings, some of them short, and judgements, some of them of what was not found."""
    chance = random.Random(seed)
    found: dict[str, list[str]] = {}
    judged: dict[str, dict[str, int]] = {}
    for number in range(40):
        texts = [f"d{each}" for each in chance.sample(range(300), k=chance.choice([3, 30, 200]))]
        found[f"q{number}"] = texts
        pool = [*texts, *(f"x{each}" for each in range(5))]
        own = chance.sample(pool, k=min(len(pool), chance.randint(1, 12)))
        judged[f"q{number}"] = {text: chance.choice([0, 1, 2, 3] if graded else [0, 1]) for text in own}
        judged[f"q{number}"][own[0]] = 1
    return found, judged


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_figures_are_those_of_trec_eval(seed: int, graded: bool) -> None:
    found, judged = drawn(seed, graded)
    run = {query: {text: -float(rank) for rank, text in enumerate(texts)} for query, texts in found.items()}
    measures = {"ndcg_cut.10", "recall.1,10,100", "map", "recip_rank"}
    rows = pytrec_eval.RelevanceEvaluator(judged, measures).evaluate(run)
    ours = ranking(found, judged)
    for name, theirs in TREC.items():
        assert ours[name] == pytest.approx(np.mean([row[theirs] for row in rows.values()]), abs=1e-12), name
    first = [row["recip_rank"] if row["recip_rank"] >= 0.1 else 0.0 for row in rows.values()]
    assert ours["mrr_at_10"] == pytest.approx(np.mean(first), abs=1e-12)


def test_the_figures_are_those_of_sentence_transformers() -> None:
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    found, judged = drawn(5, graded=False)
    relevant = {query: {text for text, grade in own.items() if grade} for query, own in judged.items()}
    corpus = {text: "" for texts in (*found.values(), *relevant.values()) for text in texts}
    evaluator: Any = InformationRetrievalEvaluator(
        queries=dict.fromkeys(found, ""), corpus=corpus, relevant_docs=relevant, map_at_k=[200]
    )
    lists = [
        [{"corpus_id": text, "score": -rank} for rank, text in enumerate(found[query])]
        for query in evaluator.queries_ids
    ]
    theirs = evaluator.compute_metrics(lists)
    ours = ranking(found, judged)
    assert ours["ndcg_at_10"] == pytest.approx(theirs["ndcg@k"][10])
    assert ours["mrr_at_10"] == pytest.approx(theirs["mrr@k"][10])
    assert ours["recall_at_10"] == pytest.approx(theirs["recall@k"][10])


def test_a_query_without_hits_counts_as_nothing_and_unasked_ones_not_at_all() -> None:
    judged = {"a": {"x": 1}, "b": {"y": 1}}
    ours = ranking({"a": ["x"], "c": ["z"]}, judged)
    assert (ours["ndcg_at_10"], ours["mrr_at_10"], ours["map"]) == (0.5, 0.5, 0.5)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="'x' was found twice for one query"):
        ranking({"a": ["x", "x"]}, {"a": {"x": 1}})
    with pytest.raises(ValueError, match="no query is judged"):
        ranking({"a": ["x"]}, {})
