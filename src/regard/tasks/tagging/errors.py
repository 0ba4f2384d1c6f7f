"""Where a tagger is wrong: word by word or, where tags mark spans, span by span.

A span that is missed was taken for the one that overlaps it most, of another type or with other bounds; or
for nothing (O). What is found where nothing is wanted was nothing. A span is as sure as the least sure of its
words.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from regard.tasks.base import metrics
from regard.tasks.base.analysis import NOTHING, Analysis, Mistake, confused_of, most_confused, surest_first
from regard.tasks.base.calibration import Calibration, calibration
from regard.tasks.tagging.tagger import Tagger, log_softmax
from regard.text import Span, Tagged, spans

Tags = Sequence[Sequence[str]]


def analyse(tagger: Tagger, scores: Sequence[np.ndarray], records: Sequence[Tagged]) -> Analysis:
    """From the scores of each sentence's words. Words that left no token are not asked how sure they are."""
    numbers = [tagger.choose(each) for each in scores]
    chances = [
        np.exp(log_softmax(own)[np.arange(len(own)), chosen])
        for own, chosen in zip(scores, numbers, strict=True)
    ]
    found = [[tagger.labels[number] for number in chosen] for chosen in numbers]
    measured = _calibration(np.concatenate(chances), found, records)
    sure = [np.nan_to_num(each) for each in chances]
    if tagger.spans:
        return _of_spans(found, records, sure, measured)
    return _of_words(found, records, sure, measured, tagger.labels)


def _calibration(sure: np.ndarray, found: Tags, records: Sequence[Tagged]) -> Calibration | None:
    both = (zip(own, record.tags, strict=True) for own, record in zip(found, records, strict=True))
    right = np.array([tag == gold for pairs in both for tag, gold in pairs])
    spoken = ~np.isnan(sure)
    return calibration(sure[spoken], right[spoken]) if spoken.any() else None


def _of_words(
    found: Tags,
    records: Sequence[Tagged],
    sure: Sequence[np.ndarray],
    measured: Calibration | None,
    labels: Sequence[str],
) -> Analysis:
    unknown = {tag for record in records for tag in record.tags} - {*labels}
    names = [*labels, *sorted(unknown)]
    places = {name: place for place, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names)), dtype=np.int64)
    mistakes = []
    for record, tags, chances in zip(records, found, sure, strict=True):
        for word, gold, tag, chance in zip(record.words, record.tags, tags, chances.tolist(), strict=True):
            matrix[places[gold], places[tag]] += 1
            if gold != tag:
                mistakes.append(
                    Mistake(record.origin, " ".join(record.words), gold, tag, chance, {"word": word})
                )
    figures = metrics.class_figures(names, matrix.diagonal(), matrix.sum(axis=0), matrix.sum(axis=1))
    return Analysis(figures, confused_of(matrix, names), surest_first(mistakes), measured)


def _of_spans(
    found: Tags, records: Sequence[Tagged], sure: Sequence[np.ndarray], measured: Calibration | None
) -> Analysis:
    pairs = Counter[tuple[str, str]]()
    mistakes = []
    for record, tags, chances in zip(records, found, sure, strict=True):
        # as the CoNLL scorer reads them: an I that continues nothing opens a span
        wanted, there = spans(record.tags, "IOB1"), spans(tags, "IOB1")
        for gold, guess in missed(wanted, there):
            mistake = _span_mistake(record, gold, guess, chances)
            pairs[mistake.gold, mistake.predicted] += 1
            mistakes.append(mistake)
    figures = metrics.per_label_spans(found, [record.tags for record in records])
    return Analysis(figures, most_confused(pairs), surest_first(mistakes), measured)


def _span_mistake(record: Tagged, gold: Span | None, guess: Span | None, chances: np.ndarray) -> Mistake:
    labels = [NOTHING if span is None else span.label for span in (gold, guess)]
    words = ["" if span is None else " ".join(record.words[span.start : span.end]) for span in (gold, guess)]
    place = gold if guess is None else guess
    sure = 0.0 if place is None else float(chances[place.start : place.end].min())
    more = {"gold_words": words[0], "predicted_words": words[1]}
    return Mistake(record.origin, " ".join(record.words), labels[0], labels[1], sure, more)


def missed(wanted: Sequence[Span], found: Sequence[Span]) -> Iterator[tuple[Span | None, Span | None]]:
    """What is wanted and what was found in its place, where they differ; None for nothing."""
    right = {*wanted} & {*found}
    left = [span for span in found if span not in right]
    for gold in wanted:
        if gold in right:
            continue
        near = max(left, key=lambda span: _overlap(gold, span), default=None)
        if near is None or not _overlap(gold, near):
            yield gold, None
            continue
        left.remove(near)
        yield gold, near
    for span in left:
        yield None, span


def _overlap(one: Span, other: Span) -> int:
    return max(min(one.end, other.end) - max(one.start, other.start), 0)
