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
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
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
        return plain and next(model.parameters()).device.type == "cpu"

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
    cells: Int[Tensor, "rows"] | None
    """Where each lies; None if they fill the grid in their order."""
    slots: tuple[npt.NDArray[np.int64], slice, npt.NDArray[np.int64]]
    """Where the key of each goes, in a grid."""
    back: Float[Tensor, "families width slots"]
    """0 where a query sees a slot, -inf where not."""
    across: Float[Tensor, "families 1 slots"]

    def spread(self, x: Float[Tensor, "rows heads d"]) -> Float[Tensor, "families width heads d"]:
        if self.cells is not None:
            x = x.new_zeros(self.families * self.width, *x.shape[1:]).index_copy_(0, self.cells, x)
        return x.view(self.families, self.width, *x.shape[1:])

    def gather(self, x: Float[Tensor, "cells d"]) -> Float[Tensor, "rows d"]:
        return x if self.cells is None else x.index_select(0, self.cells)


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
        self._owners = torch.arange(self.rows, device="cpu")
        """The family of each row, going up."""
        like, room = across[0][0], LANES
        self._keys = [like.new_zeros(self.rows, own.kv_heads, room, own.d_head) for own in attentions]
        self._values = [like.new_zeros(self.rows, own.kv_heads, room, own.d_value) for own in attentions]
        self._shown = like.new_full((self.rows, room), -torch.inf)
        """0 where a row sees a slot of its family."""
        self._across_keys = [_in_grid(keys, sources) for keys, _ in across]
        self._across_values = [_in_grid(values, sources) for _, values in across]
        lengths, width = sources.host_offsets.diff(), self._across_keys[0].shape[2]
        seen = torch.arange(width, device="cpu") < lengths.unsqueeze(1)
        self._shown_across = like.new_zeros(seen.shape).masked_fill_(~seen, -torch.inf).unsqueeze(1)
        self.asking: _Asking

    def select(self, rows: Rows) -> None:
        rows = check_rows(rows, self.rows)
        owners = self._owners[rows]
        if bool((owners.diff() < 0).any()):
            raise ValueError(
                f"select({rows.tolist()}) brings rows out of the order of their sources: sort them"
            )
        self.rows, self._owners = len(rows), owners
        self.lengths, self._shown = self.lengths[rows], self._shown[rows]
        self.longest = int(self.lengths.max()) if self.rows else 0
        present = torch.unique_consecutive(owners)
        if len(present) <= KEPT * self._families:
            self._close_up(present)

    def _close_up(self, present: Int[Tensor, "kept"]) -> None:
        self._owners = torch.searchsorted(present, self._owners)
        self._families = len(present)
        for grids in (self._keys, self._values, self._across_keys, self._across_values):
            grids[:] = [grid.index_select(0, present) for grid in grids]
        self._shown_across = self._shown_across.index_select(0, present)

    def ask_step(self) -> None:
        """The next pass is one new token in each row."""
        self.asking = self._ask(self._owners, None)

    def ask_prefixes(self, layout: Layout) -> None:
        """The next pass is the first: whole prefixes, that of row r for family r."""
        if self.longest or layout.sequences != self.rows:
            raise ValueError(
                f"prefill takes a fresh state and one prefix for each row: {layout.sequences} prefixes, "
                f"{self.rows} rows of up to {self.longest} tokens"
            )
        if 0 in layout.host_lengths:
            raise ValueError("a prefix is empty: nothing can follow it; give it a start token at least")
        self.asking = self._ask(layout.owners, layout.positions)

    def _ask(self, owners: Int[Tensor, "rows"], positions: Int[Tensor, "rows"] | None) -> _Asking:
        counts = torch.bincount(owners, minlength=self._families)
        width = int(counts.max()) if len(owners) else 0
        places = torch.arange(len(owners), device="cpu") - (counts.cumsum(0) - counts)[owners]
        if positions is None:  # each sees what it saw, and itself
            slots = self._free(counts, owners, places)
            self._shown[torch.arange(self.rows, device="cpu"), slots] = 0
            last = self._shown.amax(dim=0).isfinite().nonzero()[-1] if self.rows else -1
            shown = self._shown[:, : _whole(int(last) + 1)]
        else:
            self._reserve(width)
            slots = positions
            before = torch.arange(_whole(width), device="cpu") <= positions.unsqueeze(1)
            shown = self._shown.new_zeros(before.shape).masked_fill_(~before, -torch.inf)
        cells = None
        if len(owners) != self._families * width:
            cells = owners * width + places
            shown = shown.new_zeros(self._families * width, shown.shape[1]).index_copy_(0, cells, shown)
        shown = shown.reshape(self._families, width, -1)
        where = owners.numpy(), slice(None), slots.numpy()
        return _Asking(len(owners), self._families, width, cells, where, shown, self._shown_across)

    def _free(
        self, counts: Int[Tensor, "families"], owners: Int[Tensor, "rows"], places: Int[Tensor, "rows"]
    ) -> Int[Tensor, "rows"]:
        """A slot for each row, the first ones that no row of its family sees."""
        own = (self._shown == 0).int()
        seen = own.new_zeros(self._families, own.shape[1]).index_add_(0, owners, own).clamp_(max=1)
        self._reserve(int((seen.sum(dim=1) + counts).max()) if len(owners) else 0)
        seen = F.pad(seen, (0, self._shown.shape[1] - seen.shape[1]))
        return seen.sort(dim=1, stable=True).indices[owners, places]

    def _reserve(self, most: int) -> None:
        """Never much more than is used: keys that lie close together are read twice as fast."""
        room = self._shown.shape[1]
        if most <= room:
            return
        more = _whole(max(room // 2, most - room))
        for grids in (self._keys, self._values):
            grids[:] = [F.pad(grid, (0, 0, 0, more)) for grid in grids]  # hidden, but it must be a number
        self._shown = F.pad(self._shown, (0, more), value=-torch.inf)

    def take_step(self) -> None:
        """The pass is over."""
        self.lengths, self.longest = self.lengths + 1, self.longest + 1

    def take_prefixes(self, layout: Layout) -> None:
        self.longest = layout.longest
        self.lengths = layout.host_offsets.diff().long()
        seen = torch.arange(self._shown.shape[1], device="cpu") < self.lengths.unsqueeze(1)
        self._shown = self._shown.new_zeros(seen.shape).masked_fill_(~seen, -torch.inf)

    def back(
        self,
        layer: int,
        queries: Float[Tensor, "rows heads d_head"],
        keys: Float[Tensor, "rows kv_heads d_head"],
        values: Float[Tensor, "rows kv_heads d_value"],
    ) -> Float[Tensor, "rows d_heads"]:
        asking, own_keys, own_values = self.asking, self._keys[layer], self._values[layer]
        own_keys.numpy()[asking.slots] = keys.numpy()
        own_values.numpy()[asking.slots] = values.numpy()
        return _attend(asking, queries, own_keys, own_values, asking.back)

    def across(
        self, layer: int, queries: Float[Tensor, "rows heads d_head"]
    ) -> Float[Tensor, "rows d_heads"]:
        keys, values = self._across_keys[layer], self._across_values[layer]
        return _attend(self.asking, queries, keys, values, self.asking.across)


def _whole(slots: int) -> int:
    return -(-max(slots, 1) // LANES) * LANES


def _in_grid(
    packed: Float[Tensor, "tokens kv_heads d"], layout: Layout
) -> Float[Tensor, "families kv_heads slots d"]:
    _, heads, width = packed.shape
    grid = packed.new_zeros(layout.sequences, _whole(layout.longest), heads, width)
    grid[layout.owners, layout.positions] = packed
    return grid.transpose(1, 2).contiguous()


def _attend(
    asking: _Asking,
    queries: Float[Tensor, "rows heads d_head"],
    keys: Float[Tensor, "families kv_heads room d_head"],
    values: Float[Tensor, "families kv_heads room d_value"],
    shown: Float[Tensor, "families #width slots"],
) -> Float[Tensor, "rows d_heads"]:
    """By the equation. The first slots of the room are asked, and those queries that share a key head are
    more queries to it."""
    d_head, slots = queries.shape[2], shown.shape[2]
    families, kv_heads, _, d_value = values.shape
    grid = asking.spread(queries).unflatten(2, (kv_heads, -1))  # families width kv_heads share d_head
    share = grid.shape[3]
    asked, seen = keys.narrow(2, 0, slots).transpose(2, 3), shown.unsqueeze(1)
    if share > 1:
        seen = seen.expand(-1, -1, asking.width, -1).repeat_interleave(share, dim=2)
    scores = _products(grid.transpose(1, 2).flatten(2, 3), asked)
    weights = torch.add(seen, scores, alpha=d_head**-0.5, out=scores).softmax(dim=3)
    found = scores.new_empty(families, asking.width, kv_heads, share, d_value)
    if share > 1:
        each = _products(weights, values.narrow(2, 0, slots))
        found.copy_(each.unflatten(2, (asking.width, share)).transpose(1, 2))
    else:
        _products(weights, values.narrow(2, 0, slots), into=found.squeeze(3).transpose(1, 2))
    return asking.gather(found.view(families * asking.width, -1))


def _products(
    left: Float[Tensor, "families kv_heads queries inner"],
    right: Float[Tensor, "families kv_heads inner outer"],
    into: Float[Tensor, "families kv_heads queries outer"] | None = None,
) -> Float[Tensor, "families kv_heads queries outer"]:
    """By numpy: its library takes small matrices as they lie; torch's puts each in another order first, which
    takes longer than to multiply them."""
    out = None if into is None else into.numpy()
    return torch.from_numpy(np.matmul(left.numpy(), right.numpy(), out=out))
