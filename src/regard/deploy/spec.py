"""A translator as CTranslate2's specification: the same weights under its names.

What is written differently there:

    positions    sines and cosines have another order, so our table goes along, row by row; zeros where there
                 are none. Rotary pairs are halves here as there, and ntk is another base.
    gate         one matrix of ours, [gate ; inner], two of theirs
    norms        the same, before or after; one more after the last layer where there is one
    vocabulary   a name for every row, also for those without a token

What it has no counterpart for is refused, by the setting's name.
"""

from typing import Any, cast

import torch
from ctranslate2.specs import attention_spec, common_spec, transformer_spec
from torch import Tensor, nn

from regard.config import ConfigError
from regard.deploy.engine import token_names
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.seq2seq import Seq2Seq
from regard.nn.layers import GATED, FeedForward, TransformerLayer
from regard.nn.positions import LearnedPositions, SinusoidalPositions
from regard.nn.stacks import Stack
from regard.settings.models import DecoderConfig, EncoderConfig, Seq2SeqConfig
from regard.settings.network import PositionsConfig, TransformerConfig
from regard.text import Tokenizer

ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "gelu_tanh": common_spec.Activation.GELUTanh,
    "swish": common_spec.Activation.SWISH,
    "geglu": common_spec.Activation.GELU,
    "geglu_tanh": common_spec.Activation.GELUTanh,
    "swiglu": common_spec.Activation.SWISH,
}

KNOWN_POSITIONS = ("sinusoidal", "learned", "rotary", "none")
"""That have a counterpart there; a new kind has none until it is written here."""


def build_spec(model: Seq2Seq, tokenizer: Tokenizer, *, rows: int) -> transformer_spec.TransformerSpec:
    """`rows` is how many positions get a row in the table, where that is ours to choose."""
    config = model.config
    check_config(config)
    encoder = _encoder(model.encoder, rows)
    decoder = _decoder(model.decoder, rows)
    spec = transformer_spec.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = _body(config.encoder).norm.eps
    target = tokenizer.target
    names = token_names(target, config.decoder.vocabulary)
    start, end = target.require("start"), target.require("end")
    unknown = start if target.ids.unknown is None else target.ids.unknown
    spec.config.bos_token = spec.config.decoder_start_token = names[start]
    spec.config.eos_token, spec.config.unk_token = names[end], names[unknown]
    spec.register_source_vocabulary(token_names(tokenizer, config.encoder.vocabulary))
    spec.register_target_vocabulary(names)
    spec.validate()
    return spec


def check_config(config: Seq2SeqConfig) -> None:
    """Refuse what CTranslate2 cannot compute."""
    for name, side in (("encoder", config.encoder), ("decoder", config.decoder)):
        body = side.body
        if not isinstance(body, TransformerConfig):
            raise _refused(
                f"{name}.body.kind='recurrent'", "it runs Transformers only", "train one of preset='small'"
            )
        _check_positions(name, side.positions)
        _check_body(name, body, side.d_model)
        if side.embedding.segments:
            setting = f"{name}.embedding.segments={side.embedding.segments}"
            raise _refused(setting, "its translators have none", "train with segments=0")
    ours, theirs = _body(config.encoder).norm, _body(config.decoder).norm
    if ours.eps != theirs.eps:
        both = f"norm.eps={ours.eps:g} of the encoder and {theirs.eps:g} of the decoder"
        raise _refused(both, "it has one for both", "train with equal ones")


def _check_positions(name: str, positions: PositionsConfig) -> None:
    remedy = "train with positions='sinusoidal', 'learned' or 'rotary'"
    if positions.kind == "relative":
        why = "its bias is the first layer's for all, ours is each layer's own"
        why = "a bias that all layers share is not written for it here" if positions.shared else why
        raise _refused(f"{name}.positions.kind='relative'", why, remedy)
    if positions.kind == "alibi":
        raise _refused(f"{name}.positions.kind='alibi'", "its encoders have no such bias", remedy)
    if positions.kind not in KNOWN_POSITIONS:
        raise _refused(f"{name}.positions.kind={positions.kind!r}", "it does not know them", remedy)
    if positions.beside != "none":
        raise _refused(
            f"{name}.positions.beside={positions.beside!r}", "it has one kind of positions", remedy
        )
    if positions.scaling == "yarn":
        raise _refused(f"{name}.positions.scaling='yarn'", "it stretches no queries and keys", remedy)


def _check_body(name: str, body: TransformerConfig, d_model: int) -> None:
    if body.window is not None:
        why = "its windows reach backwards only, from a cache"
        raise _refused(f"{name}.body.window={body.window}", why, "train without one")
    if body.kept_heads is not None or body.kept_cross_heads is not None:
        why = "all its layers have the same number of heads"
        raise _refused(f"{name}.body.kept_heads is set", why, "export the model as it was before pruning")
    if body.norm.kind == "batch":
        raise _refused(
            f"{name}.body.norm.kind='batch'", "it has LayerNorm and RMSNorm", "train with one of them"
        )
    if not body.norm.bias and body.norm.kind == "layer":
        raise _refused(f"{name}.body.norm.bias=false", "its LayerNorm has one", "train with it")
    if not body.first_norm:
        raise _refused(f"{name}.body.first_norm=false", "all its layers have norms", "train with it")
    attention = body.attention
    if attention.scored:
        why = "it has the scaled dot product only"
        raise _refused(f"{name}.body.attention.score={attention.score!r}", why, "train without one")
    if attention.scale is not None:
        why = "it divides by sqrt(d_head)"
        raise _refused(f"{name}.body.attention.scale={attention.scale}", why, "train without one")
    if attention.d_value not in (None, attention.width(d_model)):
        why = "a value is as wide as a key there"
        raise _refused(f"{name}.body.attention.d_value={attention.d_value}", why, "train with d_value=d_head")


