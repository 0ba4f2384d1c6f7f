"""The data doctor on plain text, for language models and encoders alike: line by line, whatever documents are
made of."""

from collections.abc import Mapping
from typing import Any

from regard.config import ConfigError
from regard.tasks.base.doctor import column_among, look_at
from regard.tasks.base.documents import DocumentCorpus
from regard.tasks.base.recipe import Written
from regard.text import Line
from regard.text.doctor import Kind, Report, Sample, Vectors

KIND = Kind(records="lines", sides=("line",), few=8)


def doctor(written: Written[Any], *, examples: int = 3, vectors: Vectors | None = None) -> Report:
    """Blank lines are no text; lines of a few words, which plays and tables repeat, are not called alike."""
    if vectors is not None:
        raise ConfigError("--model is for labelled texts, and this is plain text: leave it out")
    data = written.checked.data
    return look_at(DocumentCorpus(data, written.where).line_readers, _sample, KIND, data, examples=examples)


def _sample(record: Line) -> Sample | None:
    return Sample((record.text,), (), record.origin) if record.text.strip() else None


def files(name: str, columns: tuple[str, ...]) -> Mapping[str, Any] | None:
    """Whatever is no table; or a table with a column of text."""
    if not columns:
        return {}
    text = column_among(columns, ("text", "content", "document"))
    return None if text is None else {"text": text}
