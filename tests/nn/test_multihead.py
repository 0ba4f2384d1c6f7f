"""Heads side by side."""

import pytest
import torch
from torch.testing import assert_close

from regard.layout import Layout
from regard.nn.attention import attend
from regard.nn.initialize import initialize
from regard.nn.masks import CAUSAL, FULL, Mask
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.positions import AlibiBias, RelativeBias, RotaryPositions
from regard.settings.network import AttentionConfig, InitialConfig

LAYOUT = Layout.of([3, 5, 2])
MEMORY = Layout.of([4, 2, 6])


def self_attention(**settings) -> SelfAttention:
    rotary, bias = settings.pop("rotary", None), settings.pop("bias", None)
    part = SelfAttention(16, AttentionConfig(**{"heads": 4, **settings}), rotary=rotary, bias=bias).double()
    initialize(part, InitialConfig())
    return part


def cross_attention(**settings) -> CrossAttention:
    part = CrossAttention(16, AttentionConfig(**{"heads": 4, **settings}), d_memory=10).double()
    initialize(part, InitialConfig())
    return part


def stream(layout: Layout, width: int = 16) -> torch.Tensor:
    return torch.randn(layout.tokens, width, dtype=torch.float64)


@pytest.mark.spec("2.7")
def test_many_heads_equal_single_heads_computed_apart():
    part, x = self_attention(), stream(LAYOUT)
    matrices = part.project.weight.split([16, 16, 16])
    biases = part.project.bias.split([16, 16, 16])
    outputs = []
    for one in LAYOUT.split(x):
        heads = []
        for head in range(4):
            rows = slice(4 * head, 4 * head + 4)
            q, k, v = (one @ m[rows].T + b[rows] for m, b in zip(matrices, biases, strict=True))
            heads.append(attend(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)).squeeze(1))
        outputs.append(torch.cat(heads, dim=1) @ part.output.weight.T + part.output.bias)
    assert_close(part(x, LAYOUT), torch.cat(outputs))


@pytest.mark.spec("2.6", "2.7")
def test_widths_are_free_and_default_to_an_equal_share():
    assert self_attention().d_head == self_attention().d_value == 4
    part = self_attention(d_head=6, d_value=10, heads=3)
    assert part.project.out_features == 3 * (6 + 6 + 10)
    assert part.output.in_features == 3 * 10
    x = stream(LAYOUT)
    assert part(x, LAYOUT).shape == x.shape


@pytest.mark.spec("2.9")
def test_cross_attention_asks_with_the_decoder_and_answers_with_the_encoder():
    part, x, memory = cross_attention(), stream(LAYOUT), stream(MEMORY, 10)
    outputs = []
    for m, r in zip(LAYOUT.split(x), MEMORY.split(memory), strict=True):
        queries = (m @ part.project_queries.weight.T + part.project_queries.bias).view(-1, 4, 4)
        projected = r @ part.project_memory.weight.T + part.project_memory.bias
        keys, values = (half.reshape(-1, 4, 4) for half in projected.chunk(2, dim=1))
        merged = attend(queries, keys, values).flatten(1)
        outputs.append(merged @ part.output.weight.T + part.output.bias)
    assert_close(part(x, LAYOUT, memory, MEMORY), torch.cat(outputs))


@pytest.mark.spec("2.9")
def test_other_sources_cannot_be_felt():
    part, x, memory = cross_attention(), stream(LAYOUT), stream(MEMORY, 10)
    before = LAYOUT.split(part(x, LAYOUT, memory, MEMORY))
    memory[:4] = 1e3  # the first source
    after = LAYOUT.split(part(x, LAYOUT, memory, MEMORY))
    assert not torch.equal(after[0], before[0])
    assert torch.equal(after[1], before[1])
    assert torch.equal(after[2], before[2])


@pytest.mark.spec("2.10")
@pytest.mark.parametrize("mask", [FULL, CAUSAL, Mask(before=1, after=1)], ids=["full", "causal", "local"])
@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "relative"])
def test_the_weights_to_be_read_are_those_the_fast_path_used(mask, positions):
    part = self_attention(
        rotary=RotaryPositions(4) if positions == "rotary" else None,
        bias={"alibi": AlibiBias(4), "relative": RelativeBias(4)}.get(positions),
    )
    x = stream(LAYOUT)
    _, _, values = part.queries_keys_values(x, LAYOUT.positions, LAYOUT.longest)
    merged = [
        torch.einsum("hqk,khd->qhd", weights, v)
        for weights, v in zip(part.weights(x, LAYOUT, mask), LAYOUT.split(values), strict=True)
    ]
    assert_close(part.merge(torch.cat(merged)), part(x, LAYOUT, mask))


