"""GPT-2 (Radford et al. 2019), with DistilGPT-2 and DialoGPT, which call themselves so.

The shape is `regard.settings.presets.gpt`. What its config.json can say and that shape cannot do (scores not
scaled, or scaled by the layer; cross-attention) is refused by `regard.hub.keys`.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from regard.hub.facts import Facts
from regard.hub.family import DecoderFamily
from regard.hub.files import HubWarning
from regard.hub.names import Family
from regard.hub.vocabularies import UNFRAMED_BYTE_PAIRS
from regard.hub.writing import check_body, require
from regard.settings.models import DecoderConfig
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

_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}


def _read(facts: Facts[Family], tied: bool) -> DecoderConfig:
    d_model = facts.count("d_model")
    return DecoderConfig(
        vocabulary=facts.count("vocabulary"),
        d_model=d_model,
        embedding=EmbeddingConfig(scaled=False, dropout=facts.number("embedding_dropout")),
        positions=PositionsConfig(kind="learned", longest=facts.count("rows")),
        body=TransformerConfig(
            layers=facts.count("layers"),
            attention=AttentionConfig(heads=facts.count("heads")),
            feed_forward=FeedForwardConfig(
                d_ff=4 * d_model if facts.get("d_ff") is None else facts.count("d_ff"),
                activation=facts.activation(),
            ),
            norm=NormConfig(place="pre", eps=facts.number("eps")),
            dropout=facts.number("dropout"),
        ),
        tied=tied,
        initial=InitialConfig(scheme="normal", std=facts.number("std"), shrink_residuals=True),
    )


def _check(config: DecoderConfig, tokenizer: Tokenizer | None) -> None:
    body, embedding = check_body(config), config.embedding
    norm, inner = body.norm, body.feed_forward
    first = config.positions.first
    for holds, setting, rule, remedy in (
        (
            not embedding.normed,
            "embedding.normed=true",
            "GPT-2 does not normalise the sum",
            "decoder.embedding.normed=false",
        ),
        (
            embedding.segments == 0,
            f"embedding.segments={embedding.segments}",
            "GPT-2 has none",
            "decoder.embedding.segments=0",
        ),
        (
            first == 0,
            f"positions.first={first}",
            "GPT-2 counts positions from 0",
            "decoder.positions.first=0",
        ),
        (norm.place == "pre", f"norm.place={norm.place!r}", "GPT-2's is pre", "norm=pre"),
        (
            body.final_norm is not False,
            "body.final_norm=false",
            "GPT-2 has one",
            "decoder.body.final_norm=true",
        ),
        (not config.head_bias, "head_bias=true", "GPT-2's output has none", "decoder.head_bias=false"),
    ):
        require(holds, setting, rule, f"train with model.{remedy}")
    if inner.dropout:
        warnings.warn(
            f"feed_forward.dropout={inner.dropout} has no place in the folder", HubWarning, stacklevel=5
        )


def _words(config: DecoderConfig) -> Mapping[str, Any]:
    body = config.body
    if not isinstance(body, TransformerConfig):
        raise TypeError("the check has let a recurrent body through")
    d_ff = body.feed_forward.d_ff
    return {
        "vocabulary": config.vocabulary,
        "d_model": config.d_model,
        "layers": body.layers,
        "heads": body.attention.heads,
        "d_ff": None if d_ff == 4 * config.d_model else d_ff,
        "activation": _ACTIVATIONS[body.feed_forward.activation],
        "dropout": body.dropout,
        "embedding_dropout": config.embedding.dropout,
        "attention_dropout": body.attention.dropout,
        "rows": config.positions.longest,
        "eps": body.norm.eps,
        "std": config.initial.std,
    }


GPT2 = DecoderFamily(
    name="gpt2",
    stem="GPT2",
    prefix="transformer.",
    buffers=("h.#.attn.bias", "h.#.attn.masked_bias"),
    body={
        "embedding.tokens.*": "wte.*",
        "embedding.positions.table.*": "wpe.*",
        "body.layers.#.attention_residual.norm.*": "h.#.ln_1.*",
        "body.layers.#.attention.project.*": "h.#.attn.c_attn.*^T",
        "body.layers.#.attention.output.*": "h.#.attn.c_proj.*^T",
        "body.layers.#.feed_forward_residual.norm.*": "h.#.ln_2.*",
        "body.layers.#.feed_forward.inner.*": "h.#.mlp.c_fc.*^T",
        "body.layers.#.feed_forward.output.*": "h.#.mlp.c_proj.*^T",
        "body.final_norm.*": "ln_f.*",
    },
    heads={"language": {"head.weight": "lm_head.weight"}},
    keys={
        "vocabulary": "vocab_size",
        "d_model": "n_embd",
        "layers": "n_layer",
        "heads": "n_head",
        "d_ff": "n_inner",
        "activation": "activation_function",
        "dropout": "resid_pdrop",
        "embedding_dropout": "embd_pdrop",
        "attention_dropout": "attn_pdrop",
        "rows": "n_positions",
        "eps": "layer_norm_epsilon",
        "std": "initializer_range",
        "pad": "pad_token_id",
    },
    defaults={
        "vocabulary": 50257,
        "d_model": 768,
        "layers": 12,
        "heads": 12,
        "activation": "gelu_new",
        "dropout": 0.1,
        "embedding_dropout": 0.1,
        "attention_dropout": 0.1,
        "rows": 1024,
        "eps": 1e-05,
        "std": 0.02,
    },
    vocabulary=UNFRAMED_BYTE_PAIRS,
    architectures=("GPT2LMHeadModel", "GPT2Model"),
    read=_read,
    claims=lambda config, tokenizer: True,
    check=_check,
    words=_words,
)
