"""Steps of a translator on a CPU. The rows of one source are a group: they share its keys, and their own.

    across    the keys of each source; its rows are its queries
    back      each step of a row leaves a key in its group's grid, and the row remembers which are its own:

              beam 2    step   1  2  3  4            slots   a  b d  e f  g
                               a  b  d  f            row 0   x  x x  . x  .
                               a  b  e  g            row 1   x  x .  x .  x

So no key ever moves when a search keeps, drops or doubles rows; a group's grid is read once for all of them.
A slot that no row sees any more is written over (here that of c, the other token of step 2). Groups that
have left take room until half of all have, then the others close up. native/attention.c reads the grids.
(What a row does not see weighs 0, but 0 times a NaN is one: a row that is not finite spoils its group.)

`together` steps several batches at once, each from where it stands: one product for all of their rows, so
that a batch that is nearly done does not run alone. The scores are those of `Seq2Seq.step`.

Of a packed or quantized copy that nobody listens to, all layers are one call of C (`nn/decoder_passes.py`);
else they are gone through here, layer by layer.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.layout import Layout
from regard.models.seq2seq import Seq2Seq
from regard.nn.decoder_passes import DecoderPasses
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.native import attention as native
from regard.nn.native.attention import Asking, keep
from regard.nn.native.decoder import Grids, asked
from regard.nn.native.structs import Asked
from regard.nn.stacks import Stack
from regard.nn.state import Memory, Rows, check_rows

SPARE = 8
"""Slots that a grid has at first, besides those for as many tokens as the longest source has."""
KEPT = 0.5
"""BeamGroups close up when no more than this share of them has rows."""


class BeamGroups:
    def __init__(self, model: Seq2Seq, *, kept: torch.dtype = torch.float32) -> None:
        """Keys and values are remembered in `kept`: float32, or float16, which takes half the memory and half
        the time to read."""
        if not self.serve(model):
            raise ValueError(
                "groups are for a Transformer in float32 on a CPU with a C compiler, without windows and "
                "biases"
            )
        if kept not in (torch.float32, torch.float16):
            raise ValueError(f"kept={kept} must be torch.float32 or torch.float16")
        self.model, self._kept = model, kept
        self._stack = cast(Stack, model.decoder.body)
        self.passes = DecoderPasses.of(self._stack)

    @staticmethod
    def serve(model: Seq2Seq) -> bool:
        """Whether they can take the place of the model's own steps."""
        body = model.decoder.body
        if not isinstance(body, Stack) or torch.is_autocast_enabled("cpu") or not native.available():
            return False
        plain = all(
            layer.attention.bias is None and layer.attention.score is None and mask.before is None
            for layer, mask in zip(body.each, body.masks, strict=True)
        )
        weight = next(model.parameters())
        return plain and weight.device.type == "cpu" and weight.dtype == torch.float32

    def start(self, source: Int[Tensor, "tokens"], layout: Layout) -> "BeamGroupState":
        """As `Seq2Seq.start`: a row for each source, nothing decoded yet."""
        return self.start_from(self.model.encoder.remember(source, layout))

    def start_from(self, memory: Memory) -> "BeamGroupState":
        """The same from what the encoder has made of the sources."""
        if self.passes is not None:  # a norm's weights may be others by now
            self.passes = DecoderPasses.of(self._stack)
        attentions = [cast(CrossAttention, layer.cross_attention) for layer in self._stack.each]
        across = [attention.keys_values(memory.states) for attention in attentions]
        own = [layer.attention for layer in self._stack.each]
        return BeamGroupState(own, across, memory.layout, self._kept)

    def prefill(
        self, ids: Int[Tensor, "tokens"], layout: Layout, state: "BeamGroupState"
    ) -> Float[Tensor, "rows vocab"]:
        state.ask_prefixes(layout)
        x = self.model.decoder.embedding(ids, layout.positions, layout.longest)
        states = self._through(x, layout.positions, layout.longest, [state])
        state.take_prefixes(layout)
        return self.model.decoder.head(states.index_select(0, layout.lasts))

    def step(self, tokens: Int[Tensor, "rows"], state: "BeamGroupState") -> Float[Tensor, "rows vocab"]:
        return self.together([(tokens, state)])

    def together(
        self, asked: Sequence[tuple[Int[Tensor, "rows"], "BeamGroupState"]]
    ) -> Float[Tensor, "all_rows vocab"]:
        """One new token in each row of each state; the scores for what follows, in the same order."""
        states = [state for _, state in asked]
        for state in states:
            state.ask_step()
        tokens = torch.cat([own for own, _ in asked])
        lengths = torch.cat([state.lengths for state in states])
        longest = max(state.longest for state in states) + 1
        x = self.model.decoder.embedding(tokens, lengths, longest)
        found = self.model.decoder.head(self._through(x, lengths, longest, states))
        for state in states:
            state.take_step()
        return found

    def _through(
        self,
        x: Float[Tensor, "rows d_model"],
        positions: Int[Tensor, "rows"],
        longest: int,
        states: Sequence["BeamGroupState"],
    ) -> Float[Tensor, "rows d_model"]:
        if x.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
            raise ValueError(f"groups step in float32, not in {x.dtype} or under autocast: leave it")
        if self.passes is not None and self.passes.serve(x):
            return self.passes.through(x, [state.asking.search for state in states])
        bounds = [*itertools.accumulate((state.asking.rows for state in states), initial=0)]

        def looked(look: Callable[["BeamGroupState", slice, Tensor], None], *width: int) -> Tensor:
            found = x.new_empty(len(x), *width)
            for state, (first, end) in zip(states, itertools.pairwise(bounds), strict=True):
                look(state, slice(first, end), found[first:end])
            return found.flatten(1)

        for index, layer in enumerate(self._stack.each):
            own, other = layer.attention, cast(CrossAttention, layer.cross_attention)

            def look(x: Tensor, index: int = index, own: SelfAttention = own) -> Tensor:
                parts = own.queries_keys_values(x, positions, longest)

                def back(state: BeamGroupState, rows: slice, found: Tensor) -> None:
                    queries, keys, values = (part[rows] for part in parts)
                    state.back(index, queries, keys, values, found)

                return own.output(looked(back, own.heads, own.d_value))

            def look_across(x: Tensor, index: int = index, other: CrossAttention = other) -> Tensor:
                queries = other.queries(x)

                def across(state: BeamGroupState, rows: slice, found: Tensor) -> None:
                    state.across(index, queries[rows], found)

                return other.output(looked(across, other.heads, other.d_value))

            x = layer.through(x, look, look_across)
        return x if self._stack.final_norm is None else self._stack.final_norm(x)


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    """What is the same in all layers."""

    rows: int
    owners: Int[Tensor, "rows"]
    slots: Int[Tensor, "rows"]
    """Where the keys of each row go."""
    back: Asking
    across: Asking
    search: Asked
    """All of it, for C. It points at the grids, which change between passes only."""


