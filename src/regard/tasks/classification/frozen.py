"""Classes from vectors whose encoder is left as it is: logistic regression, a baseline in seconds.

    P(class | v) = softmax(W v + b)         one label for each text
    P(label | v) = sigmoid(w v + b)         any number of labels: each for itself, against the rest

W and b minimise the sum of cross-entropies plus |W|^2 / 2C. The vectors are taken as they are. What is found
becomes the head of an ordinary model: scikit-learn is needed to fit it, not to use it.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from regard.tasks.base.vectors import checked, finite

ClassWeight = Literal["none", "balanced"]
Labels = Sequence[str] | Sequence[Sequence[str]]
"""One for each text; or for each text all that it has, which may be none."""
Matrix = npt.NDArray[np.float64]

STRENGTHS = (0.1, 1.0, 10.0, 100.0)
"""The values of C that are tried, where none is given."""
HELD_OUT = 0.2
MOST_STEPS = 2000


class FrozenError(ValueError):
    """A classifier that cannot be fitted; the message says why, and the remedy."""


@dataclass(frozen=True, slots=True)
class FrozenFacts:
    """How a classifier came to be."""

    labels: tuple[str, ...]
    """In the order of its columns."""
    multilabel: bool
    c: float
    class_weight: ClassWeight
    seed: int
    examples: int
    held_out_loss: dict[str, float]
    """For each C that was tried, the cross-entropy of the fifth of the examples that was held out."""
    converged: bool
    """Whether the last fit came to rest; if not, it is near its best, but could be nearer."""


@dataclass(frozen=True, slots=True, eq=False)
class FrozenClassifier:
    weights: Matrix
    """[labels, width]"""
    bias: Matrix
    facts: FrozenFacts

    @classmethod
    def fit(
        cls,
        vectors: npt.ArrayLike,
        labels: Labels,
        *,
        seed: int = 0,
        c: float | None = None,
        class_weight: ClassWeight = "none",
        multilabel: bool = False,
    ) -> "FrozenClassifier":
        """Without a `c`, the one of `STRENGTHS` that does best on a fifth of the examples, drawn by `seed`
        from each class, and then fitted on all. "balanced" gives every class the same weight in all."""
        rows = finite(checked(vectors))
        names, targets = _targets(labels, multilabel)
        if len(rows) != len(targets):
            raise FrozenError(
                f"{len(rows)} vectors for the labels of {len(targets)} texts: give one for each"
            )
        if class_weight not in get_args(ClassWeight):
            raise FrozenError(f"class_weight={class_weight!r} is none of {', '.join(get_args(ClassWeight))}")
        if c is not None and not c > 0:
            raise FrozenError(f"c={c}: the inverse of how much large weights cost, choose it above 0")
        balanced = class_weight == "balanced"
        losses = {} if c is not None else _held_out_losses(rows, targets, multilabel, balanced, seed)
        best = c if c is not None else min(losses, key=lambda each: (losses[each], each), default=1.0)
        weights, bias, converged = _fitted(rows, targets, best, multilabel, balanced)
        facts = FrozenFacts(
            labels=names,
            multilabel=multilabel,
            c=best,
            class_weight=class_weight,
            seed=seed,
            examples=len(rows),
            held_out_loss={str(each): loss for each, loss in losses.items()},
            converged=converged,
        )
        return cls(np.ascontiguousarray(weights), bias, facts)

    def predict_proba(self, vectors: npt.ArrayLike) -> Matrix:
        """[texts, labels]; rows sum to 1 where each text has one label."""
        rows = finite(checked(vectors, self.weights.shape[1]))
        return _probabilities(rows @ self.weights.T + self.bias, self.facts.multilabel)

    def predict(self, vectors: npt.ArrayLike) -> list[str]:
        """The likeliest label of each text."""
        if self.facts.multilabel:
            raise FrozenError("these texts have any number of labels: ask predict_sets")
        return [self.facts.labels[best] for best in self.predict_proba(vectors).argmax(axis=1).tolist()]

    def predict_sets(self, vectors: npt.ArrayLike, threshold: float = 0.5) -> list[tuple[str, ...]]:
        """For each text the labels that are at least so likely."""
        reached = self.predict_proba(vectors) >= threshold
        return [tuple(self.facts.labels[each] for each in np.flatnonzero(row)) for row in reached]


def _targets(labels: Labels, multilabel: bool) -> tuple[tuple[str, ...], Matrix]:
    """The names in order, and a matrix [texts, names] of zeros and ones."""
    sets: list[Sequence[str]] = []
    for number, each in enumerate(labels):
        if isinstance(each, str) == multilabel:
            wanted = "the labels of a text, like ['news', 'sport']" if multilabel else "one label, as text"
            remedy = "leave multilabel out" if multilabel else "pass multilabel=True for several"
            raise FrozenError(f"labels[{number}]={each!r} should be {wanted}; {remedy}")
        sets.append([each] if isinstance(each, str) else each)
    names = sorted({label for each in sets for label in each})
    if len(names) < (1 if multilabel else 2):
        raise FrozenError(
            f"the labels are {names}, which leaves nothing to tell apart: give texts of others too"
        )
    places = {name: place for place, name in enumerate(names)}
    targets = np.zeros((len(sets), len(names)))
    for row, each in enumerate(sets):
        targets[row, [places[label] for label in each]] = 1.0
    return tuple(names), targets


def _held_out_losses(
    rows: Matrix, targets: Matrix, multilabel: bool, balanced: bool, seed: int
) -> dict[float, float]:
    """Nothing where there are too few examples to hold any out."""
    held = _held_out(targets, multilabel, seed)
    if not held.any():
        return {}
    importance = _importance(targets, multilabel, balanced)[held]
    losses = {}
    for c in STRENGTHS:
        weights, bias, _ = _fitted(rows[~held], targets[~held], c, multilabel, balanced)
        likely = _probabilities(rows[held] @ weights.T + bias, multilabel).clip(1e-15, 1 - 1e-15)
        nll = -targets[held] * np.log(likely)
        if multilabel:
            nll -= (1 - targets[held]) * np.log(1 - likely)
        losses[c] = float((nll * importance).sum() / len(importance))
    return losses


def _held_out(targets: Matrix, multilabel: bool, seed: int) -> npt.NDArray[np.bool_]:
    """Which examples are: a fifth of each class, at least one, but never its last."""
    random = np.random.default_rng(seed)
    held = np.zeros(len(targets), dtype=bool)
    groups = [np.arange(len(targets))] if multilabel else [np.flatnonzero(each) for each in targets.T]
    for group in groups:
        count = max(1, round(HELD_OUT * len(group))) if len(group) > 1 else 0
        held[random.permutation(group)[:count]] = True
    return held


def _importance(targets: Matrix, multilabel: bool, balanced: bool) -> Matrix:
    """What each example counts for each label, [texts, labels]; as scikit-learn balances."""
    if not balanced:
        return np.ones_like(targets)
    texts, present = len(targets), targets.sum(axis=0)
    if not multilabel:
        return np.broadcast_to(texts / (targets.shape[1] * present), targets.shape)
    ours, others = (texts / (2 * np.maximum(count, 1)) for count in (present, texts - present))
    return np.where(targets > 0, ours, others)


def _fitted(
    rows: Matrix, targets: Matrix, c: float, multilabel: bool, balanced: bool
) -> tuple[Matrix, Matrix, bool]:
    if multilabel:
        parts = [_binary(rows, column, c, balanced) for column in targets.T]
        weights, bias, converged = zip(*parts, strict=True)
        return np.stack(weights), np.array(bias), all(converged)
    if targets.shape[1] == 2:  # softmax(0, z) is sigmoid(z)
        weight, offset, rested = _binary(rows, targets[:, 1], c, balanced)
        return np.stack([np.zeros_like(weight), weight]), np.array([0.0, offset]), rested
    return _logistic(rows, targets.argmax(axis=1), c, balanced)


def _binary(rows: Matrix, targets: Matrix, c: float, balanced: bool) -> tuple[Matrix, float, bool]:
    """One label against the rest. Where all have it, or none, the vectors tell nothing about it."""
    present, texts = float(targets.sum()), len(targets)
    if present in (0.0, texts):
        return np.zeros(rows.shape[1]), float(np.log((present + 0.5) / (texts - present + 0.5))), True
    weights, bias, converged = _logistic(rows, targets, c, balanced)
    return weights[0], float(bias[0]), converged


def _logistic(
    rows: Matrix, classes: npt.NDArray[Any], c: float, balanced: bool
) -> tuple[Matrix, Matrix, bool]:
    from sklearn.exceptions import ConvergenceWarning  # slow to import
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=c, max_iter=MOST_STEPS, class_weight="balanced" if balanced else None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(rows, classes)
    others = [each for each in caught if not issubclass(each.category, ConvergenceWarning)]
    for each in others:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return model.coef_, model.intercept_, len(others) == len(caught)


def _probabilities(logits: Matrix, multilabel: bool) -> Matrix:
    if multilabel:
        return 0.5 * (1 + np.tanh(0.5 * logits))  # the sigmoid, which cannot overflow so
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
