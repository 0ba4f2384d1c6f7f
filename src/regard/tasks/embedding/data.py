"""Pairs of texts that mean the same, for sentence vectors: which files, read into memory, handed out as
batches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import torch
from torch import Tensor

from regard.config import check_choices
from regard.data import Column, Packed, Plan, Shape, pack_flat
from regard.tasks.base.feed import Batch, PlannedFeed, Sharing
from regard.tasks.base.files import TextFilesConfig
from regard.tasks.base.pairs import Corpus, PairFiles, PairsConfig
from regard.tasks.base.reading import Reader
from regard.tasks.base.splits import Split, check_hold_out
from regard.text import DataError, OnError, Origin, Pair, Skipped
from regard.train.objectives import HIDDEN


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
    pairs = [pair for pair, _ in corpus.pairs(split) if _is_whole(pair)]
    if not pairs:
        raise ValueError(f"data.{split}: no pairs in {name}; name files that have some")
    return Held(name, [pair.source for pair in pairs], [pair.target for pair in pairs])


def _is_whole(pair: Pair) -> bool:
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


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPairs:
    """Pairs as a model reads them."""

    texts: Column
    """Each once, however many pairs it is in."""
    pairs: np.ndarray
    """int64 [pairs, 2]: their texts, by number."""

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each pair, both texts together."""
        return self.texts.lengths[self.pairs].sum(axis=1)


@dataclass(frozen=True, slots=True)
class PairUse:
    """What became of the training pairs."""

    read: int
    used: int
    empty: int
    """A side had nothing on it."""
    long: int
    """A side had more tokens than are read."""
    overlap: int
    """A side is also validated or tested on; left out."""
    skipped: int
    """Broken lines."""
    why: str
    """Which, and where the first of them stand."""


def encode(
    reader: Reader, corpus: Corpus, *, skip_long: bool, apart: frozenset[str] = frozenset()
) -> tuple[EncodedPairs, PairUse]:
    """The training pairs, without those that have one of the texts `apart`."""
    numbers: dict[bytes, int] = {}
    texts: list[np.ndarray] = []
    pairs: list[tuple[int, int]] = []
    skipped, seen = Skipped(), {"read": 0, "empty": 0, "long": 0, "overlap": 0}

    def number(ids: Sequence[int]) -> int:
        row = np.asarray(ids, dtype=np.int32)
        place = numbers.setdefault(row.tobytes(), len(texts))
        if place == len(texts):
            texts.append(row)
        return place

    for chunk in corpus.chunks("train", skipped):
        seen["read"] += len(chunk)
        whole = [pair for pair, _ in chunk if _is_whole(pair)]
        seen["empty"] += len(chunk) - len(whole)
        own = [pair for pair in whole if pair.source not in apart and pair.target not in apart]
        seen["overlap"] += len(whole) - len(own)
        pieces = reader.pieces([text for pair in own for text in (pair.source, pair.target)])
        for source, target in zip(pieces[::2], pieces[1::2], strict=True):
            long = not (source.whole and target.whole)
            seen["long"] += long
            if not (long and skip_long):
                pairs.append((number(source.ids), number(target.ids)))
    if not pairs:
        raise DataError(
            Origin(str(corpus.paths("train")[0])),
            f"none of {seen['read']} pairs can be used",
            f"({seen['empty']} empty, {seen['long']} with more than {reader.longest} tokens, "
            f"{seen['overlap']} also to validate or test on)",
            remedy="mend the files, raise data.longest, or choose data.overlap=keep",
        )
    counts = PairUse(**seen, used=len(pairs), skipped=skipped.total, why=str(skipped))
    offsets = np.cumsum([0, *(len(row) for row in texts)], dtype=np.int64)
    return EncodedPairs(Column(np.concatenate(texts), offsets), np.array(pairs, dtype=np.int64)), counts


@dataclass(frozen=True, slots=True, eq=False)
class PairedBatch(Batch):
    text: Packed
    """Both sides of all pairs, by length."""
    places: Tensor
    """int64 [rows, 2]: which sequences the two texts of a pair are."""
    numbers: Tensor
    """int64 [rows, 2]: equal for equal texts, whichever side they are on; hidden where a row is filler."""
    tokens: int
    """Pairs, which is what is predicted here."""


class PairedFeed(PlannedFeed):
    """Batches of pairs. The plan has one side: the tokens of both texts together. A batch that is cut for a
    small device is several: each text has fewer to choose from."""

    def __init__(self, encoded: EncodedPairs, plan: Plan, **how: Unpack[Sharing]) -> None:
        super().__init__(plan, **how)
        self._encoded, self._lengths = encoded, encoded.texts.lengths

    def batch(self, rows: np.ndarray, shapes: tuple[Shape, ...] | None, epoch: int) -> PairedBatch:
        pairs = self._encoded.pairs[rows]
        texts = pairs.reshape(-1)
        order = np.argsort(self._lengths[texts], kind="stable")  # neighbours of one length are read at once
        texts = texts[order]
        shape = None if shapes is None else self._of_texts(shapes[0])
        packed = pack_flat(self._encoded.texts.gather(texts), self._lengths[texts].tolist(), shape)
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        count = len(rows) if shapes is None else shapes[0].sequences
        return PairedBatch(
            packed, _filled(places.reshape(-1, 2), count, 0), _filled(pairs, count, HIDDEN), len(rows)
        )

    def _of_texts(self, shape: Shape) -> Shape:
        longest = int(self._lengths.max())
        return Shape(shape.slots, 2 * shape.sequences + -(-shape.slots // longest), longest)


def _filled(pairs: np.ndarray, rows: int, filler: int) -> Tensor:
    values = np.full((rows, 2), filler, dtype=np.int64)
    values[: len(pairs)] = pairs
    return torch.from_numpy(values)
