"""Results as plain rows, for data frames and files."""

from collections.abc import Iterable
from typing import Any, Protocol


class Result(Protocol):
    """What predictors give for a text: Translation, Prediction, TaggedWords, Answered, ..."""

    def to_dict(self) -> dict[str, Any]: ...


def to_dicts(results: Iterable[Result]) -> list[dict[str, Any]]:
    """A dictionary for each result, with plain values: what `pandas.DataFrame`, `polars.DataFrame` and JSON
    take.

    >>> classifier = regard.load("runs/sentiment", regard.Classifier)
    >>> rows = regard.to_dicts(classifier.classify(["A moving, funny film.", "Dull."]))
    >>> list(rows[0])
    ['label', 'labels', 'probability', 'probabilities']
    """
    return [result.to_dict() for result in results]
