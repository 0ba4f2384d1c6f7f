"""What classification's commands do: classify, evaluate."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from regard.config import ConfigError
from regard.tasks.base import metrics
from regard.tasks.base.evaluation import labelled_data, own_data, say_figures
from regard.tasks.base.faster import Precision
from regard.tasks.base.formats import AS_NAMED, FileOptions
from regard.tasks.base.outputs import Assignment, Inputs, assign, do_each, one_of_lines
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import TooLong, quietly
from regard.tasks.base.tables import Wanted, annotate, named
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import counting
from regard.tasks.classification.classifier import Classifier, Prediction, open_classifier
from regard.tasks.classification.data import LabelledCorpus, targets
from regard.tasks.classification.recipe import RECIPE
from regard.tasks.classification.train import measure
from regard.text import DataError, Origin

Read = Callable[..., list[Prediction]]
"""`Classifier.classify`, with its options."""


def classify(
    model: Path,
    inputs: Inputs = None,
    *,
    out: TextIO,
    into: str | None = None,
    files: FileOptions = AS_NAMED,
    device: str = "auto",
    as_json: bool = False,
    probabilities: bool = False,
    too_long: TooLong = "cut",
    precision: Precision | None = None,
    words: bool = False,
    labelled: Path | None = None,
    layer: int = -1,
) -> None:
    """Line by line: label, probability, text. Where the model was trained on pairs, a line is a text, a tab
    and the other text. A table keeps its rows, and gets columns. With `words`, the words of the lines of one
    file, by the vectors of others that are labelled."""
    if words != (labelled is not None):
        raise ConfigError(
            "--words needs --labelled FILE, words whose labels are known, and that needs --words"
        )
    given = assign(inputs, into, files, as_json=as_json)
    if words:  # regard.meaning stands above
        by_words = import_module("regard.meaning.words").classify_words
        file = one_of_lines(given, "--words")
        by_words(model, file, labelled=labelled, layer=layer, device=device, as_json=as_json, out=out)
        return
    classifier = open_classifier(model, device=device, precision=precision)

    def work(each: Assignment) -> None:
        with each.opened(out) as page, counting("lines", beside=page) as advance:
            read: Any = partial(classifier.classify, too_long=too_long)
            if each.tabular:
                _classify_table(classifier, each, page, read, probabilities, advance)
            else:
                _classify_lines(each, page, read, probabilities, advance)

    do_each(given, work)


def _classify_lines(
    each: Assignment, out: TextIO, read: Read, probabilities: bool, progress: Progress | None
) -> None:
    lines, number = each.source.lines(), 0
    while chunk := list(islice(lines, each.source.window)):
        firsts, seconds = _columns(chunk, each.source.name, number)
        with named([Origin(each.source.name, number + place) for place in range(1, len(chunk) + 1)]):
            found = read(firsts, seconds, progress=progress)
        for line, prediction in zip(chunk, found, strict=True):
            out.write(_written(line, prediction, each.format == "jsonl", probabilities) + "\n")
        out.flush()
        number += len(chunk)


def _classify_table(
    classifier: Classifier,
    each: Assignment,
    out: TextIO,
    read: Read,
    probabilities: bool,
    progress: Progress | None,
) -> None:
    """New columns: label and probability; labels, where there may be several; value, of a number."""
    own = {"single": ["label", "probability"], "multi": ["labels", "probability"], "number": ["value"]}
    shares = probabilities and classifier.problem != "number"
    options, listed = each.source.options, each.format == "jsonl"

    def work(firsts: Sequence[str], seconds: Sequence[str] | None = None) -> list[list[object]]:
        if each.source.format == "lines":
            firsts, seconds = _columns(firsts, each.source.name, 0)
        return [
            [*_values(found, listed), *([found.probabilities] if shares else [])]
            for found in read(firsts, seconds)
        ]

    annotate(
        each.source,
        out,
        each.format,
        added=own[classifier.problem] + ["probabilities"] * shares,
        wanted=[
            Wanted(options.column),
            *([] if options.second is None else [Wanted(options.second, "--second")]),
        ],
        work=work,
        progress=progress,
    )


def _values(found: Prediction, listed: bool) -> list[object]:
    """What a table gets; `listed`: several labels as a list, not parted by commas."""
    value = round(found.value, 6)
    if not found.probabilities:
        return [value]
    if found.label is not None:
        return [found.label, value]
    return [[*found.labels] if listed else ",".join(found.labels), value]


def _columns(lines: Sequence[str], file: str, before: int) -> tuple[list[str], list[str] | None]:
    cells = [line.split("\t") for line in lines]
    width = len(cells[0])
    for number, row in enumerate(cells, start=before + 1):
        if len(row) != width or width > 2:
            origin = Origin(file, number)
            remedy = "give a text a line, or two with a tab between them, all alike"
            raise DataError(origin, f"{len(row)} texts in a line", remedy=remedy)
    return [row[0] for row in cells], [row[1] for row in cells] if width == 2 else None


def _written(line: str, prediction: Prediction, as_json: bool, probabilities: bool) -> str:
    if as_json:
        return json.dumps({"text": line, **prediction.to_dict()}, ensure_ascii=False)
    if not prediction.probabilities:
        return f"{prediction.value:.4f}\t{line}"
    if probabilities:
        shares = " ".join(f"{name}={chance:.4f}" for name, chance in prediction.probabilities.items())
        return f"{shares}\t{line}"
    return f"{','.join(prediction.labels)}\t{prediction.value:.4f}\t{line}"


def evaluate(model: Path, options: EvaluateOptions, console: Console) -> dict[str, Any]:
    """On text that is written as the training text was."""
    classifier = open_classifier(model, device=options.device)
    data = labelled_data(model, RECIPE, options)
    records = LabelledCorpus(data, Path()).read("valid")
    labels = targets(records, classifier.labels, classifier.problem)
    seconds = None if data.second is None else [str(record.second) for record in records]
    scores = classifier.scores([record.text for record in records], seconds)
    figures: dict[str, Any] = dict(measure(classifier, scores, labels))
    say_figures(console, figures)
    if classifier.problem == "single":
        matrix = metrics.confusion(scores.argmax(axis=1), labels, len(classifier.labels))
        metrics.render_confusion(matrix, classifier.labels, console)
        figures |= {"confusion": matrix.tolist(), "labels": list(classifier.labels)}
    return figures


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
