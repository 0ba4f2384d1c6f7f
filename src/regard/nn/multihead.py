"""Multi-head attention (Vaswani et al. 2017, 3.2.2): attentions side by side, each on its own projection.

    head_h = softmax(Q_h K_h^T / sqrt(d_head)) V_h        Q = X W_Q,  K = M W_K,  V = M W_V
    output = [head_1 ; ... ; head_H] W_O                  W_O in R^(heads d_value, d_model)

Self-attention: M = X. Cross-attention: X from the decoder, M from the encoder. The projections that read
the same input are one matrix. `forward` runs the fastest kernel; `weights` asks again, by the equation, for
what it used.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.config import check_choices
from regard.layout import Layout
from regard.nn import Stream
from regard.nn.attention import dot_scores, weigh
from regard.nn.kernels import Choice, Kernel, attend_cached, attend_packed, choose_kernel
from regard.nn.masks import FULL, Mask
from regard.nn.positions import AlibiBias, RelativeBias, RotaryPositions
from regard.nn.state import SelfCache

Queries = Float[Tensor, "tokens heads d_head"]
Keys = Float[Tensor, "tokens kv_heads d_head"]
Values = Float[Tensor, "tokens kv_heads d_value"]
Weights = Float[Tensor, "heads query key"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionConfig:
    heads: int = 8
    """Attentions side by side."""
    kv_heads: int | None = None
    """Heads of keys and values, each shared by heads / kv_heads queries; as many as heads unless given."""
    d_head: int | None = None
    """Width of a query and a key; d_model / heads unless given."""
    d_value: int | None = None
    """Width of a value; d_head unless given."""
    bias: bool = True
    """Biases of the four projections. The paper writes none; every published checkpoint has them."""
    dropout: float = 0.0
    """Share of the attention weights dropped in training. The fused kernels cannot: it costs speed."""
    kernel: Kernel | Literal["auto"] = "auto"
    """Which kernel computes it; auto takes the fastest that can."""

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("heads", "kv_heads", "d_head", "d_value"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"attention.{name}={value} must be at least 1")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(
                f"attention.heads={self.heads} cannot share kv_heads={self.kv_heads}: "
                f"choose a divisor of {self.heads}"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"attention.dropout={self.dropout} must be in [0, 1)")

    def width(self, d_model: int) -> int:
        """d_head for a model of this width."""
        if self.d_head is None and d_model % self.heads:
            raise ValueError(
                f"d_model={d_model} cannot be split over heads={self.heads}: "
                f"choose a multiple of {self.heads}, or set attention.d_head"
            )
        return self.d_head or d_model // self.heads


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
        self.output = nn.Linear(self.heads * self.d_value, d_model, bias=config.bias)

    @property
    def active_dropout(self) -> float:
        return self.dropout if self.training else 0.0

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
        rotary: RotaryPositions | None = None,
        bias: RelativeBias | AlibiBias | None = None,
    ) -> None:
        super().__init__(d_model, config)
        self.project = nn.Linear(d_model, self.d_queries + self.d_keys + self.d_values, bias=config.bias)
        self.rotary = rotary
        self.bias = bias

    def forward(self, x: Stream, layout: Layout, mask: Mask = FULL) -> Stream:
        return self._attend(*self.queries_keys_values(x, layout.positions, layout.longest), layout, mask)

    def prefill(self, x: Stream, layout: Layout, mask: Mask, cache: SelfCache) -> Stream:
        """The same, and the keys and values are kept: sequence r in row r of the cache."""
        queries, keys, values = self.queries_keys_values(x, layout.positions, layout.longest)
        cache.write(keys, values, layout)
        return self._attend(queries, keys, values, layout, mask)

    def _attend(self, queries: Queries, keys: Keys, values: Values, layout: Layout, mask: Mask) -> Stream:
        heads = attend_packed(
            queries,
            keys,
            values,
            layout,
            layout,
            mask,
            bias=self.position_bias(layout.longest, queries.device),
            dropout=self.active_dropout,
            kernel=self.kernel,
        )
        return self.merge(heads)

    def step(
        self, x: Float[Tensor, "rows d_model"], mask: Mask, cache: SelfCache
    ) -> Float[Tensor, "rows d_model"]:
        """One new token in each row, behind those in the cache."""
        whole = cache.whole
        queries, keys, values = self.queries_keys_values(x, whole.lengths, whole.longest + 1)
        cache.append(keys, values)
        # What lies before every row's window is not read; rows of one length see all the rest.
        first = 0 if mask.before is None else max(0, whole.shortest - mask.before)
        places, before = (None, None) if whole.level else (whole.lengths, mask.before)
        heads = attend_cached(
            queries,
            cache.keys[:, :, first : whole.longest + 1],
            cache.values[:, :, first : whole.longest + 1],
            places - first if places is not None and first else places,
            before=before,
            bias=self.bias,
        )
        return self.merge(heads)

    def explain(self, x: Stream, mask: Mask = FULL) -> Choice:
        """Which kernel such an input gets, and why."""
        return choose_kernel(
            device=x.device.type,
            dtype=x.dtype,
            d_head=self.d_head,
            d_value=self.d_value,
            mask=mask,
            biased=self.bias is not None,
            dropout=self.active_dropout,
            wanted=self.kernel,
        )

    def queries_keys_values(
        self, x: Stream, positions: Int[Tensor, "tokens"], longest: int
    ) -> tuple[Queries, Keys, Values]:
        queries, keys, values = self.project(x).split([self.d_queries, self.d_keys, self.d_values], dim=-1)
        queries, keys = self.split(queries, self.heads), self.split(keys, self.kv_heads)
        if self.rotary is not None:
            queries, keys = self.rotary(queries, positions, longest), self.rotary(keys, positions, longest)
        return queries, keys, self.split(values, self.kv_heads)

    def position_bias(self, longest: int, device: torch.device) -> Float[Tensor, "heads query key"] | None:
        if self.bias is None:
            return None
        places = torch.arange(longest, device=device)
        return self.bias(places[None, :] - places[:, None])

    def weights(self, x: Stream, layout: Layout, mask: Mask = FULL) -> list[Weights]:
        """How much each token attends to each other, one matrix a sequence."""
        queries, keys, _ = self.queries_keys_values(x, layout.positions, layout.longest)
        bias = self.position_bias(layout.longest, x.device)
        weights = []
        for sequence, (q, k) in enumerate(zip(layout.split(queries), layout.split(keys), strict=True)):
            scores = dot_scores(q, k)
            if bias is not None:
                scores = scores + bias[:, : len(q), : len(k)]
            weights.append(weigh(scores, mask.visible(len(q), len(k), sequence, x.device).expand_as(scores)))
        return weights


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
        queries = self.split(self.project_queries(x), self.heads)
        heads = attend_packed(
            queries, keys, values, layout, memory_layout, dropout=self.active_dropout, kernel=self.kernel
        )
        return self.merge(heads)

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
        queries = self.split(self.project_queries(x), self.heads)
        keys, _ = self.keys_values(memory)
        return [
            weigh(dot_scores(q, k))
            for q, k in zip(layout.split(queries), memory_layout.split(keys), strict=True)
        ]
