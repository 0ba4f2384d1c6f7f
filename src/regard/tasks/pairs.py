"""Parallel text for training: which files, read into a token store, handed out as batches.

source   [<2de>] ids <eos>
target   <sos> ids <eos>        the model reads it up to the last, and predicts it from the second on
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.config import ConfigError, check_choices, to_dict
from regard.data import Packed, Plan, Shape, Store, fingerprint, id_type, open_or_build, pack_flat, spread
from regard.tasks.feed import PlannedFeed
from regard.tasks.splits import Split, Splits, check_hold_out
from regard.tasks.translator import encode_sources
from regard.text import (
    DataError,
    OnError,
    Origin,
    Pair,
    Skipped,
    Table,
    Tokenizer,
    read_pairs,
    read_table_pairs,
)
from regard.text.tables import Format
from regard.train.checkpoint import write_text
from regard.train.objectives import HIDDEN

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

    def reader(self, root: Path) -> Callable[..., Iterator[Pair]]:
        """Takes `on_error` and `skipped`."""
        if self.table is None:
            return partial(read_pairs, *self.paths(root))
        rows = Table(path=root / self.table, format=self.format)
        return partial(read_table_pairs, rows, source=self.source, target=self.target)


@dataclass(frozen=True, kw_only=True, slots=True)
class PairsConfig:
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


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the pairs of the files."""

    read: int
    used: int
    empty: int
    """A side had nothing on it."""
    long: int
    """A side had more tokens than `longest`."""
    skipped: int
    """Broken lines."""
    why: str
    """Which, and where the first of them stand."""
    longest: tuple[int, ...]
    """The most tokens on each side that are used."""


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
        return [files.reader(self.root) for files in self.files(split)]

    def pairs(self, split: Split, skipped: Skipped | None = None) -> Iterator[tuple[Pair, str | None]]:
        """Each pair with its target language. Training pairs that are held out belong to `valid`."""
        return self._splits.read(split, skipped)

    @property
    def size(self) -> int:
        """Pairs in the training files, held-out ones included."""
        return self._splits.size

    def _with_language(self, files: PairFiles) -> Callable[..., Iterator[tuple[Pair, str | None]]]:
        read = files.reader(self.root)
        return lambda **how: ((pair, files.to) for pair in read(**how))


def build_store(corpus: Corpus, split: Split, tokenizer: Tokenizer, folder: Path) -> tuple[Store, Counts]:
    """The pairs of a split as ids, on disk; built only if the one there is not of the same text and
    settings."""
    config = corpus.config
    beside = folder.with_name(f"{folder.name}.json")

    def rows() -> Iterator[Mapping[str, Any]]:
        skipped, seen = Skipped(), {"read": 0, "empty": 0, "long": 0}
        start, end = tokenizer.require("start"), tokenizer.require("end")
        for chunk in _chunks(corpus.pairs(split, skipped)):
            sources = encode_sources(tokenizer, [pair.source for pair, _ in chunk], [to for _, to in chunk])
            targets = tokenizer.encode_batch([pair.target for pair, _ in chunk])
            for (pair, _), source, target in zip(chunk, sources, targets, strict=True):
                seen["read"] += 1
                if not pair.source.strip() or not pair.target.strip():
                    seen["empty"] += 1
                elif max(len(source), len(target) + 1) > config.longest:
                    seen["long"] += 1
                else:
                    yield {"source": source, "target": [start, *target, end]}
        counts = {"of": wanted, **seen, "skipped": skipped.total, "why": str(skipped)}
        write_text(beside, json.dumps(counts))  # before the store is whole, so that no store is without

    kind = id_type(len(tokenizer))
    paths = corpus.paths("train" if split == "valid" and not config.valid else split)
    settings = json.dumps(to_dict(replace(config, root="")))  # the same text elsewhere is the same
    wanted = fingerprint(paths, tokenizer.fingerprint(), split, settings)
    store = open_or_build(folder, wanted, {"source": kind, "target": kind}, rows)
    known = _counts(beside)
    if known.pop("of", None) != wanted:  # of a run that was killed before its store was whole
        deque(rows(), maxlen=0)
        known = _counts(beside)
        del known["of"]
    if not len(store):
        origin = Origin(str(paths[0]))
        what = f"none of {known['read']} pairs can be used for {split}"
        why = f"({known['empty']} empty, {known['long']} over data.longest={config.longest} tokens)"
        raise DataError(origin, what, why, remedy="mend the files, or raise data.longest")
    longest = tuple(int(lengths.max()) for lengths in pair_lengths(store))
    return store, Counts(**known, used=len(store), longest=longest)


def _counts(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _chunks(pairs: Iterable[Any]) -> Iterator[list[Any]]:
    pairs = iter(pairs)
    while chunk := list(islice(pairs, CHUNK)):
        yield chunk


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch:
    source: Packed
    inputs: Packed
    labels: Int[Tensor, "slots"]
    """What follows each input; hidden where it is filler."""

    @property
    def tokens(self) -> int:
        return self.inputs.tokens

    def tensors(self) -> list[Tensor]:
        source, inputs = self.source, self.inputs
        return [
            source.ids,
            source.layout.offsets,
            source.layout.positions,
            inputs.ids,
            inputs.layout.offsets,
            inputs.layout.positions,
            self.labels,
        ]

    def to(self, device: torch.device) -> "PairBatch":
        return PairBatch(self.source.to(device), self.inputs.to(device), self.labels.to(device))

    def pin(self) -> "PairBatch":
        return PairBatch(self.source.pin(), self.inputs.pin(), self.labels.pin_memory())


class PairFeed(PlannedFeed):
    """Batches of pairs."""

    def __init__(self, store: Store, plan: Plan, *, static: bool, rank: int = 0, ranks: int = 1) -> None:
        super().__init__(plan, static=static, rank=rank, ranks=ranks)
        self._source, self._target = store["source"], store["target"]

    def batch(self, rows: np.ndarray, shapes: tuple[Shape, ...] | None, epoch: int) -> PairBatch:
        source_lengths, target_lengths = self.plan.lengths[:, rows].tolist()
        source_shape, target_shape = shapes or (None, None)
        source = pack_flat(self._source.gather(rows), source_lengths, source_shape)
        inputs = pack_flat(self._target.gather(rows, skip_last=1), target_lengths, target_shape)
        labels = spread(self._target.gather(rows, skip_first=1), inputs.layout.tokens, HIDDEN)
        return PairBatch(source, inputs, labels)


def pair_lengths(store: Store) -> list[np.ndarray]:
    """Tokens of each pair on both sides, as a plan takes them."""
    return [store["source"].lengths, store["target"].lengths - 1]


def least_tokens(lengths: list[np.ndarray]) -> int:
    """The smallest budget of a batch that has room for every pair: slots of both sides are in proportion."""
    most = max(int(side.sum()) for side in lengths)
    return max(-(-int(side.max()) * most // max(int(side.sum()), 1)) for side in lengths)


def texts(corpus: Corpus, split: Split) -> Iterator[str]:
    """Both sides of all pairs, for a tokenizer."""
    return chain.from_iterable((pair.source, pair.target) for pair, _ in corpus.pairs(split))
