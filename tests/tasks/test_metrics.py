"""Figures are those of the definitions, and of seqeval, whatever they are computed from."""

import io
import math
from fractions import Fraction

import numpy as np
import pytest
import seqeval.metrics
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rich.console import Console

from regard.tasks.base import metrics
from regard.tasks.base.metrics import (
    ClassFigures,
    classification,
    confusion,
    multi_label,
    per_label_spans,
    regression,
    render_confusion,
    retrieval,
    tagging,
)

LABELS = 5
CLASSES = st.lists(st.tuples(st.integers(0, LABELS - 1), st.integers(0, LABELS - 1)), min_size=1, max_size=30)
TAGS = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-creative-work", "I-creative-work"])
SENTENCES = st.lists(st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=8), min_size=1, max_size=5)
FEW = st.integers(-3, 3).map(float)  # with ties
NUMBERS = st.lists(
    st.one_of(st.tuples(FEW, FEW), st.tuples(*[st.floats(-1e6, 1e6)] * 2)), min_size=2, max_size=20
)


def split(pairs):
    return [one for one, _ in pairs], [other for _, other in pairs]


def ratio(part, whole):
    return part / whole if whole else 0.0


def figures_of(label, pairs):
    """precision, recall, f1 and count of a class, by counting."""
    right = sum(one == other == label for one, other in pairs)
    predicted, wanted = (sum(each == label for each in side) for side in split(pairs))
    return (
        ratio(right, predicted),
        ratio(right, wanted),
        ratio(2 * right, predicted + wanted),
        wanted,
    )


@settings(max_examples=60)
@given(CLASSES)
def test_classification_is_what_counting_gives(pairs):
    predicted, wanted = split(pairs)
    there = {*predicted, *wanted}
    right = sum(one == other for one, other in pairs)
    guessed, true = ([side.count(label) for label in range(LABELS)] for side in (predicted, wanted))
    squares = [len(pairs) ** 2 - sum(count**2 for count in side) for side in (guessed, true)]
    together = right * len(pairs) - sum(one * other for one, other in zip(guessed, true, strict=True))
    expected = {
        "accuracy": right / len(pairs),
        "macro_f1": sum(figures_of(label, pairs)[2] for label in there) / len(there),
        "micro_f1": right / len(pairs),
        "mcc": ratio(together, math.sqrt(squares[0] * squares[1])),
    }
    assert classification(predicted, np.array(wanted), LABELS) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60)
@given(CLASSES)
def test_the_matrix_is_what_counting_gives(pairs):
    predicted, wanted = split(pairs)
    matrix = confusion(predicted, wanted, LABELS)
    assert matrix.dtype == np.int64
    for (one, other), count in np.ndenumerate(matrix):
        assert count == pairs.count((other, one))


def test_two_classes_by_the_definition():
    # 3 true and 1 false positive, 4 true and 2 false negatives
    predicted, wanted = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0, 1, 1]
    found = classification(predicted, wanted, 2)
    assert found["accuracy"] == found["micro_f1"] == 0.7
    assert found["macro_f1"] == pytest.approx((6 / 9 + 8 / 11) / 2)
    assert found["mcc"] == pytest.approx((3 * 4 - 1 * 2) / math.sqrt(4 * 5 * 5 * 6))


def test_a_class_that_nobody_speaks_of_does_not_count_but_one_only_predicted_does():
    assert classification([0, 1], [0, 1], 9)["macro_f1"] == 1.0
    assert classification([0, 2], [0, 0], 9)["macro_f1"] == pytest.approx(1 / 3)


def test_one_class_alone_tells_nothing_so_mcc_is_zero():
    assert classification([1, 1], [1, 1], 3) == {"accuracy": 1, "macro_f1": 1, "micro_f1": 1, "mcc": 0}
    assert classification([0, 0], [0, 1], 2)["mcc"] == 0
    assert classification([0, 1], [0, 0], 2)["mcc"] == 0


