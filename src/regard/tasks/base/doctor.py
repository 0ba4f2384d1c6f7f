"""What the doctors of all tasks share: from the files of a recipe to a report."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from regard.tasks.base.files import Asked, advised
from regard.tasks.base.splits import Split
from regard.text import OnError, Skipped
from regard.text.doctor import Kind, Report, Sample, Vectors, inspect

SPLITS: tuple[Split, ...] = ("train", "valid", "test")

Readers = Callable[[Split], Sequence[Callable[..., Iterable[Any]]]]
"""Of the files of a split."""


def look_at(
    readers: Readers,
    sample: Callable[[Any], Sample | None],
    kind: Kind,
    data: Any,
    *,
    examples: int = 3,
    vectors: Vectors | None = None,
) -> Report:
    """The report on the files of a recipe's [data], whose records become samples; None is left out."""
    splits: dict[str, list[Callable[..., Iterable[Sample]]]] = {
        split: [partial(_samples, read, sample) for read in readers(split)]
        for split in SPLITS
        if getattr(data, split)
    }
    return strict(inspect(splits, kind, examples=examples, vectors=vectors), data)


def _samples(
    read: Callable[..., Iterable[Any]],
    sample: Callable[[Any], Sample | None],
    *,
    on_error: OnError,
    skipped: Skipped,
) -> Iterator[Sample]:
    found = (sample(record) for record in read(on_error=on_error, skipped=skipped))
    return (each for each in found if each is not None)


def strict(report: Report, data: Any) -> Report:
    """Unless a recipe says that broken lines are skipped, training will stop at the first of them."""
    if data.on_error == "skip":
        return report
    findings = [
        replace(each, severity="error") if each.name in ("broken lines", "invalid tags") else each
        for each in report.findings
    ]
    findings.sort(key=lambda finding: finding.severity != "error")
    return replace(report, findings=tuple(findings))


def worded(report: Report, asked: Asked) -> Report:
    """With remedies as they can be followed by who asked."""
    findings = [replace(each, remedy=advised(each.remedy, asked)) for each in report.findings]
    return replace(report, findings=tuple(findings))


def column_among(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """The first of these names that a table has, whatever its case."""
    there = {column.casefold(): column for column in reversed(columns)}
    return next((there[name] for name in names if name in there), None)
