"""What answering's commands do: answer (without a corpus: `regard.meaning.answers`), evaluate."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from regard.tasks.base.lines import final, incoming
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import counting
from regard.text import DataError, Origin, Question

AT_ONCE = 64
"""Questions of a file that are answered together."""


def asked_questions(questions: Sequence[str], file: str | None) -> list[str]:
    """Those of the command line, and those of a file, one a line."""
    found = [*questions, *(line for line in (incoming(file) if file is not None else ()) if line.strip())]
    if not found:
        raise ConfigError("there is no question: give one, or --questions FILE")
    return found


def answer_text(
    answerer: Answerer, questions: Sequence[str], context: str, *, n_best: int
) -> Iterator[Answered]:
    """Questions about a file, or about standard input for "-", which is read to its end."""
    text = "\n".join(incoming(context))
    if not text.strip():
        where = "standard input" if context == "-" else context
        raise DataError(Origin(where), "no text to answer from", remedy="give a file that has some")
    for question in questions:  # one by one: the spans of a long text take memory
        yield answerer.answer(question, text, n_best=n_best)


def answer_records(model: Path, answerer: Answerer, file: str, *, n_best: int, out: TextIO) -> None:
    """Questions of a file with a context each, in the columns that the model was trained on; a JSON object a
    line."""
    own = own_data(model, RECIPE) if (model / "recipe.toml").exists() else QuestionsConfig(train=(file,))
    own = replace(own, format=own.format if own.format != "squad" else None)
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
