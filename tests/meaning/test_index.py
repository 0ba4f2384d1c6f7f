import json
from pathlib import Path

import numpy as np
import pytest

from regard.meaning import graph
from regard.meaning.index import EXACT_ROWS, Hit, Index, SearchError, choose_kind
from regard.meaning.nearest import nearest
from regard.tasks.base.vectors import VectorsError, normalised


def drawn(rows: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)


def sorted_all(queries: np.ndarray, corpus: np.ndarray, k: int) -> list[list[int]]:
    """Every row scored in float64, sorted by score and then by row."""
    queries, corpus = normalised(queries).astype(np.float64), normalised(corpus).astype(np.float64)
    scores = [[float((query * row).sum()) for row in corpus] for query in queries]
    return [sorted(range(len(corpus)), key=lambda row: (-each[row], row))[:k] for each in scores]


def rows(found: list[list[Hit]]) -> list[list[int]]:
    return [[hit.row for hit in hits] for hits in found]


def built(count: int = 40, width: int = 6, **options) -> Index:
    return Index.build([f"text {row}" for row in range(count)], drawn(count, width), **options)


@pytest.mark.parametrize("k", [1, 7, 60, 100])
@pytest.mark.parametrize("block", [5, 16, 1000])
def test_the_nearest_are_those_of_sorting_everything_whatever_the_blocks(k: int, block: int):
    corpus, queries = drawn(60, 9), drawn(11, 9, seed=1)
    unit = normalised(queries)
    found, scores = nearest(unit, normalised(corpus), k, query_block=4, row_block=block)
    assert found.tolist() == sorted_all(queries, corpus, k)
    assert found.shape == scores.shape == (11, min(k, 60))
    expected = np.take_along_axis(unit.astype(np.float64) @ normalised(corpus).T, found, axis=1)
    np.testing.assert_allclose(scores, expected, atol=1e-12)


@pytest.mark.parametrize("block", [7, 64, 1000])
def test_ties_go_to_the_lower_row(block: int):
    corpus = normalised(np.tile(drawn(5, 33), (60, 1)))  # 300 rows, each of 5 directions 60 times
    queries = normalised(drawn(9, 33, seed=1))
    found, scores = nearest(queries, corpus, 130, row_block=block)
    for each, values in zip(found, scores, strict=True):
        first, second, third = (int(each[place]) for place in (0, 60, 120))
        assert {first, second, third} <= set(range(5))
        expected = [*range(first, 300, 5), *range(second, 300, 5), *range(third, 50 + third, 5)]
        assert each.tolist() == expected
        assert len(set(values)) == 3


@pytest.mark.parametrize("block", [64, 1000])
def test_rows_that_float32_cannot_tell_apart_are_told_apart(block: int):
    queries = normalised(drawn(6, 400))
    corpus = normalised(queries[0] + 1e-5 * drawn(500, 400, seed=1))  # cosines differ by some 1e-9
    found, scores = nearest(queries, corpus, 10, row_block=block)
    assert found.tolist() == sorted_all(queries, corpus, 10)
    assert (np.diff(scores) < 0).all()


def test_a_query_finds_the_same_alone_and_in_company():
    corpus, queries = normalised(drawn(500, 48)), normalised(drawn(20, 48, seed=1))
    together = nearest(queries, corpus, 9)
    for row in range(20):
        alone = nearest(queries[row : row + 1], corpus, 9)
        assert np.array_equal(alone[0][0], together[0][row])
        assert np.array_equal(alone[1][0], together[1][row])


def test_hits_carry_row_text_and_cosine():
    vectors = np.array([[2.0, 0.0], [0.0, 5.0], [1.0, 1.0]])
    found = Index.build(["east", "north", "north-east"], vectors).search([[0.0, 0.1]], k=9)
    assert [(hit.row, hit.text) for hit in found[0]] == [(1, "north"), (2, "north-east"), (0, "east")]
    assert [hit.score for hit in found[0]] == pytest.approx([1.0, 0.5**0.5, 0.0], abs=1e-7)
    assert found[0][0].score <= 1


def test_no_cosine_is_above_1():
    vectors = drawn(200, 50)
    found = Index.build([""] * 200, vectors).search(vectors, 1)
    assert rows(found) == [[row] for row in range(200)]
    assert all(1 - 1e-6 < hits[0].score <= 1 for hits in found)


def test_no_queries_have_no_hits():
    assert built().search(np.empty((0, 6)), 3) == []


def test_what_cannot_be_searched_is_told():
    with pytest.raises(SearchError, match="3 vectors for 2 texts"):
        Index.build(["a", "b"], drawn(3, 2))
    with pytest.raises(SearchError, match="nothing to search"):
        Index.build([], np.empty((0, 2)))
    with pytest.raises(SearchError, match="k=0: ask for 1 or more"):
        built().search(drawn(1, 6), 0)
    with pytest.raises(VectorsError, match="width 5 where 6 belong: make all of them with the same model"):
        built().search(drawn(1, 5))
    with pytest.raises(SearchError, match="kind='fast' is none of auto, exact, faiss"):
        built(kind="fast")


def test_the_kind_is_chosen_by_size_and_says_why():
    assert choose_kind(EXACT_ROWS, "auto", True)[0] == "exact"
    assert choose_kind(EXACT_ROWS + 1, "auto", True)[0] == "faiss"
    kind, why = choose_kind(EXACT_ROWS + 1, "auto", False)
    assert kind == "exact"
    assert "pip install 'regard[search]'" in why
    assert choose_kind(5, "faiss", True)[0] == "faiss"
    assert choose_kind(10**7, "exact", True)[0] == "exact"
    with pytest.raises(SearchError, match=r"not installed: pip install 'regard\[search\]', or kind='exact'"):
        choose_kind(5, "faiss", False)


