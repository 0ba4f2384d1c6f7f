"""The Triton kernels on a CPU, by Triton's interpreter: each against the equation or its plain twin.

The interpreter runs a kernel's Python over NumPy arrays, one program after the other, so these tests see what
a kernel computes and not how a GPU compiles it: tests/nn/test_cuda.py and tests/nn/test_training_kernels.py
ask there. tests/test_interpreted.py runs this folder in a process of its own.

What cannot be interpreted, and is expected to fail below:

    attention in bf16    NumPy has no bf16: the interpreter keeps the bits as uint16, and its `tl.dot`
                         multiplies these as whole numbers. float16 and float32 are right; kernels without
                         `tl.dot` convert bf16 to float32 first, and are right too
    the loss in halves   not its kernel, which is tested alone in both: torch has no product on the CPU that
                         takes halves and gives float32 (`addmm` with `out_dtype`)
"""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from regard.layout import Layout
from regard.nn import dropout_mask, flash, next_token, vocabulary_loss
from regard.nn.attention import attend
from regard.nn.kernels import attend_packed
from regard.nn.masks import CAUSAL, FULL
from regard.train.objectives import HIDDEN

NO_BF16_DOT = pytest.mark.xfail(
    reason="the interpreter's tl.dot multiplies the bits of bf16", raises=AssertionError, strict=True
)
NO_WIDE_SUM = pytest.mark.xfail(
    reason="torch's addmm with out_dtype is for CUDA only", raises=NotImplementedError, strict=True
)
ROUNDING = {torch.float32: 2**-19, torch.float16: 2**-9, torch.bfloat16: 2**-6}
"""A few times the precision of each."""


def close(found: Tensor, reference: Tensor, dtype: torch.dtype, terms: int = 1) -> None:
    """Relative to the norm, which counts as 1 at least: what is near zero is a difference of ordinary
    numbers, and has no meaningful relative error. `terms`: of sums that torch adds up in this precision, its
    errors a random walk."""
    assert found.dtype == dtype
    assert torch.isfinite(found).all()
    error = float((found.detach().double() - reference.detach()).norm())
    assert error <= ROUNDING[dtype] * terms**0.5 * max(float(reference.detach().norm()), 1)


# attention


LAYOUTS = {
    "one token": ([1], [1]),
    "short, the last ones empty": ([3, 1, 7, 0, 0], [3, 1, 7, 0, 0]),
    "one block": ([128, 65], [128, 65]),
    "two blocks": ([70, 5], [70, 5]),
    "one and several": ([131, 3, 0, 64], [131, 3, 0, 64]),
    "long": ([205], [205]),
    "cross": ([7, 1, 64, 33], [60, 6, 4, 130]),
    "nothing to ask": ([7, 5, 0], [9, 0, 4]),
    "nothing at all": ([0, 0], [0, 0]),
}
"""Lengths of queries and of keys. Together they take every size of blocks there is."""


def hold_equal(
    asking: Layout,
    asked: Layout,
    causal: bool,
    heads: int = 2,
    kv_heads: int = 2,
    d_head: int = 16,
    dtype: torch.dtype = torch.float32,
) -> None:
    """The kernels and the equation in float64, gradients included."""
    shapes = [(asking.tokens, heads), (asked.tokens, kv_heads), (asked.tokens, kv_heads)]
    inputs = [torch.randn(*shape, d_head).to(dtype).requires_grad_() for shape in shapes]
    gradient = torch.randn(asking.tokens, heads, d_head).to(dtype)
    places = asking.offsets, asking.longest, asked.offsets, asked.longest
    scale = 1.2 * d_head**-0.5
    found = flash.attend_flash(*inputs, *places, causal=causal, scale=scale)
    exact_inputs = [each.detach().double().requires_grad_() for each in inputs]
    mask = CAUSAL if causal else FULL
    exact = attend_packed(*exact_inputs, asking, asked, mask, scale=scale, kernel="equation")
    results = found, *torch.autograd.grad(found, inputs, gradient)
    references = exact, *torch.autograd.grad(exact, exact_inputs, gradient.double(), materialize_grads=True)
    if dtype == torch.float32:
        assert_close(results, tuple(each.float() for each in references), atol=1e-5, rtol=1e-5)
    else:
        for result, reference in zip(results, references, strict=True):
            close(result, reference, dtype)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("kv_heads", [2, 1])
