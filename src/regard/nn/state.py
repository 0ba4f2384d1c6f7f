"""What decoding remembers between steps.

A decoder takes `step(tokens, state) -> logits`, one new token in each row, and search takes
`state.select(rows)`: keep, drop, repeat or reorder rows. Nothing else is needed for greedy search, sampling
and beams, whatever the model. `state.join(other)` lets texts that began later take their steps with those
that are under way. All change the state in place: decode under `torch.no_grad()`.

    KeyValueCache   the keys and values of every layer's self-attention, in buffers allocated ahead
    Sources         which source sentence each row decodes; rows of one source share its keys and values
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.layout import Layout

Rows = Int[Tensor, "kept"] | Sequence[int]


@runtime_checkable
class State(Protocol):
    @property
    def rows(self) -> int: ...

    @property
    def lengths(self) -> Int[Tensor, "rows"]:
        """How many tokens each row has seen: the position of its next one."""

    @property
    def longest(self) -> int:
        """A bound of the lengths, known on the host."""

    def select(self, rows: Rows) -> None:
        """Row i becomes what row rows[i] was. Rows that decode sources stay in the order of their sources."""


class JoiningState(State, Protocol):
    """Of a decoder without sources."""

    def join(self, other: Any) -> None:
        """The rows of another state of the same model come behind these; they may be longer or shorter. The
        other one stays as it is."""


def check_rows(rows: Rows, count: int) -> Int[Tensor, "kept"]:
    """Row numbers on the CPU, all of them below `count`."""
    numbers = torch.as_tensor(rows, device="cpu")
    if numbers.dtype == torch.bool:
        raise TypeError("select takes row numbers, not a mask: give mask.nonzero().squeeze(1)")
    numbers = numbers.to(torch.int64)
    plain = numbers.numpy()  # no operation of torch: each would let other threads go first
    if plain.size and not 0 <= plain.min() <= plain.max() < count:
        raise IndexError(f"select({numbers.tolist()}): the rows are 0 to {count - 1}")
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What a decoder looks at: the encoder's states, and where each source sentence lies."""

    states: Float[Tensor, "tokens d_memory"]
    layout: Layout
    summary: Float[Tensor, "sequences d_memory"]
    """Each sentence in one vector, for a decoder that starts from it."""

    def only(self, chosen: Sequence[int]) -> "Memory":
        """Of these sentences alone."""
        each = self.layout.split(self.states)
        lengths = [len(each[i]) for i in chosen]
        layout = Layout.of(lengths).to(self.states.device)
        return Memory(torch.cat([each[i] for i in chosen]), layout, self.summary[list(chosen)])


