"""What rerankers are trained with: losses against their formulas, batches, filler that is not felt."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.data import Plan
from regard.settings.models import ClassifyConfig, PoolConfig
from regard.settings.training import BatchConfig
from regard.tasks.reranking.batches import EncodedGroups, RankedFeed, encode
from regard.tasks.reranking.recipe import RankingConfig
from regard.tasks.reranking.train import RankingLoss, binary, listwise, margins, measure
from regard.text import DataError, Origin
from regard.text.rankings import Ranking
from regard.train.objectives import HIDDEN
from tests.tasks.encoders import toys

GROUPS = [[1.5, -0.5, 2.0], [0.25, 0.75], [3.0, 1.0, -2.0, 0.5]]
TEACHER = [[2.0, 0.0, 1.0], [1.0, 0.0], [5.0, 4.0, 0.0, 1.0]]


def laid(groups: list[list[float]], filler: int = 0) -> tuple[torch.Tensor, ...]:
    """Scores, groups and first, those of all queries mixed; with filler behind them."""
    order = np.random.default_rng(0).permutation(sum(map(len, groups)))
    owners = np.repeat(np.arange(len(groups)), [len(own) for own in groups])
    flat = np.concatenate([np.array(own) for own in groups])
    places = np.argsort(order)
    first = [int(places[np.flatnonzero(owners == number)[0]]) for number in range(len(groups))]
    scores = torch.tensor([*flat[order], *[7.0] * filler], dtype=torch.float64)
    whose = torch.tensor([*owners[order], *[len(groups)] * filler])
    return scores, whose, torch.tensor([*first, HIDDEN])


@pytest.mark.parametrize("filler", [0, 3])
def test_softmax_is_the_positive_against_the_negatives_of_its_query(filler: int) -> None:
    wanted = sum(math.log(sum(math.exp(each - own[0]) for each in own)) for own in GROUPS)
    sums = listwise(*laid(GROUPS, filler))
    assert float(sums.loss) == pytest.approx(wanted, abs=1e-12)
    assert float(sums.tokens) == 3


@pytest.mark.parametrize("filler", [0, 3])
def test_binary_is_each_pair_by_itself(filler: int) -> None:
    right = [-math.log(1 / (1 + math.exp(-own[0]))) for own in GROUPS]
    wrong = [-math.log(1 - 1 / (1 + math.exp(-each))) for own in GROUPS for each in own[1:]]
    sums = binary(*laid(GROUPS, filler))
    assert float(sums.loss) == pytest.approx(sum(right) + sum(wrong), abs=1e-12)
    assert float(sums.tokens) == 9


@pytest.mark.parametrize("filler", [0, 3])
def test_margins_are_those_of_the_teacher(filler: int) -> None:
    wanted = sum(
        ((own[0] - each) - (told[0] - other)) ** 2
        for own, told in zip(GROUPS, TEACHER, strict=True)
        for each, other in zip(own[1:], told[1:], strict=True)
    )
    scores, whose, first = laid(GROUPS, filler)
    teacher = torch.cat([laid(TEACHER)[0], torch.full((filler,), torch.nan, dtype=torch.float64)])
    sums = margins(scores, teacher, whose, first)
    assert float(sums.loss) == pytest.approx(wanted, abs=1e-12)
    assert float(sums.tokens) == 6


def test_large_scores_have_gradients_and_filler_has_none() -> None:
    scores, whose, first = laid([[900.0, -900.0], [-900.0, 900.0]], filler=2)
    scores.requires_grad_()
    listwise(scores, whose, first).loss.backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert_close(scores.grad[-2:], torch.zeros(2, dtype=torch.float64))
    assert_close(scores.grad.abs().sum(), torch.tensor(2.0, dtype=torch.float64))


def records(count: int = 12) -> list[Ranking]:
    texts = toys.texts(5 * count)
    return [
        Ranking(
            f"{toys.WORDS[n % 10]} sun",
            texts[5 * n],
            texts[5 * n + 1 : 5 * n + 2 + n % 4],
            (),
            Origin("a", n),
        )
        for n in range(count)
    ]


def scorer() -> ClassifyConfig:
    return ClassifyConfig(labels=1, pool=PoolConfig(kind="mean"), dropout=0.0)


@pytest.mark.parametrize("kind", ["softmax", "binary"])
@pytest.mark.parametrize("static", [False, True])
def test_a_batch_has_the_loss_of_its_queries_alone(kind, static) -> None:
    """Whatever is packed beside them, and whatever fills the batch up; gradients too."""
    model = toys.model(scorer()).double().eval()
    encoded, long = encode(toys.reader(model), records(), skip=False)
    assert long == 0
    loss = RankingLoss(model, RankingConfig(kind=kind))

    def gradients(tokens: int, static: bool) -> tuple[float, float, torch.Tensor]:
        model.zero_grad()
        feed = RankedFeed(encoded, Plan([encoded.lengths], BatchConfig(tokens=tokens)), static=static)
        total = count = 0.0
        for step in range(1, feed.plan.steps(0) + 1):
            for _, part in feed.parts(step):
                sums = loss(part)
                sums.loss.backward()
                total, count = total + float(sums.nll), count + float(sums.tokens)
        return (
            total,
            count,
            torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None]),
        )

    together, alone = gradients(400, static), gradients(int(encoded.lengths.max()), False)
    assert together[0] == pytest.approx(alone[0], rel=1e-6)
    assert together[1] == alone[1]
    assert_close(together[2], alone[2], rtol=1e-4, atol=1e-6)


def test_long_pairs_are_counted_and_cut_or_their_queries_left_out() -> None:
    own = records(4)
    long = Ranking("sun", " ".join(["dog"] * 40), ("red",), (), Origin("a", 9))
    reader = toys.reader(toys.model(scorer()), longest=16)
    cut, count = encode(reader, [*own, long], skip=False)
    assert (count, len(cut.offsets) - 1) == (1, 5)
    assert cut.ids.lengths.max() == 16
    left, count = encode(reader, [*own, long], skip=True)
    assert (count, len(left.offsets) - 1) == (1, 4)
    with pytest.raises(DataError, match="none of 1 queries can be used"):
        encode(reader, [long], skip=True)


def test_the_lengths_of_a_query_are_those_of_all_its_pairs() -> None:
    encoded, _ = encode(toys.reader(toys.model(scorer())), records(), skip=False)
    assert isinstance(encoded, EncodedGroups)
    bounds = zip(encoded.offsets, encoded.offsets[1:], strict=False)
    assert encoded.lengths.tolist() == [int(encoded.ids.lengths[a:b].sum()) for a, b in bounds]


def test_figures_are_of_the_rank_of_the_positive() -> None:
    """First of three, second of two, third of four; equal scores are not won."""
    scores = [np.array([2.0, 1.0, 0.0]), np.array([1.0, 1.0]), np.array([1.0, 3.0, 2.0, 0.0])]
    found = measure(scores)
    assert found["accuracy_at_1"] == pytest.approx(1 / 3)
    assert found["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert found["ndcg_at_10"] == pytest.approx((1 + 1 / math.log2(3) + 1 / 2) / 3)
    wanted = [math.log(sum(math.exp(each - own[0]) for each in own)) for own in scores]
    assert found["loss"] == pytest.approx(np.mean(wanted))
