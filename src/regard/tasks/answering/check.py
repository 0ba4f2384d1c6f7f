"""The data doctor on questions about texts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.config import ConfigError
from regard.tasks.answering.data import QuestionCorpus
from regard.tasks.base.doctor import column_among, look_at
from regard.tasks.base.recipe import Written
from regard.text import Origin, Question
from regard.text.doctor import Kind, Report, Sample, Vectors
from regard.text.files import COMPRESSED

KIND = Kind(records="questions", sides=("question", "context"), said="answer", apart=("context",))


def doctor(written: Written[Any], *, examples: int = 3, vectors: Vectors | None = None) -> Report:
    if vectors is not None:
        raise ConfigError("--model is for labelled texts, and these are questions: leave it out")
    data = written.checked.data
    return look_at(QuestionCorpus(data, written.where).readers, _sample, KIND, data, examples=examples)


def _sample(record: Question) -> Sample:
    answers = tuple(sorted({gold.text for gold in record.answers}))
    origin = record.origin if record.origin.line else Origin(f"{record.origin.file}, question {record.id}")
    return Sample((record.text, record.context), answers, origin)


def files(name: str, columns: tuple[str, ...]) -> Mapping[str, Any] | None:
    """SQuAD's JSON, or a table of questions and what they are about."""
    path = Path(name)
    inner = path.with_suffix("") if path.suffix in COMPRESSED else path
    if inner.suffix.lower() == ".json":
        return {}
    found = {each: column_among(columns, (each,)) for each in ("question", "context", "answer")}
    if None in found.values():
        return None
    return {**found, "start": column_among(columns, ("start", "answer_start")) or ""}
