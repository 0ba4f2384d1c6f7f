"""Parallel text as a translator reads it: encoded into a token store, handed out as batches.

source   [<2de>] ids <eos>
target   <sos> ids <eos>        the model reads it up to the last, and predicts it from the second on
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from jaxtyping import Int
from torch import Tensor

from regard.config import to_dict
from regard.data import Packed, Plan, Shape, Store, fingerprint, id_type, open_or_build, pack_flat, spread
from regard.tasks.base.feed import Batch, PlannedFeed, Sharing
from regard.tasks.base.pairs import Corpus
from regard.tasks.base.splits import Split
from regard.tasks.translation.pieces import encode_sources
from regard.text import DataError, Origin, Skipped, Tokenizer
from regard.text.splitting import sentences
from regard.train.checkpoint import write_text
from regard.train.objectives import HIDDEN


@dataclass(frozen=True, slots=True)
class PairCounts:
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
    several: int | None = None
    """Used pairs whose source holds several sentences; None in older token stores, which did not count."""

    @property
    def share_of_several(self) -> float | None:
        return None if self.several is None else round(self.several / self.used, 4)


def build_store(corpus: Corpus, split: Split, tokenizer: Tokenizer, folder: Path) -> tuple[Store, PairCounts]:
    """The pairs of a split as ids, on disk; built only if the one there is not of the same text and
    settings."""
    config = corpus.config
    beside = folder.with_name(f"{folder.name}.json")

    def rows() -> Iterator[Mapping[str, Any]]:
        skipped, seen = Skipped(), {"read": 0, "empty": 0, "long": 0, "several": 0}
        start, end = tokenizer.require("start"), tokenizer.require("end")
        for chunk in corpus.chunks(split, skipped):
            sources = encode_sources(tokenizer, [pair.source for pair, _ in chunk], [to for _, to in chunk])
            targets = tokenizer.encode_batch([pair.target for pair, _ in chunk])
            for (pair, _), source, target in zip(chunk, sources, targets, strict=True):
                seen["read"] += 1
                if not pair.source.strip() or not pair.target.strip():
                    seen["empty"] += 1
                elif max(len(source), len(target) + 1) > config.longest:
                    seen["long"] += 1
                else:
                    seen["several"] += len(sentences(pair.source)) > 1
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
    return store, PairCounts(**known, used=len(store), longest=longest)


def _counts(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch(Batch):
    source: Packed
    inputs: Packed
    labels: Int[Tensor, "slots"]
    """What follows each input; hidden where it is filler."""

    @property
    def tokens(self) -> int:
        return self.inputs.tokens


class PairFeed(PlannedFeed):
    """Batches of pairs."""

    def __init__(self, store: Store, plan: Plan, **how: Unpack[Sharing]) -> None:
        super().__init__(plan, **how)
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
