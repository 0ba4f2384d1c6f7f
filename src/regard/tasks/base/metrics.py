"""How good classifiers, regressors, taggers and sentence vectors are.

    f1          2 P R / (P + R) = 2 TP / (2 TP + FP + FN); 0 where a class is neither wanted nor predicted
    macro_f1    mean of the classes' f1; micro_f1: f1 of the counts of all classes together
    mcc         (c n - sum_k p_k t_k) / sqrt((n^2 - sum_k p_k^2) (n^2 - sum_k t_k^2))     Gorodkin 2004, R_K
                with n examples, c of them right, p_k predicted and t_k wanted of class k
    spearman    pearson of the ranks; equal values share their mean rank
    mrr         mean of 1 / rank of the right answer

Shares are fractions of 1, and 0/0 is 0. Figures of classes are scikit-learn's, ranks scipy's; spans, search
and printing are ours. tests/tasks/test_metrics.py holds all to their definitions, and spans to seqeval's.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.text.tags import Span, TagError, detect_scheme, spans

Labels = Sequence[int] | npt.NDArray[np.integer]
CountArray = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Tags = Sequence[Sequence[str]]

MOST_CLASSES = 12
"""Rows and columns of a confusion matrix that a terminal holds."""

BLOCK = 1024
"""Vectors compared with as many others at once, so that memory does not grow with their number."""

EQUAL = 1e-12
"""Cosines so near are equal: float64 does not tell them apart reliably."""


@dataclass(frozen=True, slots=True)
class ClassFigures:
    precision: float
    recall: float
    f1: float
    count: int
    """How many are wanted."""


def classification(predicted: Labels, wanted: Labels, labels: int) -> dict[str, float]:
    """accuracy, macro_f1, micro_f1, mcc. Classes that are neither wanted nor predicted do not enter
    macro_f1; mcc is 0 where everything wanted, or everything predicted, is of one class."""
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef  # slow to import

    guesses, truth = _classes(predicted, wanted, labels)
    accuracy = float(accuracy_score(truth, guesses))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a single class is no accident
        mcc = float(matthews_corrcoef(truth, guesses))
    return {
        "accuracy": accuracy,
        "macro_f1": float(f1_score(truth, guesses, average="macro", zero_division=0.0)),
        "micro_f1": accuracy,  # each mistake is one false positive and one false negative
        "mcc": mcc,
    }


def confusion(predicted: Labels, wanted: Labels, labels: int) -> CountArray:
    """[wanted, predicted]: how often."""
    from sklearn.metrics import confusion_matrix

    guesses, truth = _classes(predicted, wanted, labels)
    return confusion_matrix(truth, guesses, labels=range(labels))


def render_confusion(matrix: CountArray, names: Sequence[str], console: Console) -> None:
    """As a table. Of many classes the most confused are shown, and how many are not is said."""
    if matrix.shape != (len(names), len(set(names))):
        raise ValueError(f"{len(names)} names for a matrix of shape {matrix.shape}: give each class its own")
    mistakes = matrix.sum(axis=0) + matrix.sum(axis=1) - 2 * matrix.diagonal()
    # A count that does not fit would be cut, so there are as many columns as fit beside the names.
    room = console.width - min(20, max(map(len, names)) + 3)
    fits = max(2, min(MOST_CLASSES, room // (len(str(matrix.max())) + 1)))
    shown = np.sort(np.argsort(-mistakes, kind="stable")[:fits])
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("wanted, predicted as", overflow="fold")
    for number in range(1, len(shown) + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    for number, row in enumerate(shown, start=1):
        cells = [Text(str(count) if count else "·") for count in matrix[row, shown].tolist()]
        cells[number - 1].stylize("green")
        table.add_row(Text(f"{number:2} {names[row]}"), *cells)
    console.print(table)
    if hidden := len(names) - len(shown):
        console.print(f"{hidden} of {len(names)} classes, confused less, are not shown", highlight=False)


def multi_label(predicted: npt.NDArray[np.bool_], wanted: npt.NDArray[np.bool_]) -> dict[str, float]:
    """Any number of labels for each example, [example, label]: micro_f1, macro_f1 over all labels, and
    exact, the share of examples with all labels right."""
    guesses, truth = np.asarray(predicted), np.asarray(wanted)
    alike = guesses.shape == truth.shape and guesses.dtype == truth.dtype == np.bool_
    if not alike or truth.ndim != 2 or not truth.size:
        raise ValueError(
            f"predicted is {guesses.dtype} {guesses.shape} and wanted {truth.dtype} {truth.shape}: give two "
            "boolean arrays [examples, labels] of one shape, with one or more of both"
        )
    from sklearn.metrics import f1_score

    average = {
        f"{name}_f1": f1_score(truth, guesses, average=name, zero_division=0.0) for name in ("micro", "macro")
    }
    if truth.shape[1] == 1:  # which scikit-learn reads as two classes
        right = _f1(*(each.sum() for each in (guesses & truth, guesses, truth)))
        average = dict.fromkeys(average, right)
    figures = {name: float(value) for name, value in average.items()}
    return {**figures, "exact": float((guesses == truth).all(axis=1).mean())}


def regression(predicted: npt.ArrayLike, wanted: npt.ArrayLike) -> dict[str, float]:
    """pearson, spearman, mse. A constant correlates with nothing: 0. Numbers that are not finite give nan."""
    from scipy.stats import rankdata  # slow to import

    guesses, truth = np.asarray(predicted, dtype=np.float64), np.asarray(wanted, dtype=np.float64)
    _check_rows(guesses, truth, "numbers")
    if not (np.isfinite(guesses).all() and np.isfinite(truth).all()):
        return dict.fromkeys(("pearson", "spearman", "mse"), float("nan"))
    with np.errstate(over="ignore"):
        mse = float(np.mean((guesses - truth) ** 2))
    spearman = _pearson(rankdata(guesses), rankdata(truth))
    return {"pearson": _pearson(guesses, truth), "spearman": spearman, "mse": mse}


def tagging(predicted: Tags, wanted: Tags) -> dict[str, float]:
    """accuracy over words; and where the tags mark spans (IOB2), precision, recall and f1 of spans, which are
    right if label, start and end are.

    Predicted tags may be malformed: an I that continues nothing opens a span, as in the CoNLL scorer. Where
    nothing but O is wanted, what is predicted tells whether the tags mark spans.
    """
    words = right = 0
    for number, (guesses, truth) in enumerate(_sentences(predicted, wanted), start=1):
        if len(guesses) != len(truth):
            raise ValueError(
                f"sentence {number}: {len(guesses)} tags for {len(truth)} words; give one for each word"
            )
        words += len(truth)
        right += sum(guess == true for guess, true in zip(guesses, truth, strict=True))
    if not words:
        raise ValueError("no words to measure: all sentences are empty; check what was read")
    figures = {"accuracy": right / words}
    nothing = all(tag == "O" for tags in wanted for tag in tags)
    if detect_scheme(predicted if nothing else wanted) is not None:
        hits, guessed, true = (each.total() for each in _span_counts(predicted, wanted))
        figures["precision"] = float(_ratio(hits, guessed))
        figures["recall"] = float(_ratio(hits, true))
        figures["f1"] = float(_f1(hits, guessed, true))
    return figures


def per_label_spans(predicted: Tags, wanted: Tags) -> dict[str, ClassFigures]:
    """For each label of a span that is wanted or predicted, in alphabetical order."""
    hits, guessed, true = _span_counts(predicted, wanted)
    labels = sorted({*guessed, *true})
    counts = (np.array([each[label] for label in labels], dtype=np.int64) for each in (hits, guessed, true))
    return class_figures(labels, *counts)


def class_figures(
    names: Sequence[str], right: CountArray, guessed: CountArray, true: CountArray
) -> dict[str, ClassFigures]:
    """Of each class, from how many of it are right, predicted and wanted."""
    columns = (_ratio(right, guessed), _ratio(right, true), _f1(right, guessed, true), true)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {name: ClassFigures(*row) for name, row in zip(names, rows, strict=True)}


def retrieval(queries: npt.ArrayLike, keys: npt.ArrayLike) -> dict[str, float]:
    """accuracy_at_1, recall_at_10 and mrr: key i is the right answer to query i, keys are ranked by cosine.

    Of equal keys the one with the lower number ranks first, as in a stable search: vectors that are all the
    same find 1 of n, not everything. A vector that is not finite ranks behind all others as an answer,
    before them as a rival.
    """
    asked, answers = np.asarray(queries), np.asarray(keys)
    if asked.ndim != 2 or asked.shape != answers.shape or not len(asked):
        raise ValueError(
            f"queries have shape {asked.shape} and keys {answers.shape}: give two arrays of one shape "
            "[n, d], row i of one for row i of the other"
        )
    count = len(asked)
    ranks = np.ones(count, dtype=np.int64)
    numbers = np.arange(count)
    with np.errstate(invalid="ignore"):  # of infinite vectors
        for start in range(0, count, BLOCK):
            here = slice(start, start + BLOCK)
            asking = _directions(asked[here])
            own = np.einsum("nd,nd->n", asking, _directions(answers[here]))[:, None]
            for other in range(0, count, BLOCK):
                there = slice(other, other + BLOCK)
                cosines = asking @ _directions(answers[there]).T
                equal = np.abs(cosines - own) <= EQUAL
                before = numbers[there] < numbers[here, None]
                ranks[here] += np.where(equal, before, ~(cosines < own)).sum(axis=1)
    return {
        "accuracy_at_1": float((ranks == 1).mean()),
        "recall_at_10": float((ranks <= 10).mean()),
        "mrr": float((1 / ranks).mean()),
    }


def _directions(vectors: npt.NDArray[np.generic]) -> Floats:
    """Each of length 1; the zero vector stays, and is at right angles to everything."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return np.divide(exact, lengths, out=np.zeros_like(exact), where=lengths != 0)


