"""Attention with a free score and a free query, one head: over recurrent states, or to pool a sequence.

    output = sum_i softmax_i(s(q, k_i)) v_i

The query may be a fixed vector, a trained vector (one for all sequences: pooling), or a decoder's state.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.layout import Layout
from regard.nn import Stream
from regard.nn.attention import additive_scores, weigh
from regard.nn.kernels import attend_packed
from regard.settings.models import Query, Score

Pooled = Float[Tensor, "sequences d_model"]


class ScoredAttention(nn.Module):
    """Queries ask the keys of their own sequence. With the additive score they may differ in width; a dot
    product of different widths first brings the query to the key's (Luong et al. 2015, "general")."""

    def __init__(self, score: Score, *, d_query: int, d_key: int, d_hidden: int | None = None) -> None:
        super().__init__()
        self.score = score
        self.match: nn.Linear | None = None
        match score:
            case "additive":
                d_hidden = d_hidden or d_key
                self.match = nn.Linear(d_query, d_hidden, bias=False)
                self.project_keys = nn.Linear(d_key, d_hidden, bias=False)
                self.direction = nn.Parameter(torch.randn(d_hidden) / d_hidden**0.5)
            case "dot" | "scaled":
                if d_query != d_key:
                    self.match = nn.Linear(d_query, d_key, bias=False)

    def prepare(self, keys: Float[Tensor, "keys d_key"]) -> Float[Tensor, "keys d_score"]:
        """What the score needs of the keys, whatever the query: computed once when queries come one by
        one."""
        return self.project_keys(keys) if self.score == "additive" else keys

    def forward(
        self,
        queries: Float[Tensor, "queries d_query"],
        prepared: Float[Tensor, "keys d_score"],
        values: Float[Tensor, "keys d_value"],
        query_layout: Layout,
        key_layout: Layout,
    ) -> Float[Tensor, "queries d_value"]:
        """`prepared` are keys that went through `prepare`."""
        asked = queries if self.match is None else self.match(queries)
        if self.score == "additive":
            weights = self._additive_weights(asked, prepared, query_layout, key_layout)
            return query_layout.from_grid(weights @ key_layout.to_grid(values))
        q, k, v = (each.unsqueeze(1) for each in (asked, prepared, values))
        scale = 1.0 if self.score == "dot" else None
        return attend_packed(q, k, v, query_layout, key_layout, scale=scale).squeeze(1)

    def _additive_weights(
        self,
        asked: Float[Tensor, "queries d_score"],
        prepared: Float[Tensor, "keys d_score"],
        query_layout: Layout,
        key_layout: Layout,
    ) -> Float[Tensor, "sequences query key"]:
        scores = additive_scores(query_layout.to_grid(asked), key_layout.to_grid(prepared), self.direction)
        columns = torch.arange(key_layout.longest, device=scores.device)
        return weigh(scores, (columns < key_layout.lengths[:, None, None]).expand_as(scores))


class AttentionPooling(nn.Module):
    """One vector for each sequence: the tokens, weighed by a query."""

    query: Tensor | None

    def __init__(
        self, d_model: int, query: Query | Literal["state"] = "trained", score: Score = "scaled"
    ) -> None:
        """ "state" takes a query of each sequence's own with every call."""
        super().__init__()
        self.attention = ScoredAttention(score, d_query=d_model, d_key=d_model)
        self.drawn = query in ("trained", "fixed")
        """Whether its query begins at random."""
        match query:
            case "fixed":
                self.register_buffer("query", torch.randn(d_model))
            case "ones":
                self.register_buffer("query", torch.ones(d_model))
            case "trained":
                self.query = nn.Parameter(torch.randn(d_model))
            case "state":
                self.query = None

    def forward(self, x: Stream, layout: Layout, state: Pooled | None = None) -> Pooled:
        if (self.query is None) == (state is None):
            raise ValueError("give a state exactly when the pooling was built with query='state'")
        queries = self.query.expand(layout.sequences, -1) if self.query is not None else state
        one_each = Layout.singles(layout.sequences, x.device)
        return self.attention(queries, self.attention.prepare(x), x, one_each, layout)


class Pooler(nn.Module):
    """BERT's: tanh(W x_first + b), one vector for each sequence."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)

    def forward(self, x: Stream, layout: Layout) -> Pooled:
        return torch.tanh(self.dense(pool_first(x, layout)))


def pool_mean(x: Stream, layout: Layout) -> Pooled:
    """The mean over each sequence's tokens; zeros for an empty one."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # a sum in half precision may overflow
    sums = wide.new_zeros(layout.sequences, x.shape[1]).index_add(0, layout.owners, wide)
    return (sums / layout.lengths.clamp(min=1).unsqueeze(1)).to(x.dtype)


def pool_max(x: Stream, layout: Layout) -> Pooled:
    """The largest of each dimension over a sequence's tokens; zeros for an empty one."""
    owners = layout.owners.unsqueeze(1).expand_as(x)
    zeros = x.new_zeros(layout.sequences, x.shape[1])
    return zeros.scatter_reduce(0, owners, x, reduce="amax", include_self=False)


def pool_first(x: Stream, layout: Layout) -> Pooled:
    """The first token of each sequence; zeros for an empty one."""
    return _pick(x, layout.firsts, layout)


def pool_last(x: Stream, layout: Layout) -> Pooled:
    """The last token of each sequence; zeros for an empty one."""
    return _pick(x, layout.lasts, layout)


def pool_ends(x: Stream, layout: Layout) -> Pooled:
    """What a bidirectional encoder knows at its ends: the half that reads forwards at the last token, the
    half that reads backwards at the first; zeros for an empty sequence."""
    forwards, backwards = x.chunk(2, dim=1)
    return torch.cat([pool_last(forwards, layout), pool_first(backwards, layout)], dim=1)


def _pick(x: Tensor, places: Tensor, layout: Layout) -> Tensor:
    if layout.tokens == 0:
        return x.new_zeros(layout.sequences, x.shape[1])
    return x.index_select(0, places).masked_fill((layout.lengths == 0).unsqueeze(1), 0.0)
