"""Pairs of texts that mean the same, for sentence vectors: which files, read into memory. In a table, a pair
may have texts beside it that do not answer, as regard mine-negatives finds them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from regard.config import check_choices
from regard.tasks.base.files import TextFilesConfig
from regard.tasks.base.pairs import Corpus, PairFiles, PairsConfig
from regard.tasks.base.splits import Split, check_hold_out
from regard.text import OnError, Pair, Table
from regard.text.rankings import read_rankings


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedConfig(TextFilesConfig):
    train: tuple[PairFiles, ...]
    """What is learned from, texts that mean the same: [one, other], or a list of such lists. A single file
    stands for both sides: each text is then its own other, seen with other dropout. A single file of JSON
    lines is one that regard mine-negatives writes: with the columns query, positive and negatives."""
    valid: tuple[PairFiles, ...] = ()
    """What progress is measured on. Without it, some of the training pairs are held out."""
    test: tuple[PairFiles, ...] = ()
    """What the finished model is measured on, pair of files by pair of files."""
    negatives: tuple[str | int, ...] = ()
    """Columns of texts that do not answer the first of a pair, in the tables of train: a list of them in JSON
    lines, or one text in each of several columns."""
    most: int = 7
    """Negatives of a pair that are read, the first ones; 0: all of them."""
    root: str = ""
    """Where relative paths start from; unless given, the folder of the recipe."""
    hold_out: int = 0
    """Pairs held out for validation where there is no `valid`; 0: a twentieth, at most 1,000."""
    longest: int = 0
    """Most tokens of a text, special ones included; 0: as many as the model can read, at most 512."""
    too_long: Literal["cut", "skip"] = "cut"
    """What happens to longer ones in training: only their beginnings are read, or their pairs are left out;
    both are counted."""
    overlap: Literal["skip", "keep"] = "skip"
    """What happens to training pairs with a text that is also validated or tested on: they are left out and
    counted, or learned from."""
    on_error: OnError = "raise"
    """What to do with a broken line: stop there, or skip it and count it."""

    def __post_init__(self) -> None:
        check_choices(self)
        TextFilesConfig.__post_init__(self)
        if not self.train:
            raise ValueError('train is empty: name two files, train = ["train.en", "train.de"]')
        if self.longest and self.longest < 4:
            raise ValueError(f"longest={self.longest} leaves no room for a word: choose 4 or more")
        if self.negatives and not any(_is_table(files) for files in self.train):
            raise ValueError(
                f"negatives={[*self.negatives]} are columns, and train names no table: "
                'train = {table = "mined.jsonl", source = "query", target = "positive"}'
            )
        if self.most < 0:
            raise ValueError(f"most={self.most} must be 0 or more")
        check_hold_out(self.hold_out, self.valid)
        for split in ("train", "valid", "test"):
            for files in getattr(self, split):
                if files.to:
                    raise ValueError(
                        f"{split} names the target language {files.to!r}, but vectors are of all languages "
                        "alike: leave it out"
                    )
        found_itself = [files for files in self.valid or self.train if files.source == files.target]
        if found_itself and (self.valid or len(found_itself) == len(self.train)):
            raise ValueError(
                f"valid: both sides are {found_itself[0].source!r}, and a text always finds itself: name "
                "pairs of texts that mean the same as data.valid"
            )

    @property
    def files(self) -> PairsConfig:
        """The same files, as a translator has them."""
        shared = ("train", "valid", "test", "root", "hold_out", "on_error", "encoding", "separator")
        return PairsConfig(**{name: getattr(self, name) for name in shared})


@dataclass(frozen=True, slots=True)
class Contrast(Pair):
    """A pair, and texts that do not answer its source."""

    negatives: tuple[str, ...]


def negatives_of(pair: Pair) -> tuple[str, ...]:
    return pair.negatives if isinstance(pair, Contrast) else ()


def open_pairs(config: PairedConfig, where: Path) -> Corpus:
    """All pairs of a recipe; those to learn from with the negatives of their tables."""

    def reader(files: PairFiles, root: Path, how: TextFilesConfig) -> Callable[..., Iterator[Pair]]:
        if not (config.negatives and files in config.train and _is_table(files)):
            return files.reader(root, how)
        columns: dict[str, Any] = {"query": files.source, "positive": files.target}
        columns["negatives"] = config.negatives
        return partial(_contrasts, files.rows(root, how), **columns, most=config.most)

    return Corpus(config.files, where, reader)


def _is_table(files: PairFiles) -> bool:
    return files.table is not None and not files.tmx


def _contrasts(table: Table, **how: Any) -> Iterator[Contrast]:
    for each in read_rankings(table, **how):
        yield Contrast(each.query, each.positive, each.origin, each.origin, each.negatives)


@dataclass(frozen=True, slots=True)
class Held:
    """Pairs to measure on: the right answer to each source is its target, and all others are wrong."""

    name: str
    sources: list[str]
    targets: list[str]


def held_pairs(corpus: Corpus, split: Split, where: Path) -> list[Held]:
    """Of each pair of files; pairs that are held out of training are together, whatever their files."""
    if not corpus.files(split):
        return [_held("held out", corpus, split)] if split == "valid" else []
    alone = [(files, Corpus(_only(corpus.config, split, files), where)) for files in corpus.files(split)]
    return [_held(_name(files), own, split) for files, own in alone]


def _only(config: PairsConfig, split: Split, files: PairFiles) -> PairsConfig:
    return replace(config, valid=(files,)) if split == "valid" else replace(config, test=(files,))


def _name(files: PairFiles) -> str:
    return f"{files.table + ': ' if files.table else ''}{files.source}, {files.target}"


def _held(name: str, corpus: Corpus, split: Split) -> Held:
    pairs = [pair for pair, _ in corpus.pairs(split) if is_whole(pair)]
    if not pairs:
        raise ValueError(f"data.{split}: no pairs in {name}; name files that have some")
    return Held(name, [pair.source for pair in pairs], [pair.target for pair in pairs])


def is_whole(pair: Pair) -> bool:
    return bool(pair.source.strip() and pair.target.strip())


def distinct(held: Held, most: int) -> Held:
    """So many of them at most, from everywhere; none that has a text of one before it: both would be
    right."""
    seen: set[str] = set()
    chosen = []
    for place, pair in enumerate(zip(held.sources, held.targets, strict=True)):
        if seen.isdisjoint(pair):
            chosen.append(place)
            seen.update(pair)
    if len(chosen) > most:
        chosen = [chosen[place * len(chosen) // most] for place in range(most)]
    return Held(held.name, [held.sources[row] for row in chosen], [held.targets[row] for row in chosen])
