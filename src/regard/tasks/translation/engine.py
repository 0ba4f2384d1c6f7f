"""What runs a translator's search. An engine is a part that a translator is given:

    TorchEngine            the model itself, its packed or 8-bit copy, or beam groups in C
    regard.deploy.engine   CTranslate2
    regard.deploy.onnx_run ONNX Runtime

Pieces come in, and each comes out with its hypotheses; what one becomes does not depend on its neighbours.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
import torch

from regard.data.packing import pack
from regard.decode import DecodeConfig, Hypothesis
from regard.decode.groups import BeamGroups
from regard.decode.relay import relay
from regard.decode.search import check, run
from regard.decode.stepper import Request, Stepper
from regard.models.seq2seq import Seq2Seq
from regard.nn.memory import memory_errors
from regard.nn.state import Memory, State
from regard.tasks.base.faster import Faster, Precision, shared_out, side_by_side
from regard.tasks.base.predictor import inference
from regard.tasks.translation.alignment import check_attention, cross_attention
from regard.tasks.translation.pieces import Piece, PieceResult, in_batches, in_small_batches

SPARE = 8
ROWS, SOURCES = 256, 128
"""Hypotheses of a batch on a CPU, at most, and sources."""

TooLong = Literal["split", "warn", "error"]
"""A text longer than the model was trained on: translate it sentence by sentence, translate it whole and
warn, or raise a DataError."""
Split = Literal["auto", "always", "never"]
"""A text of several sentences: translate it sentence by sentence if the model was trained on single ones,
always, or never; what is too long is split all the same."""
Results = Iterator[tuple[list[Piece], list[PieceResult]]]


@dataclass(frozen=True, slots=True)
class Options:
    """What one call of a translator asks for."""

    decoding: DecodeConfig
    suppressed: tuple[int, ...]
    too_long: TooLong
    split: bool
    """Whether texts of several sentences are translated sentence by sentence."""
    align: bool
    batch_tokens: int
    inner: tuple[int, ...] = ()
    """Tokens that go on with a word: none comes right behind a phrase that a piece must hold."""
    prompt: str = ""
    """What stands before each piece."""


@dataclass(frozen=True, slots=True, eq=False)
class Joining:
    """Pieces that are to be decoded together, while others are under way."""

    pieces: list[Piece]
    options: Options
    done: Callable[[int, PieceResult], None]
    """Takes each result, by the piece's place in the list, as soon as it is there."""
    gone: set[int] = field(default_factory=set)
    """Pieces for which nobody waits any more; may grow at any time."""


class SearchEngine(Protocol):
    @property
    def device(self) -> torch.device: ...

    @property
    def batch_tokens(self) -> int:
        """Tokens of a batch, where a call does not say."""

    def check(self, options: Options) -> None:
        """Refuse what this engine cannot do, by the setting's name."""

    def room(self, piece: Piece) -> int | None:
        """The most tokens that its positions leave for a translation; None for any number."""

    def decode(self, batch: list[Piece], options: Options) -> list[PieceResult]:
        """One batch, in this thread."""

    def search(self, pieces: list[Piece], options: Options) -> Results:
        """All of them, in batches, in any order."""

    def attention(
        self,
        sources: list[list[int]],
        targets: list[list[int]],
        layer: int | None,
        marks: Sequence[Sequence[int]] = (),
    ) -> list[np.ndarray]:
        """[target, source] without special tokens: the row of a token is what was looked at to write it.
        `marks` stand between the start and each target, if there are any."""


def search_in_batches(
    pieces: Sequence[Piece],
    options: Options,
    decode: Callable[[list[Piece]], list[PieceResult]],
    device: torch.device,
) -> Results:
    """Batches of like length, on a CPU one for each thread."""
    sharers = torch.get_num_threads() if device.type == "cpu" else 1
    return side_by_side(in_batches(pieces, options.batch_tokens, sharers), decode, device)


