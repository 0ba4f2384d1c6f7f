"""What tagging's commands do: tag, evaluate."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from math import isnan
from operator import eq
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from regard.config import ConfigError
from regard.tasks.base.analysis import check_files, report
from regard.tasks.base.evaluation import as_column, labelled_data, own_data, say_figures
from regard.tasks.base.faster import Precision
from regard.tasks.base.formats import AS_NAMED, FileOptions, Format, ending, format_of
from regard.tasks.base.outputs import Assignment, Inputs, assign, do_each
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import quietly
from regard.tasks.base.sources import Source, existing
from regard.tasks.base.tables import Wanted, annotate
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import counting, say
from regard.tasks.tagging.data import TaggedCorpus
from regard.tasks.tagging.errors import analyse
from regard.tasks.tagging.lines import LineFormat, line_format, tag_lines
from regard.tasks.tagging.recipe import RECIPE
from regard.tasks.tagging.tagger import TaggedWords, Tagger, open_tagger
from regard.tasks.tagging.train import measure
from regard.text import Tagged


def tag(
    model: Path,
    inputs: Inputs = None,
    *,
    out: TextIO,
    into: str | None = None,
    files: FileOptions = AS_NAMED,
    form: LineFormat | Format | None = None,
    word: int = 0,
    column: str | None = None,
    comment: str = "",
    replace: bool = False,
    as_json: bool = False,
    device: str = "auto",
    precision: Precision | None = None,
) -> None:
    """The lines of a file as they are, each word's with its tag behind it; of plain text, a word a line. A
    table keeps its rows, and gets columns."""
    given = assign(inputs, into, files, as_json=as_json, read=partial(_source, form=form, as_json=as_json))
    tagger = open_tagger(model, device=device, precision=precision)
    columns: Any = {
        "word": word,
        "tag": None if column is None else as_column(column),
        "comment": comment,
        "replace": replace,
        "separator": files.separator,
    }

    def work(each: Assignment) -> None:
        with each.opened(out) as page, counting("sentences", beside=page) as advance:
            if each.tabular:
                _tag_table(tagger, each, page, advance)
                return
            lines, kind = each.source.lines(), _line_format(each.source, form)
            if each.format == "jsonl":
                for sentence in lines:
                    page.write(json.dumps(tagger.tag(sentence).to_dict(), ensure_ascii=False) + "\n")
                    page.flush()
                return
            how: Any = {"format": kind, "file": each.source.name, "window": each.source.window, **columns}
            counts = tag_lines(lines, page, tagger.tag, progress=advance, **how)
        if counts.silent:
            say(Console(stderr=True), f"{counts.silent} of {counts.words} words left no token")

    do_each(given, work)


def _source(file: str, options: FileOptions, *, form: LineFormat | Format | None, as_json: bool) -> Source:
    """What is read of a file: lines, also where they are columns of words, or a table."""
    read: Format = "lines"
    if form == "csv" or form == "tsv" or form == "jsonl":
        read = form
    elif form is None and ending(file) != ".tsv":
        read = format_of(file)
    source = Source(existing(file), read, options)
    if source.format == "lines" and _line_format(source, form) != "text" and as_json:
        raise ConfigError("--json is for plain text, a sentence a line: say so by --format text")
    return source


def _line_format(source: Source, form: LineFormat | Format | None) -> LineFormat:
    if form == "lines" or (form is None and (source.file == "-" or source.texts is not None)):
        return "text"
    return line_format(source.file) if form is None else form  # type: ignore[return-value]


def _tag_table(tagger: Tagger, each: Assignment, out: TextIO, progress: Progress | None) -> None:
    """New columns: words, tags and, where tags mark some, spans."""
    listed = each.format == "jsonl"

    def work(sentences: list[str | Sequence[str]]) -> list[list[object]]:
        return [table_values(found, listed, tagger.spans) for found in tagger.tag(sentences)]

    wanted = Wanted(each.source.options.column, names=("text", "sentence", "words", "tokens"), words=True)
    added = ["words", "tags", *(["spans"] if tagger.spans else [])]
    annotate(each.source, out, each.format, added=added, wanted=[wanted], work=work, progress=progress)


def table_values(found: TaggedWords, listed: bool, spans: bool) -> list[object]:
    """What a table gets; `listed`: words and tags as lists, not parted by spaces."""
    sides: list[object] = [[*own] if listed else " ".join(own) for own in (found.words, found.tags)]
    return [*sides, *([found.to_dict()["spans"]] if spans else [])]


def evaluate(model: Path, options: EvaluateOptions, console: Console) -> dict[str, Any]:
    """On text that is written as the training text was; where it is wrong, too."""
    tagger = open_tagger(model, device=options.device)
    columns = {"text_column": "word", "label_column": "tag"}
    takes, known = ("errors", "calibration"), {"problem": "tags" if tagger.labels else "number"}
    data = labelled_data(model, RECIPE, options, columns=columns, takes=takes, known=known)
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
