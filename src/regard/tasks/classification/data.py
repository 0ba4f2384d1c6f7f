"""Texts with labels, for classifiers: which files, read into memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from regard.config import check_choices
from regard.tasks.base.files import TextFilesConfig
from regard.tasks.base.splits import Split, Splits, check_hold_out, digest
from regard.text import DataError, Labelled, OnError, Origin, Skipped, Table, read_labelled
from regard.text.remote import placed
from regard.text.tables import Format

Problem = Literal["single", "multi", "number"]
"""A text has one label of several, any number of them, or a number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledConfig(TextFilesConfig):
    train: tuple[str, ...]
    """What is learned from: a file, or a list of files."""
    valid: tuple[str, ...] = ()
    """What progress is measured on. Without it, some of the training texts are held out."""
    test: tuple[str, ...] = ()
    """What the finished model is measured on."""
    root: str = ""
    """Where relative paths start from; unless given, the folder of the recipe."""
    text: str | int = "text"
    """The column of the text: its name, or its number from 0."""
    second: str | int | None = None
    """The column of the other text, where the label is about two."""
    label: str | int = "label"
    """The column of the label."""
    problem: Problem = "single"
    """A text has one label of several, any number of labels, or a number."""
    apart: str = ","
    """What stands between the labels of a text that has several."""
    until: str = ""
    """Only what stands before this is the label: with ":", DESC of DESC:manner."""
    format: Format | None = None
    """Of the files, where their names do not tell."""
    quoted: bool | None = None
    """Whether quotation marks enclose cells; unless given, in CSV they do, in TSV they do not."""
    cells: int | None = None
    """Of a row without quotes: the last takes the rest of the line."""
    header: bool | None = None
    """Whether the first row names the columns; unless given, it does if a column is given by name."""
    hold_out: int = 0
    """Texts held out for validation where there is no `valid`; 0: a twentieth, at most 1,000."""
    examples: int = 0
    """Learn from so many of the training texts, drawn at random, the same ones every time: so it can be
    measured what more labels would give. 0: all of them."""
    longest: int = 0
    """Most tokens of a text, special ones included; 0: as many as the model can read, at most 512."""
    too_long: Literal["cut", "skip"] = "cut"
    """What happens to longer ones in training: only their beginnings are read, or they are left out; both
    are counted."""
    on_error: OnError = "raise"
    """What to do with a broken line: stop there, or skip it and count it."""

    def __post_init__(self) -> None:
        check_choices(self)
        TextFilesConfig.__post_init__(self)
        if not self.train:
            raise ValueError('train is empty: name a file, train = "train.tsv"')
        if self.longest and self.longest < 4:
            raise ValueError(f"longest={self.longest} leaves no room for a word: choose 4 or more")
        if not self.apart:
            raise ValueError("apart is empty: what stands between the labels?")
        if self.examples < 0:
            raise ValueError(f"examples={self.examples} must be 0 or more")
        check_hold_out(self.hold_out, self.valid)


