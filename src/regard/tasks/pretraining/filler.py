"""Filling in with a pretrained model: texts with masks in; for each mask the likeliest words out.

    the [MASK] sat on the mat        cat 0.31, dog 0.12, ...

Several masks in a text are each filled on their own, all of them hidden. A text that is longer than the model
can read is read in a window around each mask.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast, overload

import numpy as np
import torch
from torch import Tensor

from regard.data import Packed
from regard.models.heads import MaskedHead
from regard.tasks.base.encoders import open_reader
from regard.tasks.base.faster import Precision
from regard.tasks.base.guards import CONFIG, folder_errors
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import EncoderPredictor, Piece, Reader, ReadText
from regard.tasks.pretraining.data import FOLLOWS
from regard.text import DataError, Encoding, Origin
from regard.text.training import each_text

MASK = "[MASK]"
"""Stands for the mask in a text, however the tokenizer spells its own."""


@dataclass(frozen=True, slots=True)
class Candidate:
    token: str
    """As the vocabulary spells it."""
    probability: float
    word: str
    """As it reads in the text."""
    text: str
    """The whole text with it; other masks stay."""


@dataclass(frozen=True, slots=True)
class Filled:
    text: str
    """With the likeliest candidate in the place of each mask."""
    candidates: tuple[tuple[Candidate, ...], ...]
    """For each mask, the likeliest first."""

    def to_dict(self) -> dict[str, Any]:
        masks = [
            [{"token": each.token, "probability": each.probability, "text": each.text} for each in found]
            for found in self.candidates
        ]
        return {"text": self.text, "candidates": masks}


class Filler(EncoderPredictor):
    """Texts with masks in, words in their place out.

    >>> filler = regard.load("runs/bert", regard.Filler)
    >>> filler.fill("The [MASK] sat on the mat.").text
    'The cat sat on the mat.'
    """

    task: ClassVar[str] = "pretrain"

    def __init__(self, reader: Reader) -> None:
        if not isinstance(reader.model.head, MaskedHead):
            raise TypeError(
                f"a {type(reader.model.head).__name__} does not fill in: give a model with a MaskedHead"
            )
        super().__init__(reader)
        tokenizer = reader.tokenizer
        self._mask = tokenizer.require("mask")
        scored = reader.model.head.vocabulary.weight.shape[0]
        known = np.zeros(max(scored, len(tokenizer)), dtype=np.bool_)
        known[list(tokenizer.vocabulary.values())] = True
        known[[tokenizer.vocabulary[token] for token in tokenizer.specials]] = False
        self.words = torch.from_numpy(known[:scored])
        """Which ids may be filled in: special tokens are none."""

    def read_text(self, text: str, second: str | None = None) -> ReadText:
        spelled = self._spelled(text) if second is None else text
        encoding = self.tokenizer.encode(spelled, second, template="cls", specials_in_text=True)
        return ReadText(encoding, spelled)

    def with_reader(self, reader: Reader) -> "Filler":
        return Filler(reader)

    @overload
    def fill(self, texts: str, *, top: int = 5) -> Filled: ...  # type: ignore[overload-overlap]

    @overload
    def fill(
        self, texts: Iterable[str], *, top: int = 5, progress: Progress | None = None
    ) -> list[Filled]: ...

    def fill(
        self, texts: str | Iterable[str], *, top: int = 5, progress: Progress | None = None
    ) -> Filled | list[Filled]:
        """A text, or many, each with at least one mask: [MASK], or as the tokenizer spells it. `top` is the
        number of candidates. Other special tokens in the texts are taken as such too."""
        if isinstance(texts, str):
            return self.fill([texts], top=top, progress=progress)[0]
        most = int(self.words.sum())
        if not 1 <= top <= most:
            raise ValueError(
                f"top={top} candidates, where the vocabulary has {most}: choose from 1 to {most}"
            )
        spelled = [self._spelled(text) for text in each_text(texts)]
        asked = [self._masked_text(number, text) for number, text in enumerate(spelled)]
        pieces = [piece for each in asked for piece in each.pieces]
        rows = self.reader.read(
            pieces, lambda states, packed: self._best(states, packed, top), rows="tokens", progress=progress
        )
        read = iter(rows)
        return [self._filled(each, [next(read) for _ in each.pieces]) for each in asked]

    def follows(self, firsts: Sequence[str], seconds: Sequence[str]) -> list[float]:
        """How likely each of the second texts goes on where the first ends; for models that were trained on
        next sentences. Pairs that are too long are cut, with a warning."""
        head = cast(MaskedHead, self.reader.model.head)
        if head.next_sentence is None:
            raise ValueError(
                "this model was trained without next sentences: pretrain with objective.next_sentence=true"
            )
        pieces = self.reader.pieces(firsts, seconds)
        self.reader.warn_of_cuts(pieces)
        rows = self.reader.read(
            pieces, lambda states, packed: head.follows(states, packed.layout).float().softmax(dim=-1)
        )
        return [float(row[FOLLOWS]) for row in rows]

    def _spelled(self, text: str) -> str:
        """With the tokenizer's own mask."""
        return text.replace(MASK, cast(str, self.reader.tokenizer.specials.mask))

    def _masked_text(self, number: int, text: str) -> "_MaskedText":
        encoding = self.reader.tokenizer.encode(text, template="cls", specials_in_text=True)
        masks = [place for place, id in enumerate(encoding.ids) if id == self._mask]
        if not masks:
            remedy = f"put {MASK} in the place of a word"
            raise DataError(Origin("input", number + 1), "nothing to fill in", f"({text!r:.60})", remedy)
        whole = len(encoding) <= self.reader.longest
        kept = [range(len(encoding))] if whole else [window(encoding, self.reader.longest, m) for m in masks]
        pieces = [Piece([encoding.ids[place] for place in places], None, number) for places in kept]
        found = [(0, mask) if whole else (row, kept[row].index(mask)) for row, mask in enumerate(masks)]
        return _MaskedText(text, encoding, masks, pieces, found)

    def _best(self, states: Tensor, packed: Packed, top: int) -> Tensor:
        """For each token that is a mask, the probabilities of the likeliest words and their ids; zeros for
        the others."""
        places = (packed.ids == self._mask).nonzero()[:, 0]
        scores = self.reader.model.head(states.index_select(0, places)).float()
        best = scores.masked_fill(~self.words.to(scores.device), -torch.inf).softmax(dim=-1).topk(top)
        both = torch.cat([best.values.double(), best.indices.double()], dim=1)
        return both.new_zeros(len(packed.ids), 2 * top).index_copy(0, places, both)

    def _filled(self, asked: "_MaskedText", rows: Sequence[np.ndarray]) -> Filled:
        text, tokenizer = asked.text, self.reader.tokenizer
        spans = [asked.encoding.offsets[mask] for mask in asked.masks]
        best: list[str] = []
        found: list[tuple[Candidate, ...]] = []
        for span, (piece, place) in zip(spans, asked.found, strict=True):
            chances, numbers = np.split(rows[piece][place], 2)
            ids = numbers.astype(np.int64).tolist()
            words = self._read_out(ids)
            best.append(words[0])
            found.append(
                tuple(
                    Candidate(tokenizer.token(id), float(chance), word.strip(), put(text, [span], [word]))
                    for id, chance, word in zip(ids, chances, words, strict=True)
                )
            )
        return Filled(put(text, spans, best), tuple(found))

    def _read_out(self, ids: Sequence[int]) -> list[str]:
        """Tokens as they read behind another: with a space in front, if they begin a word."""
        tokenizer = self.reader.tokenizer
        once, twice = (tokenizer.decode_batch([[id] * times for id in ids]) for times in (1, 2))
        words = [both[len(one) :] for one, both in zip(once, twice, strict=True)]
        return [
            tokenizer.token(id) if not word.strip() or "\ufffd" in word else word  # a part of a character
            for id, word in zip(ids, words, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _MaskedText:
    """A text with masks."""

    text: str
    encoding: Encoding
    masks: list[int]
    """Their places among the tokens."""
    pieces: list[Piece]
    found: list[tuple[int, int]]
    """For each mask, its piece and its place there."""


def open_filler(folder: Path | str, *, device: str = "auto", precision: Precision | None = None) -> Filler:
    """What a training has made, or a folder of Hugging Face's."""
    _, reader = open_reader(folder, "masked", device=device, precision=precision)
    with folder_errors(Path(folder) / CONFIG):
        return Filler(reader)


def window(encoding: Encoding, longest: int, middle: int) -> list[int]:
    """So many places of an encoding, with all of the template, around one of them."""
    own = [place for place, text in enumerate(encoding.texts) if text is not None]
    room = longest - (len(encoding) - len(own))
    begin = min(max(own.index(middle) - room // 2, 0), len(own) - room)
    kept = set(own[begin : begin + room])
    return [place for place, text in enumerate(encoding.texts) if text is None or place in kept]


def put(text: str, spans: Sequence[tuple[int, int]], words: Sequence[str]) -> str:
    """The text with words in the place of these spans. A word that begins with a space stands apart from what
    is before it; any other goes on where that ends."""
    parts, done = "", 0
    for (start, end), word in zip(spans, words, strict=True):
        before = text[done:start]
        if word.startswith(" "):
            gap = "" if not (parts + before) or (parts + before)[-1].isspace() else " "
            parts += before + gap + word[1:]
        else:
            parts += before.rstrip() + word
        done = end
    return parts + text[done:]
