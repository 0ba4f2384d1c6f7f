"""Attention: a weighted sum of values, the weights from how well each key answers a query.

    output = sum_i s(q, k_i) v_i        s normalised over the visible keys by softmax

This file is the equation, for one sequence at a time, every weight visible; written to be read. The scores:

    additive    s(q, k) = v_a . tanh(W_a [k ; q])           Bahdanau et al. 2015
    dot         s(q, k) = q . k                             Luong et al. 2015
    scaled dot  s(q, k) = q . k / sqrt(d_head)              Vaswani et al. 2017, eq. 1

`regard.nn.kernels` gives the same values for a packed batch from fused kernels; tests/nn/test_kernels.py
holds the two equal, gradients included.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.settings.network import SCORES

Queries = Float[Tensor, "query heads d_head"]
Keys = Float[Tensor, "key kv_heads d_head"]
Values = Float[Tensor, "key kv_heads d_value"]
Scores = Float[Tensor, "heads query key"]


def dot_scores(queries: Queries, keys: Keys, scale: float | None = None) -> Scores:
    """q . k times `scale`, which is 1 / sqrt(d_head) unless given: for q and k of unit variance the scores
    then have unit variance too, whatever the width. Each key head serves heads / kv_heads query heads."""
    scale = 1 / math.sqrt(queries.shape[-1]) if scale is None else scale
    keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], dim=1)
    return torch.einsum("qhd,khd->hqk", queries, keys) * scale


def additive_scores(
    queries: Float[Tensor, "*batch query d_hidden"],
    keys: Float[Tensor, "*batch key d_hidden"],
    direction: Float[Tensor, "d_hidden"],
) -> Float[Tensor, "*batch query key"]:
    """v_a . tanh(k + q) for queries and keys that went through their halves of W_a already: W_a [k ; q] is
    W_k k + W_q q, so each token is projected once and not once per pair."""
    return torch.tanh(queries.unsqueeze(-2) + keys.unsqueeze(-3)) @ direction


class DotScore(nn.Module):
    def __init__(self, scale: float | None = None) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, queries: Queries, keys: Keys) -> Scores:
        return dot_scores(queries, keys, self.scale)


class AdditiveScore(nn.Module):
    """v_a . tanh(W_q q + W_k k), each head with its own."""

    def __init__(self, heads: int, d_head: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(heads, d_head, d_head) / d_head**0.5)
        self.key = nn.Parameter(torch.randn(heads, d_head, d_head) / d_head**0.5)
        self.direction = nn.Parameter(torch.randn(heads, d_head) / d_head**0.5)

    def forward(self, queries: Queries, keys: Keys) -> Scores:
        asked = torch.einsum("qhd,hde->hqe", queries, self.query)
        held = torch.einsum("khd,hde->hke", keys, self.key)
        return torch.einsum("hqke,he->hqk", torch.tanh(asked[:, :, None] + held[:, None]), self.direction)


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """How queries and keys are compared.

    >>> class Distance(torch.nn.Module):
    ...     def forward(self, queries, keys):
    ...         return -torch.cdist(queries.transpose(0, 1), keys.transpose(0, 1))
    >>> score = regard.Score(name="distance", build=lambda heads, d_head: Distance())
    >>> score.build(4, 8)(torch.randn(3, 4, 8), torch.randn(5, 4, 8)).shape
    torch.Size([4, 3, 5])
    """

    name: str
    build: Callable[[int, int], nn.Module]
    """build(heads, d_head): forward(queries [query, heads, d_head], keys [key, heads, d_head]) gives scores
    [heads, query, key], before the softmax. What it has for each head lies along the first axis, so that
    heads can be pruned."""


SCORES.settle(
    Score,
    Score(name="scaled", build=lambda heads, d_head: DotScore()),
    Score(name="dot", build=lambda heads, d_head: DotScore(1.0)),
    Score(name="additive", build=AdditiveScore),
)


def weigh(
    scores: Float[Tensor, "*batch query key"], visible: Bool[Tensor, "*#batch query key"] | None = None
) -> Float[Tensor, "*batch query key"]:
    """Softmax over the visible keys: weights are 0 or more, rows sum to 1, and hidden keys weigh exactly 0.
    A query that sees no key gets zeros, and zero gradients."""
    if visible is None:
        return scores.softmax(dim=-1)
    blind = ~visible.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(~(visible | blind), -math.inf).softmax(dim=-1)
    return weights.masked_fill(~visible, 0.0)


def attend(
    queries: Queries,
    keys: Keys,
    values: Values,
    visible: Bool[Tensor, "query key"] | None = None,
    *,
    bias: Scores | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    score: Callable[[Queries, Keys], Scores] | None = None,
) -> Float[Tensor, "query heads d_value"]:
    """softmax(Q K^T / sqrt(d_head) + bias) V, head by head, or with another `score`. `dropout` drops weights,
    and always applies when it is given: the caller knows whether it is training."""
    scores = dot_scores(queries, keys, scale) if score is None else scored(queries, keys, score)
    weights = weigh(scores if bias is None else scores + bias, visible)
    values = values.repeat_interleave(queries.shape[1] // values.shape[1], dim=1)
    return torch.einsum("hqk,khd->qhd", F.dropout(weights, dropout) if dropout else weights, values)


def scored(queries: Queries, keys: Keys, score: Callable[[Queries, Keys], Scores]) -> Scores:
    """By a score of its own; keys that several heads share are there for each."""
    return score(queries, keys.repeat_interleave(queries.shape[1] // keys.shape[1], dim=1))


def self_attend(x: Float[Tensor, "query d_model"]) -> Float[Tensor, "query d_model"]:
    """Self-attention with no parameters: W = softmax(x x^T), y = W x. Permuting x permutes y alike."""
    tokens = x.unsqueeze(1)
    return attend(tokens, tokens, tokens, scale=1.0).squeeze(1)
