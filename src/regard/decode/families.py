"""Steps of a translator on a CPU. The rows of one source are a family: they share its keys, and their own.

    across    one grid of keys for each source, filled up with hidden ones; its rows are its queries
    back      each step of a row leaves a key in its family's grid, and the row remembers which are its own:

              beam 2    step   1  2  3  4            slots   a  b d  e f  g
                               a  b  d  f            row 0   x  x x  . x  .
                               a  b  e  g            row 1   x  x .  x .  x

So no key ever moves when a search keeps, drops or doubles rows; a family's grid is read once for all of them.
A slot that no row sees any more is written over (here that of c, the other token of step 2). Families that
have left take room until a quarter of all have, then the others close up.

`together` steps several batches at once, each from where it stands: one product for all of their rows, so
that a batch that is nearly done does not run alone. The scores are those of `Seq2Seq.step`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from regard.layout import Layout
from regard.models.seq2seq import Seq2Seq
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.stacks import Stack
from regard.nn.state import Rows, check_rows

LANES = 8
"""Grids are a multiple of this wide: rows that begin just anywhere take twice as long."""
KEPT = 0.75
"""Families close up when no more than this share of them has rows."""
FILLED = 8
"""The rows of a step are filled up to a multiple of this, if they are more."""


class Families:
    def __init__(self, model: Seq2Seq) -> None:
        if not self.serve(model):
            raise ValueError("families are for a Transformer on a CPU, with neither windows nor biases")
        self.model = model
        self._stack = cast(Stack, model.decoder.body)

    @staticmethod
    def serve(model: Seq2Seq) -> bool:
        """Whether they can take the place of the model's own steps."""
        body = model.decoder.body
        if not isinstance(body, Stack) or torch.is_autocast_enabled("cpu"):
            return False
        plain = all(
            layer.attention.bias is None and mask.before is None
            for layer, mask in zip(body.each, body.masks, strict=True)
        )
        weight = next(model.parameters())
        return plain and weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)

    def start(self, source: Int[Tensor, "tokens"], layout: Layout) -> "FamilyState":
        """As `Seq2Seq.start`: a row for each source, nothing decoded yet."""
        memory = self.model.encoder.remember(source, layout)
        attentions = [cast(CrossAttention, layer.cross_attention) for layer in self._stack.each]
        across = [attention.keys_values(memory.states) for attention in attentions]
        return FamilyState([layer.attention for layer in self._stack.each], across, layout)

    def prefill(
        self, ids: Int[Tensor, "tokens"], layout: Layout, state: "FamilyState"
    ) -> Float[Tensor, "rows vocab"]:
        state.ask_prefixes(layout)
        x = self.model.decoder.embedding(ids, layout.positions, layout.longest)
        states = self._through(x, layout.positions, layout.longest, [state])
        state.take_prefixes(layout)
        return self.model.decoder.head(states.index_select(0, layout.lasts))

    def step(self, tokens: Int[Tensor, "rows"], state: "FamilyState") -> Float[Tensor, "rows vocab"]:
        return self.together([(tokens, state)])

    def together(
        self, asked: Sequence[tuple[Int[Tensor, "rows"], "FamilyState"]]
    ) -> Float[Tensor, "all_rows vocab"]:
        """One new token in each row of each state; the scores for what follows, in the same order."""
        states = [state for _, state in asked]
        for state in states:
            state.ask_step()
        rows = sum(state.rows for state in states)
        none = torch.zeros(_missing(rows), dtype=torch.int64, device="cpu")
        tokens = torch.cat([*(own for own, _ in asked), none])
        lengths = torch.cat([*(state.lengths for state in states), none])
        longest = max(state.longest for state in states) + 1
        x = self.model.decoder.embedding(tokens, lengths, longest)
        found = self.model.decoder.head(self._through(x, lengths, longest, states))
        for state in states:
            state.take_step()
        return found[:rows]

    def _through(
        self,
        x: Float[Tensor, "rows d_model"],
        positions: Int[Tensor, "rows"],
        longest: int,
        states: Sequence["FamilyState"],
    ) -> Float[Tensor, "rows d_model"]:
        counts = [state.asking.rows for state in states]
        missing = len(x) - sum(counts)

        def looked(state_parts: Iterable[Tensor], like: Tensor) -> Tensor:
            parts = [*state_parts]
            if missing:
                parts.append(like.new_zeros(missing, parts[0].shape[1]))
            return parts[0] if len(parts) == 1 else torch.cat(parts)

        for index, layer in enumerate(self._stack.each):
            own, other = layer.attention, cast(CrossAttention, layer.cross_attention)

            def look(x: Tensor, index: int = index, own: SelfAttention = own) -> Tensor:
                parts = own.queries_keys_values(x, positions, longest)
                each = zip(states, *(_cut(part, counts, missing) for part in parts), strict=True)
                return own.output(looked((state.back(index, *part) for state, *part in each), x))

            def look_across(x: Tensor, index: int = index, other: CrossAttention = other) -> Tensor:
                each = zip(states, _cut(other.queries(x), counts, missing), strict=True)
                return other.output(looked((state.across(index, part) for state, part in each), x))

            x = layer.through(x, look, look_across)
        return x if self._stack.final_norm is None else self._stack.final_norm(x)


