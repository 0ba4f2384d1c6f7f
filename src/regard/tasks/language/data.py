"""Text as a language model reads it: one long stream of tokens, in blocks.

    stream    [start] document [end] [start] document [end] ...
    block     so many tokens of it, and for each the one that comes next

Blocks run over the ends of documents, or keep inside them (`context.across`). Across them, every epoch cuts
the stream at other places: its first block begins a little later, by a hash of (seed, epoch).
"""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from jaxtyping import Int
from torch import Tensor

from regard.config import to_dict
from regard.data import Packed, Plan, Shape, Store, fingerprint, id_type, open_or_build, pack_flat, spread
from regard.data.hashing import uniform
from regard.settings.training import BatchConfig
from regard.tasks.base.documents import DocumentCorpus, Passage
from regard.tasks.base.feed import Batch, PlannedFeed, Sharing
from regard.tasks.base.splits import Split
from regard.text import DataError, Origin, Tokenizer
from regard.text.conventions import Conventions
from regard.train.objectives import HIDDEN

USUAL = Conventions()
_SHIFT = 5  # what a random number is for; masked text has those before


def build_stream(
    corpus: DocumentCorpus,
    split: Split,
    tokenizer: Tokenizer,
    folder: Path,
    conventions: Conventions = USUAL,
) -> Store:
    """The text of a split on disk. A row is a passage: its tokens, the number of its document, its bytes, and
    its words, line ends among them. Built only if the one there is not of the same text and settings."""
    config = corpus.config
    paths = corpus.paths("train" if split == "valid" and not config.valid else split)
    settings = json.dumps(
        [to_dict(replace(config, root="")), corpus.share]
    )  # the same text elsewhere is the same
    ends = Ends.of(tokenizer, conventions)
    kind = "stream 1" if ends.start else "stream 1, not begun"
    wanted = fingerprint(paths, tokenizer.fingerprint(), split, settings, kind)
    # Where the ends of documents are held out, what is learned from has no end, and the rest no beginning.
    if corpus.share:
        ends = replace(ends, start=[]) if split == "valid" else replace(ends, end=[])

    def rows() -> Iterator[dict[str, Any]]:
        return stream_rows(corpus.passages(split), tokenizer, ends)

    number = np.dtype(np.int64)
    columns = {"ids": id_type(len(tokenizer)), "document": number, "bytes": number, "words": number}
    store = open_or_build(folder, wanted, columns, rows)
    if len(store["ids"].values) < 2:
        raise DataError(Origin(str(paths[0])), f"no text for {split}", remedy="name files that have some")
    return store


def stream_rows(passages: Iterator[Passage], tokenizer: Tokenizer, ends: "Ends") -> Iterator[dict[str, Any]]:
    document = -1
    for passage, follows in _with_next(passages):
        document += passage.begins
        text = ("" if passage.begins else "\n") + "\n".join(passage.lines)
        ids = tokenizer.encode_batch([text])[0]
        if passage.begins:
            ids = [*ends.start, *ids]
        if follows is None or follows.begins:
            ids = [*ids, *ends.end]
        yield {
            "ids": ids if passage.lines else [],
            "document": document,
            "bytes": len(text.encode()),
            "words": len(text.split()) + len(passage.lines),
        }


def _with_next(passages: Iterator[Passage]) -> Iterator[tuple[Passage, Passage | None]]:
    held: Passage | None = None
    for passage in passages:
        if held is not None:
            yield held, passage
        held = passage
    if held is not None:
        yield held, None


