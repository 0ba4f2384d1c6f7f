"""Steps of a decoder that one launch replays: for CUDA, where a step of a small model is all launching.

`CapturedStepper` serves what `Decoder` serves (`start`, `prefill`, `step`) with the same scores. Everything
in its step has a fixed size, whatever the rows hold, and nothing asks the device:

    slots     buffers for a power of two of rows, each with room for a power of two of tokens
    step      one key and value into each slot behind its length, and attention over all before it; lengths
              grow on the device

So it is captured once for each (slots, room) as a CUDA graph. Graphs outlive a text: the next one that needs
the same sizes takes them over. Rows that leave keep their slot, dead, until half of the slots are; then the
living ones move to smaller buffers. Attention is one kernel (`regard.nn.next_token`), or, where that cannot
do it, goes over the whole room, with what lies behind the length hidden. Elsewhere than on CUDA the same step
runs as it is written, which tests hold equal to `Decoder.step`.
"""

import copy
import weakref
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, cast, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.nn.kernels import attend_shown, shown_keys
from regard.nn.layers import Sublayer, TransformerLayer
from regard.nn.masks import Mask
from regard.nn.multihead import SelfAttention
from regard.nn.stacks import Stack
from regard.nn.state import Rows, TransformerState, check_rows

Precision = Literal["float32", "bfloat16"]

SHORTEST = 128
"""Room of the smallest buffers, in tokens."""
FREE = 8
"""So many buffers, with their graphs, wait for another text; of more, those unused for longest go."""


class CapturedStepper:
    early = True
    """A step may begin before the host has seen what led to it: it has nothing to decide."""

    def __init__(self, decoder: Decoder, *, precision: Precision = "float32") -> None:
        """It runs where the decoder is. In bfloat16 on a copy of its weights, as they are now; in float32 on
        the weights themselves."""
        if precision not in get_args(Precision):
            raise ValueError(f"precision={precision!r} is none of {', '.join(get_args(Precision))}")
        if not isinstance(decoder.body, Stack):
            raise ValueError("captured steps are for a Transformer's body, but this one is recurrent")
        if decoder.body.each[0].cross_attention is not None:
            raise ValueError("captured steps are for a decoder alone, but this one looks at an encoder")
        heads = {layer.attention.kv_heads for layer in decoder.body.each}
        if len(heads) > 1:
            raise ValueError("captured steps need as many heads in every layer, but some were pruned")
        if decoder.body.each[0].attention.score is not None:
            raise ValueError("captured steps are for the scaled dot product, but attention.score is another")
        if decoder.training:
            raise ValueError("the decoder is in training mode, and its dropout would be captured: eval() it")
        if precision == "bfloat16":
            decoder = copy.deepcopy(decoder).to(torch.bfloat16).requires_grad_(False)
        self.decoder = decoder
        self.head = _wide_head(decoder) if precision == "bfloat16" else decoder.head
        self._free: list[_Slots] = []

    def start(self, *, rows: int, capacity: int = 256) -> "CapturedState":
        """An empty state. The capacity is no more than a promise: room is made as it is needed."""
        return CapturedState(self, rows)

    @torch.no_grad()
    def prefill(
        self, ids: Int[Tensor, "tokens"], layout: Layout, state: "CapturedState"
    ) -> Float[Tensor, "sequences vocab"]:
        """As `Decoder.prefill`; it is not captured."""
        if state.longest:
            raise ValueError(f"prefill takes a fresh state, not one of up to {state.longest} tokens")
        read = self.decoder.start(rows=state.rows, capacity=layout.longest)
        if not isinstance(read, TransformerState):
            raise TypeError(f"{type(read).__name__} has no keys to keep")
        logits = self.decoder.prefill(ids, layout, read)
        state.fill(read)
        return logits.float()

    @torch.no_grad()
    def step(self, tokens: Int[Tensor, "rows"], state: "CapturedState") -> Float[Tensor, "rows vocab"]:
        """As `Decoder.step`; the scores are float32."""
        return state.step(tokens)

    def take(self, rows: int, tokens: int) -> "_Slots":
        """Buffers with room for so many tokens in each of so many rows; nobody else has them."""
        count, room = _power(rows, 1), _power(tokens, SHORTEST)
        positions = self.decoder.config.positions
        if positions.kind == "learned":
            room = max(tokens, min(room, positions.longest))  # past the longest, the embedding says why not
        for slots in self._free:
            if (slots.count, slots.room) == (count, room):
                self._free.remove(slots)
                return slots
        return _Slots(self.decoder, self.head, count, room)

    def give_back(self, slots: "_Slots") -> None:
        self._free.append(slots)
        del self._free[:-FREE]


def _wide_head(decoder: Decoder) -> Callable[[Tensor], Tensor]:
    """The scores of a CUDA decoder from a matrix with a multiple of 128 rows: others are multiplied by slow
    kernels."""
    head = decoder.head
    vocabulary, d_model = head.weight.shape
    if not head.weight.is_cuda or vocabulary % 128 == 0:
        return head
    weight = head.weight.new_zeros(vocabulary + -vocabulary % 128, d_model)
    weight[:vocabulary] = head.scaled_weight.detach()
    bias = head.bias

    def scores(x: Tensor) -> Tensor:
        found = F.linear(x, weight)[:, :vocabulary]
        return found if bias is None else found + bias

    return scores


