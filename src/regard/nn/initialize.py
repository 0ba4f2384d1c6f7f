"""All initial values, in one place.

    xavier   U(-a, a), a = sqrt(6 / (fan_in + fan_out)), for each projection by itself       the paper's code
    normal   N(0, std)                                                                        BERT, GPT-2

Norms start as the identity and biases at 0. Embeddings that the model multiplies by sqrt(d_model) start at
d_model^-0.5, so that both sides of a tied matrix see values of size 1, and learned positions beside them in
proportion. An LSTM's forget gate starts open.
"""

import math

import torch
from torch import Tensor, nn

from regard.nn.embedding import Embedding, VocabularyHead
from regard.nn.layers import BatchNorm, FeedForward
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.pooling import AttentionPooling, ScoredAttention
from regard.nn.positions import LearnedPositions
from regard.nn.stacks import Stack
from regard.settings.network import InitialConfig


@torch.no_grad()
def initialize(model: nn.Module, config: InitialConfig) -> None:
    """Give every parameter its first value, from torch's random state: seed it before."""
    for module in model.modules():
        match module:
            case nn.Linear():
                _fill(module, config)
            case nn.LayerNorm() | nn.RMSNorm() | BatchNorm():
                nn.init.ones_(module.weight)
                if not isinstance(module, nn.RMSNorm) and module.bias is not None:
                    nn.init.zeros_(module.bias)
            case VocabularyHead():
                if not module.tied:
                    _fill_matrix(module.weight, config)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            case nn.LSTM() | nn.GRU() | nn.RNN():
                _fill_recurrent(module)
            case nn.Embedding():
                nn.init.normal_(module.weight, std=config.std)
            case _:
                pass
    for module in model.modules():  # what knows better than its own parts do
        match module:
            case Embedding() if module.scale != 1:
                nn.init.normal_(module.tokens.weight, std=1 / module.scale)
                if isinstance(module.positions, LearnedPositions):
                    nn.init.normal_(module.positions.table.weight, std=config.std * module.scale)
            case SelfAttention():
                _fill(module.project, config, [module.d_queries, module.d_keys, module.d_values])
            case CrossAttention():
                _fill(module.project_memory, config, [module.d_keys, module.d_values])
            case FeedForward() if module.gated:
                _fill(module.inner, config, [module.inner.out_features // 2] * 2)
            case ScoredAttention() if module.score == "additive":
                nn.init.normal_(module.direction, std=len(module.direction) ** -0.5)
            case AttentionPooling() if module.query is not None and module.drawn:
                nn.init.normal_(module.query, std=1.0)
            case _:
                pass
    if config.shrink_residuals:
        _shrink_residuals(model)


def _fill(linear: nn.Linear, config: InitialConfig, parts: list[int] | None = None) -> None:
    """`parts` are the rows of projections that share one matrix: each gets the values it would have alone."""
    for weight in linear.weight.split(parts or [linear.out_features]):
        _fill_matrix(weight, config)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def _fill_matrix(weight: Tensor, config: InitialConfig) -> None:
    match config.scheme:
        case "xavier":
            nn.init.xavier_uniform_(weight)
        case "normal":
            nn.init.normal_(weight, std=config.std)


def _fill_recurrent(cells: nn.LSTM | nn.GRU | nn.RNN) -> None:
    gates = {"LSTM": 4, "GRU": 3}.get(cells.mode, 1)
    for name, values in cells.named_parameters():
        if name.startswith("weight_hh"):
            for gate in values.chunk(gates):
                nn.init.orthogonal_(gate)
        elif name.startswith("weight_ih"):
            for gate in values.chunk(gates):
                nn.init.xavier_uniform_(gate)
        else:
            nn.init.zeros_(values)
            if isinstance(cells, nn.LSTM) and name.startswith("bias_ih"):
                _forget_gate(values).fill_(1.0)


def _forget_gate(bias: Tensor) -> Tensor:
    """torch orders an LSTM's gates: input, forget, cell, output."""
    return bias.chunk(4)[1]


def _shrink_residuals(model: nn.Module) -> None:
    for stack in model.modules():
        if not isinstance(stack, Stack):
            continue
        writers = [
            part.output.weight
            for part in stack.modules()
            if isinstance(part, SelfAttention | CrossAttention | FeedForward)
        ]
        for weight in writers:
            weight.div_(math.sqrt(len(writers)))
