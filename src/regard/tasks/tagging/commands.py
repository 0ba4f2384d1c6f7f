"""What tagging's commands do: tag, evaluate."""

import json
import sys
from dataclasses import asdict
from math import isnan
from operator import eq
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from regard.config import ConfigError
from regard.tasks.base.analysis import check_files, report
from regard.tasks.base.evaluation import labelled_data, own_data, say_figures
from regard.tasks.base.faster import Precision
from regard.tasks.base.lines import WINDOW, incoming
from regard.tasks.base.reading import quietly
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import counting, say
from regard.tasks.tagging.data import TaggedCorpus
from regard.tasks.tagging.errors import analyse
from regard.tasks.tagging.lines import LineFormat, line_format, tag_lines
from regard.tasks.tagging.recipe import RECIPE
from regard.tasks.tagging.tagger import TaggedWords, open_tagger
from regard.tasks.tagging.train import measure
from regard.text import Tagged


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
    tagger = open_tagger(model, device=device, precision=precision)
    plain = form == "text" or (form is None and file == "-")
    if as_json:
        if not plain and line_format(file) != "text":
            raise ConfigError("--json is for plain text, a sentence a line: say so by --format text")
        for sentence in incoming(file):
            out.write(json.dumps(tagger.tag(sentence).to_dict(), ensure_ascii=False) + "\n")
            out.flush()
        return
    columns: Any = {"word": word, "tag": _column(column), "comment": comment, "replace": replace}
    if file == "-":
        columns |= {"format": form or "text", "file": "standard input"}
        tag_lines(incoming(file), out, tagger.tag, window=1 if sys.stdin.isatty() else WINDOW, **columns)
        return
    with counting("sentences", beside=out) as advance:
        counts = tagger.tag_file(file, out, format=form, progress=advance, **columns)
    if counts.silent:
        say(Console(stderr=True), f"{counts.silent} of {counts.words} words left no token")


def _column(name: str | None) -> str | int | None:
    """A name, or a number."""
    return int(name) if name is not None and name.lstrip("-").isdigit() else name


def evaluate(model: Path, options: EvaluateOptions, console: Console) -> dict[str, Any]:
    """On text that is written as the training text was; where it is wrong, too."""
    tagger = open_tagger(model, device=options.device)
    columns = {"text_column": "word", "label_column": "tag"}
    data = labelled_data(model, RECIPE, options, columns=columns, takes=("errors", "calibration"))
    if options.errors is not None and not tagger.labels:
        raise ConfigError("--errors is for tags, but this model gives numbers: leave it out")
    check_files(options, numbers=not tagger.labels)
    records = TaggedCorpus(data, Path()).read("valid")
    if not records:
        raise ConfigError(f"{', '.join(map(str, data.valid))}: no sentences in it")
    scores = tagger.scores([record.words for record in records])
    figures: dict[str, Any] = dict(measure(tagger, scores, [record.tags for record in records]))
    say_figures(console, figures)
    if not tagger.labels:
        return figures
    found = analyse(tagger, scores, records)
    report(found, options, console)
    figures["labels"] = {name: asdict(own) for name, own in found.labels.items()}
    return figures | found.to_dict()


def examples(model: Path, device: str) -> tuple[str, list[float]]:
    """Of each validation sentence, the share of words with the right tag; of numbers, how near they are."""
    tagger = open_tagger(model, device=device)
    records = TaggedCorpus(own_data(model, RECIPE), Path()).read("valid")
    with quietly():
        found = tagger.tag([record.words for record in records])
    if not tagger.labels:
        return "squared error, negative", [_off(each, own) for each, own in zip(found, records, strict=True)]
    pairs = [(each.tags, own.tags) for each, own in zip(found, records, strict=True)]
    return "tags right", [sum(map(eq, *both)) / max(len(both[1]), 1) for both in pairs]


def _off(found: TaggedWords, wanted: Tagged) -> float:
    both = zip(found.values, wanted.tags, strict=True)
    gaps = [(value - float(tag)) ** 2 for value, tag in both if not isnan(value)]
    return -sum(gaps) / max(len(gaps), 1)