def _ratio(part: npt.ArrayLike, whole: npt.ArrayLike) -> Floats:
    """0 where the whole is."""
    parts, wholes = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    return np.divide(parts, wholes, out=np.zeros_like(parts), where=wholes > 0)


def _f1(right: npt.ArrayLike, guessed: npt.ArrayLike, true: npt.ArrayLike) -> Floats:
    return _ratio(2 * np.asarray(right), np.asarray(guessed) + np.asarray(true))


def _pearson(one: Floats, other: Floats) -> float:
    if one.min() == one.max() or other.min() == other.max():
        return 0.0
    scaled = (values / np.abs(values).max() for values in (one, other))  # squares do not overflow or vanish
    return float(np.corrcoef(*scaled)[0, 1])


def _span_counts(predicted: Tags, wanted: Tags) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Right, predicted and wanted spans of each label."""
    hits, guessed, true = Counter[str](), Counter[str](), Counter[str]()
    for number, (guesses, truth) in enumerate(_sentences(predicted, wanted), start=1):
        found, there = _spans(guesses, number, "predicted"), _spans(truth, number, "wanted")
        guessed.update(span.label for span in found)
        true.update(span.label for span in there)
        hits.update(span.label for span in found & there)
    return hits, guessed, true


def _spans(tags: Sequence[str], number: int, which: str) -> set[Span]:
    try:
        return set(spans(tags, "IOB1"))  # lenient, and IOB2 is read as well
    except TagError as error:
        raise ValueError(
            f"{which} sentence {number}, {error}; bring tags to IOB2 with regard.text.to_iob2"
        ) from error


def _sentences(predicted: Tags, wanted: Tags) -> Iterable[tuple[Sequence[str], Sequence[str]]]:
    if len(predicted) != len(wanted):
        raise ValueError(
            f"{len(predicted)} sentences are predicted, but {len(wanted)} wanted: "
            "sentence i of one belongs to sentence i of the other"
        )
    return zip(predicted, wanted, strict=True)


def _classes(predicted: Labels, wanted: Labels, labels: int) -> tuple[CountArray, CountArray]:
    guesses, truth = np.asarray(predicted), np.asarray(wanted)
    _check_rows(guesses, truth, "classes")
    for which, row in (("predicted", guesses), ("wanted", truth)):
        if row.dtype.kind not in "iu":
            raise TypeError(f"{which} classes of type {row.dtype} are no classes: give whole numbers")
        if not 0 <= row.min() <= row.max() < labels:
            raise ValueError(
                f"{which} classes go from {row.min()} to {row.max()}, but {labels} are 0 to {labels - 1}"
            )
    return guesses.astype(np.int64), truth.astype(np.int64)


def _check_rows(guesses: npt.NDArray[np.generic], truth: npt.NDArray[np.generic], what: str) -> None:
    if guesses.ndim != 1 or guesses.shape != truth.shape:
        raise ValueError(
            f"predicted has shape {guesses.shape} and wanted {truth.shape}: give two rows of as many {what}"
        )
    if not len(truth):
        raise ValueError(f"no {what} to measure: check what was read")
