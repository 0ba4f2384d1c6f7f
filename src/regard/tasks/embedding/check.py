"""The data doctor on pairs of texts that mean the same."""

from typing import Any

from regard.config import ConfigError
from regard.tasks.base.doctor import look_at
from regard.tasks.base.recipe import Written
from regard.tasks.embedding.data import open_pairs
from regard.text import Pair
from regard.text.doctor import Kind, Report, Sample, Vectors

KIND = Kind(records="pairs", sides=("text", "other text"), apart=("text", "other text"))


def doctor(written: Written[Any], *, examples: int = 3, vectors: Vectors | None = None) -> Report:
    if vectors is not None:
        raise ConfigError("--model is for labelled texts, and these are pairs: leave it out")
    data = written.checked.data
    return look_at(open_pairs(data, written.where).readers, _sample, KIND, data, examples=examples)


def _sample(record: Pair) -> Sample:
    return Sample((record.source, record.target), (), record.origin)
