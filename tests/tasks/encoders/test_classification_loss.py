"""What training a classifier makes small, against loops over the texts."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.data import Plan, Shape
from regard.layout import Layout
from regard.models.headed import Headed
from regard.settings.models import ClassifyConfig, PoolConfig
from regard.settings.training import AverageConfig, BatchConfig, OptimizerConfig
from regard.tasks.classification.batches import LabelledFeed, encode
from regard.tasks.classification.recipe import ClassifyLossConfig
from regard.tasks.classification.train import ClassificationLoss
from regard.text import Labelled, Origin
from regard.train.engine import Engine
from tests.tasks.encoders import toys
from tests.train.toys import ALONE

pytestmark = pytest.mark.usefixtures("unchecked")

TEXTS = toys.texts(24)
LABELS: dict[str, np.ndarray] = {
    "single": np.array([len(text) % 3 for text in TEXTS], dtype=np.int64),
    "multi": np.array([[len(text) % 2, len(text) % 3 == 0, False] for text in TEXTS], dtype=bool),
    "number": np.array([len(text) / 10 for text in TEXTS], dtype=np.float32),
}
PROBLEMS: Any = pytest.mark.parametrize("problem", LABELS)


def model(problem: str, kind: str = "mean") -> Headed:
    labels = 1 if problem == "number" else 3
    head = ClassifyConfig(labels=labels, pool=PoolConfig(kind=kind), dropout=0.0)  # type: ignore[arg-type]
    return toys.model(head, **{**toys.TINY, "dropout": 0.0})


def feed(
    problem: str, tokens: int = 1000, parts: int = 1, *, static: bool = False, pairs: bool = False
) -> Any:
    records = [Labelled(text, text[:7] if pairs else None, ("x",), Origin("a", 1)) for text in TEXTS]
    texts, _ = encode(toys.reader(), records, LABELS[problem], skip=False)
    return LabelledFeed(
        texts, Plan([texts.ids.lengths], BatchConfig(tokens=tokens, parts=parts)), static=static
    )


def everything(own: Any) -> Any:
    return own.batch(np.arange(len(TEXTS)), own.plan.shapes() if own._static else None, 0)


def scores_of(own: Headed, text: str) -> list[float]:
    ids = toys.tokenizer().encode(text, template="cls").ids
    return own.double()(torch.tensor(ids), Layout.of([len(ids)]))[0].tolist()


def naive(
    problem: str, scores: list[float], label: Any, smoothing: float = 0.0, weights: Any = None
) -> float:
    if problem == "number":
        return (scores[0] - float(label)) ** 2
    if problem == "multi":
        chances = [1 / (1 + math.exp(-score)) for score in scores]
        own = [chance if its else 1 - chance for chance, its in zip(chances, label, strict=True)]
        return sum(-math.log(chance) for chance in own) / len(own)
    total = math.log(sum(math.exp(score) for score in scores))
    logs = [score - total for score in scores]
    weights = weights or [1.0] * len(logs)
    spread = sum(-weight * log for weight, log in zip(weights, logs, strict=True)) / len(logs)
    return -(1 - smoothing) * weights[label] * logs[label] + smoothing * spread


@PROBLEMS
@pytest.mark.parametrize("static", [False, True])
def test_the_loss_is_the_sum_over_the_texts(problem: Any, static: bool) -> None:
    sums = ClassificationLoss(model(problem), ClassifyLossConfig(), problem)(
        everything(feed(problem, static=static))
    )
    own = model(problem)
    expected = sum(naive(problem, scores_of(own, t), y) for t, y in zip(TEXTS, LABELS[problem], strict=True))
    assert float(sums.loss.detach()) == pytest.approx(expected, rel=1e-4)
    assert float(sums.nll) == pytest.approx(expected, rel=1e-4)
    assert sums.tokens == len(TEXTS)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weights", [None, [0.5, 1.0, 4.0]])
@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_smoothing_and_weights_are_in_the_loss_and_not_in_the_surprise(
    smoothing: float, weights: Any, r_drop: float
) -> None:
    """Without dropout two passes agree, so r_drop adds nothing."""
    config = ClassifyLossConfig(label_smoothing=smoothing, r_drop=r_drop)
    own = model("single")
    loss = ClassificationLoss(own, config, "single", None if weights is None else torch.tensor(weights))
    sums = loss(everything(feed("single", static=True)))
    rows = [(scores_of(own, text), label) for text, label in zip(TEXTS, LABELS["single"], strict=True)]
    expected = sum(naive("single", scores, label, smoothing, weights) for scores, label in rows)
    assert float(sums.loss.detach()) == pytest.approx(expected, rel=1e-4)
    plain = sum(naive("single", scores, label) for scores, label in rows)
    assert float(sums.nll) == pytest.approx(plain, rel=1e-4)
    assert sums.tokens == len(TEXTS)


@pytest.mark.parametrize(
    ("problem", "weighted"), [("single", False), ("single", True), ("multi", False), ("number", False)]
)
def test_r_drop_is_the_mean_of_two_passes_and_their_disagreement(problem: Any, weighted: bool) -> None:
    """A model whose dropout is known: its scores for each pass are given."""
    batch = everything(feed(problem, static=True))
    texts, sequences = len(TEXTS), batch.text.layout.sequences
    both = torch.randn(2, sequences, 1 if problem == "number" else 3, requires_grad=True)
    fake: Any = SimpleNamespace(
        states=lambda ids, layout, marks: (ids, layout), head=lambda states, layout: both.flatten(0, 1)
    )
    weights = torch.tensor([0.5, 1.0, 4.0]) if weighted else None
    config = ClassifyLossConfig(label_smoothing=0.1 if problem == "single" else 0.0, r_drop=1.5)
    sums = ClassificationLoss(fake, config, problem, weights)(batch)
    first, second = both[0, :texts], both[1, :texts]
    labels = torch.from_numpy(LABELS[problem])
    if problem == "single":
        crosses = [
            F.cross_entropy(each, labels, weight=weights, reduction="sum", label_smoothing=0.1)
            for each in (first, second)
        ]
        logs, others = F.log_softmax(first, dim=-1), F.log_softmax(second, dim=-1)
        apart = (logs.exp() * (logs - others)).sum() + (others.exp() * (others - logs)).sum()
        expected = sum(crosses) / 2 + 1.5 * apart / 2
    else:
        wanted = labels.float() if problem == "multi" else labels[:, None]
        function: Any = F.binary_cross_entropy_with_logits if problem == "multi" else F.mse_loss
        crosses = [function(each, wanted, reduction="none").mean(dim=1).sum() for each in (first, second)]
        expected = sum(crosses) / 2 + 1.5 * ((first - second) ** 2).mean(dim=1).sum()
    torch.testing.assert_close(sums.loss, expected, rtol=1e-4, atol=1e-4)
    assert sums.tokens == texts
    (found,), (wished,) = torch.autograd.grad(sums.loss, [both]), torch.autograd.grad(expected, [both])
    torch.testing.assert_close(found, wished, rtol=1e-4, atol=1e-5)
    assert not found[:, texts:].any()


@PROBLEMS
@pytest.mark.parametrize("kind", ["first", "mean", "max", "attention", "pooler"])
def test_filler_is_not_felt(problem: Any, kind: str) -> None:
    gradients, source = [], feed(problem, 2000, pairs=True)
    for extra in (0, 400):
        own = model(problem, kind)
        shapes = tuple(Shape(s.slots + extra, s.sequences + 60, s.longest + 20) for s in source.plan.shapes())
        batch = source.batch(np.arange(len(TEXTS)), shapes if extra else None, 0)
        assert batch.text.layout.tokens >= batch.text.tokens + extra
        assert (batch.text.layout.sequences > len(TEXTS)) == bool(extra)
        sums = ClassificationLoss(own, ClassifyLossConfig(), problem)(batch)
        sums.loss.backward()
        gradients.append([*(each.detach() for each in sums), *(each.grad for each in own.parameters())])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@PROBLEMS
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("r_drop", [0.0, 2.5])
def test_accumulated_parts_are_the_full_batch(problem: Any, static: bool, r_drop: float) -> None:
    engines = []
    for parted in (False, True):
        own = model(problem)
        weights = torch.tensor([0.5, 1.0, 4.0]) if problem == "single" else None
        engine = Engine(
            own,
            ClassificationLoss(own, ClassifyLossConfig(r_drop=r_drop), problem, weights),
            optimizer=OptimizerConfig(eps=1e-3, weight_decay=0.01),
            average=AverageConfig(),
            ranks=ALONE,
            seed=0,
        )
        for step in (1, 2):
            parts = feed(problem, 120, 2, static=static).parts(1) if parted else None
            if parts is not None:
                assert len(parts) == 2
            engine.step(step, parts or [(0, everything(feed(problem)))], 0.01)
        engines.append(engine)
    whole, accumulated = engines
    torch.testing.assert_close(accumulated.optimizer.means, whole.optimizer.means, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(accumulated.weights.values, whole.weights.values, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(accumulated.statistics, whole.statistics, rtol=1e-5, atol=1e-5)
