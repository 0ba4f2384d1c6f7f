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

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

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
) -> Float[Tensor, "query heads d_value"]:
    """softmax(Q K^T / sqrt(d_head) + bias) V, head by head. `dropout` drops weights, and always applies
    when it is given: the caller knows whether it is training."""
    scores = dot_scores(queries, keys, scale)
    weights = weigh(scores if bias is None else scores + bias, visible)
    values = values.repeat_interleave(queries.shape[1] // values.shape[1], dim=1)
    return torch.einsum("hqk,khd->qhd", F.dropout(weights, dropout) if dropout else weights, values)


def self_attend(x: Float[Tensor, "query d_model"]) -> Float[Tensor, "query d_model"]:
    """Self-attention with no parameters: W = softmax(x x^T), y = W x. Permuting x permutes y alike."""
    tokens = x.unsqueeze(1)
    return attend(tokens, tokens, tokens, scale=1.0).squeeze(1)
