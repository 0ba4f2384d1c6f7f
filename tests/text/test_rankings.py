"""Queries with a positive and negatives, from tables."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.text import DataError, Skipped
from regard.text.rankings import read_rankings

ROW: dict[str, Any] = {"query": "q", "positive": "p", "negatives": ["a", "b", "c"], "scores": [3, 2, 1, 0.5]}


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_json_lines_have_lists(tmp_path: Path) -> None:
    [found] = read_rankings(lines(tmp_path / "a.jsonl", ROW), scores="scores")
    assert found.texts == ("p", "a", "b", "c")
    assert found.scores == (3, 2, 1, 0.5)
    [few] = read_rankings(lines(tmp_path / "a.jsonl", ROW), scores="scores", most=2)
    assert (few.negatives, few.scores) == (("a", "b"), (3, 2, 1))
    [one] = read_rankings(lines(tmp_path / "a.jsonl", {**ROW, "negatives": "a"}))
    assert (one.negatives, one.scores) == (("a",), ())


def test_columns_have_one_each(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("q\tp\tn1\tn2\tscores\nwho\tann\tbob\t\t2 1\n", encoding="utf-8")
    [found] = read_rankings(path, query="q", positive="p", negatives=("n1", "n2"), scores="scores")
    assert (found.query, found.texts, found.scores) == ("who", ("ann", "bob"), (2, 1))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"query": " "}, "an empty query"),
        ({"positive": ""}, "an empty positive"),
        ({"negatives": []}, "a query without negatives"),
        ({"negatives": ["p"]}, "a text that is both positive and negative"),
        ({"negatives": ["a", "q"]}, "a query that is its own negative"),
        ({"negatives": [3]}, "no text in column 'negatives'"),
        ({"scores": [1, 2]}, "not 4 numbers in column 'scores'"),
        ({"scores": [1, 2, 3, float("nan")]}, "not 4 numbers in column 'scores'"),
    ],
)
def test_a_broken_row_is_named_or_skipped(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    path = lines(tmp_path / "a.jsonl", ROW, {**ROW, **changed})
    with pytest.raises(DataError, match=f"a.jsonl:2: {said}"):
        list(read_rankings(path, scores="scores"))
    skipped = Skipped()
    assert len(list(read_rankings(path, scores="scores", on_error="skip", skipped=skipped))) == 1
    assert skipped.total == 1
