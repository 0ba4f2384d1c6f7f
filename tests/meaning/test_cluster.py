import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from regard.meaning import cluster as module
from regard.meaning.cluster import Cluster, Clustering, choose_k, communities, kmeans
from regard.meaning.describe import render, telling_words
from regard.tasks.base.vectors import normalised


def planted(sizes: list[int], width: int = 12, spread: float = 0.1, seed: int = 0) -> tuple[np.ndarray, list]:
    """Vectors around as many directions, in random order, and which direction each is of."""
    random = np.random.default_rng(seed)
    owners = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    noise = random.normal(size=(len(owners), width)) * spread
    return np.eye(width)[owners] + noise, owners.tolist()


def groups(clustering: Clustering) -> list[list[int]]:
    return [sorted(cluster.rows) for cluster in clustering.clusters]


def by_owner(owners: list) -> list[list[int]]:
    """Largest first, then the one with the lowest row."""
    found = [[row for row, each in enumerate(owners) if each == owner] for owner in set(owners)]
    return sorted(found, key=lambda rows: (-len(rows), rows[0]))


def naive_communities(vectors: np.ndarray, threshold: float, smallest: int) -> list[list[int]]:
    unit = normalised(vectors).astype(np.float64)
    size = range(len(unit))
    near = [[j for j in size if float((unit[i] * unit[j]).sum()) >= threshold - 1e-6] for i in size]
    taken: set[int] = set()
    found = []
    for centre in sorted(size, key=lambda row: (-len(near[row]), row)):
        rows = [row for row in near[centre] if row not in taken]
        if len(near[centre]) >= smallest and centre not in taken and len(rows) >= smallest:
            found.append(rows)
            taken |= set(rows)
    return sorted(found, key=lambda rows: (-len(rows), rows[0]))


def test_kmeans_finds_planted_clusters():
    vectors, owners = planted([30, 12, 20, 8])
    lengths = np.random.default_rng(1).uniform(0.1, 10, size=(len(vectors), 1))
    found = kmeans(vectors * lengths, 4)  # only directions count
    assert groups(found) == by_owner(owners)
    assert found.alone == ()
    numbers = found.numbers()
    assert all(numbers[row] == n for n, cluster in enumerate(found.clusters) for row in cluster.rows)