def _next_kernel(decoder: Decoder) -> Callable[..., Tensor] | None:
    """The one kernel for attention, where it can do the work of all layers."""
    attentions = [layer.attention for layer in cast(Stack, decoder.body).each]
    if not decoder.embedding.tokens.weight.is_cuda or find_spec("triton") is None:
        return None
    from regard.nn.next_token import attend_next, fits

    able = all(each.bias is None and fits(each.d_head, each.d_value) for each in attentions)
    return attend_next if able else None


def _power(number: int, least: int) -> int:
    """The smallest power of two times `least` that is no smaller."""
    size = least
    while size < number:
        size *= 2
    return size


class CapturedState:
    """Where the rows of one batch stand; a row's keys and values lie in a slot."""

    def __init__(self, stepper: CapturedStepper, rows: int) -> None:
        self._stepper = stepper
        self._lengths = torch.zeros(rows, dtype=torch.int64, device="cpu")
        self._places = torch.arange(rows, device="cpu")
        """The slot of each row."""
        self._slots: _Slots | None = None
        self._return: Any = None

    @property
    def rows(self) -> int:
        return len(self._lengths)

    @property
    def lengths(self) -> Int[Tensor, "rows"]:
        if self._slots is None:
            return self._lengths.to(self._stepper.decoder.embedding.tokens.weight.device)
        return self._slots.of_rows(self._slots.lengths)

    @property
    def longest(self) -> int:
        return int(self._lengths.max()) if self.rows else 0

    def fill(self, read: TransformerState) -> None:
        """What a plain state holds becomes what this one holds."""
        self._lengths = read.lengths.cpu()
        slots = self._move(self._stepper.take(self.rows, self.longest + 1))
        slots.copy(read.cache.keys, read.cache.values, self.longest)
        slots.settle(self._places, self._lengths)

    def step(self, tokens: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        slots = self._slots
        if slots is None:
            slots = self._move(self._stepper.take(self.rows, 1))
            slots.settle(self._places, self._lengths)
        elif self.longest == slots.room:
            larger = self._stepper.take(slots.count, self.longest + 1)
            larger.copy(slots.keys, slots.values, self.longest)
            slots = self._move(larger)
            slots.settle(self._places, self._lengths)
        self._lengths = self._lengths + 1
        return slots.step(tokens)

    def select(self, rows: Rows) -> None:
        rows = check_rows(rows, self.rows)
        if rows.tolist() == list(range(self.rows)):
            return
        self._lengths, kept = self._lengths[rows], self._places[rows]
        if self._slots is None:
            self._places = torch.arange(len(rows), device="cpu")
            return
        fits = _power(len(rows), 1) == self._slots.count
        if fits and len({*kept.tolist()}) == len(kept):
            self._places = kept  # some rows leave, the others stay where they are
        else:
            self._places = torch.arange(len(rows), device="cpu")
            old = self._slots
            keys, values = old.rows(kept, self.longest)
            new = old if fits else self._move(self._stepper.take(len(rows), old.room))
            new.copy(keys, values, self.longest)
        self._slots.settle(self._places, self._lengths)

    def join(self, other: "CapturedState") -> None:
        """Into slots where no row lives, if there are enough."""
        rows, longest = self.rows + other.rows, max(self.longest, other.longest)
        slots = self._slots
        if slots is None or other._slots is None:
            raise ValueError("rows join others when they have read their prompts")
        if rows > slots.count or longest > slots.room:
            keys, values = slots.rows(self._places, self.longest)
            slots = self._move(self._stepper.take(rows, max(longest, slots.room)))
            slots.copy(keys, values, self.longest)
            self._places = torch.arange(self.rows, device="cpu")
        living = {*self._places.tolist()}
        free = [place for place in range(slots.count) if place not in living][: other.rows]
        keys, values = other._slots.rows(other._places, other.longest)
        slots.fill(free, keys, values, other.longest)
        self._lengths = torch.cat([self._lengths, other._lengths])
        self._places = torch.cat([self._places, torch.tensor(free, dtype=torch.int64, device="cpu")])
        slots.settle(self._places, self._lengths)

    def _move(self, slots: "_Slots") -> "_Slots":
        """Into these, which go back when the state is done with them."""
        if self._return is not None:
            self._return()
        self._slots = slots
        self._return = weakref.finalize(self, self._stepper.give_back, slots)
        self._return.atexit = False
        return slots


class _Slots:
    """Buffers of one size, and the step over them."""

    def __init__(self, decoder: Decoder, head: Callable[[Tensor], Tensor], count: int, room: int) -> None:
        self.decoder, self.count, self.room = decoder, count, room
        self._head, self._attend_next = head, _next_kernel(decoder)
        self._body = cast(Stack, decoder.body)
        weight = decoder.embedding.tokens.weight.detach()
        attention = self._body.each[0].attention
        shape = (len(self._body.each), count, attention.kv_heads, room)
        self.keys = weight.new_zeros(*shape, attention.d_head)
        self.values = weight.new_zeros(*shape, attention.d_value)
        self.lengths = torch.zeros(count, dtype=torch.int64, device=weight.device)
        self._tokens = torch.zeros_like(self.lengths)
        self._growth = torch.zeros_like(self.lengths)
        """1 where a row lives."""
        self._numbers = torch.arange(count, device=weight.device)
        self._logits = weight.new_zeros(count, decoder.config.vocabulary)
        self._places: Tensor | None = None
        """The slots of the rows, unless they are the first ones in order."""
        self._living = count
        self._graph: Any = None
        self._read: list[Tensor] = []

    def rows(self, places: Int[Tensor, "rows"], tokens: int) -> tuple[Tensor, Tensor]:
        """A copy of what is in these slots, up to so many tokens."""
        chosen = places.to(self.lengths.device)
        return (
            self.keys[:, :, :, :tokens].index_select(1, chosen),
            self.values[:, :, :, :tokens].index_select(1, chosen),
        )

    def copy(self, keys: Tensor, values: Tensor, tokens: int) -> None:
        """The first tokens of some rows into the first slots."""
        self.keys[:, : keys.shape[1], :, :tokens] = keys[:, :, :, :tokens]
        self.values[:, : values.shape[1], :, :tokens] = values[:, :, :, :tokens]

    def fill(self, places: list[int], keys: Tensor, values: Tensor, tokens: int) -> None:
        """The same into these slots."""
        chosen = torch.tensor(places, device=self.lengths.device)
        self.keys[:, :, :, :tokens].index_copy_(1, chosen, keys[:, :, :, :tokens])
        self.values[:, :, :, :tokens].index_copy_(1, chosen, values[:, :, :, :tokens])

    def settle(self, places: Int[Tensor, "rows"], lengths: Int[Tensor, "rows"]) -> None:
        """Rows of these lengths live in these slots; the other slots are dead, and stay empty."""
        table = torch.zeros(2, self.count, dtype=torch.int64, device="cpu")
        table[0, places], table[1, places] = lengths, 1
        table = table.to(self.lengths.device)
        self.lengths.copy_(table[0])
        self._growth.copy_(table[1])
        self._living = len(places)
        in_order = places.tolist() == list(range(len(places)))
        self._places = None if in_order else places.to(self.lengths.device)

    def of_rows(self, each: Tensor) -> Tensor:
        return each[: self._living] if self._places is None else each.index_select(0, self._places)

    def step(self, tokens: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        if self._places is None:
            self._tokens[: self._living] = tokens
        else:
            self._tokens.index_copy_(0, self._places, tokens)
        if self.lengths.is_cuda:
            if self._graph is None:
                self._capture()
            self._graph.replay()
        else:
            self._work()
        return self.of_rows(self._logits).to(torch.float32, copy=True)

    def _work(self) -> None:
        self._forward()
        self.lengths.add_(self._growth)

    def _forward(self) -> None:
        decoder = self.decoder
        x = decoder.embedding(self._tokens, self.lengths, self.room)
        masks: dict[int | None, Tensor] = {}

        def ways(index: int, layer: TransformerLayer, mask: Mask) -> tuple[Sublayer, None]:
            attention, before = layer.attention, mask.before
            if self._attend_next is not None:
                shown = None
            elif attention.bias is not None:  # each layer may have learned its own
                shown = self._shown(before, attention)
            else:
                shown = masks[before] if before in masks else self._shown(before, attention)
                masks[before] = shown
            return partial(self._look, attention=attention, index=index, shown=shown), None

        self._logits.copy_(self._head(self._body.through(x, ways)))

    def _shown(self, before: int | None, attention: SelfAttention) -> Tensor:
        """What is added to the scores of all keys that there is room for."""
        shown = shown_keys(
            self.lengths, self.room, attention.kv_heads, self.keys.dtype, before=before, bias=attention.bias
        )
        if shown.dtype == torch.bool:  # or every layer would turn it into numbers
            shown = torch.zeros_like(shown, dtype=self.keys.dtype).masked_fill_(~shown, -torch.inf)
        return shown

    def _look(self, x: Tensor, *, attention: SelfAttention, index: int, shown: Tensor | None) -> Tensor:
        queries, keys, values = attention.queries_keys_values(x, self.lengths, self.room)
        if self._attend_next is not None:
            before, cached = self._body.masks[index].before, (self.keys[index], self.values[index])
            return attention.merge(self._attend_next(queries, keys, values, *cached, self.lengths, before))
        self.keys[index][self._numbers, :, self.lengths] = keys
        self.values[index][self._numbers, :, self.lengths] = values
        return attention.merge(attend_shown(queries, self.keys[index], self.values[index], shown))

    def _capture(self) -> None:
        """Rehearsals let libraries set themselves up, and tables of positions grow. They write what the step
        itself will write, and leave the lengths alone."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._forward()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._work()
        self._graph = graph
        # A longer text may have a table grown; the graph reads the one it knew.
        self._read = [
            value
            for part in self.decoder.modules()
            for value in vars(part).values()
            if isinstance(value, Tensor)
        ]