def _refused(setting: str, why: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"{setting}: CTranslate2 cannot do it, {why}; {remedy}, or translate with --engine regard"
    )


def _body(side: EncoderConfig | DecoderConfig) -> TransformerConfig:
    return cast(TransformerConfig, side.body)


def _encoder(encoder: Encoder, rows: int) -> transformer_spec.TransformerEncoderSpec:
    spec = transformer_spec.TransformerEncoderSpec(**_facts(encoder.config))
    _common(spec, spec.embeddings[0], encoder, rows)
    return spec


def _decoder(decoder: Decoder, rows: int) -> transformer_spec.TransformerDecoderSpec:
    spec = transformer_spec.TransformerDecoderSpec(**_facts(decoder.config))
    _common(spec, spec.embeddings, decoder, rows)
    spec.projection.weight = _whole(decoder.head.scaled_weight)
    if decoder.head.bias is not None:
        spec.projection.bias = _whole(decoder.head.bias)
    return spec


def _facts(config: EncoderConfig | DecoderConfig) -> dict[str, Any]:
    """What the constructor of a side wants to know."""
    body, positions = _body(config), config.positions
    d_head = body.attention.width(config.d_model)
    rotary: dict[str, Any] = {}
    if positions.kind == "rotary":
        rotary = {"rotary_dim": d_head, "rotary_interleave": False, "rotary_base": positions.base}
        if positions.scaling == "linear":
            rotary["rotary_scaling_type"] = attention_spec.RotaryScalingType.Linear
            rotary["rotary_scaling_factor"] = positions.factor
        elif positions.scaling == "ntk":
            rotary["rotary_base"] = positions.base * positions.factor ** (d_head / (d_head - 2))
    return {
        "num_layers": body.layers,
        "num_heads": body.attention.heads,
        "num_heads_kv": body.attention.kv_heads,
        "head_dim": d_head,
        "pre_norm": True,  # there is room for a final norm then; what it is, is set below
        "no_final_norm": not _has_final_norm(body),
        "activation": ACTIVATIONS[body.feed_forward.activation],
        "ffn_glu": body.feed_forward.activation in GATED,
        "rms_norm": body.norm.kind == "rms",
        "layernorm_embedding": config.embedding.normed,
        **rotary,
    }


def _has_final_norm(body: TransformerConfig) -> bool:
    return body.norm.place == "pre" if body.final_norm is None else body.final_norm


def _common(spec: Any, embeddings: Any, side: Encoder | Decoder, rows: int) -> None:
    """What both sides have: the embedding, positions, norms and layers."""
    stack, config = cast(Stack, side.body), side.config
    spec.pre_norm = _body(config).norm.place == "pre"
    spec.scale_embeddings = config.embedding.scaled
    embeddings.weight = _whole(side.embedding.tokens.weight)
    if config.positions.kind != "rotary":
        spec.position_encodings.encodings = _table(side.embedding.positions, config.d_model, rows)
    if side.embedding.norm is not None:
        _norm(spec.layernorm_embedding, side.embedding.norm)
    if stack.final_norm is not None:
        _norm(spec.layer_norm, stack.final_norm)
    for own, layer in zip(spec.layer, stack.each, strict=True):
        _layer(own, layer)


def _table(positions: nn.Module | None, d_model: int, rows: int) -> Tensor:
    match positions:
        case SinusoidalPositions():
            return positions.rows(rows).float()
        case LearnedPositions():
            return _whole(positions.table.weight[positions.first :])
        case _:  # others are refused before
            return torch.zeros(rows, d_model)


def _layer(spec: Any, layer: TransformerLayer) -> None:
    _linears(spec.self_attention, layer.attention.project, layer.attention.output)
    _norm(spec.self_attention.layer_norm, layer.attention_residual.norm)
    if layer.cross_attention is not None and layer.cross_residual is not None:
        cross = layer.cross_attention
        _linears(spec.attention, cross.project_queries, cross.project_memory, cross.output)
        _norm(spec.attention.layer_norm, layer.cross_residual.norm)
    _feed_forward(spec.ffn, layer.feed_forward)
    _norm(spec.ffn.layer_norm, layer.feed_forward_residual.norm)


def _linears(spec: Any, *parts: nn.Linear) -> None:
    for own, part in zip(spec.linear, parts, strict=True):
        _linear(own, part)


def _feed_forward(spec: Any, feed_forward: FeedForward) -> None:
    inner = feed_forward.inner
    if feed_forward.gated:
        half = inner.out_features // 2
        _linear(spec.linear_0, inner, slice(0, half))
        _linear(spec.linear_0_noact, inner, slice(half, None))
    else:
        _linear(spec.linear_0, inner)
    _linear(spec.linear_1, feed_forward.output)


def _linear(spec: Any, linear: nn.Linear, rows: slice = slice(None)) -> None:
    spec.weight = _whole(linear.weight[rows])
    if linear.bias is not None:
        spec.bias = _whole(linear.bias[rows])


def _norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma = _whole(cast(Tensor, norm.weight))
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _whole(norm.bias)


def _whole(tensor: Tensor) -> Tensor:
    """A copy of its own: rounding to int8 happens in place."""
    return tensor.detach().float().cpu().contiguous().clone()
