"""Parallel text: which files hold it, and its pairs split by split."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, get_args

from regard.config import ConfigError, check_choices, to_dict
from regard.tasks.base.files import TextFilesConfig
from regard.tasks.base.formats import only_lines
from regard.tasks.base.splits import Split, Splits, check_hold_out
from regard.text import OnError, Pair, Skipped, Table, read_pairs, read_table_pairs
from regard.text.remote import placed
from regard.text.tables import Format
from regard.text.tmx import is_tmx, read_tmx

IN_PAIRS = (
    "give two files of a sentence a line each; two columns of a table are written "
    '{table="pairs.csv", source="en", target="de"}, and a memory ["memory.tmx", "en", "de"]'
)
"""How pairs are named, where a file is not lines."""

CHUNK = 10_000
"""Pairs that are encoded at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairFiles:
    """Two files side by side, two columns of a table, or two languages of a translation memory. In a recipe
    also written as a list: ["train.en", "train.de"], or ["train.en", "train.de", "de"] with the language
    token of the target; a memory is ["memory.tmx", "en", "de"]."""

    source: str | int
    """The file of the source sentences; of a table, the column: its name, or its number from 0; of TMX, the
    language."""
    target: str | int
    """The file of the translations; of a table, the column; of TMX, the language."""
    table: str | None = None
    """A TSV, CSV, JSONL, Parquet, Arrow or TMX file that has both."""
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
        if self.tmx and not (isinstance(self.source, str) and isinstance(self.target, str)):
            raise ValueError(
                f"source={self.source!r} and target={self.target!r} of {self.table} must be languages: "
                "'en', 'de'"
            )

    @property
    def tmx(self) -> bool:
        return self.table is not None and self.format is None and is_tmx(self.table)

    def paths(self, root: Path) -> list[Path]:
        return [
            placed(root, name)
            for name in ([self.table] if self.table else [str(self.source), str(self.target)])
        ]

    def reader(self, root: Path, how: TextFilesConfig) -> Callable[..., Iterator[Pair]]:
        """Takes `on_error` and `skipped`."""
        if self.table is None:
            for name in (self.source, self.target):
                only_lines(str(name), remedy=IN_PAIRS)
            return partial(read_pairs, *self.paths(root), encoding=how.encoding)
        if self.tmx:  # which says its encoding itself
            return partial(
                read_tmx, placed(root, self.table), source=str(self.source), target=str(self.target)
            )
        return partial(read_table_pairs, self.rows(root, how), source=self.source, target=self.target)

    def rows(self, root: Path, how: TextFilesConfig) -> Table:
        """Of a table."""
        path = placed(root, str(self.table))
        return Table(path=path, format=self.format, encoding=how.encoding, separator=how.separator)


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
    def general(self) -> "PairsConfig | None":
        """What is mixed in, if anything is."""
        return None

    @property
    def languages(self) -> tuple[str, ...]:
        mixed = () if self.general is None else self.general.train
        every = [files.to for files in (*self.train, *mixed, *self.valid, *self.test)]
        if any(every) and not all(every):
            raise ConfigError("some files of data name a target language and some do not: name it for all")
        return tuple(sorted({language for language in every if language}))


@dataclass(frozen=True, kw_only=True, slots=True)
class MixConfig:
    train: tuple[PairFiles, ...] = ()
    """General text to learn from beside one's own, so that it is not forgotten: [source, target], or a list
    of such lists."""
    share: float = 0.5
    """Of the target tokens of an epoch, how much is general text. An epoch has all of the own text."""

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"share={self.share} must be above 0 and below 1: leave data.mix out for none")


@dataclass(frozen=True, kw_only=True, slots=True)
class FuzzyConfig:
    share: float = 0.0
    """How many of the training sources are looked up in a memory; the translation of the nearest other text
    then stands behind them."""
    memory: str = ""
    """The memory (regard memory import); unless given, the training text itself."""
    languages: str = ""
    """Of the memory, if it has several: "en:de"."""
    at_least: int = 70
    """The lowest score of a match."""
    seed: int = 0
    """Which sources are looked up."""

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share={self.share} must be between 0 and 1")
        if not 1 <= self.at_least <= 99:
            raise ValueError(f"at_least={self.at_least} must be between 1 and 99: 100 is the text itself")
        if self.memory and not self.share:
            raise ValueError(f"memory={self.memory!r} is not used without a share: give one, as in share=0.5")
        if self.languages and not self.memory:
            raise ValueError(f"languages={self.languages!r} are a memory's: name it, or leave them out")
        check_pair(self.languages)

    @property
    def pair(self) -> tuple[str | None, str | None]:
        return pair_of(self.languages)


