"""Pictures of attention hold its weights under the right names."""

import math

import numpy as np
import pytest

from regard.look.plot_attention import plot_alignment, plot_heads
from regard.look.plot_weights import Attention
from regard.look.plots import GREY
from regard.look.words import Tokens
from regard.tasks.translation.alignment import Alignment
from tests.look.drawing import image, names

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("unchecked")


def attention(queries: int = 3, layers: int = 2, heads: int = 3) -> Attention:
    weights = np.random.default_rng(0).dirichlet(np.ones(queries), size=(layers, heads, queries))
    words = tuple(f"t{i}" for i in range(queries - 1))
    tokens = Tokens(("[CLS]", *words), (None, *range(queries - 1)), words)
    return Attention("self-attention of the encoder", tuple(weights), tokens, tokens)


def test_all_layers_and_heads_have_a_matrix_of_one_scale():
    found = attention()
    axes = plot_heads(found).axes[:6]
    for place, (layer, head) in enumerate((layer, head) for layer in range(2) for head in range(3)):
        np.testing.assert_array_equal(image(axes[place]), found.weights[layer][head])
        assert axes[place].get_title() == f"{layer}.{head}"
    most = max(layer.max() for layer in found.weights)
    assert {ax.images[0].norm.vmax for ax in axes} == {most}


def test_one_layer_or_one_head_can_be_chosen():
    found = attention()
    by_layer, by_head = plot_heads(found, layer=1), plot_heads(found, head=2)
    for head in range(3):
        np.testing.assert_array_equal(image(by_layer.axes[head]), found.weights[1][head])
    for layer in range(2):
        np.testing.assert_array_equal(image(by_head.axes[layer]), found.weights[layer][2])
    assert "the heads of layer 1" in by_layer.get_suptitle()
    assert "head 2 of all layers" in by_head.get_suptitle()


def test_a_single_head_is_large_with_its_tokens_and_special_ones_in_grey():
    found = attention()
    axes = plot_heads(found, 1, 2).axes[0]
    np.testing.assert_array_equal(image(axes), found.weights[1][2])
    for axis in (axes.xaxis, axes.yaxis):
        assert names(axis) == ["[CLS]", "t0", "t1"]
        assert [label.get_color() == GREY for label in axis.get_ticklabels()] == [True, False, False]
    written = [text.get_text() for text in axes.texts]
    assert written == [f"{weight:.2f}"[1:] for weight in found.weights[1][2].ravel()]


@pytest.mark.parametrize(
    ("layer", "head", "said"),
    [
        (2, None, "layer 2: there are 2, count from 0 to 1"),
        (0, -1, "head -1: a layer has 3, count from 0 to 2"),
    ],
)
def test_a_layer_or_head_that_is_not_there_is_named_with_the_range(layer, head, said):
    with pytest.raises(ValueError, match=said):
        plot_heads(attention(), layer, head)


def test_an_alignment_shows_its_weights_words_and_links():
    weights = np.array([[0.8, 0.2, 0.0], [0.1, 0.3, 0.6]])
    figure = plot_alignment(Alignment(("a", "b", "c"), ("x", "y"), weights, ((0, 0), (2, 1))))
    axes = figure.axes[0]
    np.testing.assert_array_equal(image(axes), weights)
    assert (names(axes.xaxis), names(axes.yaxis)) == (["a", "b", "c"], ["x", "y"])
    assert [patch.get_xy() for patch in axes.patches] == [(-0.5, -0.5), (1.5, 0.5)]


def test_an_alignment_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no words to draw"):
        plot_alignment(Alignment((), (), np.zeros((0, 0)), ()))


@pytest.mark.parametrize("tokens", [4, 20, 45, 100])
def test_labels_of_columns_do_not_touch(tokens: int):
    figure = plot_heads(attention(queries=tokens, layers=1, heads=1))
    figure.draw_without_rendering()
    axis = figure.axes[0].xaxis
    places = figure.axes[0].transData.transform([(place, 0) for place in axis.get_ticklocs()])[:, 0]
    labels = axis.get_ticklabels()
    assert len(labels) == len(places) >= 4
    for gap, label, other in zip(np.diff(places), labels, labels[1:], strict=False):
        if label.get_rotation():
            apart = gap * math.sin(math.radians(label.get_rotation()))
            assert apart >= label.get_fontsize() * figure.dpi / 72
        else:
            assert not label.get_window_extent().overlaps(other.get_window_extent())
