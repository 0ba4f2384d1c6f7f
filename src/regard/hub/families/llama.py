"""Llama (Touvron et al. 2023), with SmolLM and all that call themselves so; and what Mistral and Qwen share.

The shape is `regard.settings.presets.modern`: RMSNorm before each layer, rotary positions, SwiGLU, heads that
share keys and values. Mistral adds a window, Qwen2 biases of queries, keys and values, Qwen3 norms of queries
and keys. What a config.json can say and this shape cannot do is refused by the key's name.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from regard.hub.facts import Facts
from regard.hub.family import DecoderFamily
from regard.hub.files import HubError, HubWarning
from regard.hub.names import Family
from regard.hub.vocabularies import LLAMA_PIECES
from regard.hub.writing import require
from regard.settings.models import DecoderConfig
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    InitialConfig,
    NormConfig,
    PositionsConfig,
    Scaling,
    TransformerConfig,
)
from regard.text import Tokenizer

ROPE = ("rope_theta", "rope_scaling", "rope_parameters")
SCALINGS: dict[str, Scaling] = {"default": "none", "linear": "linear", "yarn": "yarn", "llama3": "llama3"}
"""Their kinds of rotary positions, and ours."""


def read_config(
    facts: Facts[Family],
    tied: bool,
    *,
    bias: bool,
    output_bias: bool | None = None,
    qk_norm: bool = False,
    window: int | None = None,
) -> DecoderConfig:
    """Their configuration as ours; what tells the families apart is given."""
    if facts.get("activation") not in ("silu", "swish"):
        raise HubError(
            f"{facts.path}: hidden_act={facts.get('activation')!r:.60} is not supported, only 'silu'"
        )
    heads, longest, d_model = facts.count("heads"), facts.count("rows"), facts.count("d_model")
    d_head = None if facts.get("d_head") is None else facts.count("d_head")
    return DecoderConfig(
        vocabulary=facts.count("vocabulary"),
        d_model=d_model,
        embedding=EmbeddingConfig(scaled=False, dropout=0.0),
        positions=_positions(facts, longest),
        body=TransformerConfig(
            layers=facts.count("layers"),
            attention=AttentionConfig(
                heads=heads,
                kv_heads=heads if facts.get("kv_heads") is None else facts.count("kv_heads"),
                d_head=None if d_head is not None and d_head * heads == d_model else d_head,
                bias=bias,
                output_bias=output_bias,
                qk_norm=qk_norm,
            ),
            feed_forward=FeedForwardConfig(
                d_ff=facts.count("d_ff"), activation="swiglu", bias=facts.get("inner_bias") is True
            ),
            norm=NormConfig(kind="rms", place="pre", eps=facts.number("eps")),
            dropout=0.0,
            window=window,
        ),
        tied=tied,
        initial=InitialConfig(scheme="normal", std=facts.number("std")),
    )


def read_window(facts: Facts[Family], window: Any) -> int | None:
    """Ours, of theirs, which counts the token itself; all layers have it, or none."""
    kinds = facts.table.get("layer_types")
    wanted = "full_attention" if window is None else "sliding_attention"
    if kinds is not None and (not isinstance(kinds, list) or any(each != wanted for each in kinds)):
        raise HubError(
            f"{facts.path}: layer_types={kinds!r:.60} is not supported, only {wanted!r} for all layers here"
        )
    if window is None:
        return None
    if type(window) is not int or window < 2:
        raise HubError(f"{facts.path}: sliding_window={window!r:.60} must be a whole number from 2 on")
    return window - 1


def _positions(facts: Facts[Family], longest: int) -> PositionsConfig:
    rope = _rope(facts)
    kind = rope.pop("rope_type", None) or "default"
    base = _number(facts, "rope_theta", rope.pop("rope_theta", None) or 10_000.0)
    if kind == "dynamic":
        raise HubError(
            f"{facts.path}: rope_type='dynamic' turns keys by the length that a text will have, so none can "
            f"be kept; up to max_position_embeddings={longest} tokens it changes nothing: take it out"
        )
    if kind not in SCALINGS:
        raise HubError(f"{facts.path}: rope_type={kind!r:.60} is none of {', '.join(SCALINGS)}")
    settings: dict[str, Any] = {}
    if kind != "default":
        settings["factor"] = _number(facts, "factor", rope.pop("factor", None))
    if kind in ("yarn", "llama3"):
        trained = rope.pop("original_max_position_embeddings", None)
        trained = longest if trained is None and kind == "yarn" else trained
        settings["trained"] = int(_number(facts, "original_max_position_embeddings", trained))
    pairs = {
        "yarn": (("beta_slow", "few_turns"), ("beta_fast", "many_turns"), ("attention_factor", "stretch")),
        "llama3": (("low_freq_factor", "few_turns"), ("high_freq_factor", "many_turns")),
    }
    for theirs, ours in pairs.get(kind, ()):
        if (value := rope.pop(theirs, None)) is not None:
            settings[ours] = _number(facts, theirs, value)
    for key, usual in (("truncate", True), ("partial_rotary_factor", 1.0)):
        if rope.pop(key, usual) not in (usual, None):
            raise HubError(f"{facts.path}: {key} of the rotary positions is not supported, only {usual}")
    rope.pop("original_max_position_embeddings", None)
    if odd := [key for key, value in rope.items() if value is not None]:
        raise HubError(
            f"{facts.path}: {odd[0]!r:.60} of rotary positions of the kind {kind!r} is not known, and may "
            "change what the model computes; take the key out if it does not"
        )
    return PositionsConfig(kind="rotary", base=base, longest=longest, scaling=SCALINGS[kind], **settings)


def _rope(facts: Facts[Family]) -> dict[str, Any]:
    """What is said of rotary positions: by `rope_theta` and `rope_scaling`, or in one table."""
    theta, scaling, table = (facts.table.get(key) for key in ROPE)
    if scaling is not None and table is not None:
        raise HubError(f"{facts.path}: rope_scaling and rope_parameters say the same: take one out")
    found = table if scaling is None else scaling
    if found is not None and not isinstance(found, dict):
        raise HubError(f"{facts.path}: rotary positions {found!r:.60} must be a table")
    rope = dict(found or {})
    rope["rope_type"] = rope.get("rope_type") or rope.pop("type", None)
    rope.pop("type", None)
    rope.setdefault("rope_theta", theta)
    return rope


def _number(facts: Facts[Family], key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**40:
        raise HubError(f"{facts.path}: {key}={value!r:.60} must be an ordinary number above 0")
    return float(value)


def is_of_the_make(config: DecoderConfig) -> bool:
    """Whether it is a Llama rather than a GPT-2."""
    body = config.body
    return (
        isinstance(body, TransformerConfig) and config.positions.kind == "rotary" and body.norm.kind == "rms"
    )


def body_of(config: DecoderConfig) -> TransformerConfig:
    if not isinstance(config.body, TransformerConfig):
        raise TypeError("a family has claimed a recurrent body")
    return config.body


def check_config(config: DecoderConfig, tokenizer: Tokenizer | None) -> None:
    """What none of these families has."""
    body = body_of(config)
    attention, inner, norm, embedding = body.attention, body.feed_forward, body.norm, config.embedding
    d_head = attention.width(config.d_model)
    side = "model.decoder"
    for holds, setting, rule, remedy in (
        (norm.place == "pre", f"norm.place={norm.place!r}", "Llama's is pre", "model.norm=pre"),
        (
            body.final_norm is not False,
            "body.final_norm=false",
            "Llama has one",
            f"{side}.body.final_norm=true",
        ),
        (
            inner.activation == "swiglu",
            f"feed_forward.activation={inner.activation!r}",
            "Llama's is swiglu",
            "model.activation=swiglu",
        ),
        (not embedding.scaled, "embedding.scaled=true", "Llama's is not", f"{side}.embedding.scaled=false"),
        (not embedding.normed, "embedding.normed=true", "Llama's is not", f"{side}.embedding.normed=false"),
        (
            embedding.segments == 0,
            f"embedding.segments={embedding.segments}",
            "Llama has none",
            f"{side}.embedding.segments=0",
        ),
        (not config.head_bias, "head_bias=true", "Llama's output has none", f"{side}.head_bias=false"),
        (
            attention.d_value in (None, d_head),
            f"attention.d_value={attention.d_value}",
            "it is d_head there",
            f"{side}.body.attention.d_value={d_head}",
        ),
        (
            not attention.scored,
            f"attention.score={attention.score!r}",
            "theirs is the scaled dot product",
            "model.score=scaled",
        ),
        (
            attention.scale is None,
            f"attention.scale={attention.scale}",
            "theirs is 1 / sqrt(d_head)",
            f"{side}.body.attention.scale left out",
        ),
        (not config.head_scaled, "head_scaled=true", "Llama's output is not", f"{side}.head_scaled=false"),
        (
            config.positions.scaling != "ntk",
            "positions.scaling='ntk'",
            f"theirs is one of {', '.join(each for each in SCALINGS.values() if each != 'none')}",
            "model.scaling=yarn",
        ),
        (
            config.positions.local_base is None,
            f"positions.local_base={config.positions.local_base}",
            "all layers turn alike there",
            f"{side}.positions.base alone",
        ),
        (
            not body.global_every,
            f"body.global_every={body.global_every}",
            "a window is every layer's there",
            "model.global_every=0",
        ),
    ):
        require(holds, setting, rule, f"train with {remedy}")
    pruned = "export the model as it was before pruning"
    require(body.kept_heads is None, "body.kept_heads", "theirs have all heads in every layer", pruned)


def check_biases(config: DecoderConfig, named: str, *, inner: bool = False) -> None:
    """Of the output as of the others; and in the feed-forward network only where the family can."""
    body = body_of(config)
    attention = body.attention
    require(
        attention.biased_output == attention.bias,
        f"attention.output_bias={str(attention.output_bias).lower()}",
        f"{named}'s is as attention.bias",
        f"train with model.decoder.body.attention.output_bias={str(attention.bias).lower()}",
    )
    require(
        inner or not body.feed_forward.bias,
        "feed_forward.bias=true",
        f"{named} has none",
        "train with model.decoder.body.feed_forward.bias=false",
    )


def config_words(config: DecoderConfig) -> dict[str, Any]:
    """Values for the keys that these families share."""
    body, positions = body_of(config), config.positions
    embedding, inner = config.embedding, body.feed_forward
    if body.dropout or embedding.dropout or inner.dropout:
        warnings.warn(
            f"dropout has no place in the folder: dropout={body.dropout}, "
            f"embedding.dropout={embedding.dropout}, feed_forward.dropout={inner.dropout}",
            HubWarning,
            stacklevel=6,
        )
    attention = body.attention
    words = {
        "vocabulary": config.vocabulary,
        "d_model": config.d_model,
        "layers": body.layers,
        "heads": attention.heads,
        "kv_heads": attention.kv_heads or attention.heads,
        "d_head": attention.width(config.d_model),
        "d_ff": body.feed_forward.d_ff or 4 * config.d_model,
        "activation": "silu",
        "attention_dropout": attention.dropout,
        "rows": positions.longest,
        "eps": body.norm.eps,
        "std": config.initial.std,
        "base": positions.base,
    }
    return words if positions.scaling == "none" else {**words, "scaling": _scaling(positions)}


def _scaling(positions: PositionsConfig) -> dict[str, Any]:
    """As transformers 4 writes it: 5 reads it too."""
    kind = next(theirs for theirs, ours in SCALINGS.items() if ours == positions.scaling)
    scaling: dict[str, Any] = {"rope_type": kind, "factor": positions.factor}
    if kind in ("yarn", "llama3"):
        scaling["original_max_position_embeddings"] = positions.trained
    if kind == "yarn":
        scaling["beta_slow"] = positions.few_turns
        if positions.many_turns is not None:
            scaling["beta_fast"] = positions.many_turns
        if positions.stretch is not None:
            scaling["attention_factor"] = positions.stretch
    if kind == "llama3":
        scaling |= {"low_freq_factor": positions.few_turns, "high_freq_factor": positions.turns_kept}
    return scaling


def _read(facts: Facts[Family], tied: bool) -> DecoderConfig:
    return read_config(facts, tied, bias=facts.get("bias") is True, window=read_window(facts, None))


def _check(config: DecoderConfig, tokenizer: Tokenizer | None) -> None:
    check_config(config, tokenizer)
    check_biases(config, "Llama", inner=True)


def _words(config: DecoderConfig) -> Mapping[str, Any]:
    body = body_of(config)
    return {**config_words(config), "bias": body.attention.bias, "inner_bias": body.feed_forward.bias}


BODY = {
    "embedding.tokens.*": "embed_tokens.*",
    "body.layers.#.attention_residual.norm.*": "layers.#.input_layernorm.*",
    "body.layers.#.attention.project.*": (
        "layers.#.self_attn.q_proj.* layers.#.self_attn.k_proj.* layers.#.self_attn.v_proj.*"
    ),
    "body.layers.#.attention.output.*": "layers.#.self_attn.o_proj.*",
    "body.layers.#.feed_forward_residual.norm.*": "layers.#.post_attention_layernorm.*",
    "body.layers.#.feed_forward.inner.*": "layers.#.mlp.gate_proj.* layers.#.mlp.up_proj.*",
    "body.layers.#.feed_forward.output.*": "layers.#.mlp.down_proj.*",
    "body.final_norm.*": "norm.*",
}
KEYS = {
    "vocabulary": "vocab_size",
    "d_model": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "d_ff": "intermediate_size",
    "activation": "hidden_act",
    "attention_dropout": "attention_dropout",
    "rows": "max_position_embeddings",
    "eps": "rms_norm_eps",
    "std": "initializer_range",
    "pad": "pad_token_id",
    "base": "rope_theta",
    "scaling": "rope_scaling",
}
DEFAULTS = {
    "vocabulary": 32000,
    "d_model": 4096,
    "layers": 32,
    "heads": 32,
    "d_ff": 11008,
    "activation": "silu",
    "attention_dropout": 0.0,
    "rows": 2048,
    "eps": 1e-06,
    "std": 0.02,
    "tied": False,
}

LLAMA = DecoderFamily(
    name="llama",
    stem="Llama",
    prefix="model.",
    buffers=("layers.#.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"),
    body=BODY,
    heads={"language": {"head.weight": "lm_head.weight"}},
    keys={**KEYS, "d_head": "head_dim", "bias": "attention_bias", "inner_bias": "mlp_bias"},
    defaults=DEFAULTS,
    only={"pretraining_tp": (1,), "rope_interleaved": (False,), "partial_rotary_factor": (1.0,)},
    metadata="is_llama_config max_sequence_length transformers.js_config rope_parameters layer_types",
    vocabulary=LLAMA_PIECES,
    architectures=("LlamaForCausalLM", "LlamaModel"),
    read=_read,
    claims=lambda config, tokenizer: is_of_the_make(config),
    check=_check,
    words=_words,
    tells=True,
    gguf="turned",
)
