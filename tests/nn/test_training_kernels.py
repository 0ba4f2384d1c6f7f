"""What training uses on an NVIDIA GPU beside attention, each against its plain form."""

import pytest
import torch
import torch.nn.functional as F

from regard.layout import Layout
from regard.nn.dropout import Dropout
from regard.nn.embedding import VocabularyHead
from regard.nn.kernels import attend_packed
from regard.nn.masks import CAUSAL, FULL
from regard.train.objectives import HIDDEN, head_loss, token_loss

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@pytest.mark.parametrize("mask", [FULL, CAUSAL], ids=["full", "causal"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2)])
@pytest.mark.parametrize("lengths", [[128, 70, 128], [3, 40, 1, 0, 22], [300, 20, 512]])
def test_queries_keys_and_values_in_one_piece_are_the_same_as_apart(mask, heads, kv_heads, lengths):
    layout = Layout.of(lengths).to("cuda")
    joined = torch.randn(layout.tokens, heads + 2 * kv_heads, 64, device="cuda", dtype=torch.bfloat16)
    gradient = torch.randn(layout.tokens, heads, 64, device="cuda", dtype=torch.bfloat16)
    joined.requires_grad_()
    parts = joined.split([heads, kv_heads, kv_heads], dim=1)
    results = []
    for given in (joined, None):
        out = attend_packed(*parts, layout, layout, mask, kernel="varlen", joined=given)
        results.append((out, *torch.autograd.grad(out, joined, gradient, retain_graph=True)))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=0, rtol=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("tokens", "vocabulary"), [(50, 301), (20_000, 1000)])
def test_the_loss_without_scores_is_the_loss(smoothing, bias, tokens, vocabulary):
    torch.manual_seed(0)
    head = VocabularyHead(vocabulary, 64, bias=bias, tied=None).cuda()
    states = torch.randn(tokens, 64, device="cuda", requires_grad=True)
    labels = torch.randint(0, vocabulary, (tokens,), device="cuda")
    labels[::3] = HIDDEN
    wanted = [states, *head.parameters()]
    results = []
    for found in (
        head_loss(head, states, labels, smoothing),
        token_loss(F.linear(states, head.weight, head.bias), labels, smoothing),
    ):
        assert not found.nll.requires_grad
        results.append([*found, *torch.autograd.grad(found.loss * 0.5, wanted)])
    for one, other in zip(*results, strict=True):
        error = (one - other).detach().norm() / other.detach().norm().clamp(min=1e-6)
        assert float(error) < 1e-3, float(error)  # products in tf32


def test_under_autocast_the_loss_is_that_of_rounded_scores():
    torch.manual_seed(0)
    head = VocabularyHead(1001, 64, bias=True, tied=None).cuda()
    states = torch.randn(300, 64, device="cuda", requires_grad=True)
    labels = torch.randint(0, 1001, (300,), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        losses = [head_loss(head, states, labels, 0.1), token_loss(head(states), labels, 0.1)]
    wanted = [states, *head.parameters()]
    results = [[found.loss, *torch.autograd.grad(found.loss, wanted)] for found in losses]
    for one, other in zip(*results, strict=True):
        assert float((one - other).detach().norm() / other.detach().norm()) < 1e-2
        assert one.dtype == torch.float32


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_dropout_drops_its_share_and_keeps_the_mean(share):
    torch.manual_seed(0)
    x = torch.ones(4000, 512, device="cuda", requires_grad=True)
    y = Dropout(share)(x)
    kept = (y != 0).float()
    count = kept.numel()
    slack = 5 * (share * (1 - share) / count) ** 0.5
    assert abs(float(kept.mean()) - (1 - share)) < slack + 2**-17
    assert abs(float(y.detach().double().mean()) - 1) < slack / (1 - share)
    assert torch.allclose(y[y != 0], torch.tensor(1 / (1 - share), device="cuda"), rtol=1e-4)
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(slope, y)
    # neighbours in a row, in a group of eight, and a row below know nothing of each other
    for shift in (1, 2, 4, 8, 512):
        both = kept.flatten()[shift:] * kept.flatten()[:-shift]
        assert abs(float(both.mean()) - (1 - share) ** 2) < 3 * slack


def test_dropout_is_drawn_anew_each_time_and_again_after_the_same_seed():
    layer, x = Dropout(0.5), torch.ones(64, 64, device="cuda")
    torch.manual_seed(1)
    first, second = layer(x), layer(x)
    torch.manual_seed(1)
    assert torch.equal(layer(x), first)
    assert not torch.equal(first, second)
    layer.eval()
    assert torch.equal(layer(x), x)


def test_dropout_of_an_odd_number_of_elements_is_torchs():
    torch.manual_seed(2)
    found = Dropout(0.5)(torch.ones(3, 5, device="cuda"))
    torch.manual_seed(2)
    assert torch.equal(found, F.dropout(torch.ones(3, 5, device="cuda"), 0.5))