class LabelledCorpus:
    """All texts of a recipe."""

    def __init__(self, config: LabelledConfig, where: Path) -> None:
        self.config = config
        self.root = where / config.root
        self._splits: Splits[Labelled] = Splits(
            {split: [self._reader(path) for path in self.paths(split)] for split in get_args(Split)},
            paths=self.paths("train"),
            what="texts",
            key=_both,
            hold_out=config.hold_out,
            on_error=config.on_error,
        )

    def paths(self, split: Split) -> list[Path]:
        names = {"train": self.config.train, "valid": self.config.valid, "test": self.config.test}[split]
        return [placed(self.root, name) for name in names]

    def readers(self, split: Split) -> list[Callable[..., Iterator[Labelled]]]:
        """For each of the files, a reader that waits to be told what to do with broken lines."""
        return [partial(self._whole, self._reader(path)) for path in self.paths(split)]

    def _whole(
        self, read: Callable[..., Iterator[Labelled]], *, on_error: OnError, skipped: Skipped
    ) -> Iterator[Labelled]:
        for record in read(on_error=on_error, skipped=skipped):
            try:
                yield self._trimmed(record)
            except DataError as error:
                if on_error == "raise":
                    raise
                skipped.add(error)

    def _reader(self, path: Path) -> Callable[..., Iterator[Labelled]]:
        config = self.config
        names = ("format", "separator", "encoding", "quoted", "cells", "header")
        table = Table(path=path, **{name: getattr(config, name) for name in names})
        return partial(
            read_labelled,
            table,
            text=config.text,
            label=config.label,
            second=config.second,
            labels_apart_by=config.apart if config.problem == "multi" else None,
        )

    @property
    def size(self) -> int:
        return self._splits.size

    def read(self, split: Split, skipped: Skipped | None = None) -> list[Labelled]:
        records = [self._trimmed(record) for record in self._splits.read(split, skipped)]
        wanted = self.config.examples
        if split != "train" or not wanted:
            return records
        if wanted > len(records):
            few, remedy = (
                f"{len(records)} texts to learn from",
                f"lower data.examples={wanted}, or set it to 0",
            )
            raise DataError(Origin(str(self.paths("train")[0])), few, remedy=remedy)
        chosen = sorted(range(len(records)), key=lambda place: digest(_both(records[place])))[:wanted]
        return [records[place] for place in sorted(chosen)]

    def _trimmed(self, record: Labelled) -> Labelled:
        if not self.config.until:
            return record
        labels = tuple(label.partition(self.config.until)[0].strip() for label in record.labels)
        if "" in labels:
            whole = record.labels[labels.index("")]
            where = f"before the {self.config.until!r} of {whole!r}"
            raise DataError(record.origin, "no label", where, remedy="correct it, or leave data.until out")
        return Labelled(record.text, record.second, labels, record.origin)


def _both(record: Labelled) -> str:
    return f"{record.text}\t{record.second or ''}"


def label_names(records: Sequence[Labelled]) -> tuple[str, ...]:
    """All labels there are, in order: numbers by value, words by the alphabet."""
    names = {label for record in records for label in record.labels}
    return tuple(sorted(names, key=_order))


def _order(name: str) -> tuple[int, float, str]:
    try:
        value = float(name)
    except ValueError:
        value = float("nan")
    return (0, value, name) if np.isfinite(value) else (1, 0.0, name)  # "nan" may be a word


def targets(records: Sequence[Labelled], names: Sequence[str], problem: Problem) -> np.ndarray:
    """The labels as numbers: int64 [texts], bool [texts, labels] or float32 [texts]."""
    places = {name: place for place, name in enumerate(names)}
    match problem:
        case "single":
            return np.array([_place(record, _only(record), places) for record in records], dtype=np.int64)
        case "multi":
            found = np.zeros((len(records), len(names)), dtype=bool)
            for row, record in enumerate(records):
                found[row, [_place(record, label, places) for label in record.labels]] = True
            return found
        case "number":
            return np.array([_number(record) for record in records], dtype=np.float32)


def _only(record: Labelled) -> str:
    if len(record.labels) != 1:
        count, remedy = f"{len(record.labels)} labels", "correct it, or choose data.problem=multi"
        raise DataError(record.origin, count, "where one belongs", remedy)
    return record.labels[0]


def _place(record: Labelled, label: str, places: dict[str, int]) -> int:
    if label not in places:
        known = ", ".join(list(places)[:10])
        raise DataError(
            record.origin,
            "a label that no training text has",
            f"{label!r} (there are {known}{', ...' if len(places) > 10 else ''})",
            remedy="correct it, or add texts with it to data.train",
        )
    return places[label]


def _number(record: Labelled) -> float:
    label = _only(record)
    try:
        value = float(label)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise DataError(record.origin, "no number", f"{label!r}", remedy="correct it: data.problem is number")
    return value