class TorchEngine:
    def __init__(self, model: Seq2Seq, precision: Precision, *, start: int, end: int, marks: int) -> None:
        """`start` and `end` are the target's special tokens, `marks` how many stand before a source."""
        self.model, self.precision = model, precision
        self._start, self._end, self._marks = start, end, marks
        self._faster = Faster(model, precision)

    @property
    def device(self) -> torch.device:
        return self.model.encoder.embedding.tokens.weight.device

    @property
    def batch_tokens(self) -> int:
        return 65_536 if self.device.type == "cuda" else 4096  # a GPU is not busy with few

    def check(self, options: Options) -> None:
        if options.align:
            check_attention(self.model)

    def room(self, piece: Piece) -> int | None:
        positions = self.model.config.decoder.positions
        taken = 1 + len(piece.mark) + len(piece.prefix)
        return positions.longest - taken if positions.kind == "learned" else None

    def search(self, pieces: list[Piece], options: Options) -> Results:
        model = self._faster.current()  # once, and not by every thread
        work = partial(self._decode_within, options=options)
        if self._faster.hooked:
            # One after the other: a hook would see them all at once.
            return ((batch, work(batch)) for batch in in_batches(pieces, options.batch_tokens))
        if not BeamGroups.serve(model):
            return search_in_batches(pieces, options, work, self.device)
        sharers = torch.get_num_threads()
        width = options.decoding.width
        most = min(max(ROWS // width, 1), SOURCES)
        batches = [*in_small_batches(pieces, options.batch_tokens, most, sharers)]
        few = width * max(map(len, batches), default=0) // 2
        groups = BeamGroups(model, kept=torch.float16 if self.precision == "int8" else torch.float32)
        return shared_out(batches, partial(self._relay, groups, few=few, options=options), self.device)

    def _relay(
        self, groups: BeamGroups, batches: Iterator[list[Piece]], few: int, options: Options
    ) -> Results:
        """A batch joins the others when `few` hypotheses are left of them."""
        with inference(self.device, self.precision):
            memories: dict[int, Memory] = {}

            def begin(batch: list[Piece]) -> Request:
                memory = memories[id(batch)] = self._remember(groups.model, [piece.ids for piece in batch])
                return self._request(groups, groups.start_from(memory), batch, options)

            for batch, found in relay(groups, batches, begin, max(few, 1)):
                yield batch, self._aligned(batch, found, options, memories.pop(id(batch)))

    def keep_up(self, coming: Iterator[Joining | None]) -> None:
        """Decode what is coming, until nothing comes any more: in this thread, and whatever joins while
        others are under way shares their steps where the model allows it. None says that nothing waits at the
        moment."""
        model = self._faster.current()
        if self._faster.hooked or not BeamGroups.serve(model):
            for batch in filter(None, coming):
                for place, result in enumerate(self._decode_within(batch.pieces, batch.options)):
                    batch.done(place, result)
            return
        groups = BeamGroups(model, kept=torch.float16 if self.precision == "int8" else torch.float32)

        def begin(batch: Joining) -> Request:
            memory = self._remember(model, [piece.ids for piece in batch.pieces])

            def told(place: int, found: list[Hypothesis]) -> None:
                own = memory.only([place]) if batch.options.align else None
                batch.done(place, *self._aligned([batch.pieces[place]], [found], batch.options, own))

            state = groups.start_from(memory)
            return self._request(groups, state, batch.pieces, batch.options, told=told, gone=batch.gone)

        with inference(self.device, self.precision):
            for _ in relay(groups, coming, begin, sys.maxsize):  # whoever comes decides how many do
                pass

    def _decode_within(self, batch: list[Piece], options: Options) -> list[PieceResult]:
        """All at once or, where the device's memory does not do, in halves."""
        try:
            with memory_errors(), inference(self.device, self.precision):
                return self.decode(batch, options)
        except torch.OutOfMemoryError:
            if len(batch) == 1:
                raise
        torch.cuda.empty_cache()
        half = len(batch) // 2
        halves = batch[:half], batch[half:]
        return [result for part in halves for result in self._decode_within(part, options)]

    def decode(self, batch: list[Piece], options: Options) -> list[PieceResult]:
        model = self._faster.current()
        source = pack([piece.ids for piece in batch]).to(self.device)
        # Most translations are about as long as their source; room for longer ones is made when they come.
        capacity = max(len(piece.mark) + len(piece.prefix) + len(piece.ids) + SPARE for piece in batch)
        state = model.start(source.ids, source.layout, capacity=capacity)
        return self._aligned(batch, run(self._request(model, state, batch, options)), options)

    def _request(
        self, stepper: Stepper, state: State, batch: list[Piece], options: Options, **told: Any
    ) -> Request:
        return check(
            stepper,
            state,
            [[self._start, *piece.mark, *piece.prefix] for piece in batch],
            end=self._end,
            config=options.decoding,
            maximums=[piece.maximum for piece in batch],
            suppressed=options.suppressed,
            keys=[piece.key for piece in batch],
            phrases=[piece.phrases for piece in batch],
            inner=options.inner,
            **told,
        )

    def _aligned(
        self,
        batch: list[Piece],
        found: list[list[Hypothesis]],
        options: Options,
        memory: Memory | None = None,
    ) -> list[PieceResult]:
        """`memory` is what the encoder has made of the batch, where that is still there."""
        found = [unmarked(row, piece) for row, piece in zip(found, batch, strict=True)]
        weights: list[np.ndarray | None] = [None] * len(batch)
        chosen = [i for i, piece in enumerate(batch) if options.align and piece.aligned]
        if chosen:
            if memory is None:
                read = self._remember(self._faster.current(), [batch[i].ids for i in chosen])
            else:
                read = memory if len(chosen) == len(batch) else memory.only(chosen)
            best = [[*found[i][0].ids] for i in chosen]
            each = self._looked_at(read, best, None, [batch[i].mark for i in chosen])
            for i, own in zip(chosen, each, strict=True):
                weights[i] = own
        return [PieceResult(row, own) for row, own in zip(found, weights, strict=True)]

    def attention(
        self,
        sources: list[list[int]],
        targets: list[list[int]],
        layer: int | None,
        marks: Sequence[Sequence[int]] = (),
    ) -> list[np.ndarray]:
        memory = self._remember(self._faster.current(), sources)
        return self._looked_at(memory, targets, layer, marks or [()] * len(targets))

    def _remember(self, model: Seq2Seq, sources: Sequence[Sequence[int]]) -> Memory:
        source = pack(sources).to(self.device)
        return model.encoder.remember(source.ids, source.layout)

    def _looked_at(
        self,
        memory: Memory,
        targets: Sequence[Sequence[int]],
        layer: int | None,
        before: Sequence[Sequence[int]],
    ) -> list[np.ndarray]:
        written = [[self._start, *mark, *ids] for mark, ids in zip(before, targets, strict=True)]
        found = cross_attention(self._faster.current(), memory, pack(written).to(self.device), layer)
        return [
            weights[len(mark) : -1, self._marks : -1].float().cpu().numpy()
            for weights, mark in zip(found, before, strict=True)
        ]


def unmarked(found: list[Hypothesis], piece: Piece) -> list[Hypothesis]:
    """Without the mark that each begins with."""
    if not piece.mark:
        return found
    return [replace(each, ids=each.ids[len(piece.mark) :]) for each in found]
