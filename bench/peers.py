"""The peers' models with our weights, so that both sides of a comparison compute the same function."""

import torch
from torch import Tensor, nn

from regard.nn.layers import TransformerLayer
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.stacks import Stack


@torch.no_grad()
def torch_encoder(stack: Stack, heads: int, d_ff: int) -> nn.TransformerEncoder:
    """`torch.nn.TransformerEncoder` with the weights of a post- or pre-norm ReLU stack without dropout."""
    first = stack.each[0]
    layer = nn.TransformerEncoderLayer(
        d_model=first.attention.output.out_features,
        nhead=heads,
        dim_feedforward=d_ff,
        dropout=0.0,
        batch_first=True,
        norm_first=first.attention_residual.place == "pre",
    )
    final = None if stack.final_norm is None else nn.LayerNorm(first.attention.output.out_features)
    peer = nn.TransformerEncoder(layer, len(stack.each), norm=final, enable_nested_tensor=False)
    peer.to(first.attention.output.weight)  # before the copies: they must not pass through float32
    for ours, theirs in zip(stack.each, peer.layers, strict=True):
        copy_layer(ours, theirs)
    if final is not None and stack.final_norm is not None:
        peer.norm.load_state_dict(stack.final_norm.state_dict())
    return peer


@torch.no_grad()
def copy_layer(
    ours: TransformerLayer, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
) -> None:
    """Our weights into torch's own layer."""
    _copy_attention(theirs.self_attn, *_self_projections(ours.attention), ours.attention.output)
    norms = [ours.attention_residual.norm]
    if ours.cross_attention is not None:
        cross = ours.cross_attention
        _copy_attention(theirs.multihead_attn, *_cross_projections(cross), cross.output)
        norms.append(ours.cross_residual.norm)
    norms.append(ours.feed_forward_residual.norm)
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.output.state_dict())
    for number, norm in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())


def _self_projections(attention: SelfAttention) -> tuple[Tensor, Tensor]:
    return attention.project.weight, attention.project.bias


def _cross_projections(attention: CrossAttention) -> tuple[Tensor, Tensor]:
    parts = (attention.project_queries, attention.project_memory)
    return torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])


def _copy_attention(theirs: nn.MultiheadAttention, weight: Tensor, bias: Tensor, output: nn.Linear) -> None:
    theirs.in_proj_weight.copy_(weight)
    theirs.in_proj_bias.copy_(bias)
    theirs.out_proj.load_state_dict(output.state_dict())