@pytest.mark.parametrize("lengths", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_attention_is_the_equation(lengths, kv_heads, causal):
    hold_equal(Layout.of(lengths[0]), Layout.of(lengths[1]), causal, kv_heads=kv_heads)


def test_no_sequences_are_no_trouble():
    none, nothing = Layout.of([]), torch.empty(0, 2, 16)
    places = none.offsets, none.longest
    assert flash.attend_flash(*[nothing] * 3, *places, *places, causal=True, scale=1.0).shape == (0, 2, 16)


@pytest.mark.parametrize(("heads", "causal"), [(1, True), (2, True), (2, False)])
def test_attention_is_the_equation_for_all_pairs_of_lengths(heads, causal, monkeypatch):
    """Each pair begins and ends blocks elsewhere. They are smaller here than on a GPU, so that there are
    several. A layout's longest length is a bound, and need not be met."""
    for blocks in ("forward_blocks", "backward_blocks"):
        monkeypatch.setattr(flash, blocks, lambda *_: (4, 2, 4, 1))
    asking, asked = zip(*product(range(7), range(7)), strict=True)
    hold_equal(Layout.of(asking, longest=8), Layout.of(asked), causal, heads, kv_heads=1)


@pytest.mark.parametrize("d_head", [32, 64, 128])
@pytest.mark.parametrize("lengths", [[9, 20], [70, 5]], ids=["one block", "two blocks"])
def test_attention_is_the_equation_for_all_widths_of_heads(lengths, d_head):
    assert flash.fits(d_head)
    layout = Layout.of(lengths)
    hold_equal(layout, layout, causal=True, d_head=d_head)


@pytest.mark.parametrize("dtype", [torch.float16, pytest.param(torch.bfloat16, marks=NO_BF16_DOT)])
@pytest.mark.parametrize("lengths", [[9, 20], [70, 5]], ids=["one block", "two blocks"])
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of those bits
def test_attention_in_half_precision_is_the_equation(lengths, dtype):
    layout = Layout.of(lengths)
    hold_equal(layout, layout, causal=True, dtype=dtype)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (2, 1)])
@pytest.mark.parametrize("lengths", [[3, 20, 1, 0], [131]], ids=["short", "long"])
def test_queries_keys_and_values_in_one_piece_are_the_same_as_apart(lengths, heads, kv_heads, causal):
    layout = Layout.of(lengths)
    joined = torch.randn(layout.tokens, heads + 2 * kv_heads, 16, requires_grad=True)
    gradient = torch.randn(layout.tokens, heads, 16)
    place, how = (layout.offsets, layout.longest), {"causal": causal, "scale": 0.3}
    one = flash.attend_joined(joined, heads, *place, **how)
    apart = flash.attend_flash(*joined.split([heads, kv_heads, kv_heads], dim=1), *place, *place, **how)
    assert torch.equal(one, apart)
    slopes = [torch.autograd.grad(out, joined, gradient)[0] for out in (one, apart)]
    assert torch.equal(*slopes)


