"""Parallel text: which files hold it, and its pairs split by split."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, get_args

from regard.config import ConfigError, check_choices
from regard.tasks.base.files import TextFilesConfig
from regard.tasks.base.splits import Split, Splits, check_hold_out
from regard.text import OnError, Pair, Skipped, Table, read_pairs, read_table_pairs
from regard.text.tables import Format

CHUNK = 10_000
"""Pairs that are encoded at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairFiles:
    """Two files side by side, or two columns of a table. In a recipe also written as a list:
    ["train.en", "train.de"], or ["train.en", "train.de", "de"] with the language token of the target."""

    source: str | int
    """The file of the source sentences; of a table, the column: its name, or its number from 0."""
    target: str | int
    """The file of the translations; of a table, the column."""
    table: str | None = None
    """A TSV, CSV, JSONL, Parquet or Arrow file that has both."""
    format: Format | None = None
    """Of the table, where its name does not tell."""
    to: str | None = None
    """The target language, for a model that writes several: the source then starts with the token <2de>."""

    def __post_init__(self) -> None:
        if self.table is None and not (isinstance(self.source, str) and isinstance(self.target, str)):
            raise ValueError(
                f"source={self.source!r} and target={self.target!r} are no files: "
                "columns need a table beside them"
            )

    def paths(self, root: Path) -> list[Path]:
        return [
            root / name for name in ([self.table] if self.table else [str(self.source), str(self.target)])
        ]

    def reader(self, root: Path, how: TextFilesConfig) -> Callable[..., Iterator[Pair]]:
        """Takes `on_error` and `skipped`."""
        if self.table is None:
            return partial(read_pairs, *self.paths(root), encoding=how.encoding)
        rows = Table(
            path=root / self.table, format=self.format, encoding=how.encoding, separator=how.separator
        )
        return partial(read_table_pairs, rows, source=self.source, target=self.target)


@dataclass(frozen=True, kw_only=True, slots=True)
class PairsConfig(TextFilesConfig):
    train: tuple[PairFiles, ...]
    """What is learned from: [source, target], or a list of such lists."""
    valid: tuple[PairFiles, ...] = ()
    """What progress is measured on. Without it, some of the training pairs are held out."""
    test: tuple[PairFiles, ...] = ()
    """What the finished model is measured on."""
    root: str = ""
    """Where relative paths start from; unless given, the folder of the recipe."""
    hold_out: int = 0
    """Pairs held out for validation where there is no `valid`; 0: a twentieth, at most 1,000."""
    longest: int = 256
    """Most tokens on a side; longer pairs are left out of training, and counted."""
    on_error: OnError = "raise"
    """What to do with a broken line: stop there, or skip it and count it."""

    def __post_init__(self) -> None:
        check_choices(self)
        TextFilesConfig.__post_init__(self)
        if not self.train:
            raise ValueError('train is empty: name two files, train = ["train.en", "train.de"]')
        if self.longest < 2:
            raise ValueError(f"longest={self.longest} leaves no room for a word: choose 2 or more")
        check_hold_out(self.hold_out, self.valid)

    @property
    def languages(self) -> tuple[str, ...]:
        every = [files.to for files in (*self.train, *self.valid, *self.test)]
        if any(every) and not all(every):
            raise ConfigError("some files of data name a target language and some do not: name it for all")
        return tuple(sorted({language for language in every if language}))


def plain_files(given: Any) -> Any:
    """The short ways to write files in a recipe, as the long one."""
    if not isinstance(given, list | tuple):
        return given
    if given and all(isinstance(item, str) for item in given):
        given = [given]
    return [_plain(item) for item in given]


def _plain(item: Any) -> Any:
    if not isinstance(item, list | tuple):
        return item
    if len(item) not in (2, 3) or not all(isinstance(name, str) for name in item):
        raise ConfigError(
            f"{list(item)!r} is no pair of files: write [source, target] or [source, target, language]"
        )
    return dict(zip(("source", "target", "to"), item, strict=False))


class Corpus:
    """All pairs of a recipe."""

    def __init__(self, config: PairsConfig, where: Path) -> None:
        """`where` is the folder that relative paths start from."""
        self.config = config
        self.root = where / config.root
        self._splits: Splits[tuple[Pair, str | None]] = Splits(
            {split: [self._with_language(files) for files in self.files(split)] for split in get_args(Split)},
            paths=self.paths("train"),
            what="pairs",
            key=lambda item: item[0].source,  # so that no source is on both sides
            hold_out=config.hold_out,
            on_error=config.on_error,
        )

    def paths(self, split: Split) -> list[Path]:
        return [path for files in self.files(split) for path in files.paths(self.root)]

    def files(self, split: Split) -> tuple[PairFiles, ...]:
        return {"train": self.config.train, "valid": self.config.valid, "test": self.config.test}[split]

    def readers(self, split: Split) -> list[Callable[..., Iterator[Pair]]]:
        """For each of the files, a reader that waits to be told what to do with broken lines."""
        return [files.reader(self.root, self.config) for files in self.files(split)]

    def pairs(self, split: Split, skipped: Skipped | None = None) -> Iterator[tuple[Pair, str | None]]:
        """Each pair with its target language. Training pairs that are held out belong to `valid`."""
        return self._splits.read(split, skipped)

    def chunks(self, split: Split, skipped: Skipped) -> Iterator[list[tuple[Pair, str | None]]]:
        """The same, as many at once as are encoded at once."""
        pairs = self.pairs(split, skipped)
        while chunk := list(islice(pairs, CHUNK)):
            yield chunk

    @property
    def size(self) -> int:
        """Pairs in the training files, held-out ones included."""
        return self._splits.size

    def _with_language(self, files: PairFiles) -> Callable[..., Iterator[tuple[Pair, str | None]]]:
        read = files.reader(self.root, self.config)
        return lambda **how: ((pair, files.to) for pair in read(**how))


def texts(corpus: Corpus, split: Split) -> Iterator[str]:
    """Both sides of all pairs, for a tokenizer."""
    return chain.from_iterable((pair.source, pair.target) for pair, _ in corpus.pairs(split))
