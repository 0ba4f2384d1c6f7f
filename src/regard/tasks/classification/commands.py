"""What classification's commands do: classify, evaluate."""

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from regard.config import ConfigError
from regard.tasks.base import metrics
from regard.tasks.base.analysis import check_files, report
from regard.tasks.base.evaluation import labelled_data, own_data, say_figures
from regard.tasks.base.faster import Precision
from regard.tasks.base.lines import WINDOW, incoming
from regard.tasks.base.reading import TooLong, quietly
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import counting, say
from regard.tasks.classification.classifier import Prediction, open_classifier
from regard.tasks.classification.data import LabelledCorpus, targets
from regard.tasks.classification.errors import analyse
from regard.tasks.classification.recipe import RECIPE
from regard.tasks.classification.train import measure
from regard.text import DataError, Origin


def classify(
    model: Path,
    file: str,
    *,
    out: TextIO,
    device: str = "auto",
    as_json: bool = False,
    probabilities: bool = False,
    top_k: int | None = None,
    min_probability: float | None = None,
    too_long: TooLong = "cut",
    precision: Precision | None = None,
    words: bool = False,
    labelled: Path | None = None,
    layer: int = -1,
) -> None:
    """Line by line: label, probability, text. Where the model was trained on pairs, a line is a text, a tab
    and the other text. With `words`, those of the lines, by the vectors of others that are labelled."""
    _check_probabilities(top_k, min_probability, words)
    if words != (labelled is not None):
        raise ConfigError(
            "--words needs --labelled FILE, words whose labels are known, and that needs --words"
        )
    if words:  # regard.meaning stands above
        by_words = import_module("regard.meaning.words").classify_words
        by_words(model, file, labelled=labelled, layer=layer, device=device, as_json=as_json, out=out)
        return
    classifier = open_classifier(model, device=device, precision=precision)
    if classifier.problem == "number" and (top_k is not None or min_probability is not None):
        raise ConfigError("--top-k and --min-probability are for labels, but this model gives numbers")
    most = top_k or (len(classifier.labels) if probabilities else 0)
    lines = incoming(file)
    window = 1 if file == "-" and sys.stdin.isatty() else WINDOW
    with counting("lines", beside=out) as advance:
        number = unsure = 0
        while chunk := list(islice(lines, window)):
            firsts, seconds = _columns(chunk, file, number)
            found = classifier.classify(firsts, seconds, too_long=too_long, progress=advance)
            for line, prediction in zip(chunk, found, strict=True):
                kept = prediction if min_probability is None else prediction.sure(min_probability)
                unsure += len(kept.labels) < max(len(prediction.labels), 1)
                out.write(_written(line, kept, as_json, most, min_probability) + "\n")
            out.flush()
            number += len(chunk)
    if min_probability is not None and unsure:
        what = f"no label, or not all, as they are less likely than {min_probability:g}"
        say(Console(stderr=True), f"{unsure} of {number} lines have {what}")


def _check_probabilities(top_k: int | None, min_probability: float | None, words: bool) -> None:
    if top_k is not None and top_k < 1:
        raise ConfigError(f"--top-k {top_k}: give 1 or more")
    if min_probability is not None and not 0 <= min_probability <= 1:
        raise ConfigError(f"--min-probability {min_probability:g}: a probability is from 0 to 1")
    if words and (top_k is not None or min_probability is not None):
        raise ConfigError("--top-k and --min-probability are for texts: leave them out with --words")


def _columns(lines: Sequence[str], file: str, before: int) -> tuple[list[str], list[str] | None]:
    cells = [line.split("\t") for line in lines]
    width = len(cells[0])
    for number, row in enumerate(cells, start=before + 1):
        if len(row) != width or width > 2:
            origin = Origin("standard input" if file == "-" else file, number)
            remedy = "give a text a line, or two with a tab between them, all alike"
            raise DataError(origin, f"{len(row)} texts in a line", remedy=remedy)
    return [row[0] for row in cells], [row[1] for row in cells] if width == 2 else None


def _written(
    line: str, prediction: Prediction, as_json: bool, most: int, min_probability: float | None
) -> str:
    """`most` labels with their probabilities; 0 for those that are chosen."""
    likely = {
        name: chance
        for name, chance in prediction.top(most or len(prediction.probabilities)).items()
        if chance >= (min_probability or 0.0)
    }
    if as_json:
        shares = {"probabilities": likely} if prediction.probabilities and most else {}
        return json.dumps({"text": line, **prediction.to_dict(), **shares}, ensure_ascii=False)
    if not prediction.probabilities:
        return f"{prediction.value:.4f}\t{line}"
    nothing = "" if min_probability is None else "-"
    if most:
        listed = " ".join(f"{name}={chance:.4f}" for name, chance in likely.items())
        return f"{listed or nothing}\t{line}"
    return f"{','.join(prediction.labels) or nothing}\t{prediction.value:.4f}\t{line}"


def evaluate(model: Path, options: EvaluateOptions, console: Console) -> dict[str, Any]:
    """On text that is written as the training text was; where it is wrong, too."""
    classifier = open_classifier(model, device=options.device)
    columns = {"text_column": "text", "second_column": "second", "label_column": "label"}
    data = labelled_data(model, RECIPE, options, columns=columns, takes=("errors", "calibration"))
    check_files(options, numbers=classifier.problem == "number")
    records = LabelledCorpus(data, Path()).read("valid")
    if not records:
        raise ConfigError(f"{', '.join(map(str, data.valid))}: no texts in it")
    labels = targets(records, classifier.labels, classifier.problem)
    seconds = None if data.second is None else [str(record.second) for record in records]
    scores = classifier.scores([record.text for record in records], seconds)
    figures: dict[str, Any] = dict(measure(classifier, scores, labels))
    say_figures(console, figures)
    if classifier.problem == "single":
        matrix = metrics.confusion(scores.argmax(axis=1), labels, len(classifier.labels))
        metrics.render_confusion(matrix, classifier.labels, console)
        figures |= {"confusion": matrix.tolist(), "labels": list(classifier.labels)}
    found = analyse(classifier, scores, labels, records)
    report(found, options, console)
    return figures | found.to_dict()


def examples(model: Path, device: str) -> tuple[str, list[float]]:
    """Of each validation text, whether its label is right; of a number, how near it is."""
    classifier, data = open_classifier(model, device=device), own_data(model, RECIPE)
    records = LabelledCorpus(data, Path()).read("valid")
    seconds = None if records[0].second is None else [str(record.second) for record in records]
    with quietly():
        found = classifier.classify([record.text for record in records], seconds)
    if classifier.problem == "number":
        pairs = zip(found, records, strict=True)
        return "squared error, negative", [-((each.value - float(own.labels[0])) ** 2) for each, own in pairs]
    pairs = zip(found, records, strict=True)
    return "labels right", [float({*each.labels} == {*own.labels}) for each, own in pairs]
