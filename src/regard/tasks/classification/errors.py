"""Where a classifier is wrong.

A text that may have several labels is wrong if it has not all of them, and no other: each label that it lacks
was taken for each that it has too many. It is as sure of that as of the likeliest of its wrong decisions.
"""

from collections.abc import Sequence

import numpy as np

from regard.tasks.base import metrics
from regard.tasks.base.analysis import Analysis, Mistake, confused_of, surest_first
from regard.tasks.base.calibration import calibration
from regard.tasks.classification.classifier import Classifier, probabilities
from regard.text import Labelled


def analyse(
    classifier: Classifier, scores: np.ndarray, labels: np.ndarray, records: Sequence[Labelled]
) -> Analysis:
    """From the scores of texts, their labels as numbers (`targets`), and the texts."""
    names = classifier.labels
    if classifier.problem == "number":
        order = np.argsort(-np.abs(scores[:, 0] - labels), kind="stable").tolist()
        far = [_mistake(records[row], f"{labels[row]:g}", f"{scores[row, 0]:.4f}", None) for row in order]
        return Analysis({}, [], far, None)
    chances = probabilities(scores, classifier.problem)
    if classifier.problem == "multi":
        found, wanted = chances > 0.5, labels
        sure = np.where(found, chances, 1 - chances)
        measured = calibration(chances.ravel(), wanted.ravel())
        surest = np.where(found != wanted, sure, 0.0).max(axis=1)
    else:
        own = np.eye(len(names), dtype=bool)
        best = chances.argmax(axis=1)
        found, wanted, surest = own[best], own[labels], chances.max(axis=1)
        measured = calibration(surest, best == labels)
    missing, wrong = wanted & ~found, found & ~wanted
    counts = (each.sum(axis=0) for each in (found & wanted, found, wanted))
    mistakes = [
        _mistake(records[row], _listed(names, wanted[row]), _listed(names, found[row]), float(surest[row]))
        for row in np.flatnonzero((found != wanted).any(axis=1)).tolist()
    ]
    return Analysis(
        metrics.class_figures(names, *counts),
        confused_of(missing.T.astype(np.int64) @ wrong.astype(np.int64), names),
        surest_first(mistakes),
        measured,
    )


def _listed(names: Sequence[str], row: np.ndarray) -> str:
    return ",".join(names[place] for place in np.flatnonzero(row).tolist())


def _mistake(record: Labelled, gold: str, predicted: str, probability: float | None) -> Mistake:
    more = {} if record.second is None else {"second": record.second}
    return Mistake(record.origin, record.text, gold, predicted, probability, more)
