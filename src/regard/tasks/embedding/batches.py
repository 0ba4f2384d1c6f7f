"""Pairs of texts that mean the same as batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from regard.data import Column, Packed, Plan, Shape, pack_flat
from regard.tasks.base.feed import Batch, PlannedFeed, Sharing
from regard.tasks.base.pairs import Corpus
from regard.tasks.base.reading import Reader
from regard.tasks.embedding.data import is_whole
from regard.text import DataError, Origin, Skipped
from regard.train.objectives import HIDDEN


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPairs:
    """Pairs as a model reads them."""

    texts: Column
    """Each once, however many pairs it is in."""
    pairs: np.ndarray
    """int64 [pairs, 2]: their texts, by number."""
    written: Sequence[str] = ()
    """The texts themselves, where they were to be kept."""
    guide: np.ndarray | None = None
    """float32 [texts, 2, width]: their vectors by another model, as sources and as targets."""

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
    reader: Reader,
    corpus: Corpus,
    *,
    skip_long: bool,
    apart: frozenset[str] = frozenset(),
    prompts: tuple[str, str] = ("", ""),
    keep: bool = False,
) -> tuple[EncodedPairs, PairUse]:
    """The training pairs, without those that have one of the texts `apart`. `prompts` stand before sources
    and targets. `keep` the texts as they are written, too."""
    first, second = prompts
    numbers: dict[bytes, int] = {}
    texts: list[np.ndarray] = []
    written: list[str] = []
    pairs: list[tuple[int, int]] = []
    skipped, seen = Skipped(), {"read": 0, "empty": 0, "long": 0, "overlap": 0}

    def number(ids: Sequence[int], text: str) -> int:
        row = np.asarray(ids, dtype=np.int32)
        place = numbers.setdefault(row.tobytes(), len(texts))
        if place == len(texts):
            texts.append(row)
            written.extend([text] if keep else [])
        return place

    for chunk in corpus.chunks("train", skipped):
        seen["read"] += len(chunk)
        whole = [pair for pair, _ in chunk if is_whole(pair)]
        seen["empty"] += len(chunk) - len(whole)
        own = [pair for pair in whole if pair.source not in apart and pair.target not in apart]
        seen["overlap"] += len(whole) - len(own)
        pieces = reader.pieces([text for pair in own for text in (first + pair.source, second + pair.target)])
        for pair, source, target in zip(own, pieces[::2], pieces[1::2], strict=True):
            long = not (source.whole and target.whole)
            seen["long"] += long
            if not (long and skip_long):
                pairs.append((number(source.ids, pair.source), number(target.ids, pair.target)))
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
    every = Column(np.concatenate(texts), offsets)
    return EncodedPairs(every, np.array(pairs, dtype=np.int64), written), counts


@dataclass(frozen=True, slots=True, eq=False)
class PairedBatch(Batch):
    text: Packed
    """Both sides of all pairs, by length."""
    places: Tensor
    """int64 [rows, 2]: which sequences the two texts of a pair are."""
    numbers: Tensor
    """int64 [rows, 2]: equal for equal texts, whichever side they are on; hidden where a row is filler."""
    guide: Tensor | None
    """float32 [rows, 2, width]: vectors of the two texts by another model, of length 1."""
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
        where, numbers = _filled(places.reshape(-1, 2), count, 0), _filled(pairs, count, HIDDEN)
        return PairedBatch(packed, where, numbers, self._guide(pairs, count), len(rows))

    def _guide(self, pairs: np.ndarray, rows: int) -> Tensor | None:
        guide = self._encoded.guide
        if guide is None:
            return None
        vectors = np.zeros((rows, 2, guide.shape[2]), dtype=np.float32)
        vectors[: len(pairs)] = guide[pairs, [0, 1]]
        return torch.from_numpy(vectors)

    def _of_texts(self, shape: Shape) -> Shape:
        longest = int(self._lengths.max())
        return Shape(shape.slots, 2 * shape.sequences + -(-shape.slots // longest), longest)


def _filled(pairs: np.ndarray, rows: int, filler: int) -> Tensor:
    values = np.full((rows, 2), filler, dtype=np.int64)
    values[: len(pairs)] = pairs
    return torch.from_numpy(values)
