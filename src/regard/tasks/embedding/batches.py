"""Pairs of texts that mean the same as batches, some with texts beside them that do not answer.

texts        u0 v0 u1 v1 n00 n01 n10  ...     by length, all of the batch mixed
places       0 1, 2 3                         of each pair, where its two are
negatives    4 5 6                            where those of all pairs are
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from regard.data import Column, Packed, Plan, Shape, pack_flat, ragged
from regard.tasks.base.feed import Batch, PlannedFeed, Sharing
from regard.tasks.base.pairs import Corpus
from regard.tasks.base.reading import Reader
from regard.tasks.embedding.data import is_whole, negatives_of
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
    negatives: Column | None = None
    """Of each pair the texts that do not answer it, by number."""

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each pair, both texts and its negatives together."""
        both = self.texts.lengths[self.pairs].sum(axis=1)
        if self.negatives is None:
            return both
        sums = np.concatenate([[0], np.cumsum(self.texts.lengths[self.negatives.values])])
        return both + np.diff(sums[self.negatives.offsets])


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
    negatives: int
    """Texts beside the pairs that do not answer."""
    unused: int
    """Of these, left out: also validated or tested on, or with more tokens than are read."""
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
    """The training pairs with their negatives, without those that have one of the texts `apart`. `prompts`
    stand before sources and targets; negatives are read as targets. `keep` the texts as they are written,
    too."""
    first, second = prompts
    numbers: dict[bytes, int] = {}
    texts: list[np.ndarray] = []
    written: list[str] = []
    pairs: list[tuple[int, int]] = []
    negatives: list[list[int]] = []
    skipped, seen = Skipped(), {"read": 0, "empty": 0, "long": 0, "overlap": 0, "negatives": 0, "unused": 0}

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
        beside = [[each for each in negatives_of(pair) if each not in apart] for pair in own]
        seen["unused"] += sum(len(negatives_of(pair)) for pair in own) - sum(map(len, beside))
        rows = [
            (first + pair.source, second + pair.target, *(second + each for each in wrong))
            for pair, wrong in zip(own, beside, strict=True)
        ]
        pieces = iter(reader.pieces([text for row in rows for text in row]))
        for pair, wrong in zip(own, beside, strict=True):
            source, target, *others = islice(pieces, 2 + len(wrong))
            long = not (source.whole and target.whole)
            seen["long"] += long
            if long and skip_long:
                continue
            pairs.append((number(source.ids, pair.source), number(target.ids, pair.target)))
            read = [each for each in zip(others, wrong, strict=True) if each[0].whole or not skip_long]
            seen["unused"] += len(wrong) - len(read)
            negatives.append([number(piece.ids, text) for piece, text in read])
    if not pairs:
        raise DataError(
            Origin(str(corpus.paths("train")[0])),
            f"none of {seen['read']} pairs can be used",
            f"({seen['empty']} empty, {seen['long']} with more than {reader.longest} tokens, "
            f"{seen['overlap']} also to validate or test on)",
            remedy="mend the files, raise data.longest, or choose data.overlap=keep",
        )
    seen["negatives"] = sum(map(len, negatives))
    counts = PairUse(**seen, used=len(pairs), skipped=skipped.total, why=str(skipped))
    offsets = np.cumsum([0, *(len(row) for row in texts)], dtype=np.int64)
    every = Column(np.concatenate(texts), offsets)
    beside_them = ragged(negatives) if seen["negatives"] else None
    return EncodedPairs(every, np.array(pairs, dtype=np.int64), written, negatives=beside_them), counts


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
    negatives: Tensor | None
    """int64 [negatives, 2]: which sequence each is, and its number; hidden where it is filler."""
    guide_negatives: Tensor | None
    """float32 [negatives, width]: their vectors by the other model."""
    tokens: int
    """Pairs, which is what is predicted here."""


class PairedFeed(PlannedFeed):
    """Batches of pairs. The plan has one side: the tokens of both texts and their negatives together. A batch
    that is cut for a small device is several: each text has fewer to choose from."""

    def __init__(self, encoded: EncodedPairs, plan: Plan, **how: Unpack[Sharing]) -> None:
        super().__init__(plan, **how)
        self._encoded, self._lengths = encoded, encoded.texts.lengths
        self._most = 0 if encoded.negatives is None else int(encoded.negatives.lengths.max())

    def batch(self, rows: np.ndarray, shapes: tuple[Shape, ...] | None, epoch: int) -> PairedBatch:
        pairs, beside = self._encoded.pairs[rows], self._encoded.negatives
        wrong = np.empty(0, dtype=np.int64) if beside is None else beside.gather(rows)
        texts = np.concatenate([pairs.reshape(-1), wrong])
        order = np.argsort(self._lengths[texts], kind="stable")  # neighbours of one length are read at once
        shape = None if shapes is None else self._of_texts(shapes[0])
        sorted_texts = texts[order]
        packed = pack_flat(
            self._encoded.texts.gather(sorted_texts), self._lengths[sorted_texts].tolist(), shape
        )
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        count = len(rows) if shapes is None else shapes[0].sequences
        where, numbers = _filled(places[: pairs.size].reshape(-1, 2), count, 0), _filled(pairs, count, HIDDEN)
        negatives = guide_negatives = None
        if beside is not None:
            most = len(wrong) if shapes is None else self._most * count
            own = _filled(np.stack([places[pairs.size :], wrong], axis=1), most, HIDDEN)
            own[len(wrong) :, 0] = 0
            negatives, guide_negatives = own, self._guide(wrong, 1, most)
        return PairedBatch(
            packed, where, numbers, self._guide(pairs, [0, 1], count), negatives, guide_negatives, len(rows)
        )

    def _guide(self, texts: np.ndarray, sides: int | list[int], rows: int) -> Tensor | None:
        guide = self._encoded.guide
        if guide is None:
            return None
        found = guide[texts, sides]
        vectors = np.zeros((rows, *found.shape[1:]), dtype=np.float32)
        vectors[: len(texts)] = found
        return torch.from_numpy(vectors)

    def _of_texts(self, shape: Shape) -> Shape:
        longest = int(self._lengths.max())
        most = (2 + self._most) * shape.sequences
        return Shape(shape.slots, most + -(-shape.slots // longest), longest)


def _filled(pairs: np.ndarray, rows: int, filler: int) -> Tensor:
    values = np.full((rows, 2), filler, dtype=np.int64)
    values[: len(pairs)] = pairs
    return torch.from_numpy(values)
