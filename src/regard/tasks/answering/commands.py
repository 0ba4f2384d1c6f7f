"""What answering's commands do: answer (without a corpus: `regard.meaning.answers`), evaluate."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from regard.config import ConfigError
from regard.tasks.answering import score
from regard.tasks.answering.answerer import Answered, Answerer, open_answerer
from regard.tasks.answering.data import QuestionCorpus, QuestionsConfig, reader
from regard.tasks.answering.recipe import RECIPE
from regard.tasks.answering.train import QuestionSplit, measure
from regard.tasks.base.evaluation import labelled_data, own_data, say_figures
from regard.tasks.base.formats import FileOptions, ending, format_of
from regard.tasks.base.lines import final, incoming
from regard.tasks.base.outputs import Assignment
from regard.tasks.base.sources import Source, existing
from regard.tasks.base.tables import Texts, Wanted, annotate
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import counting
from regard.text import DataError, Origin, Question

AT_ONCE = 64
"""Questions of a file that are answered together."""


def question_source(model: Path, file: str, options: FileOptions) -> Source:
    """A file of questions: a table, or lines. So are called those that have readers of their own: SQuAD's
    JSON, Parquet and Arrow."""
    own = _own_data(model, file)
    trained = own.format if own.format in ("csv", "tsv", "jsonl") else None
    wanted = options.format or trained
    if wanted is None and ending(file) in (".json", ".parquet", ".arrow"):
        wanted = "lines"
    if options.column is None and isinstance(own.question, int) and isinstance(own.context, int):
        options = replace(options, header=False)  # as it was trained
    return Source(existing(file), format_of(file, wanted), options)


def asked_questions(model: Path, questions: Sequence[str], source: Source | None) -> list[str]:
    """Those of the command line, and those of a file, one a line or in a column."""
    found = [*questions]
    if source is not None:
        rows = source.rows()
        column = Texts(_columns(model, source)[0], rows, source)
        found += [text for text in map(column.of, rows.records) if text.strip()]
    if not found:
        raise ConfigError("there is no question: give one, or --questions FILE")
    return found


def read_context(file: str, encoding: str = "utf-8") -> str:
    """A file, or standard input for "-", to its end."""
    text = "\n".join(incoming(file, encoding))
    if not text.strip():
        where = "standard input" if file == "-" else file
        raise DataError(Origin(where), "no text to answer from", remedy="give a file that has some")
    return text


def answer_text(
    answerer: Answerer, questions: Sequence[str], context: str, *, n_best: int
) -> Iterator[Answered]:
    for question in questions:  # one by one: the spans of a long text take memory
        yield answerer.answer(question, context, n_best=n_best)


def answer_table(
    model: Path, answerer: Answerer, each: Assignment, context: str | None, *, n_best: int, out: TextIO
) -> None:
    """Questions of a table, about a text of their own or all about one. Its rows stay as they are, and get
    columns: the answer, its place, its probability and that of none; of several answers, all of them."""

    def work(questions: Sequence[str], contexts: Sequence[str] | None = None) -> list[list[object]]:
        if contexts is not None:
            found = answerer.answer(questions, contexts, n_best=n_best)
        else:
            found = [*answer_text(answerer, questions, str(context), n_best=n_best)]
        return [table_values(one, n_best) for one in found]

    wanted = _columns(model, each.source)
    added = ["answer", "start", "end", "probability", "no_answer", *(["answers"] if n_best > 1 else [])]
    with counting("questions", beside=out) as advance:
        annotate(
            each.source,
            out,
            each.format,
            added=added,
            wanted=wanted if context is None else wanted[:1],
            work=work,
            window=AT_ONCE,
            progress=advance,
        )


def table_values(found: Answered, n_best: int) -> list[object]:
    best, none = found.best, round(found.none, 6)
    every: list[object] = [[asdict(span) for span in found.spans]] if n_best > 1 else []
    if best is None:
        return ["", None, None, None, none, *every]
    return [best.text, best.start, best.end, round(best.probability, 6), none, *every]


def _columns(model: Path, source: Source) -> list[Wanted]:
    """Those of the questions and of what they are about: as they are given, as the model was trained, or by
    the names that they usually have."""
    own, options = _own_data(model, source.file), source.options
    found = []
    for given, option, trained, usual in (
        (options.column, "--column", own.question, "question"),
        (options.second, "--second", own.context, "context"),
    ):
        number = str(trained) if isinstance(trained, int) else None
        found.append(Wanted(given or number, option, tuple(dict.fromkeys((str(trained), usual)))))
    return found


def _own_data(model: Path, file: str) -> QuestionsConfig:
    return own_data(model, RECIPE) if (model / "recipe.toml").exists() else QuestionsConfig(train=(file,))


def answer_records(model: Path, answerer: Answerer, source: Source, *, n_best: int, out: TextIO) -> None:
    """Questions of SQuAD's JSON, Parquet or Arrow with a context each; a JSON object a line."""
    file, encoding = source.file, source.options.encoding
    own = _own_data(model, file)
    own = replace(own, format=own.format if own.format != "squad" else None, encoding=encoding)
    with counting("questions", beside=out) as advance:
        for records in _parts(reader(own, Path(file), answered=False)()):
            found = answerer.answer(
                [record.text for record in records],
                [record.context for record in records],
                n_best=n_best,
                progress=advance,
            )
            for record, each in zip(records, found, strict=True):
                out.write(json.dumps({"id": record.id, **each.to_dict()}, ensure_ascii=False) + "\n")
            out.flush()


def _parts(records: Iterator[Question]) -> Iterator[list[Question]]:
    part: list[Question] = []
    try:
        for record in records:
            part.append(record)
            if len(part) == AT_ONCE:
                yield part
                part = []
    except DataError as error:
        raise final(error) from error
    if part:
        yield part


def render(found: Answered, out: TextIO, *, titled: bool, where: Sequence[str] = ()) -> None:
    """Answers as lines: the probability, the place, the text. `where` stands before the place of each."""
    if titled:
        out.write(f"\n{found.question}\n")
    if found.best is None:
        out.write(f"{found.none:.4f}  no answer\n")
    for number, span in enumerate(found.spans):
        before = f"{where[number]}:" if where else ""
        out.write(f"{span.probability:.4f}  {before}{span.start}-{span.end}  {' '.join(span.text.split())}\n")


def evaluate(model: Path, options: EvaluateOptions, console: Console) -> dict[str, Any]:
    """On questions that are written as the training questions were; with the threshold that was learned."""
    answerer = open_answerer(model, device=options.device)
    data = labelled_data(model, RECIPE, options)
    records = QuestionCorpus(data, Path()).read("valid")
    if not records:
        raise ConfigError(f"{', '.join(map(str, data.valid))}: no questions in it")
    laid = answerer.lay_out([each.text for each in records], [each.context for each in records])
    figures = measure(answerer, QuestionSplit(records, laid))
    say_figures(console, figures)
    return figures


def examples(model: Path, device: str) -> tuple[str, list[float]]:
    """Of each validation question, F1."""
    answerer = open_answerer(model, device=device)
    records = QuestionCorpus(own_data(model, RECIPE), Path()).read("valid")
    found = answerer.answer([each.text for each in records], [each.context for each in records], n_best=1)
    golds = [[gold.text for gold in each.answers] for each in records]
    return "f1", [100 * score.f1(each.text, own) for each, own in zip(found, golds, strict=True)]
