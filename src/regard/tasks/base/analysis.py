"""Where a model is wrong: figures of each label, which labels are taken for which, and the mistakes.

What `regard evaluate` prints behind a model's figures. Mistakes come surest first: there a model is wrong and
does not know it, or the label in the data is. With --errors, all of them are written to a table:

    file  line  text  gold  predicted  probability      and what a task adds: the other text, the words
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.config import ConfigError
from regard.disk import write_text
from regard.tasks.base.calibration import Calibration
from regard.tasks.base.metrics import ClassFigures, CountArray
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import say
from regard.text import Origin

ENDINGS = (".tsv", ".csv", ".jsonl")
MOST_LABELS = 30
"""Rows of the table of labels that a terminal gets."""
MOST_CONFUSED = 10
MOST_MISTAKES = 5
LONGEST_TEXT = 100
"""Characters of a mistake's text on a terminal."""
NOTHING = "O"
"""Where a span is found that nobody wants, or none where one is wanted."""


@dataclass(frozen=True, slots=True)
class Mistake:
    origin: Origin
    text: str
    gold: str
    predicted: str
    probability: float | None
    """Of what was predicted; None for a number, which has none."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Columns of the task."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "file": self.origin.file,
            "line": self.origin.line,
            "text": self.text,
            "gold": self.gold,
            "predicted": self.predicted,
            "probability": self.probability,
            **self.more,
        }


@dataclass(frozen=True, slots=True)
class Confused:
    gold: str
    predicted: str
    """The same as `gold` for a span that was found with other bounds."""
    count: int

    def __str__(self) -> str:
        other = "found with other bounds" if self.gold == self.predicted else f"taken for {self.predicted}"
        return f"{self.count:>7}  {self.gold} {other}"


@dataclass(frozen=True, slots=True)
class Analysis:
    """What is behind a model's figures."""

    labels: Mapping[str, ClassFigures]
    """Empty where a model gives numbers."""
    confused: Sequence[Confused]
    """The most frequent first."""
    mistakes: Sequence[Mistake]
    """The surest first; of numbers, all texts, the farthest first."""
    calibration: Calibration | None

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        if self.labels:
            plain["per_label"] = {name: asdict(own) for name, own in self.labels.items()}
            plain["confused"] = [asdict(each) for each in self.confused]
        if self.calibration is not None:
            plain["calibration"] = self.calibration.to_dict()
        return {**plain, "errors": [each.to_dict() for each in self.mistakes]}


def most_confused(pairs: Mapping[tuple[str, str], int]) -> list[Confused]:
    """From how often each label, (wanted, predicted), was taken for which."""
    found = [Confused(*pair, count) for pair, count in pairs.items() if count]
    return sorted(found, key=lambda each: (-each.count, each.gold, each.predicted))


def confused_of(matrix: CountArray, names: Sequence[str]) -> list[Confused]:
    """From a matrix [wanted, predicted], whose diagonal is right."""
    rows, columns = np.nonzero(matrix * ~np.eye(len(names), dtype=bool))
    places = zip(rows.tolist(), columns.tolist(), strict=True)
    return most_confused({(names[row], names[column]): int(matrix[row, column]) for row, column in places})


def surest_first(mistakes: Iterable[Mistake]) -> list[Mistake]:
    return sorted(mistakes, key=lambda each: -(each.probability or 0.0))


def check_files(options: EvaluateOptions, *, numbers: bool) -> None:
    """Before any work is done for them. Models that give `numbers` have no probabilities."""
    if options.errors is not None and options.errors.suffix.lower() not in ENDINGS:
        raise ConfigError(
            f"--errors {options.errors}: a table is {', '.join(ENDINGS)}; end the name in one of these"
        )
    if options.calibration is not None:
        if numbers:
            raise ConfigError("--calibration is for labels, but this model gives numbers: leave it out")
        pictures = import_module("regard.look.plots")  # which stands above
        pictures.check_out(options.calibration, "--calibration")


def report(found: Analysis, options: EvaluateOptions, console: Console) -> None:
    """Print it, and write the files that were asked for."""
    if found.labels:
        _say_labels(found.labels, console)
    if found.confused:
        say(console, "most confused")
        for each in found.confused[:MOST_CONFUSED]:
            say(console, str(each))
    if found.mistakes:
        far = found.mistakes[0].probability is None
        say(console, "farthest off" if far else f"surest of {len(found.mistakes):,} mistakes")
        for mistake in found.mistakes[:MOST_MISTAKES]:
            say(console, _line(mistake))
    if found.calibration is not None:
        say(console, f"calibration error {found.calibration.error:.4f} ({len(found.calibration.bins)} bins)")
    if options.errors is not None:
        write_mistakes(options.errors, found.mistakes)
        what = "mistakes" if found.labels else "texts, the farthest off first"
        say(console, f"{options.errors}: {len(found.mistakes):,} {what}")
    if options.calibration is not None and found.calibration is not None:
        import_module("regard.look.plot_calibration").draw_calibration(found.calibration, options.calibration)
        say(console, f"{options.calibration}: how far probabilities can be trusted")


def write_mistakes(path: Path, mistakes: Sequence[Mistake]) -> None:
    """A table with a header, or an object a line. TSV has no way to write a tab or a newline inside a text:
    there a space takes its place."""
    rows = [each.to_dict() for each in mistakes]
    ending = path.suffix.lower()
    if ending == ".jsonl":
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return
    names = list(rows[0]) if rows else list(Mistake(Origin(""), "", "", "", None).to_dict())
    table = io.StringIO()
    if ending == ".csv":
        writer = csv.writer(table, lineterminator="\n")
        writer.writerows([names, *([_cell(row[name]) for name in names] for row in rows)])
    else:
        for cells in (names, *([_one_line(_cell(row[name])) for name in names] for row in rows)):
            table.write("\t".join(cells) + "\n")
    write_text(path, table.getvalue())


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def _one_line(text: str) -> str:
    return " ".join(text.replace("\t", " ").splitlines())


def _say_labels(labels: Mapping[str, ClassFigures], console: Console) -> None:
    shown = list(labels.items())
    if len(shown) > MOST_LABELS:
        shown = sorted(shown, key=lambda each: (each[1].f1, -each[1].count))[:MOST_LABELS]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("label", overflow="fold")
    for name in ("precision", "recall", "f1", "count"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, own in shown:
        figures = (f"{own.precision:.4f}", f"{own.recall:.4f}", f"{own.f1:.4f}", f"{own.count:,}")
        table.add_row(Text(name), *figures)
    console.print(table)
    if hidden := len(labels) - len(shown):
        say(console, f"{hidden} of {len(labels)} labels, with a higher f1, are not shown")


def _line(mistake: Mistake) -> str:
    text = "".join(each if each.isprintable() else " " for each in mistake.text)
    if len(text) > LONGEST_TEXT:
        text = text[: LONGEST_TEXT - 1] + "…"
    sure = "" if mistake.probability is None else f"{mistake.probability:.4f}  "
    place = f"{Path(mistake.origin.file).name}:{mistake.origin.line}"
    labels = f"{mistake.gold or 'nothing'} taken for {mistake.predicted or 'nothing'}"
    return f"{sure:>9}{place}  {labels}:  {text}"
