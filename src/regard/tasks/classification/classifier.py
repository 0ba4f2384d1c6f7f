"""Classifying with a trained model: texts, or pairs of texts, in; a label, labels or a number for each
out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np

from regard.models.heads import ClassifyHead
from regard.tasks.base.encoders import open_reader
from regard.tasks.base.faster import Precision
from regard.tasks.base.guards import CONFIG, folder_errors
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import EncoderPredictor, Piece, Reader, TooLong
from regard.tasks.classification.data import Problem
from regard.text.training import each_text


@dataclass(frozen=True, slots=True)
class Prediction:
    label: str | None
    """The likeliest; None where a text may have several, or gets a number."""
    labels: tuple[str, ...]
    """Those that are likelier than not, where a text may have several; else the one."""
    value: float
    """The probability of the label; of the likeliest, where there may be several; or the number."""
    probabilities: dict[str, float]
    """Of every label, the likeliest first; empty for a number."""

    def to_dict(self) -> dict[str, Any]:
        if not self.probabilities:
            return {"value": self.value}
        return {
            "label": self.label,
            "labels": list(self.labels),
            "probability": self.value,
            "probabilities": self.probabilities,
        }

    def top(self, count: int) -> dict[str, float]:
        """The likeliest labels, so many, with their probabilities."""
        return dict(islice(self.probabilities.items(), count))

    def sure(self, least: float) -> "Prediction":
        """The same without labels that are less likely than this."""
        kept = tuple(label for label in self.labels if self.probabilities[label] >= least)
        return replace(self, label=self.label if self.label in kept else None, labels=kept)


class Classifier(EncoderPredictor):
    """Texts in, labels out, or numbers.

    >>> classifier = regard.load("runs/sentiment", regard.Classifier)
    >>> classifier.classify("A moving, funny film.").label
    'positive'
    """

    task: ClassVar[str] = "classify"

    def __init__(self, reader: Reader, labels: Sequence[str], problem: Problem = "single") -> None:
        if not isinstance(reader.model.head, ClassifyHead):
            raise TypeError(
                f"a {type(reader.model.head).__name__} does not classify: give a model with a ClassifyHead"
            )
        wanted = reader.model.head.output.out_features
        if max(len(labels), problem == "number") != wanted:
            raise ValueError(f"{len(labels)} labels for a head that gives {wanted} scores: name as many")
        super().__init__(reader)
        self.labels = tuple(labels)
        self.problem = problem

    def about(self) -> dict[str, Any]:
        return {**super().about(), "labels": list(self.labels), "problem": self.problem}

    def with_reader(self, reader: Reader) -> "Classifier":
        return Classifier(reader, self.labels, self.problem)

    @overload
    def classify(  # type: ignore[overload-overlap]  # a string is a sequence of strings
        self, texts: str, seconds: str | None = None, *, too_long: TooLong = "cut"
    ) -> Prediction: ...

    @overload
    def classify(
        self,
        texts: Iterable[str],
        seconds: Iterable[str] | None = None,
        *,
        too_long: TooLong = "cut",
        progress: Progress | None = None,
    ) -> list[Prediction]: ...

    def classify(
        self,
        texts: str | Iterable[str],
        seconds: str | Iterable[str] | None = None,
        *,
        too_long: TooLong = "cut",
        progress: Progress | None = None,
    ) -> Prediction | list[Prediction]:
        """A text, or many: a list, an array, or a column of a data frame. `seconds` are the other texts,
        where the model was trained on pairs. A text longer than the model can read is cut with a warning, or
        read in windows whose scores are averaged; pairs are always cut."""
        if isinstance(texts, str):
            if seconds is not None and not isinstance(seconds, str):
                raise TypeError("several second texts for one text: give one, or as many texts")
            other = None if seconds is None else [seconds]
            return self.classify([texts], other, too_long=too_long)[0]
        if isinstance(seconds, str):
            raise TypeError("one second text for several texts: give as many as there are texts")
        scores = self.scores(texts, seconds, too_long=too_long, progress=progress)
        return [self._prediction(row) for row in scores]

    def scores(
        self,
        texts: Iterable[str],
        seconds: Iterable[str] | None = None,
        *,
        too_long: TooLong = "cut",
        progress: Progress | None = None,
    ) -> np.ndarray:
        """float32 [texts, labels]: before the softmax; of a number, the number itself."""
        texts = [*each_text(texts)]
        pieces = self.reader.pieces(texts, None if seconds is None else [*each_text(seconds)], too_long)
        self.reader.warn_of_cuts(pieces)  # of pairs also where windows were asked for
        return self._scores(pieces, len(texts), progress)

    def predictions(
        self, pieces: Sequence[Piece], texts: int, *, progress: Progress | None = None
    ) -> list[Prediction]:
        """Of what is read of so many texts (`Reader.pieces`)."""
        return [self._prediction(row) for row in self._scores(pieces, texts, progress)]

    def _scores(self, pieces: Sequence[Piece], texts: int, progress: Progress | None) -> np.ndarray:
        rows = self.reader.read(
            pieces, lambda states, packed: self.reader.head(states, packed.layout), progress=progress
        )
        found = np.zeros((texts, max(len(self.labels), 1)), dtype=np.float32)
        counts = np.zeros((texts, 1), dtype=np.float32)
        for piece, row in zip(pieces, rows, strict=True):
            found[piece.text] += row
            counts[piece.text] += 1
        return found / np.maximum(counts, 1)

    @property
    def classes_(self) -> np.ndarray:
        """The labels, in the order of the columns of `predict_proba`, as scikit-learn has them."""
        return np.array(self.labels)

    def predict(self, texts: Iterable[str], seconds: Iterable[str] | None = None) -> np.ndarray:
        """As scikit-learn's classifiers and regressors: the label of each text, or its number; where a text
        may have several, bool [texts, labels]."""
        scores = self.scores(texts, seconds)
        match self.problem:
            case "single":
                return self.classes_[scores.argmax(axis=1)]
            case "multi":
                return probabilities(scores, "multi") > 0.5
            case "number":
                return scores[:, 0]

    def predict_proba(self, texts: Iterable[str], seconds: Iterable[str] | None = None) -> np.ndarray:
        """As scikit-learn's classifiers: float64 [texts, labels], in the order of `classes_`."""
        if self.problem == "number":
            raise ValueError("this model gives numbers, which have no probabilities: use predict")
        return probabilities(self.scores(texts, seconds), self.problem)

    def score(
        self,
        texts: Iterable[str],
        labels: Any,
        sample_weight: Any = None,
        *,
        seconds: Iterable[str] | None = None,
    ) -> float:
        """As scikit-learn's: the accuracy; where a text may have several labels, the share of texts with
        exactly the right ones, given as bool [texts, labels]; of numbers, R^2."""
        from sklearn.metrics import accuracy_score, r2_score  # slow to import

        measure = r2_score if self.problem == "number" else accuracy_score
        return float(measure(labels, self.predict(texts, seconds), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's own tools ask first."""
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        number, several = self.problem == "number", self.problem == "multi"
        return Tags(
            estimator_type="regressor" if number else "classifier",
            target_tags=TargetTags(required=True, multi_output=several),
            classifier_tags=None if number else ClassifierTags(multi_label=several),
            regressor_tags=RegressorTags() if number else None,
            requires_fit=False,
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )

    def _prediction(self, scores: np.ndarray) -> Prediction:
        if self.problem == "number":
            return Prediction(None, (), float(scores[0]), {})
        chances = probabilities(scores[None], self.problem)[0]
        order = np.argsort(-chances, kind="stable")
        named = {self.labels[place]: float(chances[place]) for place in order}
        if self.problem == "multi":
            likely = tuple(self.labels[place] for place in order if chances[place] > 0.5)
            return Prediction(None, likely, float(chances[order[0]]), named)
        best = self.labels[order[0]]
        return Prediction(best, (best,), named[best], named)


def open_classifier(
    folder: Path | str, *, device: str = "auto", precision: Precision | None = None
) -> Classifier:
    """What a training has made, or a folder of Hugging Face's."""
    checkpoint, reader = open_reader(folder, "classify", device=device, precision=precision)
    with folder_errors(Path(folder) / CONFIG):
        return Classifier(reader, checkpoint.labels, checkpoint.problem)


def probabilities(scores: np.ndarray, problem: Problem) -> np.ndarray:
    """Of each label: a softmax over them, or each by itself."""
    wide = scores.astype(np.float64)
    if problem == "multi":
        return np.exp(-np.logaddexp(0, -wide))
    raised = np.exp(wide - wide.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)
