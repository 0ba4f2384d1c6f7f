"""Where a model is wrong: against scikit-learn's and torchmetrics' figures, and by hand."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

from regard.config import ConfigError
from regard.settings.models import ClassifyConfig, TagConfig
from regard.tasks.base.analysis import (
    Analysis,
    Confused,
    Mistake,
    check_files,
    confused_of,
    report,
    write_mistakes,
)
from regard.tasks.base.calibration import calibration
from regard.tasks.base.reading import Reader
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.classification import errors as classification
from regard.tasks.classification.classifier import Classifier
from regard.tasks.tagging import errors as tagging
from regard.tasks.tagging.tagger import Tagger
from regard.text import Labelled, Origin, Span, Tagged, read_labelled
from tests.tasks.encoders import toys

NAMES = ("a", "b", "c")


def classifier(problem: Any = "single", labels: tuple[str, ...] = NAMES) -> Classifier:
    model = toys.model(ClassifyConfig(labels=max(len(labels), 1)), vocabulary=len(toys.subwords()))
    return Classifier(Reader(model, toys.subwords(), longest=64), labels, problem)


def texts(*labels: tuple[str, ...]) -> list[Labelled]:
    return [Labelled(f"text {row}", None, own, Origin("x.tsv", row + 1)) for row, own in enumerate(labels)]


def drawn(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    return chance.normal(size=(rows, 3)).astype(np.float32), chance.integers(0, 3, rows)


def softmax(scores: np.ndarray) -> np.ndarray:
    return torch.tensor(scores, dtype=torch.float64).softmax(dim=1).numpy()


def test_each_label_has_scikit_learns_figures():
    scores, labels = drawn(200)
    found = classification.analyse(classifier(), scores, labels, texts(*[("a",)] * 200))
    theirs = precision_recall_fscore_support(labels, scores.argmax(axis=1))
    ours = [[own.precision, own.recall, own.f1, own.count] for own in found.labels.values()]
    np.testing.assert_allclose(np.array(ours).T, np.array(theirs), rtol=1e-12)
    matrix = confusion_matrix(labels, scores.argmax(axis=1))
    assert {(each.gold, each.predicted): each.count for each in found.confused} == {
        (NAMES[i], NAMES[j]): matrix[i, j] for i in range(3) for j in range(3) if i != j and matrix[i, j]
    }


def test_each_of_several_labels_has_scikit_learns_figures():
    scores, _ = drawn(200)
    wanted = np.random.default_rng(1).random((200, 3)) < 0.4
    found = classification.analyse(classifier("multi"), scores, wanted, texts(*[()] * 200))
    theirs = precision_recall_fscore_support(wanted, scores > 0)
    ours = [[own.precision, own.recall, own.f1, own.count] for own in found.labels.values()]
    np.testing.assert_allclose(np.array(ours).T, np.array(theirs), rtol=1e-12)
    chances = torch.sigmoid(torch.tensor(scores, dtype=torch.float64)).ravel()
    theirs = binary_calibration_error(chances, torch.tensor(wanted.ravel()).long(), n_bins=15)
    assert found.calibration.error == pytest.approx(float(theirs), abs=1e-6)
    assert len(found.mistakes) == ((scores > 0) != wanted).any(axis=1).sum()


def test_labels_of_a_text_are_taken_for_each_other():
    scores = np.array([[4.0, -1.0, 3.0], [-5.0, 2.0, -1.0]], dtype=np.float32)
    wanted = np.array([[False, True, True], [False, True, False]])
    found = classification.analyse(classifier("multi"), scores, wanted, texts(("b", "c"), ("b",)))
    assert found.confused == [Confused("b", "a", 1)]
    [mistake] = found.mistakes
    assert (mistake.gold, mistake.predicted) == ("b,c", "a,c")
    assert mistake.probability == pytest.approx(1 / (1 + np.exp(-4.0)))  # of the wrong ones the surest


def test_mistakes_come_surest_first_with_their_text_and_place():
    scores, labels = drawn(50)
    records = texts(*[(NAMES[label],) for label in labels])
    found = classification.analyse(classifier(), scores, labels, records)
    best, chances = scores.argmax(axis=1), softmax(scores).max(axis=1)
    wrong = sorted(np.flatnonzero(best != labels), key=lambda row: -chances[row])
    assert [each.origin.line - 1 for each in found.mistakes] == wrong
    first = found.mistakes[0]
    assert (first.text, first.gold) == (records[wrong[0]].text, NAMES[labels[wrong[0]]])
    assert first.predicted == NAMES[best[wrong[0]]]
    assert first.probability == pytest.approx(chances[wrong[0]])


def test_of_numbers_the_farthest_come_first():
    scores = np.array([[1.0], [5.0], [2.0]], dtype=np.float32)
    wanted = np.array([1.5, 1.0, 4.0], dtype=np.float32)
    found = classification.analyse(classifier("number", ()), scores, wanted, texts(*[("1",)] * 3))
    assert [each.origin.line for each in found.mistakes] == [2, 3, 1]
    assert found.to_dict().keys() == {"errors"}
    assert found.mistakes[0].probability is None


def test_calibration_is_torchmetrics_and_its_bins_are_scikit_learns():
    scores, labels = drawn(400)
    chances = softmax(scores)
    right = chances.argmax(axis=1) == labels
    found = calibration(chances.max(axis=1), right)
    theirs = multiclass_calibration_error(
        torch.tensor(chances), torch.tensor(labels), num_classes=3, n_bins=15, norm="l1"
    )
    assert found.error == pytest.approx(float(theirs), abs=1e-6)
    share, mean = calibration_curve(right, chances.max(axis=1), n_bins=15)
    full = [each for each in found.bins if each.count]
    np.testing.assert_allclose([each.right for each in full], share)
    np.testing.assert_allclose([each.sure for each in full], mean)
    assert sum(each.count for each in found.bins) == 400


@pytest.mark.parametrize(("sure", "right", "error"), [([1.0, 1.0], [1, 1], 0.0), ([1.0, 0.0], [0, 1], 1.0)])
def test_calibration_at_the_ends(sure, right, error):
    assert calibration(sure, right).error == error


def test_probabilities_must_be_some():
    with pytest.raises(ValueError, match=r"from 0\.5 to 2\.0"):
        calibration([0.5, 2.0], [True, True])
    with pytest.raises(ValueError, match="two rows of one length"):
        calibration([], [])


def tagged(*lines: str) -> list[Tagged]:
    """word/TAG word/TAG"""
    pairs = [[tuple(each.split("/")) for each in line.split()] for line in lines]
    return [
        Tagged(tuple(w for w, _ in own), tuple(t for _, t in own), Origin("x.conll", 10 * row + 1))
        for row, own in enumerate(pairs)
    ]


def tagger(labels: tuple[str, ...]) -> Tagger:
    model = toys.model(TagConfig(tags=len(labels)), vocabulary=len(toys.subwords()))
    return Tagger(Reader(model, toys.subwords(), longest=64), labels)


def scored(labels: tuple[str, ...], *lines: str) -> list[np.ndarray]:
    """As if these tags were the likeliest, by 2."""
    return [
        np.array([[2.0 * (label == tag) for label in labels] for tag in line.split()], dtype=np.float32)
        for line in lines
    ]


def test_words_are_measured_by_their_tags_unknown_ones_too():
    labels = ("N", "V")
    records = tagged("sun/N sees/V dog/N", "old/A dog/N")
    found = tagging.analyse(tagger(labels), scored(labels, "N N N", "N V"), records)
    wanted, guessed = ["N", "V", "N", "A", "N"], ["N", "N", "N", "N", "V"]
    theirs = precision_recall_fscore_support(wanted, guessed, labels=["N", "V", "A"], zero_division=0.0)
    ours = [[own.precision, own.recall, own.f1, own.count] for own in found.labels.values()]
    np.testing.assert_allclose(np.array(ours).T, np.array(theirs), rtol=1e-12)
    assert found.confused == [Confused("A", "N", 1), Confused("N", "V", 1), Confused("V", "N", 1)]
    assert {each.more["word"]: (each.gold, each.predicted) for each in found.mistakes} == {
        "sees": ("V", "N"),
        "old": ("A", "N"),
        "dog": ("N", "V"),
    }
    assert found.calibration.error == pytest.approx(abs(2 / 5 - 1 / (1 + np.exp(-2))), abs=1e-6)


SPANS = ("O", "B-P", "I-P", "B-L", "I-L")


def test_spans_are_taken_for_others_missed_invented_or_cut():
    records = tagged("Ann/B-P Lee/I-P met/O Rome/B-L", "Bo/B-P ran/O", "so/O it/O is/O", "Kim/B-P An/I-P")
    scores = scored(SPANS, "B-L I-L O B-L", "O O", "O B-L O", "B-P O")
    found = tagging.analyse(tagger(SPANS), scores, records)
    assert {(each.gold, each.predicted): each.count for each in found.confused} == {
        ("P", "L"): 1,
        ("P", "O"): 1,
        ("O", "L"): 1,
        ("P", "P"): 1,
    }
    words = {(each.more["gold_words"], each.more["predicted_words"]) for each in found.mistakes}
    assert words == {("Ann Lee", "Ann Lee"), ("Bo", ""), ("", "it"), ("Kim An", "Kim")}
    assert {each.origin.line for each in found.mistakes} == {1, 11, 21, 31}
    assert found.mistakes[0].text in {" ".join(record.words) for record in records}
    assert "P found with other bounds" in [str(each).split(maxsplit=1)[1] for each in found.confused]


def test_a_span_goes_with_what_overlaps_it_most():
    wanted = [Span("P", 0, 3)]
    found = [Span("L", 0, 1), Span("P", 1, 3)]
    assert list(tagging.missed(wanted, found)) == [(wanted[0], found[1]), (None, found[0])]
    assert list(tagging.missed(wanted, wanted)) == []


MISTAKES = [
    Mistake(Origin("a.tsv", 3), "a\tb\nc, d", "x", "y", 0.75, {"second": 'say "no"'}),
    Mistake(Origin("a.tsv", 1), "plain", "y", "x", None, {"second": "é"}),
]


def test_mistakes_are_written_by_the_ending_and_can_be_read_again(tmp_path: Path):
    for ending in ("tsv", "csv", "jsonl"):
        write_mistakes(tmp_path / f"e.{ending}", MISTAKES)
        records = list(read_labelled(tmp_path / f"e.{ending}", text="text", label="gold", second="second"))
        assert [each.labels for each in records] == [("x",), ("y",)]
        assert records[0].text == ("a b c, d" if ending == "tsv" else "a\tb\nc, d")
        assert [each.second for each in records] == ['say "no"', "é"]
    with (tmp_path / "e.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["file", "line", "text", "gold", "predicted", "probability", "second"]
    assert [row["probability"] for row in rows] == ["0.7500", ""]
    assert json.loads((tmp_path / "e.jsonl").read_text().splitlines()[0]) == MISTAKES[0].to_dict()
    write_mistakes(tmp_path / "none.tsv", [])
    assert (tmp_path / "none.tsv").read_text() == "file\tline\ttext\tgold\tpredicted\tprobability\n"


def test_files_are_refused_before_any_work():
    for errors, picture, numbers, match in (
        ("e.txt", None, False, r"--errors e\.txt: a table is \.tsv"),
        (None, "c.jpg", False, r"--calibration c\.jpg: a picture is \.png"),
        (None, "c.png", True, "gives numbers"),
    ):
        options = EvaluateOptions(
            errors=None if errors is None else Path(errors),
            calibration=None if picture is None else Path(picture),
        )
        with pytest.raises(ConfigError, match=match):
            check_files(options, numbers=numbers)


def test_a_report_is_short_and_its_files_are_whole(tmp_path: Path):
    chance = np.random.default_rng(0)
    names = [f"[b]{number}" for number in range(40)]
    matrix = chance.integers(0, 9, (40, 40))
    figures = {name: classification.metrics.ClassFigures(0.5, 0.5, 0.5, 3) for name in names}
    mistakes = [Mistake(Origin("a.tsv", n), "long " * 50 + "\x1b[31m", "x", "y", 0.9) for n in range(20)]
    measured = calibration(chance.random(100), chance.random(100) < 0.5)
    found = Analysis(figures, confused_of(matrix, names), mistakes, measured)
    page = io.StringIO()
    options = EvaluateOptions(errors=tmp_path / "e.tsv", calibration=tmp_path / "c.png")
    report(found, options, Console(file=page, width=100))
    shown = page.getvalue()
    assert "[b]0" in shown
    assert "10 of 40 labels" in shown
    assert shown.count(" taken for ") == 10 + 5
    assert "\x1b" not in shown
    assert f"calibration error {measured.error:.4f} (15 bins)" in shown
    assert len((tmp_path / "e.tsv").read_text().splitlines()) == 21
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
