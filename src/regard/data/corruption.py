"""What masked language models learn from: text with a share of its tokens hidden (Devlin et al. 2019).

    unit = token     each token by itself
    unit = word      all tokens of a word (whole-word masking)
    unit = span      runs of words, of geometric lengths up to 10 (Joshi et al. 2020, SpanBERT)

Of what is chosen, most becomes the mask, some a random token, and the rest stays. For unit = token that is
settled token by token; for words and spans by one decision for the whole of each, as in SpanBERT.

All of it is a pure function of (seed, draw, example, place): an example has the same masks in whatever
batch it comes. Draws are epochs (Liu et al. 2019, RoBERTa), or a few that come in turn (BERT). Random numbers
are hashes of these coordinates, computed for a whole batch at once.

A span begins at a word with rate s and reaches the k-th word from there if it is as long. So that a word is
covered with probability `share`, s solves

    1 - prod_k (1 - s P(length >= k)) = share        k = 1..10

Spans also begin before the first word of a text, out of sight, so that this holds for the first words too.
"""

import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import pre_tokenizers

from regard.data.hashing import uniform
from regard.settings.training import LONGEST_SPAN, MaskingConfig
from regard.text.specials import BYTES
from regard.text.tokenizer import Tokenizer

Ids = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


WORD = 2.0
"""Tokens of the word that a token drawn at random is in, about; only `Corruption.most` asks."""

_CHOICE, _KIND, _TOKEN = range(3)  # what a random number is for

_UNSPACED = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
_BYTE_LETTERS = frozenset(pre_tokenizers.ByteLevel.alphabet())


@dataclass(frozen=True, slots=True, eq=False)
class Corrupted:
    ids: Ids
    """All tokens, as the model reads them."""
    places: Ids
    """Which of them are predicted, ascending."""
    labels: Ids
    """What stood there."""


class _Units(NamedTuple):
    """What is chosen as a whole, special tokens aside. A stretch is what they leave between them: no word
    and no span leaves it."""

    of: Ids
    """Which unit each token is in; here special ones count."""
    heads: Ids
    """The first token of each unit."""
    stretch: Ids
    """Where each unit is: the number of the stretch in its example,"""
    place: Ids
    """and the unit's number in that."""


class Corruption:
    """`specials` and the mask are never chosen and never put in at random. `starts` says for each id whether
    it begins a word (`word_starts`); only unit = token does without."""

    def __init__(
        self,
        config: MaskingConfig,
        *,
        mask: int,
        vocabulary: int,
        specials: Collection[int],
        seed: int,
        starts: Flags | None = None,
    ) -> None:
        outside = [id for id in (mask, *specials) if not 0 <= id < vocabulary]
        if outside:
            raise ValueError(f"ids {outside} are not in a vocabulary of {vocabulary}: they go from 0")
        if seed < 0:
            raise ValueError(f"seed={seed} cannot seed anything: choose 0 or more")
        if config.unit != "token" and (starts is None or starts.shape != (vocabulary,)):
            found = "none" if starts is None else f"shape {starts.shape}"
            raise ValueError(
                f"unit={config.unit!r} must know which tokens begin words, but starts has {found}: "
                f"give one flag for each of {vocabulary} ids, as word_starts(tokenizer) does"
            )
        self.config, self.mask, self.vocabulary, self.seed = config, mask, vocabulary, seed
        self._starts = np.ones(vocabulary, np.bool_) if starts is None or config.unit == "token" else starts
        self._special = np.zeros(vocabulary, dtype=np.bool_)
        self._special[[mask, *specials]] = True
        self._ordinary = np.flatnonzero(~self._special)
        if not len(self._ordinary):
            raise ValueError(f"all {vocabulary} ids are special: nothing could be predicted")
        # P(length >= k) for k = 1, 2, ...
        self._longer = span_tail(config.span) if config.unit == "span" else np.ones(1)
        self._rates = self._longer * _solve(
            lambda rate: 1 - float(np.prod(1 - rate * self._longer)), config.share
        )

    def most(self, slots: int) -> int:
        """How many places a batch of so many slots may have, so that the tensor of places has one size: the
        mean and six standard deviations, for words of usual sizes."""
        # Tokens that are chosen together: the variance grows with the size of the group a token is in.
        together = float((2 * np.arange(1, len(self._longer) + 1) - 1) @ self._longer / self._longer.sum())
        together *= 1 if self.config.unit == "token" else WORD
        share = self.config.share
        return min(slots, ceil(share * slots + 6 * (slots * share * (1 - share) * together) ** 0.5))

    def corrupt(
        self,
        flat: npt.NDArray[np.integer],
        lengths: npt.ArrayLike,
        examples: npt.ArrayLike,
        epoch: int,
        most: int | None = None,
    ) -> Corrupted:
        """For sequences laid end to end; `examples` are their numbers in the corpus. Beyond `most` places,
        words with the largest draws are left as they are; only then does an example's company matter."""
        sizes, numbers = np.asarray(lengths, dtype=np.int64), np.asarray(examples, dtype=np.int64)
        self._check(flat, sizes, numbers, epoch)
        ids, config = flat.astype(np.int64), self.config
        coordinates = (self.seed, epoch if config.fresh else epoch % config.copies)
        sizes, numbers = sizes[sizes > 0], numbers[sizes > 0]
        offsets, owner = sizes.cumsum() - sizes, np.repeat(np.arange(len(sizes)), sizes)
        units = self._units(ids, offsets, owner)
        example = numbers[owner[units.heads]]

        # One draw says whether a span begins and how long it is: draw < rate P(length >= k).
        back = np.arange(len(self._rates))[:, None]
        draws = uniform(*coordinates, _CHOICE, example, units.stretch, units.place - back)
        covers = draws < self._rates[:, None]
        nearest, chosen = covers.argmax(axis=0), covers.any(axis=0)
        if most is not None:
            counts = np.bincount(units.of, minlength=1)[units.of[units.heads]]
            chosen &= _first(np.where(chosen, draws[nearest, np.arange(len(nearest))], 2.0), counts, most)

        kinds = uniform(*coordinates, _KIND, example, units.stretch, units.place - nearest)
        of_units = np.full(len(ids), np.nan)  # there are no more units than tokens
        of_units[units.of[units.heads]] = np.where(chosen, kinds, np.nan)
        places = np.flatnonzero(~np.isnan(of_units[units.of]))
        labels, kind = ids[places], of_units[units.of[places]]
        ids[places[kind < config.mask]] = self.mask
        swapped = places[(kind >= config.mask) & (kind < config.mask + config.random)]
        inside = swapped - offsets[owner[swapped]]
        chance = uniform(*coordinates, _TOKEN, numbers[owner[swapped]], inside)
        ids[swapped] = self._ordinary[(chance * len(self._ordinary)).astype(np.int64)]
        return Corrupted(ids, places, labels)

    def _units(self, ids: Ids, offsets: Ids, owner: Ids) -> _Units:
        special = self._special[ids]
        opens = special.copy()
        opens[offsets] = True
        opens[1:] |= special[:-1]
        stretch = opens.cumsum() - 1
        begins = self._starts[ids] | opens
        of = begins.cumsum() - 1
        heads = np.flatnonzero(begins & ~special)
        run = stretch[heads]
        return _Units(of, heads, run - stretch[offsets][owner[heads]], of[heads] - of[opens][run])

    def _check(self, flat: npt.NDArray[np.integer], sizes: Ids, numbers: Ids, epoch: int) -> None:
        if sizes.shape != numbers.shape or sizes.ndim != 1 or (sizes < 0).any() or sizes.sum() != len(flat):
            raise ValueError(
                f"{len(flat)} tokens, lengths of shape {sizes.shape} with {sizes.sum()} in all, examples of "
                f"shape {numbers.shape}: give the length and the number of each sequence in flat"
            )
        if epoch < 0 or (numbers < 0).any():
            raise ValueError(f"epoch={epoch} and the numbers of examples count from 0")
        if len(flat) and not 0 <= flat.min() <= flat.max() < self.vocabulary:
            raise ValueError(
                f"ids go from {flat.min()} to {flat.max()}, but the vocabulary has {self.vocabulary}: "
                "give the ids of the tokenizer that this was made for"
            )


