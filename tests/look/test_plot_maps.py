"""Maps of meaning: where points lie, what colour they have, and which are named."""

import numpy as np
import pytest

from regard.look.plot_context import plot_context
from regard.look.plot_maps import Projection, plot_map, project
from regard.meaning.context import Moves, word_in_context
from tests.look.drawing import cosines, embedder, names

matplotlib = pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("unchecked")


def test_pca_keeps_the_distances_of_what_lies_on_a_plane():
    chance = np.random.default_rng(0)
    flat = chance.normal(size=(12, 2)) * (3, 1)
    turned = np.linalg.qr(chance.normal(size=(6, 6)))[0][:2]
    points = project(flat @ turned + 5).points
    gaps = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.testing.assert_allclose(gaps, np.linalg.norm(flat[:, None] - flat[None], axis=-1), atol=1e-9)
    assert points[:, 0].var() > points[:, 1].var()
    assert (points.max(axis=0) >= -points.min(axis=0)).all()


def test_the_shares_of_the_variance_are_said():
    vectors = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 1, 0], [0, -1, 0]])
    assert project(vectors).axes == (
        "first component, 90% of the variance",
        "second component, 10% of the variance",
    )


def test_tsne_gives_the_same_every_time_and_keeps_groups_together():
    chance = np.random.default_rng(0)
    vectors = np.concatenate([chance.normal(size=(8, 5)), 30 + chance.normal(size=(8, 5))])
    points = project(vectors, "tsne").points
    np.testing.assert_array_equal(points, project(vectors, "tsne").points)
    middles = points[:8].mean(axis=0), points[8:].mean(axis=0)
    nearer = np.linalg.norm(points - middles[0], axis=1) < np.linalg.norm(points - middles[1], axis=1)
    assert list(nearer) == [True] * 8 + [False] * 8


@pytest.mark.parametrize(("method", "few"), [("pca", 1), ("tsne", 3)])
def test_too_few_texts_make_no_map(method, few):
    with pytest.raises(ValueError, match=f"{few} texts are too few for a map by {method}"):
        project(np.ones((few, 3)), method)


def test_points_are_coloured_by_label_the_largest_first():
    points = np.arange(10.0).reshape(5, 2)
    figure = plot_map(Projection(points, ("x", "y")), list("abcde"), ["q", "p", "_p", "q", None], named=0)
    groups = {each.get_label(): each for each in figure.axes[0].collections}
    assert list(groups) == ["q (2)", "_p (1)", "p (1)", "(in no group) (1)"]
    np.testing.assert_array_equal(groups["q (2)"].get_offsets(), points[[0, 3]])
    np.testing.assert_array_equal(groups["p (1)"].get_offsets(), points[[1]])
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == list(groups)


def test_a_legend_that_is_not_whole_says_how_much_is_missing():
    points = np.random.default_rng(0).normal(size=(30, 2))
    figure = plot_map(Projection(points, ("", "")), ["t"] * 30, [f"l{i:02}" for i in range(30)], named=0)
    assert len(figure.axes[0].collections) == 30
    assert figure.axes[0].get_legend().get_title().get_text() == "the largest 24, and 6 more"


def test_names_do_not_lie_over_each_other_and_are_the_same_every_time():
    points = np.random.default_rng(0).normal(size=(80, 2))
    texts = [f"a text of some length, the {i}th" for i in range(80)]
    made = [plot_map(Projection(points, ("", "")), texts, [None] * 40 + ["a"] * 40) for _ in range(2)]
    figure = made[0]
    figure.draw_without_rendering()
    boxes = [matplotlib.text.Text.get_window_extent(note) for note in figure.axes[0].texts]
    assert 5 <= len(boxes) <= 14
    frame = figure.axes[0].get_window_extent()
    for place, box in enumerate(boxes):
        assert frame.x0 <= box.x0 < box.x1 <= frame.x1
        assert frame.y0 <= box.y0 < box.y1 <= frame.y1
        assert not any(box.overlaps(other) for other in boxes[:place])
    told = [[(note.get_text(), note.get_position()) for note in each.axes[0].texts] for each in made]
    assert told[0] == told[1]


def test_a_map_needs_a_label_for_each_text():
    with pytest.raises(ValueError, match="2 points, 1 texts and 2 labels"):
        plot_map(Projection(np.zeros((2, 2)), ("", "")), ["a"], ["x", "y"])


def test_a_word_in_context_has_a_line_for_each_pair_and_a_point_for_each_sentence():
    model = embedder()
    sentences = ["red house", "old dog sees house", "house likes river"]
    moves = word_in_context(model, "house", sentences)
    vectors = moves.vectors[:, -1]
    np.testing.assert_allclose([cosines(vectors)[i, j] for i, j in moves.pairs], moves.cosines[-1], atol=1e-6)
    figure = plot_context(moves)
    left, right = figure.axes
    for place, line in enumerate(left.lines):
        np.testing.assert_array_equal(line.get_ydata(), moves.cosines[:, place])
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["1 and 2", "1 and 3", "2 and 3"]
    assert names(left.xaxis) == ["embedding", "1", "2"]
    found = np.concatenate([each.get_offsets() for each in right.collections])
    np.testing.assert_allclose(found, project(vectors).points)
    assert [text.get_text() for text in right.texts] == ["1", "2", "3"]
    listed = [text.get_text() for text in figure.legends[0].get_texts()]
    assert listed == [f"{number}  {sentence}" for number, sentence in enumerate(sentences, start=1)]


def test_of_many_pairs_only_the_furthest_and_the_nearest_are_told_apart():
    pairs = tuple((i, j) for i in range(5) for j in range(i + 1, 5))
    cosine = np.stack([np.ones(10), np.linspace(0.1, 0.9, 10)])
    vectors = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [1, 1]])[:, None]
    figure = plot_context(Moves("sun", ("the sun",) * 5, ((4, 7),) * 5, pairs, cosine, vectors))
    left, right = figure.axes
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["1 and 2", "4 and 5"]
    assert [text.get_text() for text in right.texts] == ["1", "2", "3", "4, 5"]
