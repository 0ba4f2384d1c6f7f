"""Queries with texts that answer them and texts that do not, for rerankers: which files, read into memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from regard.config import check_choices
from regard.tasks.base.files import TextFilesConfig
from regard.tasks.base.splits import Split, Splits, check_hold_out
from regard.text import OnError, Skipped, Table
from regard.text.rankings import Ranking, read_rankings
from regard.text.remote import placed
from regard.text.tables import Format


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedConfig(TextFilesConfig):
    train: tuple[str, ...]
    """What is learned from: a file, or a list of files; a query a row, with a text that answers it and texts
    that do not. regard mine-negatives writes such files."""
    valid: tuple[str, ...] = ()
    """What progress is measured on. Without it, some of the training queries are held out."""
    test: tuple[str, ...] = ()
    """What the finished model is measured on."""
    root: str = ""
    """Where relative paths start from; unless given, the folder of the recipe."""
    query: str | int = "query"
    """The column of the query: its name, or its number from 0."""
    positive: str | int = "positive"
    """The column of the text that answers it."""
    negatives: tuple[str | int, ...] = ("negatives",)
    """The column of texts that do not, which may be a list of them in JSON lines; or several columns, one
    text in each."""
    scores: str | int = ""
    """The column of a teacher's scores, of the positive first and then of the negatives: for
    loss.kind=margin. Empty: there is none."""
    most: int = 7
    """Negatives of a query that are read, the first ones; 0: all of them."""
    format: Format | None = None
    """Of the files, where their names do not tell."""
    hold_out: int = 0
    """Queries held out for validation where there is no `valid`; 0: a twentieth, at most 1,000."""
    longest: int = 0
    """Most tokens of a query and a text together, special ones included; 0: as many as the model can read,
    at most 512."""
    too_long: Literal["cut", "skip"] = "cut"
    """What happens to longer pairs in training: only the beginning of the text is read, or the queries of
    such pairs are left out; both are counted."""
    on_error: OnError = "raise"
    """What to do with a broken row: stop there, or skip it and count it."""

    def __post_init__(self) -> None:
        check_choices(self)
        TextFilesConfig.__post_init__(self)
        if not self.train:
            raise ValueError('train is empty: name a file, train = "mined.jsonl"')
        if not self.negatives:
            raise ValueError('negatives is empty: name a column, negatives = "negatives"')
        if self.most < 0:
            raise ValueError(f"most={self.most} must be 0 or more")
        if self.longest and self.longest < 16:
            raise ValueError(f"longest={self.longest} leaves no room for a text: choose 16 or more")
        check_hold_out(self.hold_out, self.valid)


class RankedCorpus:
    """All queries of a recipe."""

    def __init__(self, config: RankedConfig, where: Path) -> None:
        self.config = config
        self.root = where / config.root
        self._splits: Splits[Ranking] = Splits(
            {split: self.readers(split) for split in get_args(Split)},
            paths=self.paths("train"),
            what="queries",
            key=lambda record: record.query,
            hold_out=config.hold_out,
            on_error=config.on_error,
        )

    def paths(self, split: Split) -> list[Path]:
        names = {"train": self.config.train, "valid": self.config.valid, "test": self.config.test}[split]
        return [placed(self.root, name) for name in names]

    def readers(self, split: Split) -> list[Callable[..., Iterator[Ranking]]]:
        """For each of the files, a reader that waits to be told what to do with broken rows."""
        return [self._reader(path) for path in self.paths(split)]

    def _reader(self, path: Path) -> Callable[..., Iterator[Ranking]]:
        config = self.config
        names = ("format", "separator", "encoding")
        return partial(
            read_rankings,
            Table(path=path, **{name: getattr(config, name) for name in names}),
            query=config.query,
            positive=config.positive,
            negatives=config.negatives,
            scores=config.scores if config.scores != "" else None,
            most=config.most,
        )

    def read(self, split: Split, skipped: Skipped | None = None) -> list[Ranking]:
        return list(self._splits.read(split, skipped))