# the next token


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("before", [None, 0, 5, 100])
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (4, 2)])
def test_the_next_token_sees_what_is_cached_and_is_cached_itself(heads, kv_heads, before, dtype):
    lengths = torch.tensor([0, 1, 64, 65, 139])  # a block is 64 keys; the last row has no room left
    rows, room, d_head, d_value = len(lengths), 140, 16, 32

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape).to(dtype)

    cached = draw(rows, kv_heads, room, d_head), draw(rows, kv_heads, room, d_value)
    queries = draw(rows, heads, d_head)
    keys, values = draw(rows, kv_heads, d_head), draw(rows, kv_heads, d_value)
    wanted = [each.clone() for each in cached]
    numbers = torch.arange(rows)
    wanted[0][numbers, :, lengths], wanted[1][numbers, :, lengths] = keys, values
    found = next_token.attend_next(queries, keys, values, *cached, lengths, before)
    assert torch.equal(cached[0], wanted[0])
    assert torch.equal(cached[1], wanted[1])
    for row, length in enumerate(lengths.tolist()):
        first = 0 if before is None else max(0, length - before)
        own = [each[row, :, first : length + 1].transpose(0, 1).double() for each in wanted]
        close(found[row : row + 1], attend(queries[row : row + 1].double(), *own), dtype)


# the loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("tokens", "vocabulary"),
    [(1, 2), (11, 301), (4, 384), (3, 9000), (2, vocabulary_loss.WIDE + 1)],
    ids=["one token", "one block", "aligned", "several blocks", "wide"],
)
def test_the_loss_without_scores_is_the_loss(tokens, vocabulary, bias, smoothing):
    states = torch.randn(tokens, 8, requires_grad=True)
    weight = torch.randn(vocabulary, 8, requires_grad=True)
    biases = torch.randn(vocabulary, requires_grad=True) if bias else None
    labels = torch.randint(0, vocabulary, (tokens,))
    labels[1::3] = HIDDEN
    labels[-1] = vocabulary - 1  # the last before the empty columns
    wanted = [each for each in (states, weight, biases) if each is not None]
    loss, nll = vocabulary_loss.vocabulary_loss(states, weight, biases, labels, HIDDEN, smoothing)
    scores = F.linear(*(None if each is None else each.double() for each in (states, weight, biases)))
    facts = {"ignore_index": HIDDEN, "reduction": "sum"}
    exact = F.cross_entropy(scores, labels, label_smoothing=smoothing, **facts)
    close(loss, exact, torch.float32)
    close(nll, F.cross_entropy(scores, labels, **facts), torch.float32)
    assert not nll.requires_grad
    d_states, *slopes = torch.autograd.grad(loss * 0.5, wanted)
    exact_d_states, *exact_slopes = torch.autograd.grad(exact * 0.5, wanted)
    close(d_states, exact_d_states, torch.float32, terms=vocabulary)
    for slope, exact_slope in zip(slopes, exact_slopes, strict=True):
        close(slope, exact_slope, torch.float32)


def test_hidden_tokens_have_no_loss_and_no_gradient():
    states, weight = torch.randn(3, 8, requires_grad=True), torch.randn(301, 8, requires_grad=True)
    labels = torch.full((3,), HIDDEN)
    loss, nll = vocabulary_loss.vocabulary_loss(states, weight, None, labels, HIDDEN, 0.1)
    assert float(loss.detach()) == float(nll) == 0
    for slope in torch.autograd.grad(loss, (states, weight)):
        assert torch.equal(slope, torch.zeros_like(slope))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_scores_in_half_precision_become_their_gradient(dtype):
    tokens, vocabulary, width, smoothing = 5, 301, 384, 0.1
    scores = (3 * torch.randn(tokens, width)).to(dtype)
    exact = scores[:, :vocabulary].double().requires_grad_()
    labels = torch.tensor([0, HIDDEN, 7, 300, HIDDEN])
    sums = torch.zeros(2, tokens)
    facts = tokens, vocabulary, width, HIDDEN, smoothing, True, 128
    vocabulary_loss._score[(tokens,)](scores, labels, sums, *facts)
    loss = F.cross_entropy(exact, labels, ignore_index=HIDDEN, label_smoothing=smoothing, reduction="none")
    close(sums[0], loss, torch.float32)
    close(sums[1], F.cross_entropy(exact, labels, ignore_index=HIDDEN, reduction="none"), torch.float32)
    close(scores[:, :vocabulary], torch.autograd.grad(loss.sum(), exact)[0], dtype)
    assert torch.equal(scores[:, vocabulary:], torch.zeros(tokens, width - vocabulary, dtype=dtype))


