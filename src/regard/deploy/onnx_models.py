"""Whole models over padded inputs, for ONNX: what each takes and gives has the names of its graph.

    packed, here     padded, there
    ids [tokens]     input_ids [batch, length] and attention_mask, 1 where there is a token
    layout           positions count the 1s of a row, so padding may stand on either side

tests/deploy/test_onnx_models.py holds both equal.
"""

import math
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.deploy.onnx_body import LOWEST, Cache, Grid, PaddedStack, Past
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.headed import Headed
from regard.models.heads import ClassifyHead, EmbedHead, MaskedHead, Pool, SpanHead
from regard.nn.pooling import AttentionPooling, Pooler
from regard.nn.stacks import Stack


class PaddedEncoder(nn.Module):
    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.embedding = encoder.embedding
        self.body = PaddedStack(cast(Stack, encoder.body))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor:
        """last_hidden_state [batch, length, d_model]"""
        batch, length = input_ids.shape
        positions = (attention_mask.cumsum(1) - 1).clamp(min=0).flatten()
        segments = None if token_type_ids is None else token_type_ids.flatten()
        x = self.embedding(input_ids.flatten(), positions, 0, segments)
        states, _ = self.body(x, positions, Grid(batch, torch.arange(length), attention_mask))
        return states.unflatten(0, (batch, -1))


class PaddedHeaded(nn.Module):
    """An encoder with a head; what it gives has the names of `outputs`."""

    def __init__(self, model: Headed) -> None:
        super().__init__()
        self.encoder = PaddedEncoder(model.encoder)
        self.head = model.head

    @property
    def outputs(self) -> list[str]:
        match self.head:
            case EmbedHead():
                return ["last_hidden_state", "sentence_embedding"]
            case MaskedHead() if self.head.next_sentence is not None:
                return ["logits", "seq_relationship_logits"]
            case SpanHead():
                return ["start_logits", "end_logits"]
            case _:
                return ["logits"]

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        states = self.encoder(input_ids, attention_mask, token_type_ids)
        head = self.head
        match head:
            case EmbedHead():
                vectors = pooled(head.pool, states, attention_mask)
                if head.project is not None:
                    vectors = torch.tanh(head.project(vectors))
                return states, F.normalize(vectors, dim=-1) if head.normalised else vectors
            case ClassifyHead():
                return (_classified(head, states, attention_mask),)
            case _:
                scores = head(states.flatten(0, 1)).unflatten(0, (input_ids.shape[0], -1))
                if isinstance(head, MaskedHead) and head.next_sentence is not None:
                    return scores, _classified(head.next_sentence, states, attention_mask)
                if isinstance(head, SpanHead):
                    return scores[:, :, 0], scores[:, :, 1]
                return (scores,)


def _classified(head: ClassifyHead, states: Tensor, mask: Tensor) -> Tensor:
    return head.scores(pooled(head.pool, states, mask))


def pooled(pool: Pool, states: Tensor, mask: Tensor) -> Tensor:
    """Each sequence in one vector, [batch, d_model]: but for the greatest, weighted sums of the states."""
    first = ((mask > 0) & (mask.cumsum(1) == 1)).to(states.dtype)
    last = ((mask > 0) & (mask.cumsum(1) == mask.sum(1, keepdim=True))).to(states.dtype)
    match pool.kind:
        case "first":
            return _weighted(first, states)
        case "last":
            return _weighted(last, states)
        case "ends":
            forwards, backwards = states.chunk(2, dim=-1)
            return torch.cat([_weighted(last, forwards), _weighted(first, backwards)], dim=-1)
        case "mean":
            shares = mask.to(states.dtype)
            return _weighted(shares, states) / shares.sum(1, keepdim=True).clamp(min=1)
        case "max":
            return torch.where(mask.unsqueeze(2) > 0, states, LOWEST).amax(1)
        case "attention":
            scores = torch.where(
                mask > 0, _pool_scores(cast(AttentionPooling, pool.attention), states), LOWEST
            )
            return _weighted(scores.softmax(dim=-1), states)
        case "pooler":
            return torch.tanh(cast(Pooler, pool.pooler).dense(_weighted(first, states)))


def _pool_scores(pool: AttentionPooling, states: Tensor) -> Tensor:
    """Of each state, [batch, length]."""
    attention, query = pool.attention, cast(Tensor, pool.query)
    match attention.score:
        case "additive":
            asked = cast(nn.Linear, attention.match)(query)
            return torch.tanh(asked + attention.project_keys(states)) @ attention.direction
        case "dot":
            return states @ query
        case "scaled":
            return states @ query / math.sqrt(len(query))


def _weighted(weights: Tensor, states: Tensor) -> Tensor:
    return (weights.unsqueeze(1) @ states).squeeze(1)


class PaddedLanguage(nn.Module):
    """A language model: logits [batch, length, vocabulary]."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.embedding, self.head = decoder.embedding, decoder.head
        self.body = PaddedStack(cast(Stack, decoder.body))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor) -> Tensor:
        batch, length = input_ids.shape
        positions = position_ids.flatten()
        x = self.embedding(input_ids.flatten(), positions, 0)
        states, _ = self.body(x, positions, Grid(batch, torch.arange(length), attention_mask))
        return self.head(states).unflatten(0, (batch, -1))


class PaddedDecoder(nn.Module):
    """The target side of a translator. Rows are of one length: none has padding."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.embedding, self.head = decoder.embedding, decoder.head
        self.body = PaddedStack(cast(Stack, decoder.body))

    def forward(
        self, encoder_attention_mask: Tensor, input_ids: Tensor, encoder_hidden_states: Tensor
    ) -> tuple[Tensor, list[Past]]:
        """Of whole prefixes: logits [batch, length, vocabulary], and what steps go on from."""
        crosses = self.body.memory(encoder_hidden_states)
        logits, kept = self.decode(encoder_attention_mask, input_ids, None, crosses)
        return logits, [(*own, *cross) for own, cross in zip(kept, crosses, strict=True)]

    def decode(
        self, mask: Tensor, ids: Tensor, past: Sequence[Cache] | None, crosses: Sequence[Cache]
    ) -> tuple[Tensor, list[Cache]]:
        batch, length = ids.shape
        begun = 0 if past is None else past[0][0].shape[2]
        places = torch.arange(length) + begun
        positions = places.expand(batch, -1).flatten()
        keys = torch.ones(1, begun + length, dtype=torch.int64)
        hidden = torch.where(mask[:, None, None, :] > 0, 0.0, LOWEST)
        x = self.embedding(ids.flatten(), positions, 0)
        states, kept = self.body(x, positions, Grid(batch, places, keys), past, crosses, hidden)
        return self.head(states).unflatten(0, (batch, -1)), kept


class PaddedSteps(nn.Module):
    """The same for tokens behind a past, one or more in each row."""

    def __init__(self, decoder: PaddedDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(
        self, encoder_attention_mask: Tensor, input_ids: Tensor, past_key_values: list[Past]
    ) -> tuple[Tensor, list[Cache]]:
        past, crosses = [each[:2] for each in past_key_values], [each[2:] for each in past_key_values]
        return self.decoder.decode(encoder_attention_mask, input_ids, past, crosses)
