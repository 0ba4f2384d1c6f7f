"""Pairs of texts that mean the same, for sentence vectors: which files, read into memory."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from regard.config import check_choices
from regard.tasks.base.files import TextFilesConfig
from regard.tasks.base.pairs import Corpus, PairFiles, PairsConfig
from regard.tasks.base.splits import Split, check_hold_out
from regard.text import OnError, Pair


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedConfig(TextFilesConfig):
    train: tuple[PairFiles, ...]
    """What is learned from, texts that mean the same: [one, other], or a list of such lists. A single file
    stands for both sides: each text is then its own other, seen with other dropout."""
    valid: tuple[PairFiles, ...] = ()
    """What progress is measured on. Without it, some of the training pairs are held out."""
    test: tuple[PairFiles, ...] = ()
    """What the finished model is measured on, pair of files by pair of files."""
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