def test_mcc_does_not_overflow():
    many = np.arange(200_000) % 2
    assert classification(many.astype(np.uint8), many, 2)["mcc"] == pytest.approx(1)


@settings(max_examples=60)
@given(st.lists(st.tuples(*[st.tuples(*[st.booleans()] * 3)] * 2), min_size=2, max_size=10))
def test_multi_label_is_what_counting_gives(pairs):
    predicted, wanted = (np.array(side) for side in split(pairs))
    each = []
    for label in range(predicted.shape[1]):
        guesses, truth = predicted[:, label], wanted[:, label]
        each.append((int((guesses & truth).sum()), int(guesses.sum()) + int(truth.sum())))
    expected = {
        "micro_f1": ratio(2 * sum(right for right, _ in each), sum(count for _, count in each)),
        "macro_f1": sum(ratio(2 * right, count) for right, count in each) / len(each),
        "exact": sum(one == other for one, other in pairs) / len(pairs),
    }
    assert multi_label(predicted, wanted) == pytest.approx(expected)
    alone = multi_label(predicted[:, :1], wanted[:, :1])
    assert alone["micro_f1"] == alone["macro_f1"] == pytest.approx(ratio(2 * each[0][0], each[0][1]))


def correlation(one, other):
    """By the definition, exact but for the root."""
    xs, ys = (
        [Fraction(value) - sum(map(Fraction, side)) / len(side) for value in side] for side in (one, other)
    )
    product = sum(x * y for x, y in zip(xs, ys, strict=True))
    squares = sum(x * x for x in xs) * sum(y * y for y in ys)
    return math.copysign(math.sqrt(product**2 / squares), product)


def ranks(values):
    """From 1; of equal values each has the mean of their ranks."""
    return [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]


@settings(max_examples=60)
@given(NUMBERS)
def test_regression_is_that_of_the_definitions(pairs):
    predicted, wanted = split(pairs)
    found = regression(predicted, wanted)
    squares = [(Fraction(one) - Fraction(other)) ** 2 for one, other in pairs]
    assert found["mse"] == pytest.approx(float(sum(squares) / len(pairs)), rel=1e-12)
    assume(len(set(predicted)) > 1 and len(set(wanted)) > 1)
    assert found["spearman"] == pytest.approx(correlation(ranks(predicted), ranks(wanted)), abs=1e-12)
    # where numbers are nearly alike, float64 has few digits of what tells them apart
    assume(min(np.ptp(side) / np.abs(side).max() for side in (predicted, wanted)) > 1e-3)
    assert found["pearson"] == pytest.approx(correlation(predicted, wanted), abs=1e-12)


def test_ties_share_their_mean_rank():
    expected = correlation([1, 2.5, 2.5, 4], [2, 1, 3.5, 3.5])
    assert regression([0, 7, 7, 9], [5, -1, 6, 6])["spearman"] == pytest.approx(expected)


def test_a_constant_correlates_with_nothing():
    for constant in ([0.1] * 3, [0.0] * 3, [1e300] * 3):
        found = regression(constant, [1.0, 2.0, 3.0])
        assert (found["pearson"], found["spearman"]) == (0.0, 0.0)
    assert regression([2.0], [5.0]) == {"pearson": 0.0, "spearman": 0.0, "mse": 9.0}


@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1e5, 1e300])
def test_correlation_does_not_feel_scale(scale):
    values = np.array([1.0, 3.0, 2.0, 7.0])
    found = regression(values * scale, [1.0, 2.0, 3.0, 4.0])
    assert found["pearson"] == pytest.approx(correlation(values, [1, 2, 3, 4]))


def test_numbers_that_are_not_finite_have_no_figures():
    for bad in (np.nan, np.inf):
        assert all(math.isnan(figure) for figure in regression([1.0, bad], [1.0, 2.0]).values())