def _missing(rows: int) -> int:
    """Rows that are added and not looked at: for each new number, oneDNN takes a millisecond to prepare a
    product, and memory to remember how. Few rows are never filled up."""
    return 0 if rows <= FILLED else -rows % FILLED


def _cut(part: Tensor, counts: list[int], missing: int) -> tuple[Tensor, ...]:
    """Without what was added."""
    if len(counts) == 1 and not missing:
        return (part,)
    return part.split([*counts, missing])[: len(counts)]


@dataclass(frozen=True, slots=True, eq=False)
class _Asking:
    """The queries of one pass: in a grid, `width` for each family."""

    rows: int
    families: int
    width: int
    cells: Int[np.ndarray, "rows"] | None
    """Where each lies; None if they fill the grid in their order."""
    slots: tuple[Int[np.ndarray, "rows"], slice, Int[np.ndarray, "rows"]]
    """Where the key of each goes, in a grid of keys."""
    back: Float[Tensor, "families 1 1 width slots"]
    """0 where a query sees a slot, -inf where not."""
    across: Float[Tensor, "families 1 1 1 slots"]

    def spread(self, x: Float[np.ndarray, "rows heads d"]) -> Float[np.ndarray, "families width heads d"]:
        if self.cells is not None:
            x = _in_cells(x, self.cells, self.families * self.width)
        return x.reshape(self.families, self.width, *x.shape[1:])

    def gather(self, x: Float[np.ndarray, "cells d"]) -> Float[np.ndarray, "rows d"]:
        return x if self.cells is None else x[self.cells]