def test_the_graph_finds_what_the_exact_search_finds():
    pytest.importorskip("faiss")
    corpus, queries = drawn(600, 16), drawn(25, 16, seed=1)
    texts = [str(row) for row in range(600)]
    exact = Index.build(texts, corpus, kind="exact").search(queries, 10)
    index = Index.build(texts, corpus, kind="faiss")
    assert index.kind == "faiss"
    found = index.search(queries, 10)
    same = sum(ours == theirs for ours, theirs in zip(found, exact, strict=True))
    assert same >= 24  # the graph may miss a neighbour; scores and order are the same
    assert all(len(hits) == 600 for hits in index.search(queries[:2], 1000))


def test_a_query_that_the_graph_cannot_answer_is_answered_exactly(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("faiss")
    index, queries = built(kind="faiss"), drawn(5, 6, seed=1)
    walk = graph.walk

    def lost(*arguments):
        found = walk(*arguments)
        found[1:4, 2:] = -1
        return found

    monkeypatch.setattr(graph, "walk", lost)
    assert rows(index.search(queries, 4)) == sorted_all(queries, drawn(40, 6), 4)


def test_a_saved_index_answers_as_before(tmp_path: Path):
    index, queries = built(), drawn(5, 6, seed=1)
    index.save(tmp_path / "index", "model and corpus")
    loaded = Index.load(tmp_path / "index")
    assert loaded.search(queries, 4) == index.search(queries, 4)
    assert isinstance(loaded.vectors, np.memmap)
    assert (loaded.kind, loaded.fingerprint, list(loaded.texts)) == (
        "exact",
        "model and corpus",
        list(index.texts),
    )
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_a_saved_graph_answers_as_before_and_exactly_where_faiss_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("faiss")
    index, queries = built(kind="faiss"), drawn(5, 6, seed=1)
    index.save(tmp_path / "index")
    loaded = Index.load(tmp_path / "index")
    assert loaded.kind == "faiss"
    assert loaded.search(queries, 4) == index.search(queries, 4)
    monkeypatch.setattr(graph, "has_faiss", lambda: False)
    without = Index.load(tmp_path / "index")
    assert without.kind == "exact"
    assert "pip install 'regard[search]'" in without.why
    assert rows(without.search(queries, 4)) == sorted_all(queries, drawn(40, 6), 4)


def test_an_index_is_built_only_where_none_has_the_fingerprint(tmp_path: Path):
    calls = []

    def build() -> Index:
        calls.append(1)
        return built(10 * len(calls))

    folder = tmp_path / "index"
    (tmp_path / "index.building-1").mkdir()  # somebody else is at work
    assert len(Index.open_or_build(folder, "one", build)) == 10
    assert len(Index.open_or_build(folder, "one", build)) == 10
    assert len(calls) == 1
    again = Index.open_or_build(folder, "two", build)
    assert (len(again), again.fingerprint, len(calls)) == (20, "two", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "index.building-1"]


def test_an_index_that_fails_to_be_saved_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "index"
    built().save(folder, "one")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.meaning.index.write_texts", full)
    with pytest.raises(OSError, match="No space left"):
        Index.open_or_build(folder, "two", lambda: built(7))
    with pytest.raises(OSError, match="No space left"):
        built(7).save(folder, "one")
    assert (len(Index.load(folder)), Index.load(folder).fingerprint) == (40, "one")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_an_open_index_answers_after_another_took_its_place(tmp_path: Path):
    built().save(tmp_path / "index")
    old = Index.load(tmp_path / "index")
    built(20).save(tmp_path / "index")
    assert rows(old.search(drawn(2, 6), 3)) == sorted_all(drawn(2, 6), drawn(40, 6), 3)


def test_other_peoples_files_are_not_touched(tmp_path: Path):
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(SearchError, match=r"other files \(thesis.tex\): choose an empty or a new folder"):
        Index.open_or_build(folder, "one", lambda: pytest.fail("built in vain"))
    with pytest.raises(SearchError, match="other files"):
        built().save(folder / "thesis.tex")
    with pytest.raises(SearchError, match="no index, or one of another version; build it again"):
        Index.load(folder)
    assert (folder / "thesis.tex").read_text() == "years of work"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize("name", ["vectors.npy", "texts.jsonl", "faiss.index"])
@pytest.mark.parametrize("damage", [cut, Path.unlink])
def test_a_broken_index_is_told_with_the_remedy(tmp_path: Path, name: str, damage):
    pytest.importorskip("faiss")
    folder = tmp_path / "index"
    built(kind="faiss").save(folder, "one")
    damage(folder / name)
    for read in (lambda: Index.load(folder), lambda: Index.open_or_build(folder, "one", built)):
        with pytest.raises(SearchError, match=rf"{name}.*delete .*index to have the index built again"):
            read()


def test_counts_that_disagree_are_told(tmp_path: Path):
    folder = tmp_path / "index"
    built().save(folder)
    with (folder / "texts.jsonl").open("a") as file:
        file.write('"one more"\n')
    with pytest.raises(SearchError, match=r"41 texts where 40 of width 6 belong; delete"):
        Index.load(folder)


def test_an_index_of_another_version_is_built_again(tmp_path: Path):
    folder = tmp_path / "index"
    built().save(folder, "one")
    about = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**about, "format": "regard index 0"}))
    with pytest.raises(SearchError, match="another version"):
        Index.load(folder)
    assert len(Index.open_or_build(folder, "one", lambda: built(7))) == 7