@settings(max_examples=100)
@given(SENTENCES)
def test_tagging_is_seqevals_even_where_tags_are_malformed(sentences):
    predicted, wanted = (
        [list(side) for side in sides] for sides in split([split(pairs) for pairs in sentences])
    )
    assume(any(tag != "O" for tags in wanted for tag in tags))
    expected = {
        "accuracy": seqeval.metrics.accuracy_score(wanted, predicted),
        "precision": seqeval.metrics.precision_score(wanted, predicted, zero_division=0),
        "recall": seqeval.metrics.recall_score(wanted, predicted, zero_division=0),
        "f1": seqeval.metrics.f1_score(wanted, predicted, zero_division=0),
    }
    assert tagging(predicted, wanted) == pytest.approx(expected)
    report = seqeval.metrics.classification_report(wanted, predicted, output_dict=True, zero_division=0)
    found = per_label_spans(predicted, wanted)
    assert list(found) == sorted(label for label in report if not label.endswith(" avg"))
    for label, one in found.items():
        theirs = report[label]
        assert one.count == theirs["support"]
        assert (one.precision, one.recall, one.f1) == pytest.approx(
            (theirs["precision"], theirs["recall"], theirs["f1-score"])
        )


def test_spans_are_right_as_a_whole_or_not_at_all():
    wanted = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC"]]
    predicted = [["I-PER", "I-PER", "O", "B-PER"], ["B-LOC", "I-LOC"]]  # the first I opens a span
    found = tagging(predicted, wanted)
    assert found == {"accuracy": 2 / 6, "precision": 1 / 3, "recall": 1 / 3, "f1": 1 / 3}
    assert per_label_spans(predicted, wanted) == {
        "LOC": ClassFigures(0.0, 0.0, 0.0, 2),
        "PER": ClassFigures(0.5, 1.0, 2 / 3, 1),
    }


def test_the_same_place_in_another_sentence_is_another_span():
    assert tagging([["B-PER"], ["O"]], [["O"], ["B-PER"]])["f1"] == 0.0


def test_tags_without_spans_have_accuracy_alone():
    assert tagging([["DT", "NN"], ["VB"]], [["DT", "VB"], ["VB"]]) == {"accuracy": 2 / 3}
    assert tagging([["O", "O"]], [["O", "O"]]) == {"accuracy": 1.0}
    # nothing was there to be found, but something was found
    assert tagging([["O", "B-PER"]], [["O", "O"]]) == {
        "accuracy": 0.5,
        "precision": 0.0,
        "recall": 0.0,
        "f1": 0.0,
    }


def ranks_by_sorting(queries, keys):
    """The place of key i when the keys are sorted by their cosine with query i."""
    ranks = []
    for number, query in enumerate(queries):
        cosines = [-(query @ key) / (np.linalg.norm(query) * np.linalg.norm(key)) for key in keys]
        ranks.append(1 + np.argsort(np.round(cosines, 9), kind="stable").tolist().index(number))
    return np.array(ranks)


@pytest.mark.parametrize("block", [1, 7, 1024])
def test_retrieval_ranks_as_sorting_does_in_blocks_of_any_size(monkeypatch, block):
    monkeypatch.setattr(metrics, "BLOCK", block)
    chance = np.random.default_rng(0)
    keys = chance.normal(size=(40, 6)).astype(np.float32)
    queries = (keys + chance.normal(size=keys.shape)).astype(np.float32)
    keys[7] = keys[3] * 2  # a tie, as only directions count
    ranks = ranks_by_sorting(queries.astype(np.float64), keys.astype(np.float64))
    assert len(set(ranks.tolist())) > 5
    assert retrieval(queries, keys) == pytest.approx(
        {
            "accuracy_at_1": np.mean(ranks == 1),
            "recall_at_10": np.mean(ranks <= 10),
            "mrr": np.mean(1 / ranks),
        }
    )


