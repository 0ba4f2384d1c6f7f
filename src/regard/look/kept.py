"""What is kept of an attention: its queries and keys, head by head, and what else its scores hang on.

Heads are picked before anything is multiplied, and copied, so that the rest of the layer can go. A row that
decodes is a sequence of one query; its keys are copied from the cache, which the next step changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.layout import Layout
from regard.nn.attention import additive_scores
from regard.nn.masks import FULL, Mask
from regard.nn.multihead import AttentionInputs, CrossAttention, SelfAttention
from regard.nn.pooling import ScoredAttention
from regard.nn.state import SelfCache


@dataclass(frozen=True, slots=True, eq=False)
class Attended:
    """One attention, of the heads that are looked at."""

    heads: tuple[int, ...]
    """Their numbers, in the order of the tensors."""
    queries: Sequence[Tensor]
    """For each sequence [queries, heads, d_head]; keys and values alike. A row that decodes is a sequence."""
    keys: Sequence[Tensor]
    values: Sequence[Tensor] | None
    mask: Mask = FULL
    bias: Tensor | None = None
    scale: float | None = None
    direction: Tensor | None = None
    """Of an additive score."""
    score: nn.Module | None = None
    """In place of the scaled dot product; of all heads."""

    def scores(self, sequence: int) -> Tensor:
        q, k = wide(self.queries[sequence]), wide(self.keys[sequence])
        if self.direction is not None:
            return additive_scores(q[:, 0], k[:, 0], wide(self.direction)).unsqueeze(0)
        return self._asked(q, k).scores(0)

    def weights(self, sequence: int) -> Tensor:
        if self.direction is not None:
            return self.scores(sequence).softmax(dim=-1)
        q, k = wide(self.queries[sequence]), wide(self.keys[sequence])
        return self._asked(q, k, sequence).weights(0)

    def _asked(self, q: Tensor, k: Tensor, sequence: int = 0) -> AttentionInputs:
        mask = self.mask
        if mask.chosen is not None:
            mask = Mask(mask.before, mask.after, mask.chosen[sequence : sequence + 1])
        bias = None if self.bias is None else wide(self.bias)
        return AttentionInputs([q], [k], mask, bias, self.scale, self.score)


@dataclass(frozen=True, slots=True)
class Keeper:
    """Makes them, for some heads of an attention."""

    heads: tuple[int, ...]
    with_values: bool

    def of_self(
        self,
        own: SelfAttention,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        layout: Layout,
        mask: Mask,
        joined: Tensor | None = None,
    ) -> Attended:
        """From `SelfAttention.attend`."""
        shared = self._shared(own)
        return Attended(
            self.heads,
            layout.split(_picked(queries, self.heads)),
            layout.split(_picked(keys, shared)),
            layout.split(_picked(values, shared)) if self.with_values else None,
            mask,
            self._bias(own, layout.longest, queries.device),
            score=own.score,
        )

    def of_cache(self, own: SelfAttention, queries: Tensor, mask: Mask, cache: SelfCache) -> Attended:
        """From `SelfAttention.attend_cache`."""
        shared, whole = list(self._shared(own)), cache.whole
        lengths = [length + 1 for length in whole.lengths.tolist()]

        def rows(buffer: Tensor) -> list[Tensor]:
            copied = buffer[:, shared, : whole.longest + 1].detach().transpose(1, 2)
            return [row[:length] for row, length in zip(copied, lengths, strict=True)]

        return Attended(
            self.heads,
            _picked(queries, self.heads).split(1),
            rows(cache.keys),
            rows(cache.values) if self.with_values else None,
            mask,
            self._bias(own, whole.longest + 1, queries.device),
            score=own.score,
        )

    def of_cross(
        self,
        own: CrossAttention,
        rows: Sequence[int],
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        layout: Layout,
        memory_layout: Layout,
    ) -> Attended:
        """From `CrossAttention.attend`; `rows` are the lengths of the decoder's sequences, of which several
        may ask one source."""
        shared = self._shared(own)
        owners = _owners(rows, layout.host_lengths)
        key_parts = memory_layout.split(_picked(keys, shared))
        value_parts = memory_layout.split(_picked(values, shared)) if self.with_values else None
        return Attended(
            self.heads,
            _picked(queries, self.heads).split(list(rows)),
            [key_parts[owner] for owner in owners],
            None if value_parts is None else [value_parts[owner] for owner in owners],
            score=own.score,
        )

    @torch.no_grad()
    def of_scored(
        self,
        own: ScoredAttention,
        rows: Sequence[int] | None,
        queries: Tensor,
        prepared: Tensor,
        values: Tensor,
        query_layout: Layout,
        key_layout: Layout,
    ) -> Attended:
        """From the inputs of a `ScoredAttention`; without `rows`, each source is asked by one."""
        asked = queries if own.match is None else own.match(queries)
        lengths = query_layout.host_lengths if rows is None else rows
        owners = _owners(lengths, query_layout.host_lengths)
        key_parts = key_layout.split(prepared.detach().unsqueeze(1))
        value_parts = key_layout.split(values.detach().unsqueeze(1))
        return Attended(
            self.heads,
            asked.detach().unsqueeze(1).split(list(lengths)),
            [key_parts[owner] for owner in owners],
            [value_parts[owner] for owner in owners] if self.with_values else None,
            scale=1.0 if own.score == "dot" else None,
            direction=own.direction.detach().clone() if own.score == "additive" else None,
        )

    def _shared(self, own: SelfAttention | CrossAttention) -> tuple[int, ...]:
        """The heads of keys and values that serve the heads."""
        return tuple(head // (own.heads // own.kv_heads) for head in self.heads)

    def _bias(self, own: SelfAttention, longest: int, device: torch.device) -> Tensor | None:
        bias = own.distance_bias(max(longest, 1), device)
        return None if bias is None else bias.detach()[list(self.heads)]


def _picked(x: Tensor, heads: tuple[int, ...]) -> Tensor:
    """[tokens, heads, d] of these heads alone."""
    if heads == tuple(range(x.shape[1])):
        return x.detach()
    return x.detach()[:, list(heads)]


def _owners(rows: Sequence[int], counts: Sequence[int]) -> list[int]:
    """The source that each row asks. Rows have so many queries each, sources so many in all, in order."""
    if list(rows) == list(counts):
        return [*range(len(rows))]
    owners, source, left = [], 0, counts[0] if counts else 0
    for length in rows:
        while left < max(length, 1) and source + 1 < len(counts):
            source, left = source + 1, counts[source + 1]
        owners.append(source)
        left -= length
    return owners


def wide(x: Tensor) -> Tensor:
    """In float32 or finer; a tensor that autograd can go on from."""
    found = x.to(torch.promote_types(x.dtype, torch.float32))
    return found.clone() if found.is_inference() else found
