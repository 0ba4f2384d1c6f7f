"""Reading with a trained encoder: texts in, one result for each out, in their order.

    [CLS] a [SEP]        or        [CLS] a [SEP] b [SEP]

Texts of like length are read together, within a budget of tokens; what comes of a text does not depend on its
neighbours. A text longer than the model can read is cut (and counted), read in overlapping windows, or
refused, as the caller wants; never cut in silence.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from regard.config import to_dict
from regard.data import Packed, pack_flat
from regard.models.encoder import Encoder
from regard.models.headed import Headed
from regard.nn.memory import memory_errors
from regard.tasks.base.describe import Described
from regard.tasks.base.faster import Faster, Precision, check_precision, side_by_side
from regard.tasks.base.predictor import Progress, evaluating, inference
from regard.text import DataError, Encoding, Origin, Tokenizer
from regard.text.training import each_text

Work = Callable[[Tensor, Packed], Tensor]
TooLong = Literal["cut", "windows", "error"]
"""A text longer than the model can read: only its beginning is read, with a warning that counts such texts;
or it is read in windows that overlap by half; or a DataError."""
BUDGET = {"cpu": 1024, "cuda": 65_536}
"""Tokens that are read at once."""
SMALL_BUDGET = 512
"""The same in 8 bits: what lies between the products then stays in a core's cache."""