@pytest.mark.parametrize("vector", [[0.1, 0.7, 0.3], [0.0, 0.0, 0.0]])
def test_vectors_that_are_all_the_same_find_one_of_n(vector):
    same = np.tile(np.array(vector, dtype=np.float32), (20, 1))
    found = retrieval(same, same)
    assert found["accuracy_at_1"] == 1 / 20
    assert found["recall_at_10"] == 10 / 20
    assert found["mrr"] == pytest.approx(np.mean(1 / np.arange(1, 21)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_vectors_that_are_not_finite_find_nothing(bad):
    whole = np.eye(20)
    assert retrieval(whole, whole) == {"accuracy_at_1": 1.0, "recall_at_10": 1.0, "mrr": 1.0}
    assert retrieval(np.full((20, 20), bad), whole)["recall_at_10"] == 0.0
    broken = whole.copy()
    broken[3] = bad
    assert retrieval(whole, broken)["accuracy_at_1"] == 0.0  # the broken key is before all others


def drawn(matrix, names, width=80):
    page = io.StringIO()
    render_confusion(matrix, names, Console(file=page, width=width))
    return page.getvalue()


def test_a_confusion_matrix_is_drawn_with_its_names_and_counts():
    lines = drawn(np.array([[50, 3], [0, 7]]), ["no [b]markup", "yes"]).splitlines()
    assert lines[1].split() == ["1", "no", "[b]markup", "50", "3"]
    assert lines[2].split() == ["2", "yes", "·", "7"]
    assert len(lines) == 3


def test_of_many_classes_the_most_confused_are_drawn_and_the_rest_is_counted():
    matrix = np.diag(np.full(30, 99_000))
    matrix[28, 5] = 12_345
    page = drawn(matrix, [f"class{number}" for number in range(30)])
    lines = page.splitlines()
    assert "class5 " in page
    assert "class28 " in page
    assert sum(" class" in line for line in lines[:-1]) == 11
    assert "12345" in page
    assert "…" not in page
    assert lines[-1] == "19 of 30 classes, confused less, are not shown"
    assert "18 of 30" in drawn(matrix, [f"class{number}" for number in range(30)], width=200)
    assert "not shown" not in drawn(matrix[:5, :5], list("abcde"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: classification([], [], 2), "no classes to measure"),
        (lambda: classification([0], [0, 1], 2), r"shape \(1,\) and wanted \(2,\)"),
        (lambda: classification([0, 2], [0, 1], 2), "predicted classes go from 0 to 2"),
        (lambda: confusion([0, 1], [-1, 1], 2), "wanted classes go from -1 to 1"),
        (lambda: render_confusion(np.eye(2, dtype=np.int64), ["a"], Console()), "1 names for a matrix"),
        (
            lambda: render_confusion(np.eye(2, dtype=np.int64), ["a", "a"], Console()),
            "give each class its own",
        ),
        (lambda: multi_label(np.ones((2, 2)), np.ones((2, 2))), "boolean arrays"),
        (lambda: multi_label(np.ones((0, 2), dtype=bool), np.ones((0, 2), dtype=bool)), "one or more"),
        (lambda: regression([1.0], [1.0, 2.0]), "as many numbers"),
        (lambda: tagging([["O"]], [["O"], ["O"]]), "1 sentences are predicted, but 2 wanted"),
        (lambda: tagging([["O"], ["O"]], [["O"], ["O", "O"]]), "sentence 2: 1 tags for 2 words"),
        (lambda: tagging([[]], [[]]), "no words"),
        (lambda: tagging([["S-PER"]], [["B-PER"]]), "predicted sentence 1, tag 0: malformed tag 'S-PER'"),
        (lambda: tagging([["B-PER"]], [["S-PER"]]), "wanted sentence 1, tag 0"),
        (lambda: retrieval(np.ones((2, 3)), np.ones((3, 3))), r"\(2, 3\) and keys \(3, 3\)"),
    ],
)
def test_what_cannot_be_measured_is_an_error_that_says_why(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_classes_that_are_no_whole_numbers_are_refused():
    with pytest.raises(TypeError, match="predicted classes of type float64"):
        classification([0.0], [0], 2)
