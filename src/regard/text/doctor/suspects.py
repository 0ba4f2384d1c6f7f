"""Labels that are probably wrong: a classifier that has not seen a text is sure of another.

Texts are vectors, five parts of them in turn are predicted by what the other four teach, and a label is
suspect where the classifier finds another likely, as confident learning has it (Northcutt et al. 2021):

    p(other | text) >= mean of p(other | texts labelled so), or 0.9; and the given label is nearly ruled out

The vectors are weighted counts of letters in a row and of words, hashed; or those of a model.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.text.doctor.drafts import Draft, Location, severity
from regard.text.doctor.samples import SampleSurvey, Surveys

Vectors = Callable[[list[str]], NDArray[np.float32]]
"""A row for each text."""

MOST = 20_000
"""Texts that are compared."""
WORK = 400_000
"""Texts times classes: more take too long."""
_FOLDS = 5
_ENOUGH = 100
_RULED_OUT = 0.05
_BARS = (0.8, 0.9, 0.95, 0.99)
_MISTAKEN = 0.05
_PLENTY = 0.9
_BUCKETS = 1 << 16
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Records of one split that are compared."""

    split: str
    survey: SampleSurvey
    numbers: NDArray[np.int64]

    @property
    def labels(self) -> list[str]:
        names, classes = self.survey.names, self.survey.classes
        return [names[classes[number]] for number in self.numbers.tolist()]

    def texts(self) -> list[str]:
        found = self.survey.fetch(self.numbers.tolist())
        return [" \n ".join(found[number].texts) for number in self.numbers.tolist()]


def suspects(surveys: Surveys, vectors: Vectors | None) -> Iterator[Draft]:
    """Of records with one class each, all splits together; classes of fewer than five are left out."""
    counts = sum((survey.counts for survey in surveys.values()), Counter[str]())
    known = {name for name, count in counts.items() if count >= _FOLDS}
    if len(known) < 2:
        return
    total = sum(len(survey) for survey in surveys.values())
    step = -(-total // min(MOST, WORK // len(known)))
    chosen = [_chosen(split, survey, known, step) for split, survey in surveys.items()]
    given = [label for each in chosen for label in each.labels]
    kept = {name for name, count in Counter(given).items() if count >= _FOLDS}
    if len(given) < _ENOUGH or len(kept) < 2:
        return
    chosen = [_chosen(split, survey, kept, step) for split, survey in surveys.items()]
    names = sorted(kept)
    labels = np.array([names.index(label) for each in chosen for label in each.labels], dtype=np.int64)
    texts = [text for each in chosen for text in each.texts()]
    chances = held_out(hashed(texts) if vectors is None else vectors(texts), labels)
    wrong, other = doubtful(chances, labels)
    right, before = float((chances.argmax(1) == labels).mean()), 0
    for each in chosen:
        after = before + len(each.numbers)
        rows = wrong[(wrong >= before) & (wrong < after)]
        if len(rows):
            noun = each.survey.kind.said
            text = (
                f"a classifier that was not shown them is sure of another {noun}; on {len(labels):,} of "
                f"{total:,} {each.survey.kind.records} it agrees with {right:.0%}"
            )
            places = [
                Location(
                    int(each.numbers[row - before]),
                    f"given {names[labels[row]]!r} ({chances[row, labels[row]]:.2f}), predicted "
                    f"{names[other[row]]!r} ({chances[row, other[row]]:.2f})",
                )
                for row in rows[:_SHOWN].tolist()
            ]
            how_bad = severity(len(rows) / len(each.numbers), 0.02)
            about = f"likely {noun} errors", how_bad, each.split, len(rows), len(each.numbers)
            yield Draft(*about, text, "look at them: some will be wrong, some only hard", places)
        before = after


def _chosen(split: str, survey: SampleSurvey, known: set[str], step: int) -> _Chosen:
    usable = np.array([name in known for name in survey.names], dtype=bool)
    numbers = np.flatnonzero(usable[survey.classes] & (survey.words > 0)) if len(survey) else np.empty(0, int)
    return _Chosen(split, survey, numbers[::step])


def hashed(texts: Sequence[str]) -> Any:
    """A sparse row for each text, float32: letters in a row and words, by how much they tell (tf-idf)."""
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
    from sklearn.pipeline import make_union

    how: dict[str, Any] = {"n_features": _BUCKETS, "norm": None, "alternate_sign": False}
    letters = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), **how)
    words = HashingVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\S+", **how)
    counts = make_union(letters, words).transform(texts).tocsr()
    shared = np.bincount(counts.indices, minlength=counts.shape[1]) > 1  # what one text has tells nothing
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts[:, shared]).astype(np.float32)


def held_out(rows: Any, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """The probability of each class for each row, by logistic regression on the other four fifths. Hashed
    rows are many and sparse, so that it is fitted by a few epochs of gradient descent; a model's, exactly."""
    from scipy.sparse import issparse
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    quick: dict[str, Any] = {"alpha": 1e-5, "max_iter": 6, "tol": None, "average": True, "random_state": 0}
    classifier = SGDClassifier(loss="log_loss", **quick) if issparse(rows) else LogisticRegression(C=10.0)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough
        return cross_val_predict(classifier, rows, labels, cv=folds, method="predict_proba")


def doubtful(
    chances: NDArray[np.float64], labels: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows whose label is probably wrong, the worst first; and for every row the likeliest class. None are,
    where the classifier is often sure of another class than the labels: then it is to be doubted itself."""
    own = chances[np.arange(len(labels)), labels]
    usual = np.array([own[labels == each].mean() for each in range(chances.shape[1])])
    likeliest, best = chances.argmax(1), chances.max(1)
    differs = likeliest != labels
    for bar in _BARS:
        sure = best >= np.maximum(np.minimum(usual, _PLENTY)[likeliest], bar)
        if sure.any() and differs[sure].mean() <= _MISTAKEN:
            rows = np.flatnonzero(sure & differs & (own <= _RULED_OUT))
            return rows[np.argsort(own[rows] - best[rows], kind="stable")], likeliest
    return np.empty(0, np.int64), likeliest