class ReadingWarning(UserWarning):
    """Texts were not read to their end."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What the model reads at once: a text, a pair of texts, or a window of a longer one."""

    ids: Sequence[int]
    segments: Sequence[int] | None
    text: int
    """The number of the text that it is of."""
    whole: bool = True
    """False if only the beginning of the text is in it."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadBatch:
    packed: Packed
    segments: Tensor | None
    pieces: np.ndarray
    """Which ones, in order."""


class Reader:
    def __init__(
        self, model: Headed, tokenizer: Tokenizer, *, longest: int, precision: Precision = "float32"
    ) -> None:
        """`longest` is the most tokens of an input, special ones included. It runs where the model is. In
        int8, a little less exactly, only the encoder: heads are small, and have the last word."""
        if longest < 4:
            raise ValueError(f"longest={longest} leaves no room for text beside the special tokens")
        check_precision(precision, next(model.parameters()).device)
        self.model, self.tokenizer, self.longest, self.precision = model, tokenizer, longest, precision
        self._encoder = Faster(model.encoder, precision)
        self._head: Faster[Any] = Faster(model.head, "float32" if precision == "int8" else precision)
        self.paired = model.config.encoder.embedding.segments > 1
        """Whether the model tells the two texts of a pair apart by their segments."""

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def head(self) -> Any:
        """The model's, for `work`. In float32 on a CPU the compiled C computes its products: what it gives
        for a row is the same whatever rows are beside it, and for any number of threads, unlike torch's."""
        return self._head.current()

    def pieces(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None, too_long: TooLong = "cut"
    ) -> list[Piece]:
        """What is read of each text, in order; a text too long may become several."""
        if too_long not in get_args(TooLong):
            raise ValueError(f"too_long={too_long!r} is none of {', '.join(get_args(TooLong))}")
        texts = [*each_text(texts)]
        if seconds is None:
            ids = self.tokenizer.encode_batch(texts, template="cls")
            segments: list[list[int]] | None = None
        else:
            ids, segments = self.tokenizer.encode_pairs(texts, seconds)
        found: list[Piece] = []
        for number, own in enumerate(ids):
            marks = None if segments is None or not self.paired else segments[number]
            if len(own) <= self.longest:
                found.append(Piece(own, marks, number))
            else:
                second = None if seconds is None else seconds[number]
                found += self._shorter(texts[number], second, number, too_long)
        return found

    def warn_of_cuts(self, pieces: Sequence[Piece]) -> None:
        """Say how many texts were not read to their end, if any."""
        cut = sum(not piece.whole for piece in pieces)
        if cut:
            warnings.warn(
                f"{cut} of {pieces[-1].text + 1} texts are longer than {self.longest} tokens, the most this "
                "model reads: only their beginnings were read; windows would read them whole",
                ReadingWarning,
                stacklevel=3,
            )

    def _shorter(self, text: str, second: str | None, number: int, too_long: TooLong) -> Iterator[Piece]:
        encoding = self.tokenizer.encode(text, second, template="cls")
        if too_long == "error":
            raise DataError(
                Origin("input", number + 1),
                "too long",
                f"({len(encoding)} tokens, {self.longest} at most)",
                remedy="shorten it, or choose another way for such texts: cut, windows",
            )
        in_windows = too_long == "windows" and second is None  # of two texts, which one would move?
        kept = windows(encoding, self.longest) if in_windows else [cut(encoding, self.longest)]
        for places in kept:
            paired = self.paired and second is not None
            marks = [encoding.segments[place] for place in places] if paired else None
            yield Piece([encoding.ids[place] for place in places], marks, number, whole=in_windows)

    @property
    def budget(self) -> int:
        """Tokens that are read at once."""
        return SMALL_BUDGET if self.precision == "int8" else BUDGET[self.device.type]

    def batches(
        self, pieces: Sequence[Piece], budget: int | None = None, sharers: int = 1
    ) -> Iterator[ReadBatch]:
        """Pieces of like length together, the longest first: if memory does not do, it shows at once. Several
        `sharers` get equally many batches of about one size, where the pieces can be cut so."""
        budget = budget or self.budget
        lengths = np.array([len(piece.ids) for piece in pieces], dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")
        left = int(lengths.sum())
        # The last piece of a batch may go past an even share of the tokens.
        room = max(budget - int(lengths.max(initial=0)), budget // 2)
        count = -(-left // (room * sharers)) * sharers if room else 0
        start = 0
        while start < len(order):
            goal = min(budget, -(-left // max(count, 1))) if sharers > 1 else budget
            stop = start + 1
            tokens = int(lengths[order[start]])
            while stop < len(order) and tokens + lengths[order[stop]] <= budget and tokens < goal:
                tokens += int(lengths[order[stop]])
                stop += 1
            left, count = left - tokens, count - 1
            chosen = order[start:stop]
            flat = np.concatenate([np.asarray(pieces[row].ids, dtype=np.int64) for row in chosen])
            packed = pack_flat(flat, lengths[chosen].tolist())
            yield ReadBatch(packed, _segments(pieces, chosen), chosen)
            start = stop

    def read(
        self,
        pieces: Sequence[Piece],
        work: Work,
        *,
        rows: Literal["sequences", "tokens"] = "sequences",
        layer: int | Sequence[int] | None = None,
        progress: Progress | None = None,
    ) -> list[np.ndarray]:
        """`work(states, packed)` on all pieces: what it gives for each, in their order; one row for a piece,
        or one for each of its tokens. `layer` is the one whose states are meant, 0 the embedding; the last,
        unless given. Of several, the states are [tokens, layers, d_model]."""
        found: list[np.ndarray | None] = [None] * len(pieces)
        with evaluating(self.model):
            todo = partial(self._work, encoder=self._encoder.current(), work=work, layer=layer)
            for batch in self._fitting(pieces, todo, found, rows):
                if progress is not None:
                    progress(len(batch.pieces))
        return [each for each in found if each is not None]

    def _fitting(
        self,
        pieces: Sequence[Piece],
        work: Callable[[ReadBatch], np.ndarray],
        found: list[np.ndarray | None],
        rows: Literal["sequences", "tokens"],
    ) -> Iterator[ReadBatch]:
        """Batches, done; smaller ones where the device's memory does not do."""
        apart = self._encoder.hooked  # a hook would see several batches at once
        budget = self.budget
        sharers = torch.get_num_threads() if self.device.type == "cpu" and not apart else 1
        left = list(range(len(pieces)))

        def read(batch: ReadBatch) -> np.ndarray:
            with memory_errors():
                return work(batch)

        while left:
            try:
                batches = self.batches([pieces[row] for row in left], budget, sharers)
                done = ((batch, read(batch)) for batch in batches)
                for batch, results in done if apart else side_by_side(batches, read, self.device):
                    lengths = batch.packed.layout.host_lengths
                    parts = np.split(results, np.cumsum(lengths)[:-1]) if rows == "tokens" else results
                    for place, part in zip(batch.pieces, parts, strict=True):
                        found[left[place]] = part
                    yield batch
            except torch.OutOfMemoryError:
                if budget < self.longest:
                    raise
                torch.cuda.empty_cache()
                budget //= 2
            left = [row for row in left if found[row] is None]

    def _work(
        self, batch: ReadBatch, encoder: Encoder, work: Work, layer: int | Sequence[int] | None
    ) -> np.ndarray:
        device = self.device
        packed = batch.packed.to(device)
        segments = batch.segments.to(device) if batch.segments is not None and self.paired else None
        autocast = torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16")
        with torch.inference_mode(), autocast:  # a thread has its own modes
            if layer is None:
                states = encoder(packed.ids, packed.layout, segments)
            else:
                every = encoder.layers(packed.ids, packed.layout, segments)
                if isinstance(layer, int):
                    states = every[layer]
                else:
                    states = torch.stack([every[each] for each in layer], dim=1)
            return work(states, packed).float().cpu().numpy()


@dataclass(frozen=True, slots=True)
class ReadText:
    encoding: Encoding
    text: str
    """What the encoding's offsets are of."""
    words: tuple[str, ...] | None = None
    """Where the model reads words one by one."""


class EncoderPredictor(Described, ABC):
    """What every predictor that stands on a `Reader` has."""

    task: ClassVar[str]

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    @property
    def model(self) -> Headed:
        return self.reader.model

    @property
    def tokenizer(self) -> Tokenizer:
        return self.reader.tokenizer

    @property
    def longest(self) -> int:
        return self.reader.longest

    @property
    def precision(self) -> Precision:
        return self.reader.precision

    @property
    def device(self) -> torch.device:
        return self.reader.device

    @contextmanager
    def ready(self) -> Iterator[None]:
        with evaluating(self.model), inference(self.device, self.precision):
            yield

    def read_text(self, text: str, second: str | None = None) -> "ReadText":
        """A text, or a pair, as the model reads it."""
        return ReadText(self.tokenizer.encode(text, second, template="cls"), text)

    def about(self) -> dict[str, Any]:
        return {"model": to_dict(self.model.config), "longest": self.longest}

    def with_model(self, model: Headed) -> Self:
        reader = Reader(model, self.tokenizer, longest=self.longest, precision=self.precision)
        return self.with_reader(reader)

    @abstractmethod
    def with_reader(self, reader: Reader) -> Self:
        """The same on another encoder and head."""


@contextmanager
def quietly() -> Iterator[None]:
    """Where texts that are cut were counted before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        yield


def _segments(pieces: Sequence[Piece], chosen: np.ndarray) -> Tensor | None:
    if all(pieces[row].segments is None for row in chosen):
        return None
    zeros = [np.zeros(len(pieces[row].ids), dtype=np.int64) for row in chosen]
    marks = [pieces[row].segments for row in chosen]
    return torch.from_numpy(
        np.concatenate(
            [
                none if own is None else np.asarray(own, dtype=np.int64)
                for own, none in zip(marks, zeros, strict=True)
            ]
        )
    )


def cut(encoding: Encoding, longest: int) -> list[int]:
    """The places of an encoding that are kept if it may have so many tokens: all of the template, and the
    beginnings of the texts; of two texts, the longer one gives first."""
    own = [[place for place, text in enumerate(encoding.texts) if text == each] for each in (0, 1)]
    room = longest - (len(encoding) - len(own[0]) - len(own[1]))
    if room < 1:
        raise ValueError(f"longest={longest} leaves no room for text beside the special tokens")
    first, second = (len(each) for each in own)
    if first <= second:
        kept = min(first, room // 2)
        shares = (kept, room - kept)
    else:
        kept = min(second, room // 2)
        shares = (room - kept, kept)
    dropped = {place for each, share in zip(own, shares, strict=True) for place in each[share:]}
    return [place for place in range(len(encoding)) if place not in dropped]


def windows(encoding: Encoding, longest: int) -> Iterator[list[int]]:
    """A text in windows of so many tokens, template and all, that overlap by half."""
    own = [place for place, text in enumerate(encoding.texts) if text is not None]
    if not own:
        yield list(range(len(encoding)))
        return
    before, after = list(range(own[0])), list(range(own[-1] + 1, len(encoding)))
    room = longest - len(before) - len(after)
    step = max(room // 2, 1)
    for start in range(0, max(len(own) - room, 0) + step, step):
        begin = min(start, max(len(own) - room, 0))
        yield [*before, *own[begin : begin + room], *after]
        if begin + room >= len(own):
            return
