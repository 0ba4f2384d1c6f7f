"""A trained translator made as large as one wants it, saying what it said before (Chen et al. 2016, Net2Net).

    every number of the stream, of a head and of the feed-forward network is there several times,
    and what reads it weighs each copy by one part of that;
    a new layer before which there is a norm adds 0 to the stream

So speed can be measured in a large shape, on real sentences with real lengths, without days of training. The
positions become a table, since a wider sinusoid is another one.
"""

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.models.seq2seq import Seq2Seq
from regard.nn.layers import Residual, TransformerLayer
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.stacks import Stack
from regard.settings.models import DecoderConfig, EncoderConfig
from regard.settings.network import PositionsConfig, TransformerConfig

POSITIONS = 512


def widens(model: Seq2Seq, *, d_model: int = 512, heads: int = 8, d_ff: int = 2048, layers: int = 6) -> bool:
    """Whether the model can be widened so: the paper's make, but with its norms before the layers."""
    sides = (model.config.encoder, model.config.decoder)
    if not model.config.shared or not model.config.decoder.tied or sides[0].body != sides[1].body:
        return False
    body = sides[0].body
    if not isinstance(body, TransformerConfig) or body.kept_heads or body.kept_cross_heads or body.window:
        return False
    attention, feed_forward = body.attention, body.feed_forward
    plain = attention.kv_heads is None and attention.d_head is None and attention.d_value is None
    divides = not any(
        (d_model % side.d_model, heads % attention.heads, d_ff % (feed_forward.d_ff or 4 * side.d_model))
        != (0, 0, 0)
        or side.positions.kind != "sinusoidal"
        or not side.embedding.scaled
        for side in sides
    )
    return (
        plain
        and divides
        and attention.bias
        and feed_forward.bias
        and feed_forward.activation == "relu"
        and (body.norm.kind, body.norm.place) == ("layer", "pre")
        and body.layers <= layers
    )


@torch.no_grad()
def widened(
    model: Seq2Seq, *, d_model: int = 512, heads: int = 8, d_ff: int = 2048, layers: int = 6
) -> Seq2Seq:
    """For a model that `widens`."""
    config = model.config
    body = cast(TransformerConfig, config.encoder.body)
    attention, feed_forward = replace(body.attention, heads=heads), replace(body.feed_forward, d_ff=d_ff)
    body = replace(body, layers=layers, attention=attention, feed_forward=feed_forward)
    positions = PositionsConfig(kind="learned", longest=POSITIONS)

    def side(own: EncoderConfig | DecoderConfig) -> EncoderConfig | DecoderConfig:
        return replace(own, d_model=d_model, body=body, positions=positions)

    whole = replace(
        config,
        encoder=cast(EncoderConfig, side(config.encoder)),
        decoder=cast(DecoderConfig, side(config.decoder)),
    )
    found = Seq2Seq(whole).eval()
    old, new = config.encoder.d_model, d_model
    stream = torch.arange(new) % old
    places = torch.arange(POSITIONS)
    sides: list[tuple[Any, Any]] = [(model.encoder, found.encoder), (model.decoder, found.decoder)]
    for ours, theirs in sides:
        # The paper multiplies by sqrt(d_model), which has grown.
        theirs.embedding.tokens.weight.copy_(ours.embedding.tokens.weight[:, stream] * (old / new) ** 0.5)
        table = ours.embedding.positions(places, POSITIONS, torch.float32)
        theirs.embedding.positions.table.weight.copy_(table[:, stream])
        _widen_stack(ours.body, theirs.body, stream)
    # Copies of a number are added up by the head, which is the embedding again.
    last = cast(nn.LayerNorm, found.decoder.body.final_norm)
    for each in (last.weight, last.bias):
        each.mul_((old / new) ** 0.5)
    return found


def _widen_stack(ours: Stack, theirs: Stack, stream: Tensor) -> None:
    for number, layer in enumerate(theirs.each):
        real = number < len(ours.each)
        own = ours.each[number if real else 0]
        _widen_layer(own, layer, stream)
        if not real:
            parts = [layer.attention.output, layer.feed_forward.output]
            if layer.cross_attention is not None:
                parts.append(layer.cross_attention.output)
            for part in parts:
                part.weight.zero_()
                part.bias.zero_()
    _copy_norm(ours.final_norm, theirs.final_norm, stream)


def _widen_layer(ours: TransformerLayer, theirs: TransformerLayer, stream: Tensor) -> None:
    one, two = ours.attention, theirs.attention
    inside = _inside(one, two)
    scale = (one.d_head / two.d_head) ** 0.5  # a product of twice as many numbers, by the root of that
    rows = [inside, inside + one.d_queries, inside + one.d_queries + one.d_keys]
    _widen_linear(one.project, two.project, torch.cat(rows), stream)
    for each in (two.project.weight, two.project.bias):
        each[: two.d_queries].mul_(scale)
    _widen_linear(one.output, two.output, stream, inside)
    _copy_norm(ours.attention_residual.norm, theirs.attention_residual.norm, stream)
    if ours.cross_attention is not None and theirs.cross_attention is not None:
        across, wide = ours.cross_attention, theirs.cross_attention
        _widen_linear(across.project_queries, wide.project_queries, inside, stream)
        for each in (wide.project_queries.weight, wide.project_queries.bias):
            each.mul_(scale)
        _widen_linear(across.project_memory, wide.project_memory, torch.cat(rows[:2]), stream)
        _widen_linear(across.output, wide.output, stream, inside)
        residuals = cast(tuple[Residual, Residual], (ours.cross_residual, theirs.cross_residual))
        _copy_norm(residuals[0].norm, residuals[1].norm, stream)
    inner = torch.arange(theirs.feed_forward.inner.out_features) % ours.feed_forward.inner.out_features
    _widen_linear(ours.feed_forward.inner, theirs.feed_forward.inner, inner, stream)
    _widen_linear(ours.feed_forward.output, theirs.feed_forward.output, stream, inner)
    _copy_norm(ours.feed_forward_residual.norm, theirs.feed_forward_residual.norm, stream)


def _inside(one: SelfAttention | CrossAttention, two: SelfAttention | CrossAttention) -> Tensor:
    """Which number of the old heads each number of the new ones is."""
    head, place = torch.arange(two.heads)[:, None], torch.arange(two.d_head)[None, :]
    return (head * one.heads // two.heads * one.d_head + place % one.d_head).flatten()


def _widen_linear(one: nn.Linear, two: nn.Linear, outputs: Tensor, inputs: Tensor) -> None:
    copies = torch.bincount(inputs, minlength=one.in_features)
    two.weight.copy_(one.weight[outputs][:, inputs] / copies[inputs])
    two.bias.copy_(one.bias[outputs])


def _copy_norm(one: nn.Module | None, two: nn.Module | None, stream: Tensor) -> None:
    if isinstance(one, nn.LayerNorm) and isinstance(two, nn.LayerNorm):
        two.weight.copy_(one.weight[stream])
        two.bias.copy_(one.bias[stream])