class KeyValueCache:
    """Keys and values of all layers. Row r holds `lengths[r]` tokens; rows may differ in length."""

    def __init__(
        self,
        *,
        layers: int,
        rows: int,
        capacity: int,
        kv_heads: int,
        d_head: int,
        d_value: int,
        like: Float[Tensor, "..."],
    ) -> None:
        """`like` gives the device and the type, but for autocast. The capacity is a promise, not a limit:
        past it, buffers double."""
        shape = (layers, rows, kv_heads, max(capacity, 1))
        kind = like.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else like.dtype
        self._keys = like.new_zeros(*shape, d_head, dtype=dtype)
        self._values = like.new_zeros(*shape, d_value, dtype=dtype)
        self._spares: list[Tensor | None] = [None, None]
        self._layers: list[tuple[Tensor, Tensor]] = []
        self._know(torch.zeros(rows, dtype=torch.int64, device="cpu"))
        self.lengths = self._host_lengths.to(like.device)

    def _know(self, lengths: Int[Tensor, "rows"]) -> None:
        """On the host; as plain numbers too, since every layer asks."""
        self._placed: tuple[Layout, Tensor, Tensor] | None = None
        self._host_lengths = lengths
        self.rows = len(lengths)
        self.longest = int(lengths.max()) if self.rows else 0
        self.shortest = int(lengths.min()) if self.rows else 0

    @property
    def level(self) -> bool:
        """Whether all rows are equally long, so that no row needs a mask."""
        return self.shortest == self.longest

    @property
    def keys(self) -> Float[Tensor, "layers rows kv_heads capacity d_head"]:
        return self._keys[:, : self.rows]

    @property
    def values(self) -> Float[Tensor, "layers rows kv_heads capacity d_value"]:
        return self._values[:, : self.rows]

    def layer(self, index: int) -> "SelfCache":
        """As it is until room is made or rows are selected."""
        if torch.is_grad_enabled():  # views made without gradients may not be written to with them
            return SelfCache(self, *self._cut(index))
        if not self._layers:  # once, and not at every step
            self._layers = [self._cut(index) for index in range(len(self._keys))]
        return SelfCache(self, *self._layers[index])

    def _cut(self, index: int) -> tuple[Tensor, Tensor]:
        return self._keys[index, : self.rows], self._values[index, : self.rows]

    def places(self, layout: Layout) -> tuple[Int[Tensor, "tokens"], Int[Tensor, "tokens"]]:
        """The row of each new token, and its place there; worked out for the first layer that asks."""
        if self._placed is None or self._placed[0] is not layout:
            owners = layout.owners
            self._placed = (layout, owners, layout.positions + self.lengths[owners])
        return self._placed[1:]

    def advance(self, lengths: Int[Tensor, "rows"] | int = 1) -> None:
        """Every layer has written its new tokens: count them in."""
        self._know(self._host_lengths + lengths)
        self.lengths = self._host_lengths.to(self._keys.device)

    def reserve(self, tokens: int) -> None:
        """Make sure that `tokens` more fit in each row."""
        capacity = self._keys.shape[3]
        if (needed := self.longest + tokens) > capacity:
            self._keys = _grown(self._keys, 3, max(needed, 2 * capacity))
            self._values = _grown(self._values, 3, max(needed, 2 * capacity))
            self._layers = []

    def select(self, rows: Rows) -> None:
        rows = check_rows(rows, self.rows)
        listed, count, before = rows.tolist(), len(rows), self.longest
        if listed == list(range(self.rows)):
            return
        self._know(self._host_lengths[rows])
        self._layers = []
        chosen = rows.to(self._keys.device)
        self.lengths = self.lengths[chosen]
        moved = [(place, row) for place, row in enumerate(listed) if place != row]
        if all(row >= count for _, row in moved):  # some leave, and rows from the end take their places
            for place, row in moved:
                self._keys.detach()[:, place, :, :before] = self._keys.detach()[:, row, :, :before]
                self._values.detach()[:, place, :, :before] = self._values.detach()[:, row, :, :before]
            return
        keys, values = self._spares
        self._spares = [self._keys, self._values]
        self._keys = _selected(self._keys, keys, chosen, self.longest)
        self._values = _selected(self._values, values, chosen, self.longest)

    def join(self, other: "KeyValueCache") -> None:
        """Other rows behind these. There is room for twice as many when there is none, so that rows which
        come one by one are not copied each time."""
        longest = max(self.longest, other.longest)
        self._keys = _joined(self._keys, self.rows, other.keys, other.longest, longest)
        self._values = _joined(self._values, self.rows, other.values, other.longest, longest)
        self._spares, self._layers = [None, None], []
        self._know(torch.cat([self._host_lengths, other._host_lengths]))
        self.lengths = torch.cat([self.lengths, other.lengths])


def _joined(buffer: Tensor, count: int, other: Tensor, tokens: int, longest: int) -> Tensor:
    rows = count + other.shape[1]
    if rows > buffer.shape[1]:
        buffer = _grown(buffer, 1, max(rows, 2 * buffer.shape[1]))
    if longest > buffer.shape[3]:
        buffer = _grown(buffer, 3, max(longest, 2 * buffer.shape[3]))
    new = buffer.detach()[:, count:rows]
    new[:, :, :, :tokens] = other[:, :, :, :tokens]
    new[:, :, :, tokens:] = 0  # what rows that left have written there need not be numbers
    return buffer


def _selected(buffer: Tensor, spare: Tensor | None, rows: Tensor, longest: int) -> Tensor:
    """The chosen rows, in the spare buffer: the two take turns, so that no step asks for new memory, of which
    each would need a little more than the one before. Only the part in use is moved."""
    layers, count, heads, capacity, width = buffer.shape
    count = max(count, len(rows))
    if spare is None or spare.shape[1] < len(rows) or spare.shape[3] < capacity:
        spare = buffer.new_zeros(layers, count, heads, capacity, width)  # what is hidden must be a number
    spare = spare.detach()
    torch.index_select(buffer[:, :, :, :longest].detach(), 1, rows, out=spare[:, : len(rows), :, :longest])
    return spare


def _grown(buffer: Tensor, axis: int, size: int) -> Tensor:
    shape = list(buffer.shape)
    shape[axis] = size
    grown = buffer.new_zeros(shape)
    grown.narrow(axis, 0, buffer.shape[axis]).copy_(buffer)
    return grown