@pytest.mark.spec("2.10")
def test_cross_weights_to_be_read_are_those_the_fast_path_used():
    part, x, memory = cross_attention(), stream(LAYOUT), stream(MEMORY, 10)
    _, values = part.keys_values(memory)
    weights = part.weights(x, LAYOUT, memory, MEMORY)
    assert [tuple(w.shape) for w in weights] == [(4, 3, 4), (4, 5, 2), (4, 2, 6)]
    merged = [torch.einsum("hqk,khd->qhd", w, v) for w, v in zip(weights, MEMORY.split(values), strict=True)]
    assert_close(part.merge(torch.cat(merged)), part(x, LAYOUT, memory, MEMORY))


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_query_heads_share_keys_and_values(kv_heads):
    part, x = self_attention(kv_heads=kv_heads), stream(LAYOUT)
    whole = self_attention()
    q, k, v = part.project.weight.split([16, 4 * kv_heads, 4 * kv_heads])
    share = 4 // kv_heads
    repeated = [m.view(kv_heads, 4, 16).repeat_interleave(share, 0).flatten(0, 1) for m in (k, v)]
    with torch.no_grad():
        whole.project.weight.copy_(torch.cat([q, *repeated]))
        whole.output.load_state_dict(part.output.state_dict())
    assert_close(part(x, LAYOUT, CAUSAL), whole(x, LAYOUT, CAUSAL))


@pytest.mark.parametrize("kernel", ["equation", "grouped", "padded"])
@pytest.mark.parametrize("positions", ["none", "rotary", "relative"])
def test_scores_have_the_scale_that_is_given(kernel, positions):
    """s = q . k times it, which is the paper's for queries sqrt(d_head) times it as large; biases are not
    scaled."""
    made = {
        "kernel": kernel,
        "rotary": RotaryPositions(4) if positions == "rotary" else None,
        "bias": RelativeBias(4) if positions == "relative" else None,
    }
    if positions == "relative" and kernel == "grouped":
        pytest.skip("has no biases")
    part, usual = self_attention(scale=0.3, **made), self_attention(**made)
    usual.load_state_dict(part.state_dict())
    with torch.no_grad():
        usual.project.weight[:16] *= 0.3 * 2
    x = stream(LAYOUT)
    assert_close(part(x, LAYOUT, CAUSAL), usual(x, LAYOUT, CAUSAL))
    for one, other in zip(part.weights(x, LAYOUT), usual.weights(x, LAYOUT), strict=True):
        assert_close(one, other)


def test_cross_scores_have_the_scale_that_is_given():
    part, x, memory = cross_attention(scale=1.0), stream(LAYOUT), stream(MEMORY, 10)
    queries, (keys, values) = part.split(part.project_queries(x), 4), part.keys_values(memory)
    expected = []
    for q, k, v in zip(LAYOUT.split(queries), MEMORY.split(keys), MEMORY.split(values), strict=True):
        weights = torch.einsum("qhd,khd->hqk", q, k).softmax(dim=-1)
        expected.append(torch.einsum("hqk,khd->qhd", weights, v))
    assert_close(part(x, LAYOUT, memory, MEMORY), part.merge(torch.cat(expected)))


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("kernel", ["grouped", "padded"])
def test_kernels_agree_inside_a_layer_with_gradients(kernel, training):
    exact, fused = self_attention(kernel="equation"), self_attention(kernel=kernel)
    fused.load_state_dict(exact.state_dict())
    results = []
    for part in (exact, fused):
        torch.manual_seed(1)
        x = stream(LAYOUT).requires_grad_()
        output = part.train(training)(x, LAYOUT, CAUSAL)
        results.append((output, *torch.autograd.grad(output.square().sum(), [x, *part.parameters()])))
    assert_close(results[1], results[0], atol=1e-10, rtol=1e-10)


def test_attention_dropout_acts_in_training_only():
    part, x = self_attention(dropout=0.5), stream(LAYOUT)
    assert not torch.equal(part.train()(x, LAYOUT), part.train()(x, LAYOUT))
    assert torch.equal(part.eval()(x, LAYOUT), part.eval()(x, LAYOUT))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 0}, "heads=0 must be at least 1"),
        ({"heads": 8, "kv_heads": 3}, "kv_heads=3: choose a divisor of 8"),
        ({"dropout": 1.0}, r"dropout=1.0 must be in \[0, 1\)"),
        ({"scale": 0.0}, "scale=0.0 must be greater than 0"),
        ({"scale": 1.0, "score": "dot"}, "attention.score='dot': leave one of the two out"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        AttentionConfig(**settings)


def test_a_width_that_heads_do_not_divide_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"d_model=10 cannot be split over heads=4: choose a multiple of 4"):
        SelfAttention(10, AttentionConfig(heads=4))


def test_a_layer_says_which_kernel_it_takes_and_why():
    x = stream(LAYOUT)
    assert self_attention().explain(x).kernel == "grouped"
    biased = self_attention(bias=AlibiBias(4)).explain(x)
    assert (biased.kernel, biased.why) == ("padded", "not grouped: the scores get a bias")
    dropping = self_attention(dropout=0.2)
    assert dropping.train().explain(x).kernel == "padded"
    assert dropping.eval().explain(x).kernel == "grouped"


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_kernel_is_refused_at_birth_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"kernel='groupd' is none of .*; did you mean 'grouped'"):
        AttentionConfig(kernel="groupd")
