"""Batches of masked text, alone or with a sentence that may follow it.

    [CLS] chunk [SEP]
    [CLS] chunk [SEP] chunk [SEP]        the next one of its document or, half of the time, one of another

Masks and second chunks are functions of (seed, epoch, number of the chunk), and of nothing else: a run is
resumed by an integer. The second chunk changes with the epoch, and its length with it: a plan takes the
longest there is.
"""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Unpack

import numpy as np
from jaxtyping import Int
from torch import Tensor

from regard.data import Packed, Plan, Shape, Store, pack_flat, spread
from regard.data.corruption import Corruption
from regard.data.hashing import uniform
from regard.settings.training import BatchConfig
from regard.tasks.base.feed import Batch, PlannedFeed, Sharing
from regard.text import DataError, Origin, Tokenizer
from regard.train.objectives import HIDDEN

FOLLOWS, APART = 0, 1
"""Labels of a second chunk, as BERT has them."""

_WHETHER, _WHICH = 3, 4  # what a random number is for; `Corruption` has those before


class Frame:
    """What a tokenizer sets around a text, or around two."""

    def __init__(self, tokenizer: Tokenizer, *, pair: bool) -> None:
        sample = tokenizer.encode("a", "a" if pair else None, template="cls")
        self._parts: list[tuple[int | None, int, np.ndarray]] = []
        places = zip(sample.texts, sample.segments, sample.ids, strict=True)
        for (text, segment), own in groupby(places, key=lambda place: place[:2]):
            self._parts.append((text, segment, np.array([id for *_, id in own], dtype=np.int64)))
        self.extra = sum(len(ids) for text, _, ids in self._parts if text is None)
        """Tokens beside the text."""

    def around(self, *texts: np.ndarray) -> np.ndarray:
        return np.concatenate([ids if text is None else texts[text] for text, _, ids in self._parts])

    def segments(self, *sizes: int) -> np.ndarray:
        """Which text each token goes with, for texts of these sizes."""
        lengths = [len(ids) if text is None else sizes[text] for text, _, ids in self._parts]
        return np.repeat([segment for _, segment, _ in self._parts], lengths)


class NextChunks:
    """Which chunk stands behind which, epoch by epoch."""

    def __init__(self, documents: np.ndarray, seed: int, folder: Path | str = "the token store") -> None:
        """`documents` has the number of each chunk's document, ascending."""
        self._seed = seed
        self.firsts = np.flatnonzero(documents[:-1] == documents[1:])
        """The chunks that another follows; only they stand first."""
        if not len(self.firsts) or len(documents) < 3:
            raise DataError(
                Origin(str(folder)),
                "too little text for next sentences",
                f"({len(documents)} chunks, {len(self.firsts)} with another behind it)",
                remedy="lower data.longest, give longer documents, hold out whole ones (data.hold_out=5), or "
                "set objective.next_sentence=false",
            )
        self._begin = np.searchsorted(documents, documents, side="left")
        self._end = np.searchsorted(documents, documents, side="right")

    def seconds(self, rows: np.ndarray, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """For each of these chunks, the one behind it, and its label. One that does not follow is drawn from
        all other documents; where there is only one, from all of it but the chunk itself and the next."""
        chance = uniform(self._seed, epoch, _WHICH, rows)
        begin, end = self._begin[rows], self._end[rows]
        alone = end - begin == len(self._begin)
        begin, end = np.where(alone, rows, begin), np.where(alone, rows + 2, end)
        drawn = (chance * (len(self._begin) - (end - begin))).astype(np.int64)
        drawn = np.where(drawn < begin, drawn, drawn + end - begin)
        follows = uniform(self._seed, epoch, _WHETHER, rows) < 0.5
        return np.where(follows, rows + 1, drawn), np.where(follows, FOLLOWS, APART)


@dataclass(frozen=True, slots=True, eq=False)
class MaskedBatch(Batch):
    text: Packed
    segments: Int[Tensor, "slots"] | None
    places: Int[Tensor, "masked"]
    """The tokens that are predicted; where sizes must not change, filled up with token 0."""
    labels: Int[Tensor, "masked"]
    """What stood there; hidden where it is filler."""
    follows: Int[Tensor, "sequences"] | None
    """0 if the second text follows the first, 1 if not; hidden for filler."""
    tokens: int
    """How many are predicted."""


class MaskedFeed(PlannedFeed):
    def __init__(
        self,
        store: Store,
        frame: Frame,
        corruption: Corruption,
        config: BatchConfig,
        *,
        nexts: NextChunks | None = None,
        most: int | None = None,
        **how: Unpack[Sharing],
    ) -> None:
        """With `nexts`, `frame` is one for two texts. Of the sequences there are, at most so many, evenly
        from the first to the last."""
        self._ids, self._frame, self._corruption, self._nexts = store["ids"], frame, corruption, nexts
        sizes = self._ids.lengths
        rows = np.arange(len(sizes)) if nexts is None else nexts.firsts
        if most is not None and most < len(rows):
            rows = rows[np.arange(most) * len(rows) // most]
        self.rows = rows
        """The chunk of each sequence; the first one, of two."""
        lengths = sizes[rows] + frame.extra + (0 if nexts is None else sizes.max())
        super().__init__(Plan([lengths], config), **how)

    def batch(self, rows: np.ndarray, shapes: tuple[Shape, ...] | None, epoch: int) -> MaskedBatch:
        chunks = self.rows[rows]
        sequences, segments, labels = self._sequences(chunks, epoch)
        lengths = [len(each) for each in sequences]
        shape = None if shapes is None else shapes[0]
        most = None if shape is None else self._corruption.most(shape.slots)
        found = self._corruption.corrupt(np.concatenate(sequences), lengths, chunks, epoch, most)
        packed = pack_flat(found.ids, lengths, shape)
        size = len(found.places) if most is None else most
        return MaskedBatch(
            packed,
            None if segments is None else spread(segments, packed.layout.tokens),
            spread(found.places, size),
            spread(found.labels, size, HIDDEN),
            None if labels is None else spread(labels, packed.layout.sequences, HIDDEN),
            len(found.places),
        )

    def _sequences(
        self, chunks: np.ndarray, epoch: int
    ) -> tuple[list[np.ndarray], np.ndarray | None, np.ndarray | None]:
        """Whole ones, laid out as the model reads them; segments of their tokens; labels of second chunks."""
        ids, frame = self._ids, self._frame
        firsts = [ids[int(chunk)] for chunk in chunks]
        if self._nexts is None:
            return [frame.around(first) for first in firsts], None, None
        behind, labels = self._nexts.seconds(chunks, epoch)
        pairs = [(first, ids[int(chunk)]) for first, chunk in zip(firsts, behind, strict=True)]
        segments = np.concatenate([frame.segments(len(first), len(second)) for first, second in pairs])
        return [frame.around(*pair) for pair in pairs], segments, labels
