"""Multi-head attention (Vaswani et al. 2017, 3.2.2): attentions side by side, each on its own projection.

    head_h = softmax(Q_h K_h^T / sqrt(d_head)) V_h        Q = X W_Q,  K = M W_K,  V = M W_V
    output = [head_1 ; ... ; head_H] W_O                  W_O in R^(heads d_value, d_model)

With a `scale` of its own, s Q K^T takes the place of Q K^T / sqrt(d_head): queries are multiplied.

Self-attention: M = X. Cross-attention: X from the decoder, M from the encoder. The projections that read
the same input are one matrix. `forward` runs the fastest kernel; `weights` asks again, by the equation, for
what it used. All paths go through `attend` or `attend_cache`, where `regard.look` listens.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layout import Layout
from regard.nn import Stream
from regard.nn.attention import dot_scores, scored, weigh
from regard.nn.grouped import takes_distances
from regard.nn.kernels import Choice, attend_cached, attend_packed, choose_kernel
from regard.nn.masks import FULL, Mask
from regard.nn.positions import RelativeBias
from regard.nn.state import SelfCache
from regard.settings.network import SCORES, AttentionConfig

Queries = Float[Tensor, "tokens heads d_head"]
Keys = Float[Tensor, "tokens kv_heads d_head"]
Values = Float[Tensor, "tokens kv_heads d_value"]
Joined = Float[Tensor, "tokens all_heads d_head"]
Weights = Float[Tensor, "heads query key"]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionInputs:
    """Queries and the keys that they ask, sequence by sequence: what the weights are, by the equation. Where
    there are fewer queries than keys, they stand at the end."""

    queries: Sequence[Float[Tensor, "_query heads d_head"]]
    keys: Sequence[Float[Tensor, "_key kv_heads d_head"]]
    mask: Mask = FULL
    bias: Float[Tensor, "heads distances"] | None = None
    """For each distance, key minus query, from -(n - 1) to n - 1."""
    scale: float | None = None
    score: nn.Module | None = None
    """In place of the scaled dot product."""

    def scores(self, sequence: int) -> Float[Tensor, "heads _query _key"]:
        q, k = self.queries[sequence], self.keys[sequence]
        scores = dot_scores(q, k, self.scale) if self.score is None else scored(q, k, self.score)
        if self.bias is None:
            return scores
        places = torch.arange(len(q), device=q.device) + (len(k) - len(q))
        distance = torch.arange(len(k), device=q.device) - places[:, None]
        return scores + self.bias[:, distance + self.bias.shape[1] // 2]

    def weights(self, sequence: int) -> Float[Tensor, "heads _query _key"]:
        scores = self.scores(sequence)
        if self.mask.before is None and self.mask.after is None and self.mask.chosen is None:
            return weigh(scores)
        _, queries, keys = scores.shape
        visible = self.mask.visible(queries, keys, sequence, scores.device)
        return weigh(scores, visible.expand_as(scores))


class _Heads(nn.Module):
    """What self- and cross-attention share: the widths, the splitting into heads, the output matrix."""

    def __init__(self, d_model: int, config: AttentionConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.kv_heads = config.kv_heads or config.heads
        self.d_head = config.width(d_model)
        self.d_value = config.d_value or self.d_head
        self.kernel = config.kernel
        self.dropout = config.dropout
        self.d_queries = self.heads * self.d_head
        self.d_keys = self.kv_heads * self.d_head
        self.d_values = self.kv_heads * self.d_value
        self.output = nn.Linear(self.heads * self.d_value, d_model, bias=config.biased_output)
        self.score = SCORES[str(config.score)].build(self.heads, self.d_head) if config.scored else None
        self.rescale = 1.0 if config.scale is None else config.scale * math.sqrt(self.d_head)
        """What queries are multiplied by, for scores of another scale than 1 / sqrt(d_head), which all
        kernels have."""

    @property
    def active_dropout(self) -> float:
        return self.dropout if self.training else 0.0

    def rescaled(self, queries: Queries) -> Queries:
        return queries if self.rescale == 1 else queries * self.rescale

    def split(self, x: Float[Tensor, "tokens width"], heads: int) -> Float[Tensor, "tokens heads d"]:
        return x.unflatten(-1, (heads, -1))

    def merge(self, heads: Float[Tensor, "tokens heads d_value"]) -> Stream:
        return self.output(heads.flatten(1))


class SelfAttention(_Heads):
    """Every token asks, and is asked by, the tokens of its own sequence that the mask shows it."""

    def __init__(
        self,
        d_model: int,
        config: AttentionConfig,
        *,
        rotary: nn.Module | None = None,
        bias: nn.Module | None = None,
        norm: Callable[[int], nn.Module] | None = None,
    ) -> None:
        """`norm` builds those of queries and keys, if they are normalised, for the width of a head."""
        super().__init__(d_model, config)
        self.project = nn.Linear(d_model, self.d_queries + self.d_keys + self.d_values, bias=config.bias)
        self.rotary = rotary
        self.bias = bias
        self.query_norm = None if norm is None else norm(self.d_head)
        self.key_norm = None if norm is None else norm(self.d_head)

    def forward(self, x: Stream, layout: Layout, mask: Mask = FULL) -> Stream:
        projected = self.project(x)
        parts = self._cut(projected, layout.positions, layout.longest)
        return self.attend(*parts, layout, mask, self._joined(projected))

    def prefill(self, x: Stream, layout: Layout, mask: Mask, cache: SelfCache) -> Stream:
        """The same, and the keys and values are kept: sequence r in row r of the cache."""
        queries, keys, values = self.queries_keys_values(x, layout.positions, layout.longest)
        cache.write(*self._widened(keys, values, cache), layout)
        return self.attend(queries, keys, values, layout, mask)

    def attend(
        self,
        queries: Queries,
        keys: Keys,
        values: Values,
        layout: Layout,
        mask: Mask,
        joined: Joined | None = None,
    ) -> Stream:
        """`joined` is what all three were cut from, if they still are as they were cut."""
        heads = attend_packed(
            queries,
            keys,
            values,
            layout,
            layout,
            mask,
            distances=self.distance_bias(layout.longest, queries.device),
            dropout=self.active_dropout,
            kernel=self.kernel,
            joined=joined,
            score=self.score,
        )
        return self.merge(heads)

    def step(
        self, x: Float[Tensor, "rows d_model"], mask: Mask, cache: SelfCache
    ) -> Float[Tensor, "rows d_model"]:
        """One new token in each row, behind those in the cache."""
        whole = cache.whole
        queries, keys, values = self.queries_keys_values(x, whole.lengths, whole.longest + 1)
        cache.append(*self._widened(keys, values, cache))
        return self.attend_cache(queries, mask, cache)

    def attend_cache(
        self, queries: Float[Tensor, "rows heads d_head"], mask: Mask, cache: SelfCache
    ) -> Float[Tensor, "rows d_model"]:
        """The queries of the tokens whose keys and values were written last."""
        whole = cache.whole
        # What lies before every row's window is not read; rows of one length see all the rest.
        first = 0 if mask.before is None else max(0, whole.shortest - mask.before)
        places, before = (None, None) if whole.level else (whole.lengths, mask.before)
        heads = attend_cached(
            queries,
            *cache.read(self.kv_heads, first),
            places - first if places is not None and first else places,
            before=before,
            bias=self.bias,
            score=self.score,
        )
        return self.merge(heads)

    def _widened(self, keys: Keys, values: Values, cache: SelfCache) -> tuple[Tensor, Tensor]:
        """With as many heads as the cache has: those of the layer that has most."""
        missing = cache.keys.shape[1] - self.kv_heads
        if not missing:
            return keys, values
        return F.pad(keys, (0, 0, 0, missing)), F.pad(values, (0, 0, 0, missing))

    def explain(self, x: Stream, mask: Mask = FULL) -> Choice:
        """Which kernel such an input gets, and why."""
        return choose_kernel(
            device=x.device.type,
            dtype=x.dtype,
            d_head=self.d_head,
            d_value=self.d_value,
            mask=mask,
            biased=self.bias is not None,
            compiled=takes_distances(x),
            dropout=self.active_dropout,
            wanted=self.kernel if self.score is None else "equation",
        )

    def queries_keys_values(
        self, x: Stream, positions: Int[Tensor, "tokens"], longest: int
    ) -> tuple[Queries, Keys, Values]:
        return self._cut(self.project(x), positions, longest)

    def _joined(self, projected: Float[Tensor, "tokens width"]) -> Joined | None:
        if self.d_value != self.d_head or self.rotary is not None or self.query_norm is not None:
            return None
        if self.rescale != 1:
            return None
        return projected.view(-1, self.heads + 2 * self.kv_heads, self.d_head)

    def _cut(
        self, projected: Float[Tensor, "tokens width"], positions: Int[Tensor, "tokens"], longest: int
    ) -> tuple[Queries, Keys, Values]:
        if self.d_value == self.d_head:  # one cut for all three
            counts = [self.heads, self.kv_heads, self.kv_heads]
            queries, keys, values = projected.view(-1, sum(counts), self.d_head).split(counts, dim=1)
        else:
            queries, keys, values = projected.split([self.d_queries, self.d_keys, self.d_values], dim=-1)
            queries, keys = self.split(queries, self.heads), self.split(keys, self.kv_heads)
            values = self.split(values, self.kv_heads)
        if self.query_norm is not None and self.key_norm is not None:
            queries, keys = self.query_norm(queries), self.key_norm(keys)
        if self.rotary is not None:
            queries, keys = self.rotary(queries, positions, longest), self.rotary(keys, positions, longest)
        return self.rescaled(queries), keys, values

    def distance_bias(self, longest: int, device: torch.device) -> Float[Tensor, "heads distances"] | None:
        """What is added to scores by distance, key minus query, from 1 - longest to longest - 1."""
        if isinstance(self.bias, RelativeBias):
            return self.bias.between(longest, device)
        return None if self.bias is None else self.bias(torch.arange(1 - longest, longest, device=device))

    def weights(self, x: Stream, layout: Layout, mask: Mask = FULL) -> list[Weights]:
        """How much each token attends to each other, one matrix a sequence."""
        queries, keys, _ = self.queries_keys_values(x, layout.positions, layout.longest)
        bias = self.distance_bias(layout.longest, x.device)
        asked = AttentionInputs(layout.split(queries), layout.split(keys), mask, bias, score=self.score)
        return [asked.weights(sequence) for sequence in range(layout.sequences)]


class CrossAttention(_Heads):
    """Tokens of the decoder ask the encoder's tokens of the same sentence pair."""

    def __init__(self, d_model: int, config: AttentionConfig, *, d_memory: int | None = None) -> None:
        super().__init__(d_model, config)
        self.project_queries = nn.Linear(d_model, self.d_queries, bias=config.bias)
        self.project_memory = nn.Linear(d_memory or d_model, self.d_keys + self.d_values, bias=config.bias)

    def forward(
        self,
        x: Stream,
        layout: Layout,
        memory: Float[Tensor, "memory d_memory"],
        memory_layout: Layout,
    ) -> Stream:
        return self.ask(x, layout, *self.keys_values(memory), memory_layout)

    def ask(
        self,
        x: Stream,
        layout: Layout,
        keys: Float[Tensor, "memory kv_heads d_head"],
        values: Float[Tensor, "memory kv_heads d_value"],
        memory_layout: Layout,
    ) -> Stream:
        """The same with keys and values that were projected before."""
        return self.attend(self.queries(x), keys, values, layout, memory_layout)

    def attend(
        self,
        queries: Queries,
        keys: Float[Tensor, "memory kv_heads d_head"],
        values: Float[Tensor, "memory kv_heads d_value"],
        layout: Layout,
        memory_layout: Layout,
    ) -> Stream:
        heads = attend_packed(
            queries,
            keys,
            values,
            layout,
            memory_layout,
            dropout=self.active_dropout,
            kernel=self.kernel,
            score=self.score,
        )
        return self.merge(heads)

    def queries(self, x: Stream) -> Queries:
        return self.rescaled(self.split(self.project_queries(x), self.heads))

    def keys_values(
        self, memory: Float[Tensor, "memory d_memory"]
    ) -> tuple[Float[Tensor, "memory kv_heads d_head"], Float[Tensor, "memory kv_heads d_value"]]:
        keys, values = self.project_memory(memory).split([self.d_keys, self.d_values], dim=-1)
        return self.split(keys, self.kv_heads), self.split(values, self.kv_heads)

    def weights(
        self,
        x: Stream,
        layout: Layout,
        memory: Float[Tensor, "memory d_memory"],
        memory_layout: Layout,
    ) -> list[Weights]:
        """How much each token of the decoder attends to each of the encoder's, one matrix a sentence pair."""
        keys, _ = self.keys_values(memory)
        asked = AttentionInputs(layout.split(self.queries(x)), memory_layout.split(keys), score=self.score)
        return [asked.weights(sequence) for sequence in range(layout.sequences)]
