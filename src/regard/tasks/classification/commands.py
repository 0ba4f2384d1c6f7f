"""What classification's commands do: classify, evaluate."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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
from regard.tasks.base.formats import AS_NAMED, FileOptions
from regard.tasks.base.outputs import Assignment, Inputs, assign, do_each, one_of_lines
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import TooLong, quietly
from regard.tasks.base.tables import Wanted, annotate, named
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import counting, say
from regard.tasks.classification.classifier import Classifier, Prediction, open_classifier
from regard.tasks.classification.data import LabelledCorpus, targets
from regard.tasks.classification.errors import analyse
from regard.tasks.classification.recipe import RECIPE
from regard.tasks.classification.train import measure
from regard.text import DataError, Origin

TABLE_COLUMNS = {"single": ("label", "probability"), "multi": ("labels", "probability"), "number": ("value",)}
"""What a table gets, by the model's problem."""
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
    top_k: int | None = None,
    min_probability: float | None = None,
    too_long: TooLong = "cut",
    precision: Precision | None = None,
    words: bool = False,
    labelled: Path | None = None,
    layer: int = -1,
) -> None:
    """Line by line: label, probability, text. Where the model was trained on pairs, a line is a text, a tab
    and the other text. A table keeps its rows, and gets columns. With `words`, the words of the lines of one
    file, by the vectors of others that are labelled."""
    check_probabilities(top_k, min_probability)
    if words and (top_k is not None or min_probability is not None):
        raise ConfigError("--top-k and --min-probability are for texts: leave them out with --words")
    if words != (labelled is not None):
        raise ConfigError(
            "--words needs --labelled FILE, words whose labels are known, and that needs --words"
        )
    given = assign(inputs, into, files, as_json=as_json)
    if words:  # regard.meaning stands above
        by_words = import_module("regard.meaning.words").classify_words
        file = one_of_lines(given, "--words")
        how: Any = {"device": device, "as_json": as_json, "out": out, "encoding": files.encoding}
        by_words(model, file, labelled=labelled, layer=layer, **how)
        return
    classifier = open_classifier(model, device=device, precision=precision)
    if classifier.problem == "number" and (top_k is not None or min_probability is not None):
        raise ConfigError("--top-k and --min-probability are for labels, but this model gives numbers")
    shown = Shown(top_k or (len(classifier.labels) if probabilities else 0), min_probability)

    def work(each: Assignment) -> None:
        with each.opened(out) as page, counting("lines", beside=page) as advance:
            read: Any = partial(classifier.classify, too_long=too_long)
            if each.tabular:
                _classify_table(classifier, each, page, read, shown, advance)
            else:
                _classify_lines(each, page, read, shown, advance)

    do_each(given, work)
    if shown.unsure:
        what = f"no label, or not all, as they are less likely than {min_probability:g}"
        say(Console(stderr=True), f"{shown.unsure} of {shown.count} lines have {what}")


def check_probabilities(top_k: int | None, min_probability: float | None) -> None:
    if top_k is not None and top_k < 1:
        raise ConfigError(f"--top-k {top_k}: give 1 or more")
    if min_probability is not None and not 0 <= min_probability <= 1:
        raise ConfigError(f"--min-probability {min_probability:g}: a probability is from 0 to 1")


@dataclass(slots=True)
class Shown:
    """What is shown of a prediction, and of how many not all."""

    most: int
    """Labels with their probabilities; 0 for those that are chosen."""
    least: float | None
    """Labels that are less likely are left out."""
    count: int = 0
    unsure: int = 0

    def of(self, prediction: Prediction) -> Prediction:
        kept = prediction if self.least is None else prediction.sure(self.least)
        self.count += 1
        self.unsure += self.least is not None and len(kept.labels) < max(len(prediction.labels), 1)
        return kept

    def likely(self, prediction: Prediction) -> dict[str, float]:
        found = prediction.top(self.most or len(prediction.probabilities))
        return {name: chance for name, chance in found.items() if chance >= (self.least or 0.0)}


def _classify_lines(
    each: Assignment, out: TextIO, read: Read, shown: Shown, progress: Progress | None
) -> None:
    lines, number = each.source.lines(), 0
    while chunk := list(islice(lines, each.source.window)):
        firsts, seconds = _columns(chunk, each.source.name, number)
        with named([Origin(each.source.name, number + place) for place in range(1, len(chunk) + 1)]):
            found = read(firsts, seconds, progress=progress)
        for line, prediction in zip(chunk, found, strict=True):
            out.write(line_of(line, shown.of(prediction), each.format == "jsonl", shown) + "\n")
        out.flush()
        number += len(chunk)


def _classify_table(
    classifier: Classifier,
    each: Assignment,
    out: TextIO,
    read: Read,
    shown: Shown,
    progress: Progress | None,
) -> None:
    """New columns: label and probability; labels, where there may be several; value, of a number."""
    shares = shown.most > 0 and classifier.problem != "number"
    options, listed = each.source.options, each.format == "jsonl"

    def work(firsts: Sequence[str], seconds: Sequence[str] | None = None) -> list[list[object]]:
        if each.source.format == "lines":
            firsts, seconds = _columns(firsts, "input", 0)
        return [
            [*table_values(classifier, shown.of(found), listed), *([shown.likely(found)] if shares else [])]
            for found in read(firsts, seconds)
        ]

    annotate(
        each.source,
        out,
        each.format,
        added=[*TABLE_COLUMNS[classifier.problem]] + ["probabilities"] * shares,
        wanted=[
            Wanted(options.column),
            *([] if options.second is None else [Wanted(options.second, "--second")]),
        ],
        work=work,
        progress=progress,
    )


def table_values(classifier: Classifier, found: Prediction, listed: bool) -> list[object]:
    """What a table gets; `listed`: several labels as a list, not parted by commas."""
    value = round(found.value, 6)
    match classifier.problem:
        case "number":
            return [value]
        case "single":
            return [found.label, value]
        case "multi":
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


def line_of(line: str, prediction: Prediction, as_json: bool, shown: Shown) -> str:
    likely = shown.likely(prediction)
    if as_json:
        shares = {"probabilities": likely} if prediction.probabilities and shown.most else {}
        return json.dumps({"text": line, **prediction.to_dict(), **shares}, ensure_ascii=False)
    if not prediction.probabilities:
        return f"{prediction.value:.4f}\t{line}"
    nothing = "" if shown.least is None else "-"
    if shown.most:
        listed = " ".join(f"{name}={chance:.4f}" for name, chance in likely.items())
        return f"{listed or nothing}\t{line}"
    return f"{','.join(prediction.labels) or nothing}\t{prediction.value:.4f}\t{line}"


def evaluate(model: Path, options: EvaluateOptions, console: Console) -> dict[str, Any]:
    """On text that is written as the training text was; where it is wrong, too."""
    classifier = open_classifier(model, device=options.device)
    columns = {"text_column": "text", "second_column": "second", "label_column": "label"}
    takes, known = ("errors", "calibration"), {"problem": classifier.problem}
    data = labelled_data(model, RECIPE, options, columns=columns, takes=takes, known=known)
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
