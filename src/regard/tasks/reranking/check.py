"""The data doctor on queries and their texts."""

from collections.abc import Mapping
from typing import Any

from regard.config import ConfigError
from regard.tasks.base.doctor import column_among, look_at
from regard.tasks.base.recipe import Written
from regard.tasks.reranking.data import RankedCorpus
from regard.text.doctor import Kind, Report, Sample, Vectors
from regard.text.rankings import Ranking

KIND = Kind(records="queries", sides=("query", "positive"), apart=("query",))


def doctor(written: Written[Any], *, examples: int = 3, vectors: Vectors | None = None) -> Report:
    if vectors is not None:
        raise ConfigError("--model is for labelled texts, and these are queries: leave it out")
    data = written.checked.data
    return look_at(RankedCorpus(data, written.where).readers, _sample, KIND, data, examples=examples)


def _sample(record: Ranking) -> Sample:
    return Sample((record.query, record.positive), (), record.origin)


def files(name: str, columns: tuple[str, ...]) -> Mapping[str, Any] | None:
    """A table of queries with a positive and negatives."""
    found = {each: column_among(columns, (each,)) for each in ("query", "positive", "negatives")}
    return None if None in found.values() else {**found, "negatives": [found["negatives"]]}