@dataclass(frozen=True, slots=True)
class Ends:
    """What a document begins and ends with: nothing, where the tokenizer has no such token, or where the
    model's texts do not begin with it. One token for both, as GPT-2 has it, stands before each document
    only: it parts them."""

    start: list[int]
    end: list[int]

    @classmethod
    def of(cls, tokenizer: Tokenizer, conventions: Conventions) -> "Ends":
        vocabulary, specials = tokenizer.vocabulary, tokenizer.specials
        start = [] if specials.start is None else [vocabulary[specials.start]]
        end = [] if specials.end in (None, specials.start) else [vocabulary[specials.end]]
        return cls([] if end and conventions.begins is False else start, end)


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Where each block begins in the stream, and how many tokens of it are read."""

    starts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def across(cls, tokens: int, size: int) -> "Blocks":
        """Of one stream, one after the other; what does not fill a block is left out, but for a short
        stream."""
        count = max((tokens - 1) // size, 1)
        return cls(size * np.arange(count), np.full(count, min(size, tokens - 1)))

    @classmethod
    def inside(cls, bounds: np.ndarray, size: int) -> "Blocks":
        """Of documents that lie between these bounds; all of them, the last of each is shorter."""
        starts, lengths = [], []
        for begin, end in itertools.pairwise(bounds):
            own = np.arange(begin, end - 1, size)
            starts.append(own)
            lengths.append(np.minimum(size, end - 1 - own))
        return cls(np.concatenate(starts), np.concatenate(lengths))


def document_bounds(store: Store) -> np.ndarray:
    """Where documents begin in the stream, and where the last one ends."""
    numbers, offsets = np.asarray(store["document"].values), np.asarray(store["ids"].offsets)
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    return np.unique(np.append(offsets[:-1][begins], offsets[-1]))


@dataclass(frozen=True, slots=True, eq=False)
class BlockBatch(Batch):
    text: Packed
    labels: Int[Tensor, "slots"]
    """What comes next after each token; hidden for filler."""
    tokens: int


class BlockFeed(PlannedFeed):
    def __init__(
        self, store: Store, config: BatchConfig, *, size: int, across: bool, **how: Unpack[Sharing]
    ) -> None:
        """Blocks of `size` tokens. Of dialogues, only what is marked is learned."""
        self._ids, self._size, self._seed = store["ids"].values, size, config.seed
        self._learned = learned_of(store)
        self._inside = None if across else Blocks.inside(document_bounds(store), size)
        # One block fewer than there would be, so that there is room to begin later.
        spare = max(len(Blocks.across(len(self._ids), size).starts) - 1, 1) * size
        self._slack = max(len(self._ids) - 1 - spare, 0)
        blocks = self._inside or Blocks.across(min(len(self._ids), spare + 1), size)
        super().__init__(Plan([blocks.lengths], config), **how)
        self._starts = blocks.starts

    def shift(self, epoch: int) -> int:
        """Where the first block of an epoch begins."""
        if self._inside is not None or self._slack == 0:
            return 0
        return int(uniform(self._seed, epoch, _SHIFT, np.zeros(1, dtype=np.int64))[0] * (self._slack + 1))

    def batch(self, rows: np.ndarray, shapes: tuple[Shape, ...] | None, epoch: int) -> BlockBatch:
        starts, lengths = self._starts[rows] + self.shift(epoch), self.plan.lengths[0, rows]
        return block_batch(self._ids, starts, lengths, None if shapes is None else shapes[0], self._learned)


def learned_of(store: Store) -> np.ndarray | None:
    """Of dialogues, which tokens are learned; None where all are."""
    return np.asarray(store["learned"].values) if "learned" in store.columns else None


def block_batch(
    ids: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
    shape: Shape | None,
    learned: np.ndarray | None = None,
) -> BlockBatch:
    """These stretches of the stream, and what comes next after each token: hidden where it is not learned."""
    pieces = [ids[start : start + length + 1] for start, length in zip(starts, lengths, strict=True)]
    read = np.concatenate([piece[:-1] for piece in pieces]).astype(np.int64)
    comes = np.concatenate([piece[1:] for piece in pieces]).astype(np.int64)
    if learned is not None:
        places = [
            learned[start + 1 : start + length + 1] for start, length in zip(starts, lengths, strict=True)
        ]
        comes = np.where(np.concatenate(places) > 0, comes, HIDDEN)
    packed = pack_flat(read, lengths.tolist(), shape)
    return BlockBatch(packed, spread(comes, packed.layout.tokens, HIDDEN), len(read))
