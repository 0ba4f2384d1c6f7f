"""ModernBERT (Warner et al. 2024): rotary positions with two bases, a window in two of three layers, GeGLU,
norms before the layers (none before the first: the embedding has one), no biases. Packed is its native form.

All its heads have norm(gelu(W x)) before the scores: `transform` of ours, and the dense layer of the head
for masked words.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.hub.facts import Facts
from regard.hub.families import bert
from regard.hub.family import EncoderFamily
from regard.hub.files import HubError
from regard.hub.names import Family
from regard.hub.vocabularies import FAST_ONLY
from regard.hub.writing import ACTIVATIONS, check_by_reading, check_head
from regard.models.headed import HeadedConfig
from regard.settings.models import (
    ClassifyConfig,
    EncoderConfig,
    HeadConfig,
    MaskedConfig,
    SpanConfig,
    TagConfig,
    TransformConfig,
)
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    InitialConfig,
    NormConfig,
    PositionsConfig,
    TransformerConfig,
)
from regard.text import Tokenizer

_FULL, _LOCAL = "full_attention", "sliding_attention"
_TRANSFORM = {
    "head.transform.dense.weight": "head.dense.weight",
    "head.transform.norm.weight": "head.norm.weight",
}
_SCORES = {**_TRANSFORM, "head.output.*": "classifier.*"}
_POOLS = {"cls": "first", "mean": "mean"}


def _read(facts: Facts[Family], pooler: bool) -> EncoderConfig:
    every, (base, local_base) = _every(facts), _bases(facts)
    windowed: dict[str, Any] = {}
    if every > 1:
        windowed = {
            "window": facts.count("window", least=2) // 2,
            "global_every": every,
            "global_first": 1,
        }
    return EncoderConfig(
        vocabulary=facts.count("vocabulary"),
        d_model=facts.count("d_model"),
        embedding=EmbeddingConfig(scaled=False, normed=True, dropout=facts.number("embedding_dropout")),
        positions=PositionsConfig(
            kind="rotary",
            base=base,
            local_base=local_base if every > 1 and local_base != base else None,
            longest=facts.count("rows"),
        ),
        body=TransformerConfig(
            layers=facts.count("layers"),
            attention=AttentionConfig(heads=facts.count("heads"), bias=False),
            feed_forward=FeedForwardConfig(
                d_ff=facts.count("d_ff"),
                activation="geglu",
                bias=False,
                dropout=facts.number("inner_dropout"),
            ),
            norm=NormConfig(place="pre", eps=_eps(facts), bias=False),
            first_norm=False,
            dropout=0.0,
            **windowed,
        ),
        pooler=pooler,
        initial=InitialConfig(scheme="normal", std=facts.number("std")),
    )


def _eps(facts: Facts[Family]) -> float:
    """Published files say it twice; transformers computes with the one of the two that is read here."""
    eps, again = facts.number("eps"), facts.get("eps_again")
    if again not in (None, eps):
        raise HubError(f"{facts.path}: layer_norm_eps={again!r:.60} should be as norm_eps={eps!r}")
    return eps


def _every(facts: Facts[Family]) -> int:
    """Every which layer sees everything, from the first on: told by a number or, by newer versions, one by
    one."""
    kinds = facts.get("kinds")
    if kinds is None:
        return facts.count("every")
    layers = facts.count("layers")
    if isinstance(kinds, list) and len(kinds) == layers:
        for every in range(1, layers + 1):
            if kinds == [_LOCAL if number % every else _FULL for number in range(layers)]:
                return every
    raise HubError(
        f"{facts.path}: layer_types={kinds!r:.80} is not supported, only the first of every so many layers "
        f"with {_FULL}, and {_LOCAL} in the others"
    )


def _bases(facts: Facts[Family]) -> tuple[float, float]:
    """Of the layers that see everything, and of the others."""
    given = facts.get("rope")
    if given is None:
        base = facts.number("base")
        return base, base if facts.get("local_base") is None else facts.number("local_base")
    found = []
    for kind, word in ((_FULL, "base"), (_LOCAL, "local_base")):
        own = given.get(kind) or {} if isinstance(given, dict) else None
        if not isinstance(own, dict) or own.get("rope_type", "default") != "default":
            raise HubError(
                f"{facts.path}: rope_parameters={given!r:.80} is not supported, only the type 'default'"
            )
        base = own.get("rope_theta", facts.get(word))
        if isinstance(base, bool) or not isinstance(base, int | float):
            raise HubError(f"{facts.path}: rope_theta={base!r:.60} must be an ordinary number")
        found.append(float(base))
    return found[0], found[1]


def _head(head: HeadConfig, facts: Facts[EncoderFamily]) -> HeadConfig:
    activation, eps = facts.activation("head_activation"), facts.number("eps")
    transform = TransformConfig(activation=activation, eps=eps)
    match head:
        case MaskedConfig():
            return replace(head, bias=False, activation=activation)
        case ClassifyConfig():
            pooling = facts.get("pooling")
            if pooling not in _POOLS:
                raise HubError(
                    f"{facts.path}: classifier_pooling={pooling!r:.60} is none of {', '.join(_POOLS)}"
                )
            kind: Any = _POOLS[pooling]
            return replace(head, pool=replace(head.pool, kind=kind), transform=transform)
        case TagConfig() | SpanConfig():
            return replace(head, transform=transform)
        case _:
            return head


def _check(config: HeadedConfig, tokenizer: Tokenizer) -> None:
    check_by_reading(config, MODERNBERT, tokenizer)
    check_head(config, MODERNBERT)


def _words(config: HeadedConfig) -> Mapping[str, Any]:
    encoder, head = config.encoder, config.head
    body, positions = encoder.body, encoder.positions
    if not isinstance(body, TransformerConfig):
        raise TypeError("the check has let a recurrent body through")
    words: dict[str, Any] = {
        "activation": "gelu",
        "embedding_dropout": encoder.embedding.dropout,
        "inner_dropout": body.feed_forward.dropout,
        "window": 2 * (body.window or 64),
        "every": 1 if body.window is None else body.global_every,
        "base": positions.base,
        "local_base": positions.local_base or positions.base,
    }
    if isinstance(head, ClassifyConfig):
        words["pooling"] = "mean" if head.pool.kind == "mean" else "cls"
    if isinstance(head, MaskedConfig):
        words["head_activation"] = ACTIVATIONS[head.activation]
    elif isinstance(head, ClassifyConfig | TagConfig | SpanConfig) and head.transform is not None:
        words["head_activation"] = ACTIVATIONS[head.transform.activation]
    return words


def _claims(encoder: EncoderConfig, tokenizer: Tokenizer) -> bool:
    body = encoder.body
    gated = isinstance(body, TransformerConfig) and body.feed_forward.activation == "geglu"
    return gated and encoder.positions.kind == "rotary"


MODERNBERT = EncoderFamily(
    name="modernbert",
    stem="ModernBert",
    prefix="model.",
    body={
        "encoder.embedding.tokens.*": "embeddings.tok_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.norm.*",
        "encoder.body.layers.#.attention.project.*": "layers.#.attn.Wqkv.*",
        "encoder.body.layers.#.attention.output.*": "layers.#.attn.Wo.*",
        "encoder.body.layers.#.attention_residual.norm.*": "layers.#.attn_norm.*",
        "encoder.body.layers.#.feed_forward.inner.*": "layers.#.mlp.Wi.*",
        "encoder.body.layers.#.feed_forward.output.*": "layers.#.mlp.Wo.*",
        "encoder.body.layers.#.feed_forward_residual.norm.*": "layers.#.mlp_norm.*",
        "encoder.body.final_norm.*": "final_norm.*",
    },
    heads={
        "masked": {
            "head.dense.weight": "head.dense.weight",
            "head.norm.weight": "head.norm.weight",
            "head.vocabulary.bias": "decoder.bias",
            "head.vocabulary.weight": "decoder.weight",
        },
        "classify": _SCORES,
        "tag": _SCORES,
        "span": _SCORES,
        **bert.SENTENCES,
    },
    keys={
        "vocabulary": "vocab_size",
        "d_model": "hidden_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "d_ff": "intermediate_size",
        "activation": "hidden_activation",
        "rows": "max_position_embeddings",
        "eps": "norm_eps",
        "eps_again": "layer_norm_eps",
        "std": "initializer_range",
        "pad": "pad_token_id",
        "window": "local_attention",
        "every": "global_attn_every_n_layers",
        "kinds": "layer_types",
        "rope": "rope_parameters",
        "base": "global_rope_theta",
        "local_base": "local_rope_theta",
        "attention_dropout": "attention_dropout",
        "embedding_dropout": "embedding_dropout",
        "inner_dropout": "mlp_dropout",
        "head_dropout": "classifier_dropout",
        "head_activation": "classifier_activation",
        "pooling": "classifier_pooling",
    },
    defaults={
        "vocabulary": 50368,
        "d_model": 768,
        "layers": 22,
        "heads": 12,
        "d_ff": 1152,
        "activation": "gelu",
        "rows": 8192,
        "eps": 1e-5,
        "std": 0.02,
        "pad": 50283,
        "window": 128,
        "every": 3,
        "base": 160_000.0,
        "local_base": 10_000.0,
        "embedding_dropout": 0.0,
        "inner_dropout": 0.0,
        "head_dropout": 0.0,
        "head_activation": "gelu",
        "pooling": "cls",
    },
    only={
        "hidden_activation": ["gelu"],
        "position_embedding_type": ["absolute", "sans_pos"],  # of no table; neither is read
        "norm_bias": [False],
        "attention_bias": [False],
        "mlp_bias": [False],
        "classifier_bias": [False],
        "decoder_bias": [True],
    },
    metadata=(
        "initializer_cutoff_factor deterministic_flash_attn sparse_prediction sparse_pred_ignore_index "
        "reference_compile repad_logits_with_grad"
    ),
    vocabulary=FAST_ONLY,
    read=_read,
    claims=_claims,
    check=_check,
    words=_words,
    classifier=("first", "none"),
    masked_activation="own",
    pools=("mean",),
    transformed=True,
    head=_head,
    dropouts={"classify": "head_dropout", "tag": "head_dropout", "span": "head_dropout"},
)