@dataclass(frozen=True, kw_only=True, slots=True)
class TermsConfig:
    share: float = 0.0
    """How many of the training sources are told, inside the text, what some of their words become."""
    glossary: str = ""
    """Which words: those of a glossary (TSV, CSV, TBX, or a memory) that a pair has on both sides; unless
    given, words that come together in the training text."""
    languages: str = ""
    """Of the glossary, if it has several: "en:de"."""
    seed: int = 0
    """Which sources, and which of their words."""

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share={self.share} must be between 0 and 1")
        if self.glossary and not self.share:
            raise ValueError(
                f"glossary={self.glossary!r} is not used without a share: give one, as in share=0.5"
            )
        if self.languages and not self.glossary:
            raise ValueError(f"languages={self.languages!r} are a glossary's: name it, or leave them out")
        check_pair(self.languages)

    @property
    def pair(self) -> tuple[str | None, str | None]:
        return pair_of(self.languages)


def pair_of(languages: str) -> tuple[str | None, str | None]:
    source, _, target = languages.partition(":")
    return source or None, target or None


def check_pair(languages: str) -> None:
    if languages and not all(pair_of(languages)):
        raise ValueError(f"languages={languages!r}: give the source's and the target's, as in 'en:de'")


@dataclass(frozen=True, kw_only=True, slots=True)
class MixedPairsConfig(PairsConfig):
    mix: MixConfig = field(default_factory=MixConfig)
    """General text beside one's own."""
    fuzzy: FuzzyConfig = field(default_factory=FuzzyConfig)
    """Near matches of a memory behind the sources."""
    terms: TermsConfig = field(default_factory=TermsConfig)
    """What words become, inside the sources."""
    prompt: str | None = None
    """What stands before every source, and says what is to be done: "summarize: ". The model keeps it, and
    reads it before every text unless it is asked not to. Unless given, the default of what it starts from;
    "" for none."""
    same_language: bool = False
    """Both sides are of one language, as summaries and simplifications are: the data doctor then expects
    targets that are their sources, that are much shorter, and that say it in other words."""

    @property
    def general(self) -> PairsConfig | None:
        if not self.mix.train:
            return None
        files = self.mix.train
        # it has files to validate on, so that nothing is held out
        return replace(self, train=files, valid=files, test=(), hold_out=0, mix=MixConfig())


def settings_of(config: PairsConfig) -> dict[str, Any]:
    """What decides the text, wherever it lies, as plain data."""
    plain = to_dict(replace(config, root=""))
    if config.general is None:
        plain.pop("mix", None)  # as it was before there were any
    for name in ("fuzzy", "terms"):
        if not plain.get(name, {}).get("share"):
            plain.pop(name, None)
    if plain.get("prompt") is None:
        plain.pop("prompt", None)
    plain.pop("same_language", None)  # the text is the same
    return plain


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
    if len(item) == 3 and isinstance(item[0], str) and is_tmx(item[0]):
        return dict(zip(("table", "source", "target"), item, strict=True))
    if len(item) not in (2, 3) or not all(isinstance(name, str) for name in item):
        raise ConfigError(
            f"{list(item)!r} is no pair of files: write [source, target], [source, target, language] "
            "or [memory.tmx, source language, target language]"
        )
    return dict(zip(("source", "target", "to"), item, strict=False))


ReadFiles = Callable[[PairFiles, Path, TextFilesConfig], Callable[..., Iterator[Pair]]]
"""As `PairFiles.reader`: takes files, where relative paths start from, and how files are read."""


class Corpus:
    """All pairs of a recipe."""

    def __init__(self, config: PairsConfig, where: Path, read: ReadFiles = PairFiles.reader) -> None:
        """`where` is the folder that relative paths start from, `read` what makes a reader of files."""
        self.config, self._where, self._reader = config, where, read
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
        return [self._reader(files, self.root, self.config) for files in self.files(split)]

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

    @cached_property
    def general(self) -> "Corpus | None":
        """What is mixed in, all of it to learn from."""
        config = self.config.general
        return None if config is None else Corpus(config, self._where)

    def _with_language(self, files: PairFiles) -> Callable[..., Iterator[tuple[Pair, str | None]]]:
        read = self._reader(files, self.root, self.config)
        return lambda **how: ((pair, files.to) for pair in read(**how))


def texts(corpus: Corpus, split: Split) -> Iterator[str]:
    """Both sides of all pairs, for a tokenizer."""
    return chain.from_iterable((pair.source, pair.target) for pair, _ in corpus.pairs(split))


def texts_to_learn(corpus: Corpus) -> Iterator[str]:
    """The same of all that is learned from, general text too."""
    every = [corpus] if corpus.general is None else [corpus, corpus.general]
    return chain.from_iterable(texts(each, "train") for each in every)