class BeamGroupState:
    def __init__(
        self,
        attentions: Sequence[SelfAttention],
        across: Sequence[tuple[Tensor, Tensor]],
        sources: Layout,
        kept: torch.dtype,
    ) -> None:
        """`across` has the packed keys and values of the sources for each layer."""
        self.rows = self._groups = sources.sequences
        self._lengths = np.zeros(self.rows, dtype=np.int64)
        self.longest = 0
        self._owners = np.arange(self.rows)
        """The group of each row, going up."""
        self.sources = sources.host_offsets.diff().long()
        """How many keys each has."""
        grid = partial(torch.empty, dtype=kept, device="cpu")
        self._across = [(_laid(keys, sources, grid), _laid(values, sources, grid)) for keys, values in across]
        room = sources.longest + SPARE
        self._own = [
            (
                grid(self.rows, room, own.kv_heads, own.d_head),
                grid(self.rows, room, own.kv_heads, own.d_value),
            )
            for own in attentions
        ]
        """For each layer, the grids of keys and values."""
        self._sees = np.zeros((self.rows, room), dtype=bool)
        """Which slots of its group are a row's own."""
        self._grids: Grids | None = None
        """Where all of them are, once that was asked."""
        self.asking: _Pass

    @property
    def lengths(self) -> Int[Tensor, "rows"]:
        """Kept by numpy, whose operations on so few numbers are quicker, and keep Python's lock: two threads
        that step at the same time would hand it to and fro."""
        return torch.from_numpy(self._lengths)

    def select(self, rows: Rows) -> None:
        rows = check_rows(rows, self.rows)
        chosen = rows.numpy()
        owners = self._owners[chosen]
        apart = np.diff(owners)
        if (apart < 0).any():
            raise ValueError(
                f"select({rows.tolist()}) brings rows out of the order of their sources: sort them"
            )
        self.rows, self._owners = len(rows), owners
        self._lengths, self._sees = self._lengths[chosen], self._sees[chosen]
        self.longest = int(self._lengths.max()) if self.rows else 0
        present = np.count_nonzero(apart) + min(self.rows, 1)
        if present <= KEPT * self._groups:
            self._close_up(np.unique(owners))

    def _close_up(self, present: Int[np.ndarray, "kept"]) -> None:
        self._owners = np.searchsorted(present, self._owners)
        self.keep_groups(present)

    def keep_groups(self, present: Int[np.ndarray, "kept"]) -> None:
        """The grids of the others go."""
        self._groups = len(present)
        kept = torch.from_numpy(present)
        self.sources, self._grids = self.sources[kept], None
        for grids in (self._own, self._across):
            _change(grids, lambda grid: grid.index_select(0, kept))

    def grids(self) -> Grids:
        """Where all of them are."""
        self._grids = self._grids or Grids(self._own, self._across)
        return self._grids

    def ask_step(self) -> None:
        """The next pass is one new token in each row. It sees what the row saw, and itself."""
        counts, places = self._counted(self._owners)
        slots, used = self._free(counts, places)
        self._sees[np.arange(self.rows), slots] = True
        self._ask(self._owners, counts, slots, self._sees, used)

    def ask_prefixes(self, layout: Layout) -> None:
        """The next pass is the first: whole prefixes, that of row r for group r."""
        if self.longest or layout.sequences != self.rows:
            raise ValueError(
                f"prefill takes a fresh state and one prefix for each row: {layout.sequences} prefixes, "
                f"{self.rows} rows of up to {self.longest} tokens"
            )
        if 0 in layout.host_lengths:
            raise ValueError("a prefix is empty: nothing can follow it; give it a start token at least")
        owners, positions = layout.owners.numpy(), layout.positions.numpy()
        self._reserve(layout.longest)
        sees = np.arange(layout.longest) <= positions[:, None]
        counts, _ = self._counted(owners)
        self._ask(owners, counts, positions, sees, counts)

    def _counted(
        self, owners: Int[np.ndarray, "rows"]
    ) -> tuple[Int[np.ndarray, "groups"], Int[np.ndarray, "rows"]]:
        """The rows of each group, and the place of each row among them."""
        counts = np.bincount(owners, minlength=self._groups)
        return counts, np.arange(len(owners)) - (counts.cumsum() - counts)[owners]

    def _free(
        self, counts: Int[np.ndarray, "groups"], places: Int[np.ndarray, "rows"]
    ) -> tuple[Int[np.ndarray, "rows"], Int[np.ndarray, "groups"]]:
        """A slot for each row, the first ones that no row of its group sees; and how many slots each group
        uses then. (All of those were written, some time: hidden values must be numbers too.)"""
        width = int(counts.max(initial=0))
        cells = np.zeros((self._groups * width, self._sees.shape[1]), dtype=bool)
        cells[self._owners * width + places] = self._sees
        seen = np.any(cells.reshape(self._groups, width, self._sees.shape[1]), axis=1)
        more = self._reserve(int((seen.sum(axis=1) + counts).max(initial=0)))
        seen = np.pad(seen, ((0, 0), (0, more))) if more else seen
        slots = seen.argsort(axis=1, kind="stable")[self._owners, places]
        seen[self._owners, slots] = True
        return slots, seen.shape[1] - seen[:, ::-1].argmax(axis=1)

    def _ask(
        self,
        owners: Int[np.ndarray, "rows"],
        counts: Int[np.ndarray, "groups"],
        slots: Int[np.ndarray, "rows"],
        sees: Bool[np.ndarray, "rows slots"],
        used: Int[np.ndarray, "groups"],
    ) -> None:
        bounds = torch.from_numpy(np.concatenate(([0], counts.cumsum())))
        to, at = torch.from_numpy(owners), torch.from_numpy(slots)
        back = Asking(bounds, None, torch.from_numpy(used), sees=sees)
        across = Asking(bounds, None, self.sources)
        search = asked(to, at, back, across, self.grids())
        self.asking = _Pass(rows=len(owners), owners=to, slots=at, back=back, across=across, search=search)

    def _reserve(self, most: int) -> int:
        """How much wider the grids have become, to hold so many. Never much more than is used: keys that lie
        close together are read twice as fast."""
        more = self.widen(most)
        if more:
            self._sees = np.pad(self._sees, ((0, 0), (0, more)))
        return more

    def widen(self, most: int) -> int:
        """The grids alone."""
        room = self._own[0][0].shape[1]
        if most <= room:
            return 0
        more, self._grids = max(room // 4, most - room), None
        _change(self._own, lambda grid: _grown(grid, more))
        return more

    def take_step(self) -> None:
        """The pass is over."""
        self._lengths, self.longest = self._lengths + 1, self.longest + 1

    def take_prefixes(self, layout: Layout) -> None:
        self.longest = layout.longest
        self._lengths = np.diff(layout.host_offsets.numpy()).astype(np.int64)
        self._sees = np.arange(self._sees.shape[1]) < self._lengths[:, None]

    def back(
        self,
        layer: int,
        queries: Float[Tensor, "rows heads d_head"],
        keys: Float[Tensor, "rows kv_heads d_head"],
        values: Float[Tensor, "rows kv_heads d_value"],
        found: Float[Tensor, "rows heads d_value"],
    ) -> None:
        """What the rows find is written to `found`."""
        asking, grids = self.asking, self._own[layer]
        for new, grid in zip((keys, values), grids, strict=True):
            keep(new, asking.owners, asking.slots, grid)
        asking.back.attend(queries, *grids, found, queries.shape[2] ** -0.5)

    def across(
        self,
        layer: int,
        queries: Float[Tensor, "rows heads d_head"],
        found: Float[Tensor, "rows heads d_value"],
    ) -> None:
        self.asking.across.attend(queries, *self._across[layer], found, queries.shape[2] ** -0.5)


Grid = Float[Tensor, "groups room kv_heads d"]


def _change(grids: list[tuple[Grid, Grid]], change: Callable[[Grid], Grid]) -> None:
    """One layer after the other: never are all there twice."""
    for layer, (keys, values) in enumerate(grids):
        grids[layer] = change(keys), change(values)


def _grown(grid: Grid, more: int) -> Grid:
    groups, room, *width = grid.shape
    found = grid.new_empty(groups, room + more, *width)
    found[:, :room] = grid
    return found


def _laid(packed: Float[Tensor, "tokens kv_heads d"], layout: Layout, grid: Callable[..., Grid]) -> Grid:
    found = grid(layout.sequences, layout.longest, *packed.shape[1:])
    keep(packed, layout.owners.long(), layout.positions.long(), found)
    return found
