"""How good a ranking is, by judgements of which texts are relevant, and how much.

    ndcg@k      DCG / that of the best ranking there is;   DCG = sum over ranks r <= k of grade / log2(r + 1)
    mrr@k       1 / the rank of the first relevant text, 0 past k
    recall@k    relevant texts up to rank k / all relevant texts
    map         mean over all relevant texts of the precision at their ranks, 0 for those that were not found

as trec_eval has them (ndcg_cut, recip_rank, recall, map): tests/tasks/test_ranking.py holds them equal to it,
and to sentence-transformers.
"""

from collections.abc import Mapping, Sequence

import numpy as np

RECALLS = (1, 10, 100)


def ranking(found: Mapping[str, Sequence[str]], judged: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """Means over the queries that are judged: for each, the ids of what was found, best first. A query for
    which nothing was found counts 0."""
    if not judged:
        raise ValueError("no query is judged: give some that are")
    rows = [_of_query([*found.get(query, ())], own) for query, own in judged.items()]
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _of_query(found: list[str], judged: Mapping[str, int]) -> dict[str, float]:
    if len({*found}) < len(found):
        twice = next(text for text in found if found.count(text) > 1)
        raise ValueError(f"{twice!r:.60} was found twice for one query: leave one of the two out")
    grades = np.array([max(judged.get(text, 0), 0) for text in found], dtype=np.float64)
    ideal = np.sort([float(grade) for grade in judged.values() if grade > 0])[::-1]
    right = np.flatnonzero(grades)
    first = int(right[0]) + 1 if len(right) else 0
    wanted = max(len(ideal), 1)
    return {
        "ndcg_at_10": _gain(grades, 10) / best if (best := _gain(ideal, 10)) else 0.0,
        "mrr_at_10": 1 / first if 0 < first <= 10 else 0.0,
        **{f"recall_at_{k}": float((right < k).sum()) / wanted for k in RECALLS},
        "map": float(((np.arange(len(right)) + 1) / (right + 1)).sum()) / wanted,
    }


def _gain(grades: np.ndarray, k: int) -> float:
    top = grades[:k]
    return float((top / np.log2(np.arange(len(top)) + 2)).sum())
