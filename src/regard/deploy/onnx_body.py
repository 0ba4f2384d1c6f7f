"""Attention over padded inputs [batch, length], as ONNX wants them, by the model's own parts.

The stream keeps its shape [tokens, d_model], padding among the tokens: embedding, norms, projections and
feed-forward are used as they are. Attention alone is written anew, over a grid; what a query may not see gets
a score of LOWEST, which weighs exactly 0 beside any that it sees. (Not -inf: a query of the padding may see
nothing at all, and nan would spread.) tests/deploy/test_onnx_models.py holds padded and packed equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import ConfigError
from regard.nn.layers import Sublayer, TransformerLayer
from regard.nn.masks import Mask
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.positions import PositionTable, RelativeBias
from regard.nn.stacks import Stack
from regard.settings.models import DecoderConfig, EncoderConfig
from regard.settings.network import RecurrentConfig

LOWEST = -1e30
"""The score of what is hidden."""

Cache = tuple[Tensor, Tensor]
"""Keys and values, [batch, kv_heads, length, width]."""
Past = tuple[Tensor, Tensor, Tensor, Tensor]
"""Of one layer: its own keys and values, and those of the encoder's states."""


def check_config(side: str, config: EncoderConfig | DecoderConfig) -> None:
    """Refuse what has no padded computation here. `side` is its name in the message."""
    if isinstance(config.body, RecurrentConfig):
        raise ConfigError(
            f"{side}.body.kind='recurrent': not exported to ONNX, which runs Transformers only here; train "
            "one of preset='small', or use the model's own folder"
        )
    if config.body.attention.scored:
        raise ConfigError(
            f"{side}.body.attention.score={config.body.attention.score!r}: not exported to ONNX, which "
            "has the scaled dot product only here; train with model.score=scaled, or use the model's own "
            "folder"
        )


def prepare_positions(model: nn.Module, rows: int) -> None:
    """Tables of positions with this many rows, at least, and one for all layers: what is exported is a
    constant. They are caches, so the model stays what it is."""
    first: dict[type, Tensor] = {}
    for part in model.modules():
        if isinstance(part, PositionTable):
            if len(part.table) < rows or part.table.dtype != torch.float32:
                part.table = part.rows(max(rows, len(part.table))).float()
            kept = first.setdefault(type(part), part.table)
            if kept.shape == part.table.shape and torch.equal(kept, part.table):
                part.table = kept


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Where tokens stand in a padded batch."""

    batch: int
    places: Tensor
    """Of the queries, in each row: [query]."""
    keys: Tensor
    """1 where there is a key: [batch, key]."""

    def scores(self, mask: Mask, bias: "Distances | None") -> Tensor:
        """What is added to the scores, [batch or 1, heads or 1, query, key]."""
        distance = torch.arange(self.keys.shape[1])[None, :] - self.places[:, None]
        visible = self.keys[:, None, None, :] > 0
        if mask.before is not None:
            visible = visible & (distance >= -mask.before)
        if mask.after is not None:
            visible = visible & (distance <= mask.after)
        seen = torch.zeros(()) if bias is None else bias(distance)
        return torch.where(visible, seen, LOWEST)


def split(x: Tensor, batch: int) -> Tensor:
    """[tokens, heads, width] to [batch, heads, length, width]."""
    return x.unflatten(0, (batch, -1)).transpose(1, 2)


class Distances(nn.Module):
    """The bias of one attention, by distance. Where it is trained, a table of all that differ takes the place
    of the buckets' logarithms, which would have to be rounded alike."""

    table: Tensor

    def __init__(self, attention: SelfAttention) -> None:
        super().__init__()
        self.bias = attention.bias
        self.reach = 0
        if isinstance(self.bias, RelativeBias):
            self.reach = self.bias.reach
            every = torch.arange(-self.reach, self.reach + 1)
            with torch.no_grad():
                self.register_buffer("table", self.bias(every).T.contiguous(), persistent=False)

    def forward(self, distance: Tensor) -> Tensor:
        if self.reach:
            return self.table[distance.clamp(-self.reach, self.reach) + self.reach].permute(2, 0, 1)
        return cast(nn.Module, self.bias)(distance)


def attend(queries: Tensor, keys: Tensor, values: Tensor, scores: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(d_head) + scores) V over [batch, heads, length, width]; [tokens, heads, width]."""
    share = queries.shape[1] // keys.shape[1]
    if share > 1:
        keys, values = keys.repeat_interleave(share, dim=1), values.repeat_interleave(share, dim=1)
    heads = F.scaled_dot_product_attention(queries, keys, values, attn_mask=scores)
    return heads.transpose(1, 2).flatten(0, 1)


class PaddedStack(nn.Module):
    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.stack = stack
        self.biases = nn.ModuleList(
            nn.Identity() if layer.attention.bias is None else Distances(layer.attention)
            for layer in stack.each
        )

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        grid: Grid,
        past: Sequence[Cache] | None = None,
        crosses: Sequence[Cache] | None = None,
        hidden: Tensor | None = None,
    ) -> tuple[Tensor, list[Cache]]:
        """The stream, and keys and values of each layer, those of the past before them. `crosses` are those
        of the memory, layer by layer, and `hidden` what is added to the scores there."""
        kept: list[Cache] = []
        scores: dict[tuple[int | None, int | None], Tensor] = {}

        def ways(index: int, layer: TransformerLayer, mask: Mask) -> tuple[Sublayer, Sublayer | None]:
            own, reach = self.biases[index], (mask.before, mask.after)
            if isinstance(own, Distances):
                added = grid.scores(mask, own)
            else:
                added = scores[reach] if reach in scores else grid.scores(mask, None)
                scores[reach] = added
            before = None if past is None else past[index]
            attend_back = partial(_attend_back, layer.attention, positions, grid, added, before, kept)
            if crosses is None or hidden is None:
                return attend_back, None
            attention = cast(CrossAttention, layer.cross_attention)
            return attend_back, partial(_attend_across, attention, grid, crosses[index], hidden)

        return self.stack.through(x, ways), kept

    def memory(self, states: Tensor) -> list[Cache]:
        """Keys and values of an encoder's states [batch, length, d_model], layer by layer."""
        found = []
        for layer in self.stack.each:
            keys, values = cast(CrossAttention, layer.cross_attention).keys_values(states.flatten(0, 1))
            found.append((split(keys, states.shape[0]), split(values, states.shape[0])))
        return found


def _attend_back(
    attention: SelfAttention,
    positions: Tensor,
    grid: Grid,
    added: Tensor,
    past: Cache | None,
    kept: list[Cache],
    x: Tensor,
) -> Tensor:
    """Keys and values, with those of the past, go to `kept`."""
    projected = attention.queries_keys_values(x, positions, 0)
    queries, keys, values = (split(each, grid.batch) for each in projected)
    if past is not None:
        keys, values = torch.cat([past[0], keys], dim=2), torch.cat([past[1], values], dim=2)
    kept.append((keys, values))
    return attention.merge(attend(queries, keys, values, added))


def _attend_across(attention: CrossAttention, grid: Grid, cross: Cache, hidden: Tensor, x: Tensor) -> Tensor:
    return attention.merge(attend(split(attention.queries(x), grid.batch), *cross, hidden))