def span_tail(mean: float) -> Floats:
    """P(length >= k) for k = 1..10: geometric, of those up to 10 only, with this mean. 3.8 is SpanBERT's
    p = 0.2."""

    def tail(q: float) -> Floats:
        weights = q ** np.arange(LONGEST_SPAN)
        return weights[::-1].cumsum()[::-1] / weights.sum()

    return tail(_solve(lambda q: float(tail(q).sum()), mean))


def _solve(rising: Callable[[float], float], wanted: float) -> float:
    """Where from 0 to 1 the function has this value."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return high


def _first(draws: Floats, counts: Ids, most: int) -> Flags:
    """The units with the smallest draws, as many as have `most` tokens together."""
    order = np.argsort(draws, kind="stable")
    kept = np.empty(len(draws), dtype=np.bool_)
    kept[order] = counts[order].cumsum() <= most
    return kept


def word_starts(tokenizer: Tokenizer) -> Flags:
    """For each id whether it begins a word, as far as a token tells by itself.

    WordPiece marks what continues a word (##); the others mark the space before one (▁, Ġ). There, signs
    are words too, and so is each token of a script without spaces; but letters right after a sign go with
    it. Where nothing is marked (characters, whole words), every token is a word.
    """
    vocabulary = tokenizer.vocabulary
    starts = np.ones(len(tokenizer), dtype=np.bool_)
    ids = np.fromiter(vocabulary.values(), np.int64)
    if vocabulary.keys() >= _BYTE_LETTERS:
        texts = tokenizer.decode_batch([[id] for id in ids.tolist()])
        starts[ids] = [_opens(text) for text in texts]
    elif any(token[0] == "▁" and len(token) > 1 for token in vocabulary):
        starts[ids] = [token not in BYTES and _opens(token) for token in vocabulary]
    elif any(token.startswith("##") and len(token) > 2 for token in vocabulary):
        starts[ids] = [not token.startswith("##") for token in vocabulary]
    return starts


def _opens(text: str) -> bool:
    """Whether a piece of text cannot continue a word. A broken character is a part of one."""
    first = text[:1]
    if not first.isalnum():
        return first != "\ufffd" and not unicodedata.category(first or " ").startswith("M")
    return unicodedata.name(first, "").startswith(_UNSPACED)
