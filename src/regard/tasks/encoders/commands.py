"""What the commands of encoders do at the prompt: classify, tag, fill and evaluate."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from regard.config import ConfigError
from regard.tasks import metrics
from regard.tasks.encoders.classifier import Classifier, Prediction
from regard.tasks.encoders.classify import measure
from regard.tasks.encoders.filler import Filler
from regard.tasks.encoders.labelled import LabelledConfig, LabelledCorpus, targets
from regard.tasks.encoders.reading import TooLong
from regard.tasks.encoders.tag import measure as measure_tags
from regard.tasks.encoders.tag_lines import LineFormat, line_format, tag_lines
from regard.tasks.encoders.tagged import TaggedConfig, TaggedCorpus
from regard.tasks.encoders.tagger import Tagger
from regard.tasks.faster import Precision
from regard.tasks.folder import FolderError
from regard.tasks.lines import incoming
from regard.tasks.load import load, load_as
from regard.tasks.recipe import read_recipe
from regard.tasks.terminal import counting, say
from regard.text import DataError, Origin

WINDOW = 1000
"""Lines that are read before the first is answered."""


def classify(
    model: Path,
    file: str,
    *,
    out: TextIO,
    device: str = "auto",
    as_json: bool = False,
    probabilities: bool = False,
    too_long: TooLong = "cut",
    precision: Precision | None = None,
) -> None:
    """Line by line: label, probability, text. Where the model was trained on pairs, a line is a text, a tab
    and the other text."""
    classifier = load_as(Classifier, model, device=device, precision=precision)
    lines = incoming(file)
    window = 1 if file == "-" and sys.stdin.isatty() else WINDOW
    with counting("lines", beside=out) as advance:
        number = 0
        while chunk := list(islice(lines, window)):
            firsts, seconds = _columns(chunk, file, number)
            found = classifier.classify(firsts, seconds, too_long=too_long, progress=advance)
            for line, prediction in zip(chunk, found, strict=True):
                out.write(_written(line, prediction, as_json, probabilities) + "\n")
            out.flush()
            number += len(chunk)


def _columns(lines: Sequence[str], file: str, before: int) -> tuple[list[str], list[str] | None]:
    cells = [line.split("\t") for line in lines]
    width = len(cells[0])
    for number, row in enumerate(cells, start=before + 1):
        if len(row) != width or width > 2:
            origin = Origin("standard input" if file == "-" else file, number)
            remedy = "give a text a line, or two with a tab between them, all alike"
            raise DataError(origin, f"{len(row)} texts in a line", remedy=remedy)
    return [row[0] for row in cells], [row[1] for row in cells] if width == 2 else None


def _written(line: str, prediction: Prediction, as_json: bool, probabilities: bool) -> str:
    if as_json:
        return json.dumps({"text": line, **prediction.to_dict()}, ensure_ascii=False)
    if not prediction.probabilities:
        return f"{prediction.value:.4f}\t{line}"
    if probabilities:
        told = " ".join(f"{name}={chance:.4f}" for name, chance in prediction.probabilities.items())
        return f"{told}\t{line}"
    return f"{','.join(prediction.labels)}\t{prediction.value:.4f}\t{line}"


def tag(
    model: Path,
    file: str,
    *,
    out: TextIO,
    form: LineFormat | None = None,
    word: int = 0,
    column: str | None = None,
    comment: str = "",
    replace: bool = False,
    as_json: bool = False,
    device: str = "auto",
    precision: Precision | None = None,
) -> None:
    """The lines of a file as they are, each word's with its tag behind it; of plain text, a word a line."""
    tagger = load_as(Tagger, model, device=device, precision=precision)
    plain = form == "text" or (form is None and file == "-")
    if as_json:
        if not plain and line_format(file) != "text":
            raise ConfigError("--json is for plain text, a sentence a line: say so by --format text")
        for sentence in incoming(file):
            out.write(json.dumps(tagger.tag(sentence).to_dict(), ensure_ascii=False) + "\n")
            out.flush()
        return
    if file == "-":
        window = 1 if sys.stdin.isatty() else WINDOW
        named = "standard input"
        tag_lines(
            incoming(file),
            out,
            tagger.tag,
            format=form or "text",
            file=named,
            word=word,
            tag=_column(column),
            comment=comment,
            replace=replace,
            window=window,
        )
        return
    with counting("sentences", beside=out) as advance:
        counts = tagger.tag_file(
            file,
            out,
            format=form,
            word=word,
            tag=_column(column),
            comment=comment,
            replace=replace,
            progress=advance,
        )
    if counts.silent:
        say(Console(stderr=True), f"{counts.silent} of {counts.words} words left no token")


