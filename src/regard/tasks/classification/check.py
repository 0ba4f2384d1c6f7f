"""The data doctor on labelled texts."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from regard.tasks.base.doctor import column_among, look_at
from regard.tasks.base.recipe import Written
from regard.tasks.classification.data import LabelledCorpus
from regard.text import Labelled
from regard.text.doctor import Kind, Report, Sample, Vectors

TEXTS = ("text", "sentence", "sentence1", "premise", "question1", "question", "review", "content")
SECONDS = {"sentence1": "sentence2", "premise": "hypothesis", "question1": "question2"}
LABELS = ("label", "labels", "category", "class", "intent", "sentiment", "gold_label")
"""What columns are usually called."""


def doctor(written: Written[Any], *, examples: int = 3, vectors: Vectors | None = None) -> Report:
    data = written.checked.data
    number = data.problem == "number"
    kind = Kind(
        records="texts" if data.second is None else "pairs",
        sides=("text",) if data.second is None else ("text", "second text"),
        said="number" if number else "label",
        classes=not number,
        one=data.problem == "single",
        needed=not number,
    )
    corpus = LabelledCorpus(data, written.where)
    sample = partial(_sample, pair=data.second is not None, several=data.problem == "multi")
    return look_at(corpus.readers, sample, kind, data, examples=examples, vectors=vectors)


def _sample(record: Labelled, *, pair: bool, several: bool) -> Sample:
    texts = (record.text, str(record.second)) if pair else (record.text,)
    return Sample(texts, tuple(sorted({*record.labels})) if several else record.labels, record.origin)


def files(name: str, columns: tuple[str, ...]) -> Mapping[str, Any] | None:
    """A table with a text and a label."""
    text, label = column_among(columns, TEXTS), column_among(columns, LABELS)
    if label is None or text is None:
        return None
    second = column_among(columns, [SECONDS.get(text.casefold(), "")])
    return {"text": text, "label": label, **({"second": second} if second is not None else {})}
