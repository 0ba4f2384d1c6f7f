import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.settings.training import LossConfig
from regard.train.objectives import HIDDEN, agreeing_loss, disagreement, token_loss

LABELS = torch.tensor([3, HIDDEN, 0, 6, HIDDEN])


def written_out(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    total = torch.zeros((), dtype=logits.dtype)
    for row, label in zip(logits, labels.tolist(), strict=True):
        if label == HIDDEN:
            continue
        logs = (row.exp() / row.exp().sum()).log()
        total = total - (1 - smoothing) * logs[label] - smoothing / len(row) * logs.sum()
    return total


@pytest.mark.spec("3.6a")
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_loss_is_its_formula_and_so_is_its_gradient(smoothing: float) -> None:
    logits = torch.randn(5, 7, requires_grad=True)
    sums = token_loss(logits, LABELS, smoothing)
    expected = written_out(logits, LABELS, smoothing)
    torch.testing.assert_close(sums.loss, expected)
    (ours,) = torch.autograd.grad(sums.loss, logits)
    (theirs,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(sums.nll, written_out(logits, LABELS, 0.0).detach())
    assert sums.tokens == 3
    assert not sums.nll.requires_grad


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_hidden_labels_do_not_count(smoothing: float) -> None:
    logits = torch.randn(5, 7)
    before = token_loss(logits, LABELS, smoothing)
    logits[LABELS == HIDDEN] = 1e4
    for one, other in zip(before, token_loss(logits, LABELS, smoothing), strict=True):
        assert torch.equal(one, other)
    none = token_loss(logits, torch.full((5,), HIDDEN), smoothing)
    assert [float(each) for each in none] == [0, 0, 0]


def test_half_precision_scores_are_summed_in_single() -> None:
    logits = torch.randn(5, 7).bfloat16()
    sums = token_loss(logits, LABELS, 0.1)
    assert sums.loss.dtype == torch.float32
    torch.testing.assert_close(sums.loss, written_out(logits.float(), LABELS, 0.1))


def kl(p: Tensor, q: Tensor) -> Tensor:
    p, q = torch.distributions.Categorical(logits=p), torch.distributions.Categorical(logits=q)
    return torch.distributions.kl_divergence(p, q)


def apart(first: Tensor, second: Tensor) -> Tensor:
    return disagreement(first.log_softmax(dim=-1), second.log_softmax(dim=-1), LABELS)


@pytest.mark.spec("3.6a")
def test_disagreement_is_the_mean_of_both_divergences() -> None:
    first, second = (torch.randn(5, 7, requires_grad=True) for _ in range(2))
    shown = LABELS != HIDDEN
    ours, theirs = apart(first, second), ((kl(first, second) + kl(second, first)) / 2)[shown].sum()
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(
        torch.autograd.grad(ours, [first, second]), torch.autograd.grad(theirs, [first, second]), strict=True
    ):
        torch.testing.assert_close(one, other)
        assert not one[~shown].any()


def test_what_agrees_with_itself_pays_nothing() -> None:
    logits = torch.randn(5, 7)
    assert apart(logits, logits) == 0
    assert apart(logits, logits + 5).abs() < 1e-5  # a shift is no other distribution


def test_two_passes_pay_the_mean_of_their_losses_and_their_disagreement() -> None:
    logits = torch.randn(10, 7, requires_grad=True)
    first, second = logits.chunk(2)
    sums = agreeing_loss(logits, LABELS, 0.1, 2.5)
    alone = [token_loss(each, LABELS, 0.1) for each in (first, second)]
    expected = (alone[0].loss + alone[1].loss) / 2 + 2.5 * apart(first, second)
    torch.testing.assert_close(sums.loss, expected)
    torch.testing.assert_close(sums.nll, (alone[0].nll + alone[1].nll) / 2)
    assert sums.tokens == 3
    torch.testing.assert_close(torch.autograd.grad(sums.loss, logits), torch.autograd.grad(expected, logits))


@pytest.mark.parametrize(
    "wrong",
    [{"label_smoothing": 1.0}, {"label_smoothing": -0.1}, {"r_drop": -1.0}, {"r_drop": math.nan}],
)
def test_impossible_settings_are_refused_with_their_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LossConfig(**wrong)