@pytest.mark.parametrize("most", [10, 10_000])
def test_kmeans_gives_the_same_every_time_and_loses_no_text(most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MINI_ROWS", most)
    vectors = np.random.default_rng(0).normal(size=(300, 8))
    first = kmeans(vectors, 7, seed=3)
    assert first == kmeans(vectors, 7, seed=3)
    assert first != kmeans(vectors, 7, seed=4)
    assert sorted(row for cluster in first.clusters for row in cluster.rows) == list(range(300))


def test_there_are_fewer_clusters_where_fewer_texts_differ():
    vectors = np.repeat(np.eye(3), 4, axis=0)
    assert groups(kmeans(vectors, 5)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("k", [0, 5])
def test_a_number_of_clusters_that_cannot_be_is_refused(k: int):
    with pytest.raises(ValueError, match=f"k={k} clusters of 4 texts: choose from 1 to 4"):
        kmeans(np.eye(4), k)


def test_no_texts_have_no_clusters():
    assert kmeans(np.empty((0, 4))) == communities(np.empty((0, 4))) == Clustering(())


def test_the_number_of_clusters_grows_with_the_root_of_the_texts():
    assert [choose_k(texts) for texts in (0, 1, 2, 8, 200, 5000, 10**6)] == [0, 1, 2, 2, 10, 50, 50]


def test_communities_are_planted_clusters_and_the_rest_is_alone():
    vectors, owners = planted([15, 9, 1, 1, 2], spread=0.05)
    found = communities(vectors, threshold=0.8)
    whole = by_owner(owners)
    assert groups(found) == whole[:3]
    assert list(found.alone) == sorted(row for rows in whole[3:] for row in rows)
    assert found.texts == 28
    assert [found.numbers()[row] for row in found.alone] == [None, None]
    assert groups(communities(vectors, threshold=0.8, smallest=9)) == whole[:2]
    assert groups(communities(vectors, threshold=0.8, smallest=1)) == whole


@given(
    seed=st.integers(0, 10**6),
    texts=st.integers(0, 70),
    width=st.integers(1, 5),
    threshold=st.sampled_from([0.3, 0.6, 0.75, 0.95, 1.0]),
    smallest=st.integers(1, 4),
)
def test_communities_are_those_of_a_loop_over_all_pairs(seed, texts, width, threshold, smallest):
    random = np.random.default_rng(seed)
    vectors = random.integers(-2, 3, size=(texts, width)).astype(float)  # many are equal, some are zeros
    vectors[: texts // 2] += random.normal(size=(texts // 2, width)) * 0.1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ROWS", 7)
        patch.setattr(module, "_COLUMNS", 16)
        found = communities(vectors, threshold, smallest)
    assert groups(found) == naive_communities(vectors, threshold, smallest)
    everything = [row for cluster in found.clusters for row in cluster.rows] + list(found.alone)
    assert sorted(everything) == list(range(texts))


def test_a_pair_at_the_threshold_is_near_in_any_block(monkeypatch: pytest.MonkeyPatch):
    direction = np.random.default_rng(0).normal(size=384)
    vectors = np.tile(direction, (200, 1)) * np.linspace(0.1, 9, 200)[:, None]
    for size in (3, 64, 1000):
        monkeypatch.setattr(module, "_ROWS", size)
        assert groups(communities(vectors, threshold=1.0)) == [list(range(200))]


def test_a_hair_above_the_threshold_is_near_and_a_hair_below_is_not():
    for seed in range(40):
        pair = np.random.default_rng(seed).normal(size=(2, 384)) + 0.5
        left, right = normalised(pair).astype(np.float64)
        reached = float((left * right).sum()) + module.TOLERANCE
        assert len(communities(pair, reached - 1e-10).clusters) == 1
        assert len(communities(pair, reached + 1e-10).clusters) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.0}, "threshold=0.0: it is a cosine"),
        ({"threshold": 75}, "threshold=75: it is a cosine"),
        ({"smallest": 0}, "smallest=0: a community has 1 text or more"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        communities(np.eye(3), **options)


def test_the_most_central_texts_come_first():
    angles = np.array([0.5, -0.1, 0.0, -0.5, 0.1])
    cluster = kmeans(np.stack([np.cos(angles), np.sin(angles)], axis=1), 1).clusters[0]
    assert cluster.rows == (2, 1, 4, 0, 3)  # equally central: the lower row first
    np.testing.assert_allclose(cluster.closeness, np.cos(angles[list(cluster.rows)]), atol=1e-6)


TEXTS = ["The cat sleeps", "the cat\neats", "the trains are late", "the late trains \x1b[31m", "the end"]
PETS_AND_TRAINS = Clustering((Cluster((1, 0), (1.0, 0.9)), Cluster((2, 3), (1.0, 1.0))), alone=(4,))


def test_words_that_are_everywhere_tell_nothing():
    assert telling_words(PETS_AND_TRAINS, TEXTS) == [["cat"], ["late", "trains"]]
    assert telling_words(PETS_AND_TRAINS, TEXTS, most=1) == [["cat"], ["late"]]


def test_words_are_ordered_by_the_log_odds_over_its_error():
    inside = ["a b c"] * 2 + ["a b"] * 3 + ["a"] * 3 + ["d"]
    outside = ["b x"] * 6 + ["x"] * 24
    clustering = Clustering((Cluster(tuple(range(9)), (1.0,) * 9),), alone=tuple(range(9, 39)))

    def z(inner: int, outer: int) -> float:
        table = np.array([[inner, 9 - inner], [outer, 30 - outer]]) + 0.5
        return float(
            np.log(table[0, 0] * table[1, 1] / table[0, 1] / table[1, 0]) / np.sqrt((1 / table).sum())
        )

    assert z(8, 0) > z(5, 6) > z(2, 0) > 0
    assert telling_words(clustering, inside + outside) == [["a", "b", "c"]]  # d is in one text only


def test_clusters_are_printed_to_be_read():
    console = Console(file=io.StringIO(), width=24, color_system=None)
    render(PETS_AND_TRAINS, [*TEXTS[:2], "the trains are [bold]late", *TEXTS[3:]], console, examples=2)
    assert console.file.getvalue().splitlines() == [
        "1. 2 texts  cat",
        "   the cat eats",
        "   The cat sleeps",
        "2. 2 texts  late, trains",
        "   the trains are [bold…",
        "   the late trains \\x1b…",
        "5 texts, 2 clusters; 1 in none",
    ]


def test_other_texts_than_were_clustered_are_refused():
    with pytest.raises(ValueError, match="4 texts, but 5 were clustered"):
        telling_words(PETS_AND_TRAINS, TEXTS[:4])
