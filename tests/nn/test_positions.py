"""The ways to know a token's place, each against its formula."""

import math
import os
import pickle
import warnings

import pytest
import torch
from torch.testing import assert_close

from regard.nn.positions import (
    AlibiBias,
    LearnedPositions,
    RelativeBias,
    RotaryPositions,
    SinusoidalPositions,
    added_positions,
    rotary_positions,
    scaled_frequencies,
)
from regard.settings.network import PositionsConfig


def encode(d_model: int, length: int, base: float = 10_000.0) -> torch.Tensor:
    return SinusoidalPositions(d_model, base)(torch.arange(length), length)


@pytest.mark.spec("1.4")
@pytest.mark.parametrize("base", [10_000.0, 100.0])
def test_sinusoidal_positions_are_the_formula(base):
    table = encode(16, 40, base)
    for pos in range(40):
        for i in range(8):
            angle = pos / base ** (2 * i / 16)
            assert_close(float(table[pos, 2 * i]), math.sin(angle), atol=1e-6, rtol=0)
            assert_close(float(table[pos, 2 * i + 1]), math.cos(angle), atol=1e-6, rtol=0)


@pytest.mark.spec("1.4")
@pytest.mark.parametrize("width", [1, 7, 15])
def test_an_odd_width_ends_in_a_sine_without_its_cosine(width):
    """The formula has any d."""
    table = encode(width, 30)
    assert table.shape == (30, width)
    for pos in range(30):
        for place in range(width):
            angle = pos / 10_000 ** (2 * (place // 2) / width)
            wanted = math.cos(angle) if place % 2 else math.sin(angle)
            assert_close(float(table[pos, place]), wanted, atol=1e-6, rtol=0)


@pytest.mark.spec("1.4")
@pytest.mark.parametrize("width", [8, 7])
def test_sines_may_come_first(width):
    """As Marian writes them: what the paper has, in another order."""
    table = SinusoidalPositions(width, order="halves")(torch.arange(30), 30)
    paper = encode(width, 30)
    assert torch.equal(table, torch.cat([paper[:, ::2], paper[:, 1::2]], dim=1))


@pytest.mark.spec("1.4")
def test_wavelengths_of_tensor2tensor_go_up_to_the_base():
    """And M2M100's first token stands at place 2."""
    table = SinusoidalPositions(16, order="tensor2tensor", first=2)(torch.arange(40), 40)
    for place in range(40):
        for i in range(8):
            angle = (place + 2) / 10_000 ** (i / 7)
            assert_close(float(table[place, i]), math.sin(angle), atol=1e-6, rtol=0)
            assert_close(float(table[place, 8 + i]), math.cos(angle), atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match=r"d_model=7: positions\.sinusoids='tensor2tensor' are pairs"):
        SinusoidalPositions(7, order="tensor2tensor")


@pytest.mark.spec("1.4b")
def test_naive_positions_count_or_count_to_one():
    config = PositionsConfig(kind="index")
    found = added_positions(config, 6)(torch.arange(700), 700)
    assert_close(found, torch.arange(700.0)[:, None].expand(700, 6))
    scaled = added_positions(PositionsConfig(kind="fraction", longest=40), 6)(torch.arange(41), 41)
    assert_close(scaled[:, 3], torch.arange(41) / 40)
    assert float(scaled[40, 0]) == 1


@pytest.mark.spec("1.4")
def test_position_zero_is_zero_one_zero_one():
    assert encode(8, 1)[0].tolist() == [0, 1, 0, 1, 0, 1, 0, 1]


@pytest.mark.spec("1.4")
def test_position_one_of_the_papers_width_has_its_known_values():
    row = encode(512, 2)[1]
    assert_close(row[:4], torch.tensor([0.8414, 0.5403, 0.8218, 0.5696]), atol=1e-4, rtol=0)
    assert_close(row[-2:], torch.tensor([0.0001, 1.0]), atol=1e-5, rtol=0)


@pytest.mark.spec("1.4")
def test_all_values_lie_between_minus_one_and_one():
    assert encode(64, 3000).abs().max() <= 1


@pytest.mark.spec("1.4")
def test_wavelengths_grow_from_two_pi_towards_two_pi_n():
    """The sine of dimension 2i comes back after 2 pi n^(2i/d): its values there are those of position 0."""
    d_model, base = 32, 50.0
    for i in range(d_model // 2):
        wavelength = 2 * math.pi * base ** (2 * i / d_model)
        assert 2 * math.pi <= wavelength < 2 * math.pi * base
        near = encode(d_model, round(wavelength) + 1, base)[round(wavelength), 2 * i]
        assert (
            abs(float(near)) <= math.sin(0.5 / base ** (2 * i / d_model)) + 1e-5
        )  # at most half a step away


@pytest.mark.spec("1.4")
def test_moving_by_a_fixed_step_is_a_linear_map():
    """PE(pos + s) = M_s PE(pos) with one matrix of 2 x 2 rotations for all positions."""
    table, shift = encode(16, 60).double(), 7
    angles = shift * 10_000.0 ** (-torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    rotations = [
        torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]], dtype=torch.float64)
        for a in angles.tolist()
    ]
    moved = table[:-shift] @ torch.block_diag(*rotations).T
    assert_close(moved, table[shift:], atol=1e-6, rtol=0)


@pytest.mark.spec("1.4")
def test_the_table_is_reused_and_grows_past_its_range_with_the_same_rows():
    positions = SinusoidalPositions(16)
    first = positions.table
    positions(torch.arange(10), 10)
    assert positions.table is first
    long = positions(torch.arange(2000), 2000)
    assert len(positions.table) >= 2000
    assert torch.equal(long[: len(first)], first)
    assert not positions.state_dict()  # computed, so nothing to store


def test_learned_positions_may_start_further_down_their_table():
    positions = LearnedPositions(8, longest=5, first=2)
    assert_close(positions(torch.arange(5), 5), positions.table.weight[2:])
    with pytest.raises(ValueError, match="learned for 5"):
        positions(torch.arange(6), 6)


@pytest.mark.spec("1.5")
def test_learned_positions_are_trained_rows():
    positions = LearnedPositions(8, longest=5)
    output = positions(torch.tensor([0, 1, 0]), 2)
    assert torch.equal(output, positions.table.weight[[0, 1, 0]])
    output.sum().backward()
    assert positions.table.weight.grad[:, 0].tolist() == [2, 1, 0, 0, 0]


@pytest.mark.spec("1.5")
def test_an_input_past_the_learned_range_is_a_clear_error():
    with pytest.raises(ValueError, match=r"input of 6 tokens, but positions were learned for 5.*longest=6"):
        LearnedPositions(8, longest=5)(torch.arange(6), 6)


@pytest.mark.spec("1.4")
def test_the_table_stays_exact_whatever_the_model_is_converted_to():
    exact = SinusoidalPositions(16).rows(40)
    part = SinusoidalPositions(16).bfloat16().float()
    assert_close(part(torch.arange(40), 40), exact.float(), atol=0, rtol=0)
    assert_close(part.double()(torch.arange(40), 40, torch.float64), exact, atol=0, rtol=0)
    assert part(torch.arange(40), 40, torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.parametrize("part", [SinusoidalPositions(8), RotaryPositions(8), RelativeBias(2), AlibiBias(2)])
def test_positions_can_be_pickled(part):
    assert type(pickle.loads(pickle.dumps(part))) is type(part)


def turn(rotary: RotaryPositions, x: torch.Tensor, place: int) -> torch.Tensor:
    return rotary(x, torch.tensor([place]), place + 1)


@pytest.mark.spec("1.8")
def test_rotary_products_depend_on_the_distance_alone():
    rotary = RotaryPositions(8).double()
    query, key = torch.randn(2, 1, 1, 8, dtype=torch.float64)
    near = (turn(rotary, query, 3) * turn(rotary, key, 1)).sum()
    far = (turn(rotary, query, 403) * turn(rotary, key, 401)).sum()
    assert_close(near, far, atol=1e-10, rtol=0)
    assert not torch.isclose(near, (turn(rotary, query, 3) * turn(rotary, key, 2)).sum())


def test_rotary_turns_each_pair_by_its_angle_and_keeps_lengths():
    x = torch.randn(1, 2, 8)
    turned = turn(RotaryPositions(8), x, 5)
    for i in range(4):
        angle = 5 / 10_000 ** (2 * i / 8)
        a, b = x[0, 0, i], x[0, 0, i + 4]
        assert_close(turned[0, 0, i], a * math.cos(angle) - b * math.sin(angle))
        assert_close(turned[0, 0, i + 4], b * math.cos(angle) + a * math.sin(angle))
    assert_close(turned.norm(dim=-1), x.norm(dim=-1))


@pytest.fixture(scope="module")
def rope():
    """transformers' own frequencies: (scaling, settings) -> (frequencies, factor on cosine and sine)."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library's own import
        from transformers import LlamaConfig
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    def ask(scaling: str, d_head: int, base: float, factor: float, trained: int):
        parameters = {"rope_type": scaling, "rope_theta": base, "factor": factor}
        if scaling == "yarn":
            parameters["original_max_position_embeddings"] = trained
        config = LlamaConfig(
            hidden_size=d_head,
            num_attention_heads=1,
            max_position_embeddings=int(factor * trained),
            rope_parameters=parameters,
        )
        return ROPE_INIT_FUNCTIONS[scaling](config, torch.device("cpu"))

    return ask


@pytest.mark.parametrize("scaling", ["linear", "yarn"])
@pytest.mark.parametrize("d_head", [8, 64, 128])
@pytest.mark.parametrize(("base", "trained"), [(10_000.0, 2048), (500_000.0, 8192), (100.0, 64), (50.0, 8)])
@pytest.mark.parametrize("factor", [1.0, 2.5, 16.0])
def test_scaled_rotary_angles_are_those_of_transformers(rope, scaling, d_head, base, trained, factor):
    theirs, stretch = rope(scaling, d_head, base, factor, trained)
    ours = RotaryPositions(d_head, base, scaling=scaling, factor=factor, trained=trained)
    assert_close(ours.frequencies.float(), theirs, atol=0, rtol=1e-5)
    turns = torch.arange(40, dtype=torch.float64)[:, None] * theirs.double()
    table = torch.cat([turns.cos(), turns.sin()], dim=1) * stretch
    assert_close(ours.rows(40), table, atol=2e-4, rtol=0)  # theirs are float32


@pytest.mark.parametrize("d_head", [4, 64])
def test_ntk_changes_the_base_so_that_the_fastest_pair_stays_and_the_slowest_is_interpolated(d_head):
    ours = RotaryPositions(d_head, 10_000.0, scaling="ntk", factor=4.0).frequencies
    base = 10_000.0 * 4.0 ** (d_head / (d_head - 2))
    assert_close(ours, torch.tensor([base ** (-2 * i / d_head) for i in range(d_head // 2)]).double())
    plain = RotaryPositions(d_head).frequencies
    assert_close(ours[0], plain[0])
    assert_close(ours[-1], plain[-1] / 4)


def test_linear_scaling_puts_four_times_as_many_positions_between_the_trained_ones():
    x = torch.randn(1, 2, 8, dtype=torch.float64)
    scaled = RotaryPositions(8, scaling="linear", factor=4.0)
    assert_close(turn(scaled, x, 20), turn(RotaryPositions(8), x, 5))


def test_yarn_keeps_pairs_that_turn_often_and_interpolates_those_that_never_turned():
    d_head, base, trained = 64, 10_000.0, 2048
    plain = RotaryPositions(d_head, base).frequencies
    yarn = scaled_frequencies(d_head, base, "yarn", 8.0, trained)
    turns = trained * plain / (2 * math.pi)
    assert torch.equal(yarn[turns > 64], plain[turns > 64])
    assert_close(yarn[turns < 0.5], plain[turns < 0.5] / 8)
    between = yarn[(turns < 32) & (turns > 1)] / plain[(turns < 32) & (turns > 1)]
    assert (between.diff() < 0).all()
    assert 1 / 8 < float(between.min()) < float(between.max()) < 1


def test_yarn_where_every_pair_turns_often_changes_no_angle():
    plain = RotaryPositions(8, 2.0).frequencies
    assert torch.equal(scaled_frequencies(8, 2.0, "yarn", 8.0, 10**6), plain)


def test_yarn_raises_scores_by_the_square_of_its_stretch():
    query, key = torch.randn(2, 1, 1, 8, dtype=torch.float64)
    yarn = RotaryPositions(8, scaling="yarn", factor=8.0, trained=64)
    score = (turn(yarn, query, 7) * turn(yarn, key, 7)).sum()  # at one place nothing is turned apart
    assert_close(score, (query * key).sum() * (0.1 * math.log(8) + 1) ** 2)


def test_scaling_reaches_the_part_from_its_configuration():
    config = PositionsConfig(kind="rotary", base=500.0, scaling="yarn", factor=4.0, trained=32)
    part = rotary_positions(config, 16)
    assert torch.equal(part.frequencies, scaled_frequencies(16, 500.0, "yarn", 4.0, 32))
    assert part.stretch == 0.1 * math.log(4) + 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "rotary", "scaling": "linear", "factor": 0.5}, "factor=0.5 must be at least 1"),
        ({"kind": "rotary", "scaling": "linear", "factor": math.nan}, "factor=nan must be at least 1"),
        ({"kind": "rotary", "factor": 4.0}, "factor=4.0 does nothing without a scaling"),
        ({"kind": "alibi", "scaling": "ntk", "factor": 2.0}, "'alibi' has not: choose kind='rotary'"),
        ({"kind": "rotary", "scaling": "yarn", "factor": 2.0}, "trained=0 must be at least 7"),
    ],
)
def test_scalings_that_cannot_be_meant_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PositionsConfig(**settings)


def test_ntk_needs_more_than_one_pair():
    with pytest.raises(ValueError, match="d_head=2 is one pair"):
        RotaryPositions(2, scaling="ntk", factor=2.0)


def test_relative_buckets_are_exact_near_by_and_widen_with_distance():
    bias = RelativeBias(heads=2, buckets=32, reach=128)
    near = bias.bucket(torch.arange(-7, 8))
    assert len(set(near.tolist())) == 15
    before, after = bias.bucket(-torch.arange(1, 500)), bias.bucket(torch.arange(1, 500))
    assert (before.diff() >= 0).all()
    assert (after.diff() >= 0).all()
    assert int(before.max()) == 15
    assert int(after.max()) == 31
    assert len(set(before[127:].tolist())) == 1  # from the reach on, one bucket


def t5_bucket(distance: int, buckets: int, reach: int, causal: bool) -> int:
    """The formula of Raffel et al. 2020 as its authors' code has it, number by number."""
    first = 0
    if not causal:
        buckets //= 2
        first = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    wide = exact + int(math.log(distance / exact) / math.log(reach / exact) * (buckets - exact))
    return first + min(wide, buckets - 1)


@pytest.mark.spec("1.8")
@pytest.mark.parametrize("causal", [True, False])
def test_relative_buckets_are_those_of_t5(causal):
    bias = RelativeBias(heads=2, buckets=32, reach=128, causal=causal)
    distances = list(range(-300, 1 if causal else 300))
    expected = [t5_bucket(distance, 32, 128, causal) for distance in distances]
    assert bias.bucket(torch.tensor(distances)).tolist() == expected
    unused = set() if causal else {16}  # after the query, but not at a distance
    assert set(expected) == set(range(32)) - unused


@pytest.mark.spec("1.8")
def test_a_relative_bias_is_the_trained_value_of_its_bucket():
    bias = RelativeBias(heads=2)
    distance = torch.tensor([[0, 1], [-1, 0]])
    output = bias(distance)
    assert output.shape == (2, 2, 2)
    assert output[1, 0, 1] == bias.table.weight[bias.bucket(torch.tensor(1)), 1]


@pytest.mark.spec("1.8")
@pytest.mark.parametrize("heads", [8, 6])
def test_alibi_falls_with_distance_by_the_papers_slopes(heads):
    slopes = {8: [2**-i for i in range(1, 9)], 6: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]}[heads]
    bias = AlibiBias(heads)(torch.tensor([-3, 0, 2]))
    assert_close(bias, -torch.tensor(slopes)[:, None] * torch.tensor([3.0, 0.0, 2.0]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base": 1.0}, "base=1.0 must be greater than 1"),
        ({"longest": 0}, "longest=0 must be at least 1"),
        ({"buckets": 6}, "buckets=6 must be a multiple of 4"),
        ({"buckets": 32, "reach": 20}, "reach=20 must be greater"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PositionsConfig(**settings)


def test_odd_widths_are_refused_where_pairs_are_turned():
    with pytest.raises(ValueError, match="d_head=7 is odd"):
        RotaryPositions(7)