@pytest.mark.parametrize(
    "dtype", [pytest.param(each, marks=NO_WIDE_SUM, id=str(each)) for each in (torch.float16, torch.bfloat16)]
)
def test_the_loss_of_states_in_half_precision_is_near_that_in_float32(dtype):
    states, weight, labels = torch.randn(5, 8).to(dtype), torch.randn(301, 8), torch.arange(5)
    loss, _ = vocabulary_loss.vocabulary_loss(states, weight, None, labels, HIDDEN, 0.0)
    exact = F.cross_entropy(F.linear(states.float(), weight), labels, reduction="sum")
    assert_close(loss, exact, atol=0, rtol=ROUNDING[dtype])


# dropout


def philox(key: int, counter: int) -> list[int]:
    """Salmon et al. 2011, section 3.3: ten rounds over a counter of four words, the other three of them 0."""
    low = 2**32 - 1
    keys, words = [key & low, key >> 32], [counter, 0, 0, 0]
    for _ in range(10):
        one, two = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [two >> 32 ^ words[1] ^ keys[0], two & low, one >> 32 ^ words[3] ^ keys[1], one & low]
        keys = [(keys[0] + 0x9E3779B9) & low, (keys[1] + 0xBB67AE85) & low]
    return words


def test_philox_is_that_of_its_authors():
    """The known answer to all zeros that comes with their Random123."""
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("dropped", [1, 6554, 2**15, 2**16 - 1])
@pytest.mark.parametrize("shape", [(8,), (3, 40), (5, 1000)], ids=str)
def test_eight_elements_are_kept_or_dropped_by_one_random_number(shape, dropped):
    seed = torch.randint(2**62, (1,))
    kept = dropout_mask.draw_kept(torch.empty(shape), seed, dropped)
    draws = [word for group in range(kept.numel() // 8) for word in philox(int(seed), group)]
    expected = [half >= dropped for word in draws for half in (word & 0xFFFF, word >> 16)]
    assert kept.shape == shape
    assert kept.flatten().tolist() == expected


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_dropout_drops_its_share_and_the_gradient_goes_where_the_values_went(share):
    dropped = round(share * dropout_mask.CHANCES)
    x = torch.randn(200, 64, requires_grad=True)
    seed = torch.randint(2**62, (1,))
    kept = dropout_mask.draw_kept(x, seed, dropped)
    slack = 5 * (share * (1 - share) / kept.numel()) ** 0.5
    assert abs(float(kept.float().mean()) - (1 - share)) < slack
    assert torch.equal(dropout_mask.draw_kept(x, seed, dropped), kept)
    assert not torch.equal(dropout_mask.draw_kept(x, seed + 1, dropped), kept)
    (slope,) = torch.autograd.grad((x * kept).sum(), x)
    assert torch.equal(slope, kept.float())


# what a compiler is told


def test_compilers_are_told_the_shapes_that_come_out():
    layout = Layout.of([3, 0, 9])
    queries, keys = torch.randn(12, 4, 16), torch.randn(12, 2, 16)
    bounds, longest, how = layout.offsets, layout.longest, (True, 0.3)
    joined = torch.cat([queries, keys, keys], dim=1)
    states, weight, labels = torch.randn(5, 8), torch.randn(301, 8), torch.arange(5)
    calls = [
        (flash._apart_op, (queries, keys, keys, bounds, bounds, longest, longest, *how)),
        (flash._joined_op, (joined, 4, bounds, longest, *how)),
        (vocabulary_loss._loss_op, (states, weight, None, labels, HIDDEN, 0.1)),
        (vocabulary_loss._loss_op, (states, weight, torch.randn(301), labels, HIDDEN, 0.1)),
        (dropout_mask._draw_op, (states, torch.tensor([3]), 100)),
    ]
    for op, args in calls:
        torch.library.opcheck(op.overload, args, test_utils=("test_schema", "test_faketensor"))
