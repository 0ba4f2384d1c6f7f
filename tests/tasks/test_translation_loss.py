from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data import Plan
from regard.models.seq2seq import Seq2Seq
from regard.settings.shape import TranslatorConfig
from regard.settings.training import AverageConfig, BatchConfig, LossConfig, OptimizerConfig
from regard.tasks.translation.batches import PairFeed
from regard.tasks.translation.data import pair_lengths
from regard.tasks.translation.train import TranslationLoss
from regard.train.engine import Engine
from regard.train.objectives import HIDDEN
from tests.tasks.tiny import Columns
from tests.train.toys import ALONE

SIZES = [(3, 4), (9, 2), (1, 9), (5, 5), (2, 2), (8, 9)]
PLAIN = LossConfig(label_smoothing=0.1)
TWICE = LossConfig(label_smoothing=0.1, r_drop=2.5)


def feed(parts: int, tokens: int, *, static: bool = False) -> PairFeed:
    store: Any = Columns.of(SIZES)
    for column in store.values():
        column.values[:] %= 20
    return PairFeed(store, Plan(pair_lengths(store), BatchConfig(tokens=tokens, parts=parts)), static=static)


def model() -> Seq2Seq:
    torch.manual_seed(0)
    return Seq2Seq(TranslatorConfig(preset="tiny", d_model=16, heads=2, d_ff=32, dropout=0.0).build(20))


def everything(own: PairFeed) -> Any:
    return own.batch(np.arange(len(SIZES)), own.plan.shapes(), 0)


def test_the_loss_is_that_of_each_pair_alone() -> None:
    own, seq2seq = feed(1, 1000), model()
    loss = TranslationLoss(seq2seq, PLAIN)
    together = loss(everything(own))
    alone = [loss(own.batch(np.array([row]), own.plan.shapes(), 0)) for row in range(len(SIZES))]
    for one, others in zip(together, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(one, torch.stack(others).sum())
    assert together.tokens == sum(target - 1 for _, target in SIZES)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("r_drop", [0.0, 2.5])
def test_accumulated_parts_are_the_full_batch(static: bool, r_drop: float) -> None:
    """Two parts, one of them much smaller, with filler or without."""
    engines = []
    for parted in (False, True):
        seq2seq = model()
        engine = Engine(
            seq2seq,
            TranslationLoss(seq2seq, LossConfig(r_drop=r_drop)),
            # keys' biases have no gradient but rounding, which a small eps would blow up
            optimizer=OptimizerConfig(eps=1e-3, weight_decay=0.01),
            average=AverageConfig(),
            ranks=ALONE,
            seed=0,
        )
        own = feed(2, 24, static=static)
        for step in (1, 2):
            parts = own.parts(1) if parted else [(0, everything(feed(1, 1000)))]
            assert len(parts) == (2 if parted else 1)
            engine.step(step, parts, 0.01)
        engines.append(engine)
    whole, accumulated = engines
    torch.testing.assert_close(accumulated.optimizer.means, whole.optimizer.means, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(accumulated.weights.values, whole.weights.values, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(accumulated.statistics, whole.statistics, rtol=1e-5, atol=1e-6)


def test_without_dropout_both_passes_agree_and_cost_nothing_more() -> None:
    own, gradients = feed(1, 1000), []
    for config in (PLAIN, TWICE):
        seq2seq = model()
        sums = TranslationLoss(seq2seq, config)(everything(own))
        sums.loss.backward()
        gradients.append([*(each.detach() for each in sums), *(each.grad for each in seq2seq.parameters())])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_r_drop_is_two_separate_passes_and_their_divergence() -> None:
    """A model whose dropout is known: what it adds to the states of each pass is given."""
    batch = everything(feed(1, 1000, static=True))
    slots = len(batch.labels)
    table, matrix = torch.randn(20, 6, requires_grad=True), torch.randn(20, 6, requires_grad=True)
    noise = torch.randn(2, slots, 6)

    class Noisy:
        decoder = SimpleNamespace(head=lambda states: states @ matrix.T)

        def __init__(self, noise: Tensor) -> None:
            self.noise = noise

        def __call__(self, source: Any, sources: Any, ids: Tensor, layout: Any) -> Tensor:
            assert layout.tokens == len(ids) == len(self.noise)
            assert sources.tokens == len(source)
            return table[ids] + self.noise

    both: Any = Noisy(noise.flatten(0, 1))
    sums = TranslationLoss(both, TWICE)(batch)
    first, second = ((table[batch.inputs.ids] + each) @ matrix.T for each in noise)
    shown = batch.labels != HIDDEN
    crosses = [
        F.cross_entropy(each[shown], batch.labels[shown], reduction="sum", label_smoothing=0.1)
        for each in (first, second)
    ]
    logs, others = (F.log_softmax(each[shown], dim=-1) for each in (first, second))
    divergence = (logs.exp() * (logs - others)).sum() + (others.exp() * (others - logs)).sum()
    expected = sum(crosses) / 2 + 2.5 * divergence / 2
    torch.testing.assert_close(sums.loss, expected, rtol=1e-4, atol=1e-4)
    assert sums.tokens == shown.sum()
    for one, other in zip(
        torch.autograd.grad(sums.loss, [table, matrix]),
        torch.autograd.grad(expected, [table, matrix]),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
