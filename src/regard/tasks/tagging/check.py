"""The data doctor on tagged sentences."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.config import ConfigError
from regard.tasks.base.doctor import column_among, look_at
from regard.tasks.base.recipe import Written
from regard.tasks.tagging.data import COLUMNS, TaggedCorpus
from regard.text import Tagged
from regard.text.doctor import Kind, Report, Sample, Vectors
from regard.text.files import COMPRESSED

FEW = 6
"""Sentences of fewer words, a date or a headline's, are alike by chance."""


def doctor(written: Written[Any], *, examples: int = 3, vectors: Vectors | None = None) -> Report:
    """Words have no labels that vectors of texts could doubt; what is unusual for a word is told instead."""
    if vectors is not None:
        raise ConfigError("--model is for labelled texts, and these are tagged words: leave it out")
    data = written.checked.data
    classes = data.problem == "tags"
    kind = Kind(
        records="sentences", sides=("sentence",), said="tags", classes=classes, words=classes, few=FEW
    )
    return look_at(TaggedCorpus(data, written.where).readers, _sample, kind, data, examples=examples)


def _sample(record: Tagged) -> Sample:
    return Sample((" ".join(record.words),), record.tags, record.origin)


def files(name: str, columns: tuple[str, ...]) -> Mapping[str, Any] | None:
    """Columns of words, by the file's name; or lists of words and tags in a table."""
    path = Path(name)
    inner = path.with_suffix("") if path.suffix in COMPRESSED else path
    if inner.suffix.lower() in COLUMNS:
        return {}
    word, tag = column_among(columns, ("words", "tokens")), column_among(columns, ("tags", "ner_tags"))
    return {"word": word, "tag": tag} if word is not None and tag is not None else None
