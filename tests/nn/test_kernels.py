"""Every kernel gives the values and the gradients of the equation."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.layout import Layout
from regard.nn import kernels
from regard.nn.kernels import attend_packed, choose_kernel
from regard.nn.masks import CAUSAL, FULL, Mask

MASKS = {
    "full": FULL,
    "causal": CAUSAL,
    "sliding": Mask(before=2, after=0),
    "local": Mask(before=1, after=2),
}
LAYOUTS = {
    "equal lengths": ([4, 4, 4], [4, 4, 4]),
    "mixed": ([3, 5, 5, 1, 7], [3, 5, 5, 1, 7]),
    "with empty ones": ([3, 0, 5, 5, 0], [3, 0, 5, 5, 0]),
    "cross": ([3, 1, 4, 2], [6, 6, 4, 3]),
    "cross with empty ones": ([3, 0, 4, 2], [6, 6, 0, 3]),
}


def outcome(queries: Tensor, keys: Tensor, values: Tensor, gradient: Tensor, *args, **settings) -> tuple:
    """The output, and the gradients of the queries, keys, values and of the bias if there is one."""
    inputs = [x.detach().requires_grad_() for x in (queries, keys, values)]
    output = attend_packed(*inputs, *args, **settings)
    if "bias" in settings:
        inputs.append(settings["bias"])
    return output, *torch.autograd.grad(output, inputs, gradient, allow_unused=True, materialize_grads=True)


def draw(query_layout, key_layout, *, heads=4, kv_heads=4, d_head=8, d_value=8, dtype=torch.float64):
    return (
        torch.randn(query_layout.tokens, heads, d_head, dtype=dtype),
        torch.randn(key_layout.tokens, kv_heads, d_head, dtype=dtype),
        torch.randn(key_layout.tokens, kv_heads, d_value, dtype=dtype),
        torch.randn(query_layout.tokens, heads, d_value, dtype=dtype),
    )


@pytest.mark.parametrize("kernel", ["grouped", "padded"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("lengths", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_fused_equals_the_equation(kernel, mask, lengths, kv_heads):
    layouts = Layout.of(lengths[0]), Layout.of(lengths[1])
    tensors = draw(*layouts, kv_heads=kv_heads)
    fused = outcome(*tensors, *layouts, mask, kernel=kernel)
    exact = outcome(*tensors, *layouts, mask, kernel="equation")
    assert_close(fused, exact, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("kernel", ["grouped", "padded"])
def test_fused_equals_the_equation_in_float32(kernel):
    layout = Layout.of([17, 33, 33, 64])
    tensors = draw(layout, layout, d_head=64, d_value=64, dtype=torch.float32)
    fused = outcome(*tensors, layout, layout, CAUSAL, kernel=kernel)
    exact = outcome(*tensors, layout, layout, CAUSAL, kernel="equation")
    assert_close(fused, exact, atol=1e-5, rtol=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=6),
    before=st.none() | st.integers(0, 4),
    after=st.none() | st.integers(0, 4),
    seed=st.integers(0, 99),
)
def test_fused_equals_the_equation_for_any_lengths_and_reach(lengths, before, after, seed):
    torch.manual_seed(seed)
    layouts = Layout.of([q for q, _ in lengths]), Layout.of([k for _, k in lengths])
    tensors = draw(*layouts)
    exact = outcome(*tensors, *layouts, Mask(before, after), kernel="equation")
    for kernel in ("grouped", "padded"):
        fused = outcome(*tensors, *layouts, Mask(before, after), kernel=kernel)
        assert_close(fused, exact, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("mask", [FULL, CAUSAL], ids=["full", "causal"])
def test_the_padded_kernel_takes_any_boolean_mask_bias_and_width(mask):
    queries, keys = Layout.of([3, 5, 2]), Layout.of([4, 5, 6])
    chosen = torch.rand(3, 5, 6) < 0.6
    chosen[1, 2] = False  # a query that sees nothing
    mask = Mask(after=mask.after, chosen=chosen)
    bias = torch.randn(4, 5, 6, dtype=torch.float64, requires_grad=True)
    tensors = draw(queries, keys, d_value=12)
    fused = outcome(*tensors, queries, keys, mask, bias=bias, scale=0.3, kernel="padded")
    exact = outcome(*tensors, queries, keys, mask, bias=bias, scale=0.3, kernel="equation")
    assert_close(fused, exact, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("kernel", ["auto", "padded", "equation"])
def test_a_bias_by_distance_is_that_between_positions(mask, kernel):
    layout = Layout.of([3, 5, 0, 1, 7])
    tensors = draw(layout, layout, kv_heads=2)
    distances = torch.randn(4, 13, dtype=torch.float64, requires_grad=True)
    between = torch.stack([distances[:, 6 - query : 13 - query] for query in range(7)], dim=1)
    exact = outcome(*tensors, layout, layout, mask, bias=between.detach().requires_grad_(), kernel="equation")
    inputs = [x.detach().requires_grad_() for x in tensors[:3]]
    output = attend_packed(*inputs, layout, layout, mask, distances=distances, kernel=kernel)
    gradients = torch.autograd.grad(output, [*inputs, distances], tensors[3])
    assert_close((output, *gradients[:3]), exact[:4], atol=1e-12, rtol=1e-12)
    [expected] = torch.autograd.grad(between, distances, exact[4])
    assert_close(gradients[3], expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("lengths", [[4, 4], [3, 5]], ids=["views", "gathered"])
@pytest.mark.parametrize("kernel", ["grouped", "padded"])
def test_strided_inputs_are_read_right(kernel, lengths):
    layout = Layout.of(lengths)
    tensors = [torch.randn(8, 16, 4, dtype=torch.float64).transpose(1, 2) for _ in range(4)]
    fused = outcome(*tensors, layout, layout, CAUSAL, kernel=kernel)
    exact = outcome(*tensors, layout, layout, CAUSAL, kernel="equation")
    assert_close(fused, exact, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_on_the_cpu_is_near_the_equation_in_float32(dtype):
    layout = Layout.of([17, 33, 33, 5])
    tensors = [x.to(dtype) for x in draw(layout, layout, d_head=64, d_value=64, dtype=torch.float32)]
    fused = outcome(*tensors, layout, layout, CAUSAL, kernel="grouped")
    exact = outcome(*[x.float() for x in tensors], layout, layout, CAUSAL, kernel="equation")
    for found, reference in zip(fused, exact, strict=True):
        assert float((found.float() - reference).detach().norm() / reference.detach().norm()) < 1e-2


def test_a_layout_that_does_not_fit_the_tokens_is_refused():
    layout, longer = Layout.of([4, 4]), Layout.of([4, 4, 2])
    with pytest.raises(ValueError, match="10 queries but a layout of 8 tokens"):
        attend_packed(*draw(longer, longer)[:3], layout, layout)


def test_no_sequences_are_no_trouble():
    none = Layout.of([])
    for kernel in ("equation", "grouped", "padded"):
        assert attend_packed(*draw(none, none)[:3], none, none, kernel=kernel).shape == (0, 4, 8)


def test_packed_together_equals_each_alone():
    lengths = [3, 7, 7, 2]
    layout = Layout.of(lengths)
    queries, keys, values, _ = draw(layout, layout)
    for kernel in ("equation", "grouped", "padded"):
        together = layout.split(attend_packed(queries, keys, values, layout, layout, CAUSAL, kernel=kernel))
        for place, length in enumerate(lengths):
            q, k, v = (layout.split(x)[place] for x in (queries, keys, values))
            one = Layout.of([length])
            assert_close(together[place], attend_packed(q, k, v, one, one, CAUSAL, kernel=kernel))


@pytest.mark.usefixtures("unchecked")
def test_dropout_on_the_padded_kernel_keeps_the_mean():
    layout = Layout.of([2, 3])
    queries, keys, values, _ = draw(layout, layout, heads=1, kv_heads=1)
    drawn = torch.stack(
        [attend_packed(queries, keys, values, layout, layout, dropout=0.4) for _ in range(3000)]
    )
    assert drawn.std(dim=0).min() > 0
    error = (drawn.mean(0) - attend_packed(queries, keys, values, layout, layout)).abs()
    assert (error < 5 * drawn.std(dim=0) / 3000**0.5).all()


@pytest.mark.parametrize(
    ("mask", "size"), [(FULL, (-1, -1)), (CAUSAL, (-1, 0)), (Mask(before=5, after=0), (5, 0))]
)
def test_the_variable_length_kernel_is_told_the_reach_of_a_mask(mask, size, monkeypatch):
    """It runs on CUDA only, where tests/nn/test_cuda.py asks for its values."""
    told = {}
    monkeypatch.setattr(kernels, "varlen_attn", lambda q, *_, **facts: told.update(facts) or q, raising=False)
    layout = Layout.of([3, 5])
    kernels._torch_varlen(*draw(layout, layout)[:3], layout, layout, mask, 1.0)
    assert told["window_size"] == size


FACTS = {"device": "cpu", "dtype": torch.float32, "d_head": 64, "d_value": 64}


@pytest.mark.parametrize(
    ("changes", "kernel", "reason"),
    [
        ({}, "grouped", "on the CPU"),
        ({"device": "cuda"}, "padded", "torch.float32 is not a half precision"),
        ({"device": "cuda", "dtype": torch.bfloat16}, "varlen", "on CUDA"),
        ({"device": "cuda", "dtype": torch.bfloat16, "dropout": 0.1}, "padded", "dropout=0.1"),
        ({"device": "cuda", "dtype": torch.bfloat16, "biased": True}, "padded", "bias"),
        ({"device": "cuda", "dtype": torch.bfloat16, "d_head": 300, "d_value": 300}, "padded", "300"),
        ({"device": "mps"}, "padded", "mps"),
        ({"d_value": 32}, "padded", "d_value=32 differs"),
        ({"dropout": 0.1}, "padded", "dropout=0.1"),
        ({"biased": True}, "padded", "bias"),
        ({"mask": Mask(chosen=torch.ones(1, 1, 1, dtype=torch.bool))}, "padded", "boolean"),
        ({"wanted": "equation"}, "equation", "asked for"),
    ],
)
def test_the_choice_of_a_kernel_says_why(changes, kernel, reason):
    choice = choose_kernel(**{**FACTS, **changes})
    assert choice.kernel == kernel
    assert reason in choice.why


def test_a_kernel_that_cannot_is_refused_with_the_reason():
    with pytest.raises(ValueError, match="'varlen' cannot do this: the tokens are on cpu"):
        choose_kernel(**FACTS, wanted="varlen")


def test_queries_and_keys_must_be_the_same_sequences():
    queries, keys = Layout.of([2, 2]), Layout.of([4])
    with pytest.raises(ValueError, match="2 sequences of queries but 1 of keys"):
        attend_packed(*draw(queries, keys)[:3], queries, keys)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 24)), min_size=1, max_size=5),
    st.sampled_from([1, 2, 4]),
)
@torch.no_grad()
def test_runs_of_equal_lengths_equal_the_equation_where_nothing_is_learned(runs, kv_heads):
    """Rows of keys are filled up with those of the next sequences, which nobody may see."""
    torch.manual_seed(0)
    queries, keys = ([run[side] for run in runs for _ in range(run[2])] for side in (0, 1))
    asking, asked = Layout.of(queries), Layout.of(keys)
    q = torch.randn(asking.tokens, 4, 8)
    both = torch.randn(asked.tokens, 2 * kv_heads, 8)  # views, as the projection gives them
    k, v = both.split([kv_heads, kv_heads], dim=1)
    found, expected = (
        attend_packed(q, k, v, asking, asked, kernel=kernel) for kernel in ("grouped", "equation")
    )
    assert_close(found, expected, atol=1e-5, rtol=1e-5)