class FamilyState:
    def __init__(
        self,
        attentions: Sequence[SelfAttention],
        across: Sequence[tuple[Tensor, Tensor]],
        sources: Layout,
    ) -> None:
        """`across` has the packed keys and values of the sources for each layer."""
        self.rows = self._families = sources.sequences
        self.lengths = torch.zeros(self.rows, dtype=torch.int64, device="cpu")
        self.longest = 0
        self._owners = np.arange(self.rows)
        """The family of each row, going up."""
        self._across_keys = [_in_grid(keys.numpy(), sources) for keys, _ in across]
        self._across_values = [_in_grid(values.numpy(), sources) for _, values in across]
        kind, width = self._across_keys[0].dtype, self._across_keys[0].shape[2]
        lengths = sources.host_offsets.diff().numpy()
        self._shown_across = _shown(np.arange(width) < lengths[:, None], kind)
        room = 2 * LANES
        self._keys = [np.zeros((self.rows, own.kv_heads, room, own.d_head), kind) for own in attentions]
        self._values = [np.zeros((self.rows, own.kv_heads, room, own.d_value), kind) for own in attentions]
        self._sees = np.zeros((self.rows, room), dtype=bool)
        """Which slots of its family are a row's own."""
        self.asking: _Asking

    def select(self, rows: Rows) -> None:
        rows = check_rows(rows, self.rows)
        chosen = rows.numpy()
        owners = self._owners[chosen]
        if (np.diff(owners) < 0).any():
            raise ValueError(
                f"select({rows.tolist()}) brings rows out of the order of their sources: sort them"
            )
        self.rows, self._owners = len(rows), owners
        self.lengths, self._sees = self.lengths[rows], self._sees[chosen]
        self.longest = int(self.lengths.max()) if self.rows else 0
        present = np.unique(owners)
        if len(present) <= KEPT * self._families:
            self._close_up(present)

    def _close_up(self, present: Int[np.ndarray, "kept"]) -> None:
        self._owners = np.searchsorted(present, self._owners)
        self._families = len(present)
        for grids in (self._keys, self._values, self._across_keys, self._across_values):
            grids[:] = [grid[present] for grid in grids]
        self._shown_across = self._shown_across[present]

    def ask_step(self) -> None:
        """The next pass is one new token in each row. It sees what the row saw, and itself."""
        counts, places = self._counted(self._owners)
        slots = self._free(counts, places)
        self._sees[np.arange(self.rows), slots] = True
        last = int(np.flatnonzero(self._sees.any(axis=0)).max(initial=0))
        self.asking = self._ask(self._owners, counts, places, slots, self._sees[:, : _whole(last + 1)])

    def ask_prefixes(self, layout: Layout) -> None:
        """The next pass is the first: whole prefixes, that of row r for family r."""
        if self.longest or layout.sequences != self.rows:
            raise ValueError(
                f"prefill takes a fresh state and one prefix for each row: {layout.sequences} prefixes, "
                f"{self.rows} rows of up to {self.longest} tokens"
            )
        if 0 in layout.host_lengths:
            raise ValueError("a prefix is empty: nothing can follow it; give it a start token at least")
        owners, positions = layout.owners.numpy(), layout.positions.numpy()
        self._reserve(layout.longest)
        sees = np.arange(_whole(layout.longest)) <= positions[:, None]
        self.asking = self._ask(owners, *self._counted(owners), positions, sees)

    def _counted(
        self, owners: Int[np.ndarray, "rows"]
    ) -> tuple[Int[np.ndarray, "families"], Int[np.ndarray, "rows"]]:
        """The rows of each family, and the place of each row among them."""
        counts = np.bincount(owners, minlength=self._families)
        return counts, np.arange(len(owners)) - (counts.cumsum() - counts)[owners]

    def _free(
        self, counts: Int[np.ndarray, "families"], places: Int[np.ndarray, "rows"]
    ) -> Int[np.ndarray, "rows"]:
        """A slot for each row, the first ones that no row of its family sees."""
        width = int(counts.max(initial=0))
        cells = _in_cells(self._sees, self._owners * width + places, self._families * width)
        seen = cells.reshape(self._families, width, self._sees.shape[1]).any(axis=1)
        more = self._reserve(int((seen.sum(axis=1) + counts).max(initial=0)))
        seen = np.pad(seen, ((0, 0), (0, more))) if more else seen
        return seen.argsort(axis=1, kind="stable")[self._owners, places]

    def _ask(
        self,
        owners: Int[np.ndarray, "rows"],
        counts: Int[np.ndarray, "families"],
        places: Int[np.ndarray, "rows"],
        slots: Int[np.ndarray, "rows"],
        sees: Bool[np.ndarray, "rows slots"],
    ) -> _Asking:
        width, cells = int(counts.max(initial=0)), None
        if len(owners) != self._families * width:
            cells = owners * width + places
            sees = _in_cells(sees, cells, self._families * width, empty=True)
        shown = _shown(sees, self._keys[0].dtype).view(self._families, 1, 1, width, sees.shape[1])
        across = self._shown_across[:, None, None, None]
        where = owners, slice(None), slots
        return _Asking(len(owners), self._families, width, cells, where, shown, across)

    def _reserve(self, most: int) -> int:
        """How much wider the grids have become, to hold so many. Never much more than is used: keys that lie
        close together are read twice as fast."""
        room = self._sees.shape[1]
        if most <= room:
            return 0
        more = _whole(max(room // 2, most - room))
        for grids in (self._keys, self._values):
            grids[:] = [_grown(grid, more) for grid in grids]
        self._sees = np.pad(self._sees, ((0, 0), (0, more)))
        return more

    def take_step(self) -> None:
        """The pass is over."""
        self.lengths, self.longest = self.lengths + 1, self.longest + 1

    def take_prefixes(self, layout: Layout) -> None:
        self.longest = layout.longest
        self.lengths = layout.host_offsets.diff().long()
        self._sees = np.arange(self._sees.shape[1]) < self.lengths.numpy()[:, None]

    def back(
        self,
        layer: int,
        queries: Float[Tensor, "rows heads d_head"],
        keys: Float[Tensor, "rows kv_heads d_head"],
        values: Float[Tensor, "rows kv_heads d_value"],
    ) -> Float[Tensor, "rows d_heads"]:
        asking, own_keys, own_values = self.asking, self._keys[layer], self._values[layer]
        own_keys[asking.slots] = keys.numpy()
        own_values[asking.slots] = values.numpy()
        return _attend(asking, queries, own_keys, own_values, asking.back)

    def across(
        self, layer: int, queries: Float[Tensor, "rows heads d_head"]
    ) -> Float[Tensor, "rows d_heads"]:
        keys, values = self._across_keys[layer], self._across_values[layer]
        return _attend(self.asking, queries, keys, values, self.asking.across)


def _whole(slots: int) -> int:
    return -(-max(slots, 1) // LANES) * LANES


def _shown(sees: Bool[np.ndarray, "rows slots"], kind: np.dtype[Any]) -> Float[Tensor, "rows slots"]:
    """What is added to scores."""
    return torch.from_numpy(np.where(sees, 0, -np.inf).astype(kind))


def _in_cells(
    x: Shaped[np.ndarray, "rows *width"], cells: Int[np.ndarray, "rows"], count: int, *, empty: bool = False
) -> Shaped[np.ndarray, "count *width"]:
    """Rows where they lie in a grid; the other cells are `empty`."""
    found = np.full((count, *x.shape[1:]), empty, dtype=x.dtype)
    found[cells] = x
    return found


def _grown(
    grid: Float[np.ndarray, "families kv_heads room d"], more: int
) -> Float[np.ndarray, "families kv_heads more_room d"]:
    families, heads, room, width = grid.shape
    found = np.empty((families, heads, room + more, width), grid.dtype)
    found[:, :, :room] = grid
    found[:, :, room:] = 0  # hidden, but it must be a number
    return found


def _in_grid(
    packed: Float[np.ndarray, "tokens kv_heads d"], layout: Layout
) -> Float[np.ndarray, "families kv_heads slots d"]:
    _, heads, width = packed.shape
    grid = np.zeros((layout.sequences, heads, _whole(layout.longest), width), packed.dtype)
    grid[layout.owners.numpy(), :, layout.positions.numpy()] = packed
    return grid


def _attend(
    asking: _Asking,
    queries: Float[Tensor, "rows heads d_head"],
    keys: Float[np.ndarray, "families kv_heads room d_head"],
    values: Float[np.ndarray, "families kv_heads room d_value"],
    shown: Float[Tensor, "families 1 1 #width slots"],
) -> Float[Tensor, "rows d_heads"]:
    """By the equation; the first slots of the room are asked. The products are numpy's, whose library takes
    small matrices as they lie: torch's puts each in another order first, which takes longer than to multiply
    them."""
    families, kv_heads, _, d_value = values.shape
    width, heads, d_head, slots = asking.width, *queries.shape[1:], shown.shape[4]
    share = heads // kv_heads  # queries of a token that ask the same keys
    grid = asking.spread(queries.numpy()).reshape(families, width, kv_heads, share, d_head)
    asked = keys[:, :, None, :slots].swapaxes(3, 4)
    scores = torch.from_numpy(np.matmul(grid.transpose(0, 2, 3, 1, 4), asked))
    weights = torch.add(shown, scores, alpha=d_head**-0.5, out=scores).softmax(dim=4)
    found = np.empty((families, width, kv_heads, share, d_value), values.dtype)
    np.matmul(weights.numpy(), values[:, :, None, :slots], out=found.transpose(0, 2, 3, 1, 4))
    return torch.from_numpy(asking.gather(found.reshape(families * width, -1)))