def _column(name: str | None) -> str | int | None:
    """A name, or a number."""
    return int(name) if name is not None and name.lstrip("-").isdigit() else name


def evaluate(model: Path, files: Sequence[Path], *, device: str, console: Console) -> dict[str, Any]:
    """A classifier or tagger on text that is written as its training text was."""
    found = load(model, device=device)
    if not isinstance(found, Classifier | Tagger):
        raise FolderError(f"{model}: a {type(found).__name__.lower()}, for which no labelled text is needed")
    recipe = model / "recipe.toml"
    if not recipe.exists():
        raise FolderError(
            f"{model}: no recipe.toml, which says how labelled text is written; train it with regard train"
        )
    data = read_recipe(recipe).checked.data
    names = tuple(str(path.resolve()) for path in files)
    data = replace(data, train=names, valid=names, test=(), hold_out=0, root="")
    if isinstance(found, Classifier):
        return _evaluate_classifier(found, data, console)
    return _evaluate_tagger(found, data, console)


def _evaluate_classifier(classifier: Classifier, data: LabelledConfig, console: Console) -> dict[str, Any]:
    records = LabelledCorpus(data, Path()).read("valid")
    labels = targets(records, classifier.labels, classifier.problem)
    seconds = None if data.second is None else [str(record.second) for record in records]
    scores = classifier.scores([record.text for record in records], seconds)
    figures: dict[str, Any] = dict(measure(classifier, scores, labels))
    _tell(console, figures)
    if classifier.problem == "single":
        matrix = metrics.confusion(scores.argmax(axis=1), labels, len(classifier.labels))
        metrics.render_confusion(matrix, classifier.labels, console)
        figures |= {"confusion": matrix.tolist(), "labels": list(classifier.labels)}
    return figures


def _evaluate_tagger(tagger: Tagger, data: TaggedConfig, console: Console) -> dict[str, Any]:
    records = TaggedCorpus(data, Path()).read("valid")
    scores = tagger.scores([record.words for record in records])
    found = [[tagger.labels[number] for number in tagger.choose(each)] for each in scores]
    wanted = [record.tags for record in records]
    figures: dict[str, Any] = dict(measure_tags(tagger, scores, wanted))
    _tell(console, figures)
    if tagger.spans:
        labels = metrics.per_label_spans(found, wanted)
        for name, own in labels.items():
            told = f"precision {own.precision:.4f}  recall {own.recall:.4f}  f1 {own.f1:.4f}"
            say(console, f"{name:<10} {told}  {own.count} spans")
        figures["labels"] = {name: asdict(own) for name, own in labels.items()}
    return figures


def _tell(console: Console, figures: Mapping[str, float]) -> None:
    for name, value in figures.items():
        say(console, f"{name:<10} {value:.4f}")


def fill(model: Path, text: str, *, top: int, device: str, as_json: bool, console: Console) -> None:
    """The likeliest words for each mask."""
    found = load_as(Filler, model, device=device).fill(text, top=top)
    if as_json:
        say(console, json.dumps(found.to_dict(), ensure_ascii=False))
        return
    for number, candidates in enumerate(found.candidates, start=1):
        if len(found.candidates) > 1:
            say(console, f"mask {number}")
        for each in candidates:
            say(console, f"{each.probability:.4f}  {each.text}")
