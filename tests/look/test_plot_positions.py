"""Pictures of positions hold the formula, or the model's own numbers."""

import math

import numpy as np
import pytest

from regard.look.plot_positions import Biases, formula, plot_positions, positions_of
from tests.look.drawing import cosines, embedder, image, names
from tests.tasks.copying import translator

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.spec("1.7")
def test_the_heat_map_of_positions_is_the_formula_beside_its_cosines():
    figure = plot_positions(formula("sinusoidal", 8, 5, 100.0))
    rows = np.array(
        [
            [(math.sin, math.cos)[i % 2](position / 100 ** (2 * (i // 2) / 8)) for i in range(8)]
            for position in range(5)
        ]
    )
    np.testing.assert_allclose(image(figure.axes[0]), rows, atol=1e-12)
    np.testing.assert_allclose(image(figure.axes[1]), cosines(rows), atol=1e-12)
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("dimension", "position")
    assert figure.get_suptitle() == "Sinusoidal positions: d = 8, N = 5, n = 100"


def test_rotary_positions_are_alike_as_their_distance_says():
    likeness = image(plot_positions(formula("rotary", 6, 7, 50.0)).axes[1])
    for m in range(7):
        for n in range(7):
            expected = sum(math.cos((m - n) * 50 ** (-2 * i / 6)) for i in range(3)) / 3
            assert likeness[m, n] == pytest.approx(expected, abs=1e-12)


def test_a_model_shows_what_it_has_learned():
    model = embedder(positions="learned")
    table = model.reader.model.encoder.embedding.positions.table.weight.detach().numpy()
    np.testing.assert_array_equal(image(plot_positions(positions_of(model, 9)).axes[0]), table[:9])
    assert len(positions_of(model).rows) == len(table)
    with pytest.raises(ValueError, match=f"length={len(table) + 1}, but the model has learned {len(table)}"):
        positions_of(model, len(table) + 1)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_translator_shows_either_side(side: str):
    model = translator("transformer, learned")
    table = getattr(model.model, side).embedding.positions.table.weight.detach().numpy()
    np.testing.assert_array_equal(positions_of(model, 4, side).rows, table[:4])
    assert positions_of(translator(), 4, side).rows.shape == (4, 32)
    assert positions_of(translator("transformer, rotary"), 4, side).rows.shape == (4, 8)


def test_biases_are_drawn_by_head_and_distance():
    found = positions_of(translator("transformer, alibi"), 4)
    assert isinstance(found, Biases)
    slopes = [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]
    expected = [[-slope * abs(distance) for distance in range(-3, 4)] for slope in slopes]
    figure = plot_positions(found)
    np.testing.assert_allclose(image(figure.axes[0]), expected)
    assert [list(line.get_ydata()) for line in figure.axes[1].lines] == expected
    assert names(figure.axes[0].yaxis) == ["head 0", "head 1", "head 2", "head 3"]


def test_relative_biases_are_those_of_all_layers_and_a_decoder_looks_back_only():
    model = translator("transformer, relative")
    found = positions_of(model, 5, "decoder")
    assert list(found.distances) == [-4, -3, -2, -1, 0]
    assert found.heads[4] == "layer 1, head 0"
    bias = model.model.decoder.body.each[1].attention.bias
    np.testing.assert_array_equal(found.values[4], bias.table.weight[[4, 3, 2, 1, 0], 0].detach().numpy())


def test_a_model_without_positions_says_so():
    with pytest.raises(ValueError, match="nothing to draw"):
        positions_of(translator("transformer, no positions"))
