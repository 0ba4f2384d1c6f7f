"""What the page is told of a model's positions is what the model has."""

import base64
import math

import numpy as np
import pytest
import torch

from regard.look.explorer.explorer import Explorer, Refused
from regard.look.explorer.positions import asked
from tests.look.drawing import embedder
from tests.tasks import copying

pytestmark = pytest.mark.usefixtures("unchecked")


def numbers(text: str) -> np.ndarray:
    kind, _, body = text.partition(":")
    assert kind == "f4"
    return np.frombuffer(base64.b64decode(body), "<f4")


def explorer(family: str) -> Explorer:
    return Explorer(copying.translator(family))


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_sinusoidal_rows_are_the_formula(side: str):
    answer = explorer("transformer, sinusoidal").ask("positions", {"side": side})
    assert (answer["has"], answer["width"], answer["length"], answer["most"]) == ("rows", 32, 50, 512)
    expected = [
        [(math.sin, math.cos)[i % 2](position / 10000 ** (2 * (i // 2) / 32)) for i in range(32)]
        for position in range(50)
    ]
    np.testing.assert_allclose(numbers(answer["rows"]).reshape(50, 32), expected, atol=1e-6)


def test_learned_rows_are_the_models_own_and_no_more_than_it_has():
    model = embedder(positions="learned")
    table = model.reader.model.encoder.embedding.positions.table.weight.detach().numpy()
    own = Explorer(model)
    answer = own.ask("positions", {"side": "encoder", "length": 9})
    np.testing.assert_array_equal(numbers(answer["rows"]).reshape(9, -1), table[:9])
    assert answer["most"] == min(512, len(table))
    assert own.ask("positions", {"side": "encoder"})["length"] == 50
    for length in (1, len(table) + 1):
        with pytest.raises(Refused, match=f"length={length}: from 2 to {len(table)}"):
            own.ask("positions", {"side": "encoder", "length": length})


def test_a_short_table_is_shown_whole():
    answer = explorer("transformer, learned").ask("positions", {"side": "decoder", "length": 64})
    assert len(numbers(answer["rows"])) == 64 * 32
    assert answer["most"] == 64


def test_rotary_positions_are_told_as_angles():
    answer = explorer("transformer, rotary").ask("positions", {"side": "encoder"})
    assert answer["has"] == "angles"
    assert answer["stretch"] == 1
    assert answer["frequencies"] == pytest.approx([10000 ** (-2 * i / 8) for i in range(4)], rel=1e-12)


def test_angles_are_scaled_as_the_model_scales_them():
    scaled = {"positions": {"kind": "rotary", "scaling": "yarn", "factor": 4.0, "trained": 64}}
    answer = Explorer(embedder(encoder=scaled)).ask("positions", {"side": "encoder"})
    # pair 0 turns ten times in 64 tokens, less than 32; pair 1 a little more than once
    ramp = [0, 1 / 2, 1, 1]
    turns = [10000 ** (-2 * i / 8) for i in range(4)]
    expected = [(1 - r) * turn + r * turn / 4 for r, turn in zip(ramp, turns, strict=True)]
    assert answer["frequencies"] == pytest.approx(expected, rel=1e-12)
    assert answer["stretch"] == pytest.approx(0.1 * math.log(4) + 1)
    assert "yarn by 4" in answer["title"]


def test_alibi_is_a_slope_for_each_head():
    answer = explorer("transformer, alibi").ask("positions", {"side": "encoder", "length": 4})
    assert (answer["has"], answer["first"], answer["last"]) == ("biases", -3, 3)
    assert answer["heads"] == ["head 1", "head 2", "head 3", "head 4"]
    expected = [[-(2.0 ** (-2 * head)) * abs(d) for d in range(-3, 4)] for head in range(1, 5)]
    np.testing.assert_allclose(numbers(answer["values"]).reshape(4, 7), expected)


def test_relative_biases_are_those_of_all_layers_and_a_decoder_looks_back():
    own = explorer("transformer, relative")
    answer = own.ask("positions", {"side": "decoder", "length": 5})
    assert (answer["first"], answer["last"]) == (-4, 0)
    assert answer["heads"][3:5] == ["layer 1, head 4", "layer 2, head 1"]
    bias = own.task.model.decoder.body.each[1].attention.bias
    values = numbers(answer["values"]).reshape(8, 5)
    np.testing.assert_array_equal(values[4], bias.table.weight[[4, 3, 2, 1, 0], 0].detach().numpy())


@pytest.mark.parametrize(
    ("family", "why"),
    [("transformer, no positions", "'none'"), ("lstm, additive", "one token after the other")],
)
def test_a_model_without_positions_says_why(family: str, why: str):
    answer = explorer(family).ask("positions", {"side": "encoder"})
    assert answer["has"] == "nothing"
    assert why in answer["why"]


def test_a_side_that_is_not_there_is_refused():
    with pytest.raises(Refused, match="no decoder: ask for its encoder"):
        Explorer(embedder()).ask("positions", {"side": "decoder"})


@pytest.mark.parametrize("family", copying.FAMILIES)
def test_what_a_saved_page_carries_can_be_asked_of_every_family(family: str):
    own = explorer(family)
    found = [*asked(own, "any", None, None)]
    assert found == [("positions", {"side": "encoder"}), ("positions", {"side": "decoder"})]
    with torch.no_grad():
        assert {own.ask(*each)["has"] for each in found} <= {"rows", "angles", "biases", "nothing"}
