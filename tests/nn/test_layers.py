"""The layer and its parts, against their formulas and against torch's own layers."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.bench.peers import copy_layer, torch_encoder
from regard.layout import Layout
from regard.nn.initialize import initialize
from regard.nn.layers import FeedForward, Residual, build_norm
from regard.nn.masks import Mask
from regard.nn.stacks import Stack
from regard.nn.state import Memory
from regard.settings.network import (
    AttentionConfig,
    FeedForwardConfig,
    InitialConfig,
    NormConfig,
    PositionsConfig,
    TransformerConfig,
)

NOWHERE = PositionsConfig(kind="none")
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def stack(place="post", *, dtype=torch.float64, causal=False, d_memory=None, layers=2, **settings) -> Stack:
    config = TransformerConfig(
        layers=layers,
        attention=AttentionConfig(heads=4),
        feed_forward=FeedForwardConfig(d_ff=48),
        norm=NormConfig(place=place),
        **{"dropout": 0.0, **settings},
    )
    part = Stack(32, config, NOWHERE, causal=causal, d_memory=d_memory).to(dtype)
    initialize(part, InitialConfig())
    for parameter in part.parameters():  # so that a bias or a gain left out would show
        nn.init.normal_(parameter, mean=float(parameter.mean().detach()), std=0.2)
    return part


@pytest.mark.spec("3.1")
def test_feed_forward_is_relu_between_two_matrices_four_times_as_wide():
    part = FeedForward(8, FeedForwardConfig()).double()
    x = torch.randn(5, 8, dtype=torch.float64)
    inner = (x @ part.inner.weight.T + part.inner.bias).clamp(min=0)
    assert inner.shape[1] == 32
    assert_close(part(x), inner @ part.output.weight.T + part.output.bias)


@pytest.mark.spec("3.1")
def test_feed_forward_is_identical_for_each_position():
    part = FeedForward(8, FeedForwardConfig()).double()
    x = torch.randn(5, 8, dtype=torch.float64)
    assert_close(part(x), torch.cat([part(token) for token in x.split(1)]))


@pytest.mark.spec("3.1")
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "swish", "geglu", "geglu_tanh", "swiglu"])
def test_the_other_activations_are_their_formulas(activation):
    part = FeedForward(8, FeedForwardConfig(activation=activation, d_ff=6)).double()
    x = torch.randn(5, 8, dtype=torch.float64)
    inner = part.inner(x)
    gelu = lambda a: a * 0.5 * (1 + torch.erf(a / math.sqrt(2)))  # noqa: E731
    tanh = lambda a: 0.5 * a * (1 + torch.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))  # noqa: E731
    match activation:
        case "gelu":
            expected = gelu(inner)
        case "gelu_tanh":
            expected = tanh(inner)
        case "swish":
            expected = inner / (1 + torch.exp(-inner))
        case "geglu":
            expected = gelu(inner[:, :6]) * inner[:, 6:]
        case "geglu_tanh":
            expected = tanh(inner[:, :6]) * inner[:, 6:]
        case "swiglu":
            expected = inner[:, :6] * torch.sigmoid(inner[:, :6]) * inner[:, 6:]
    assert_close(part(x), part.output(expected))


@pytest.mark.spec("3.2", "3.3")
def test_residuals_add_and_norm_where_they_are_told_to():
    x = torch.randn(4, 8, dtype=torch.float64)
    norm = build_norm(NormConfig(), 8).double()
    layer = nn.Linear(8, 8).double()
    assert_close(Residual(norm, "post", 0.0)(x, layer), norm(x + layer(x)))
    assert_close(Residual(norm, "pre", 0.0)(x, layer), x + layer(norm(x)))


@pytest.mark.spec("3.3")
def test_layer_norm_is_its_formula():
    norm = build_norm(NormConfig(eps=1e-3), 8).double()
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x = torch.randn(4, 8, dtype=torch.float64)
    mean = x.mean(dim=1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=1, keepdim=True)
    assert_close(norm(x), norm.weight * (x - mean) / torch.sqrt(variance + 1e-3) + norm.bias)


def test_rms_norm_is_its_formula():
    norm = build_norm(NormConfig(kind="rms", eps=1e-3), 8).double()
    nn.init.normal_(norm.weight)
    x = torch.randn(4, 8, dtype=torch.float64)
    assert_close(norm(x), norm.weight * x / torch.sqrt((x**2).mean(dim=1, keepdim=True) + 1e-3))


@pytest.mark.spec("3.3")
def test_batch_norm_is_torchs_in_training_and_after_it():
    ours, theirs = (
        build_norm(NormConfig(kind="batch", eps=1e-3), 8).double(),
        nn.BatchNorm1d(8, eps=1e-3).double(),
    )
    for norm in (ours, theirs):
        norm.weight.data, norm.bias.data = (
            torch.linspace(0.5, 2, 8).double(),
            torch.linspace(-1, 1, 8).double(),
        )
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(6, 8, dtype=torch.float64, requires_grad=True)
        pull = torch.randn(6, 8, dtype=torch.float64)
        found, expected = ours(x), theirs(x)
        assert_close(found, expected)
        assert_close(*(torch.autograd.grad((each * pull).sum(), x)[0] for each in (found, expected)))
    assert_close(ours.running_mean, theirs.running_mean)
    assert_close(ours.running_variance, theirs.running_var)
    before = ours.running_mean.clone()
    assert_close(ours.eval()(x), theirs.eval()(x))
    assert torch.equal(ours.running_mean, before)


def test_a_batch_that_is_not_finite_leaves_nothing_in_batch_norm():
    norm = build_norm(NormConfig(kind="batch"), 2)
    norm(torch.tensor([[1.0, float("inf")], [3.0, 2.0]]))
    assert torch.isfinite(norm.running_mean).all()
    assert torch.isfinite(norm.running_variance).all()
    assert norm.running_mean[0] == pytest.approx(0.2)
    assert norm.running_mean[1] == 0


@pytest.mark.spec("3.3")
def test_an_examples_output_does_not_depend_on_its_batch_though_batch_norms_does():
    x, other = torch.randn(4, 8, dtype=torch.float64), torch.randn(4, 8, dtype=torch.float64)
    norm, mixing = build_norm(NormConfig(), 8).double(), nn.BatchNorm1d(8).double()
    assert torch.equal(norm(torch.cat([x, other]))[:4], norm(x))
    assert not torch.allclose(mixing(torch.cat([x, other]))[:4], mixing(x))


@pytest.mark.spec("3.3")
@pytest.mark.parametrize("place", ["post", "pre"])
def test_packed_together_equals_each_alone(place):
    part = stack(place)
    layout = Layout.of([3, 6, 6, 1])
    x = torch.randn(layout.tokens, 32, dtype=torch.float64)
    for alone, together in zip(layout.split(x), layout.split(part(x, layout)), strict=True):
        assert_close(together, part(alone, Layout.of([len(alone)])))


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("place", ["post", "pre"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_our_encoder_equals_torchs_padded_one(place, dtype, training):
    part = stack(place, dtype=dtype)
    peer = torch_encoder(part, heads=4, d_ff=48)
    part.train(training)
    peer.train(training)
    layout = Layout.of([3, 6, 6, 1])
    x = torch.randn(layout.tokens, 32, dtype=dtype, requires_grad=True)
    padding = torch.arange(6) >= layout.lengths[:, None]
    theirs = layout.from_grid(peer(layout.to_grid(x), src_key_padding_mask=padding))
    ours = part(x, layout)
    limits = {"atol": TOLERANCE[dtype], "rtol": TOLERANCE[dtype]}
    assert_close(ours, theirs, **limits)
    gradient = torch.randn_like(ours)
    ours_back = torch.autograd.grad(ours, [x, part.each[0].feed_forward.inner.weight], gradient)
    theirs_back = torch.autograd.grad(theirs, [x, peer.layers[0].linear1.weight], gradient)
    assert_close(ours_back, theirs_back, **limits)


@pytest.mark.spec("3.5")
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("place", ["post", "pre"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_our_decoder_layer_equals_torchs(place, dtype, training):
    part = stack(place, dtype=dtype, causal=True, d_memory=32, layers=1, final_norm=False).train(training)
    peer = nn.TransformerDecoderLayer(
        32, 4, dim_feedforward=48, dropout=0.0, batch_first=True, norm_first=place == "pre"
    )
    copy_layer(part.each[0], peer.to(dtype))
    peer.train(training)
    targets, sources = Layout.of([4, 4, 4]), Layout.of([5, 5, 5])
    x = torch.randn(targets.tokens, 32, dtype=dtype, requires_grad=True)
    states = torch.randn(sources.tokens, 32, dtype=dtype, requires_grad=True)
    ours = part(x, targets, Memory(states, sources, states.new_zeros(3, 32)))
    hidden = torch.ones(4, 4, dtype=torch.bool).triu(1)
    theirs = peer(targets.to_grid(x), sources.to_grid(states), tgt_mask=hidden).flatten(0, 1)
    limits = {"atol": TOLERANCE[dtype], "rtol": TOLERANCE[dtype]}
    assert_close(ours, theirs, **limits)
    gradient = torch.randn_like(ours)
    limits = {"atol": 10 * TOLERANCE[dtype], "rtol": 10 * TOLERANCE[dtype]}
    assert_close(
        torch.autograd.grad(ours, [x, states], gradient),
        torch.autograd.grad(theirs, [x, states], gradient),
        **limits,
    )


@pytest.mark.parametrize("place", ["post", "pre"])
def test_dropout_acts_on_a_sublayers_output_before_it_is_added(place):
    """If all of it is dropped, what remains is the stream itself, normed as post-norm does."""
    part = Residual(build_norm(NormConfig(), 8), place, dropout=0.5).train()
    part.dropout.p = 1.0
    x = torch.randn(4, 8)
    assert_close(part(x, nn.Linear(8, 8)), part.norm(x) if place == "post" else x)


def test_dropout_acts_in_training_only():
    part = stack(dropout=0.3)
    layout = Layout.of([5])
    x = torch.randn(5, 32, dtype=torch.float64)
    assert not torch.equal(part.train()(x, layout), part.train()(x, layout))
    assert torch.equal(part.eval()(x, layout), part.eval()(x, layout))
    plain = stack(dropout=0.0)
    plain.load_state_dict(part.state_dict())
    assert_close(part.eval()(x, layout), plain.eval()(x, layout))


def test_a_sliding_window_hides_what_is_farther_than_it():
    part, layout = stack(window=2, layers=1), Layout.of([9])
    x = torch.randn(9, 32, dtype=torch.float64)
    before = part(x, layout)
    x[8] += 1
    after = part(x, layout)
    assert torch.equal(after[:6], before[:6])
    assert not torch.equal(after[6], before[6])


def test_a_causal_window_shows_a_token_itself_and_so_many_before_it():
    part, layout = stack(window=2, layers=1, causal=True), Layout.of([9])
    x = torch.randn(9, 32, dtype=torch.float64)
    before = part(x, layout)
    x[4] += 1
    changed = (part(x, layout) != before).any(dim=1)
    assert changed.nonzero().flatten().tolist() == [4, 5, 6]


def test_every_nth_layer_sees_everything_and_is_the_same_as_masks_given_by_hand():
    part, layout = stack(window=1, layers=4, global_every=2, causal=True), Layout.of([9, 3])
    x = torch.randn(12, 32, dtype=torch.float64)
    local, everything = Mask(before=1, after=0), Mask(after=0)
    expected = x
    for layer, mask in zip(part.each, [local, everything, local, everything], strict=True):
        expected = layer(expected, layout, mask)
    assert_close(part(x, layout), expected)
    assert_close(part.states(x, layout)[-1], expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 0}, "window=0 must be at least 1"),
        ({"global_every": 2}, "global_every=2, but without a window every layer sees everything"),
        ({"window": 4, "global_every": 1}, "global_every=1 must be from 2 to layers=6"),
        ({"window": 4, "global_every": 7}, "global_every=7 must be from 2 to layers=6"),
        ({"window": 4, "global_every": -1}, "global_every=-1 must be from 2 to layers=6"),
    ],
)
def test_impossible_windows_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**settings)


def test_a_decoder_layer_without_its_memory_says_so():
    part, layout = stack(causal=True, d_memory=32), Layout.of([2])
    with pytest.raises(ValueError, match="give it the encoder's memory"):
        part(torch.randn(2, 32, dtype=torch.float64), layout)


@pytest.mark.parametrize("kind", ["layer", "rms", "batch"])
def test_under_autocast_a_norm_computes_in_float32_and_the_stream_keeps_its_precision(kind):
    norm = build_norm(NormConfig(kind=kind), 64)
    x = (torch.randn(5, 64) * 30 + 100).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = norm(x)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, norm(x.float()).bfloat16())
    assert norm(x.float()).dtype == torch.float32