@dataclass(frozen=True, slots=True, eq=False)
class SelfCache:
    """One layer of a `KeyValueCache`."""

    whole: KeyValueCache
    keys: Float[Tensor, "rows kv_heads capacity d_head"]
    values: Float[Tensor, "rows kv_heads capacity d_value"]

    def read(
        self, heads: int, first: int
    ) -> tuple[Float[Tensor, "rows heads key d_head"], Float[Tensor, "rows heads key d_value"]]:
        """What the first `heads` hold from place `first` up to the token that was appended last."""
        count = self.whole.longest + 1 - first
        keys, values = self.keys.narrow(2, first, count), self.values.narrow(2, first, count)
        return (keys, values) if heads == keys.shape[1] else (keys[:, :heads], values[:, :heads])

    def write(
        self,
        keys: Float[Tensor, "tokens kv_heads d_head"],
        values: Float[Tensor, "tokens kv_heads d_value"],
        layout: Layout,
    ) -> None:
        """Sequence r of the layout goes to row r, behind what the row holds."""
        owners, places = self.whole.places(layout)
        self.keys[owners, :, places] = keys.to(self.keys.dtype)
        self.values[owners, :, places] = values.to(self.values.dtype)

    def append(
        self, keys: Float[Tensor, "rows kv_heads d_head"], values: Float[Tensor, "rows kv_heads d_value"]
    ) -> None:
        """One token to each row."""
        if self.whole.level:  # a plain copy: writing by index costs several times as much
            self.keys.select(2, self.whole.longest).copy_(keys)
            self.values.select(2, self.whole.longest).copy_(values)
            return
        rows = torch.arange(self.whole.rows, device=keys.device)
        self.keys[rows, :, self.whole.lengths] = keys.to(self.keys.dtype)
        self.values[rows, :, self.whole.lengths] = values.to(self.values.dtype)


class Sources:
    """Which source sentence each row decodes. Rows stay in the order of their sources, so the rows of one
    source are neighbours: to packed attention they are simply the queries of that source."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._owners = torch.arange(layout.sequences, device="cpu")
        self.asking = Layout.singles(layout.sequences, layout.offsets.device)
        """The next token of every row, as queries of its source."""

    @property
    def rows(self) -> int:
        return len(self._owners)

    def queries(self, layout: Layout) -> Layout:
        """The tokens of a layout with one sequence for each row, as queries of its source."""
        lengths = torch.zeros(self.layout.sequences, dtype=torch.int64, device="cpu")
        lengths.index_add_(0, self._owners, layout.host_offsets.diff().long())
        return Layout.of(lengths).to(self.layout.offsets.device)

    def select(self, rows: Rows) -> None:
        rows = check_rows(rows, self.rows)
        owners = self._owners[rows]
        if bool((owners.diff() < 0).any()):
            raise ValueError(
                f"select({rows.tolist()}) would bring rows out of the order of their sources "
                f"{owners.tolist()}: sort the rows by source"
            )
        self._owners = owners
        self.asking = self.queries(Layout.singles(len(rows)))


@dataclass(frozen=True, slots=True, eq=False)
class CrossCache:
    """One layer's keys and values of the sources: packed, computed once, shared by all rows of a source."""

    keys: Float[Tensor, "tokens kv_heads d_head"]
    values: Float[Tensor, "tokens kv_heads d_value"]
    sources: Sources


@dataclass(frozen=True, slots=True, eq=False)
class TransformerState:
    """Where a Transformer decoder stands."""

    cache: KeyValueCache
    sources: Sources | None = None
    crosses: tuple[CrossCache, ...] = ()
    """One for each layer; none for a decoder without an encoder."""

    @property
    def rows(self) -> int:
        return self.cache.rows

    @property
    def lengths(self) -> Int[Tensor, "rows"]:
        return self.cache.lengths

    @property
    def longest(self) -> int:
        return self.cache.longest

    def select(self, rows: Rows) -> None:
        if self.sources is not None:
            self.sources.select(rows)  # first, because it may refuse
        self.cache.select(rows)

    def join(self, other: "TransformerState") -> None:
        _check_joining(self.sources, other.sources)
        self.cache.join(other.cache)


def _check_joining(*sources: Sources | None) -> None:
    if any(each is not None for each in sources):
        raise ValueError("rows that decode sources cannot join others: a batch of sources has its own state")


@dataclass(slots=True, eq=False)
class RecurrentState:
    """Where a recurrent decoder stands."""

    hidden: Float[Tensor, "layers rows d_model"]
    cell: Float[Tensor, "layers rows d_model"] | None
    """LSTM only."""
    lengths: Int[Tensor, "rows"]
    longest: int = 0
    sources: Sources | None = None
    prepared: Float[Tensor, "tokens d_score"] | None = None
    """The encoder's states as keys, where the decoder attends to them; as values:"""
    values: Float[Tensor, "tokens d_memory"] | None = None

    @property
    def rows(self) -> int:
        return self.hidden.shape[1]

    def select(self, rows: Rows) -> None:
        chosen = check_rows(rows, self.rows).to(self.hidden.device)
        if self.sources is not None:
            self.sources.select(rows)  # first, because it may refuse
        self.hidden = self.hidden.index_select(1, chosen)
        self.lengths = self.lengths.index_select(0, chosen)
        if self.cell is not None:
            self.cell = self.cell.index_select(1, chosen)

    def join(self, other: "RecurrentState") -> None:
        _check_joining(self.sources, other.sources)
        self.hidden = torch.cat([self.hidden, other.hidden], dim=1)
        if self.cell is not None and other.cell is not None:
            self.cell = torch.cat([self.cell, other.cell], dim=1)
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.longest = max(self.longest, other.longest)
