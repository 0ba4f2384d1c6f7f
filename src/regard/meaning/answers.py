"""`regard answer`: from a text, from questions with their texts, or from a corpus that is searched first.

    question -> vector -> nearest texts of the corpus -> each is read -> spans, best first

Spans of several texts are compared by their scores: p = exp score / (sum over all spans of all the texts).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from regard.config import ConfigError
from regard.meaning.corpus import Corpus, open_corpus
from regard.tasks.answering.answerer import Answered, Answerer, AnswerSpan, open_answerer
from regard.tasks.answering.commands import (
    answer_records,
    answer_table,
    answer_text,
    asked_questions,
    question_source,
    read_context,
    render,
)
from regard.tasks.base.faster import Precision
from regard.tasks.base.formats import AS_NAMED, FileOptions, only_lines
from regard.tasks.base.outputs import assign


class Sourced(NamedTuple):
    """An answer from a corpus."""

    span: AnswerSpan
    line: int
    """Of the corpus, from 1, that it stands in."""
    passage: str
    """That line."""
    similarity: float
    """The cosine of the line with the question."""


class Read(NamedTuple):
    """What a corpus says to a question."""

    answers: list[Sourced]
    """The best spans of all lines that were read, best first."""
    none: float
    """The probability that none of the lines has an answer."""
    good: bool
    """Whether the best one is an answer; False: no line has one."""


def answer(
    model: Path,
    questions: Sequence[str],
    *,
    context: str | None,
    file: str | None,
    corpus: Path | None,
    embedder: Path | None,
    top: int,
    n_best: int,
    threshold: float | None,
    as_json: bool,
    device: str,
    precision: Precision | None = None,
    out: TextIO,
    into: str | None = None,
    files: FileOptions = AS_NAMED,
) -> None:
    if context is not None and corpus is not None:
        raise ConfigError("--context and --corpus: give one of the two")
    if (corpus is None) != (embedder is None):
        raise ConfigError("--corpus FILE is searched with --embedder MODEL: give both, or none of the two")
    if n_best < 1 or top < 1:
        raise ConfigError(f"--n-best {n_best} --top {top}: both must be 1 or more")
    if corpus is None and context is None and (questions or file is None):
        raise ConfigError(
            "what are the questions about? Give --context FILE, --corpus FILE, or --questions "
            "FILE with a context for each question"
        )
    if context is not None:
        only_lines(context)
    if corpus is not None:
        only_lines(corpus)
    source = question_source(model, "-" if file is None else file, files)
    [each] = assign(source.file, into, files, as_json=as_json, read=lambda *_: source)
    about_one = context is not None or corpus is not None
    records = file is not None and each.source.format == "lines" and not about_one
    tabular = file is not None and each.tabular and not (records or questions or corpus)
    if into is not None and each.format in ("csv", "tsv") and not tabular:
        raise ConfigError(f"--out {into}: these answers have no columns; end its name in .txt or .jsonl")
    answerer = open_answerer(model, device=device, precision=precision)
    if threshold is not None:
        answerer = answerer.with_threshold(threshold)
    text = None if context is None else read_context(context, files.encoding)
    with each.opened(out) as page:
        if tabular:
            answer_table(model, answerer, each, text, n_best=n_best, out=page)
            return
        if records:
            answer_records(model, answerer, each.source, n_best=n_best, out=page)
            return
        asked = asked_questions(model, questions, each.source if file is not None else None)
        if corpus is not None and embedder is not None:
            found = open_corpus(embedder, corpus, device=device, files=FileOptions(encoding=files.encoding))
            _from_corpus(answerer, found, corpus, asked, top, n_best, each.format == "jsonl", page)
            return
        for one in answer_text(answerer, asked, str(text), n_best=n_best):
            if each.format == "jsonl":
                page.write(json.dumps(one.to_dict(), ensure_ascii=False) + "\n")
            else:
                render(one, page, titled=len(asked) > 1)


def _from_corpus(
    answerer: Answerer,
    corpus: Corpus,
    path: Path,
    asked: Sequence[str],
    top: int,
    n_best: int,
    as_json: bool,
    out: TextIO,
) -> None:
    for question in asked:
        found = answer_from(answerer, corpus, question, top=top, n_best=n_best)
        spans = tuple(each.span for each in found.answers)
        plain = Answered(question, spans[0] if found.good and spans else None, spans, found.none)
        if not as_json:
            render(plain, out, titled=len(asked) > 1, where=[f"{path}:{each.line}" for each in found.answers])
            continue
        every: dict[str, Any] = plain.to_dict()
        for each, span in zip(found.answers, every["spans"], strict=True):
            span |= {"line": each.line, "passage": each.passage, "similarity": each.similarity}
        every["answer"] = every["spans"][0] if plain.best is not None else None
        out.write(json.dumps(every, ensure_ascii=False) + "\n")


def answer_from(answerer: Answerer, corpus: Corpus, question: str, *, top: int = 10, n_best: int = 5) -> Read:
    """The `top` nearest texts are read."""
    hits = corpus.search([question], top)[0]
    laid = answerer.lay_out([question] * len(hits), [hit.text for hit in hits])
    read = [(hit, own) for hit, own in zip(hits, laid, strict=True) if own.windows]  # that left tokens
    if not read:
        return Read([], 1.0, good=False)
    scored = answerer.spans([own for _, own in read])
    # of a text without an answer, no span counts; of several that have none, the surest says so
    nothing = min(each.none for each in scored)
    top_score = max(nothing, *(each.best for each in scored))
    total = sum(float(np.exp(each.scores - top_score).sum()) for each in scored) + float(
        np.exp(nothing - top_score)
    )
    found = []
    for (hit, each), own in zip(read, scored, strict=True):
        for first, last in own.ranked(n_best):
            start, end, value = (
                each.offsets[first][0],
                each.offsets[last][1],
                float(own.scores[first, last - first]),
            )
            span = AnswerSpan(
                hit.text[start:end], start, end, float(np.exp(value - top_score)) / total, value
            )
            found.append(Sourced(span, corpus.lines[hit.row], hit.text, hit.score))
    found.sort(key=lambda each: -each.span.score)
    margin = nothing - max(each.best for each in scored)
    good = answerer.threshold is None or margin <= answerer.threshold
    return Read(found[:n_best], float(np.exp(nothing - top_score)) / total, good)
