"""Small models of every family, for tests that must hold for all of them."""

import dataclasses

from regard.settings.models import DecoderConfig, EncoderConfig, Seq2SeqConfig
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    NormConfig,
    PositionsConfig,
    RecurrentConfig,
    TransformerConfig,
)

VOCABULARY = 16
D_MODEL = 32


def transformer(**settings) -> TransformerConfig:
    return TransformerConfig(
        **{
            "layers": 2,
            "attention": AttentionConfig(heads=4),
            "feed_forward": FeedForwardConfig(d_ff=64),
            "dropout": 0.0,
            **settings,
        }
    )


MODERN = transformer(
    attention=AttentionConfig(heads=4, kv_heads=2, bias=False),
    feed_forward=FeedForwardConfig(d_ff=64, activation="swiglu", bias=False),
    norm=NormConfig(kind="rms", place="pre"),
)
BODIES = {
    **{
        f"transformer, {kind}": (transformer(), kind)
        for kind in ("sinusoidal", "learned", "fraction", "rotary", "relative")
    },
    "transformer, one bias for all layers": (
        transformer(),
        PositionsConfig(kind="relative", shared=True, buckets=8, reach=9),
    ),
    "transformer, a bias beside learned positions": (
        transformer(),
        PositionsConfig(kind="learned", longest=64, beside="relative", shared=True, buckets=8, reach=9),
    ),
    "transformer, T5's make": (
        transformer(
            attention=AttentionConfig(heads=4, bias=False, scale=1.0),
            feed_forward=FeedForwardConfig(d_ff=64, activation="geglu_tanh", bias=False),
            norm=NormConfig(kind="rms", place="pre"),
        ),
        PositionsConfig(kind="relative", shared=True, buckets=8, reach=9),
    ),
    "transformer, another scale": (transformer(attention=AttentionConfig(heads=4, scale=0.7)), "sinusoidal"),
    "transformer, alibi": (transformer(norm=NormConfig(place="pre")), "alibi"),
    "transformer, no positions": (transformer(), "none"),
    "transformer, modern": (MODERN, "rotary"),
    "transformer, Qwen2's make": (
        dataclasses.replace(
            MODERN, attention=AttentionConfig(heads=4, kv_heads=2, bias=True, output_bias=False)
        ),
        "rotary",
    ),
    "transformer, Qwen3's make": (
        dataclasses.replace(
            MODERN, attention=AttentionConfig(heads=4, kv_heads=2, d_head=12, bias=False, qk_norm=True)
        ),
        "rotary",
    ),
    "transformer, window": (transformer(window=2), "sinusoidal"),
    "transformer, free widths": (
        transformer(attention=AttentionConfig(heads=3, d_head=8, d_value=12)),
        "rotary",
    ),
    "lstm, additive": (RecurrentConfig(cell="lstm", attention="additive", dropout=0.0), "none"),
    "gru, dot": (RecurrentConfig(cell="gru", attention="dot", dropout=0.0), "none"),
    "lstm, sinusoidal": (RecurrentConfig(cell="lstm", attention="scaled", dropout=0.0), "sinusoidal"),
    "lstm, no attention": (RecurrentConfig(cell="lstm", attention="none", dropout=0.0), "none"),
}
"""A body and a kind of positions for each family."""

LONG = {
    "transformer, windows and global layers": (
        dataclasses.replace(MODERN, layers=4, window=2, global_every=2),
        "rotary",
    ),
    "transformer, windows with a base of their own": (
        dataclasses.replace(MODERN, layers=4, window=2, global_every=3, global_first=1),
        PositionsConfig(kind="rotary", base=1000.0, local_base=20.0),
    ),
    "transformer, yarn": (MODERN, PositionsConfig(kind="rotary", scaling="yarn", factor=4.0, trained=8)),
}
"""The same for long texts."""


def encoder(body, kind: str | PositionsConfig, **settings) -> EncoderConfig:
    return EncoderConfig(
        vocabulary=VOCABULARY,
        d_model=D_MODEL,
        embedding=EmbeddingConfig(dropout=0.0),
        positions=PositionsConfig(kind=kind, longest=64) if isinstance(kind, str) else kind,
        body=body,
        **settings,
    )


def decoder(body, kind: str | PositionsConfig, **settings) -> DecoderConfig:
    shared = encoder(body, kind)
    names = (field.name for field in dataclasses.fields(EncoderConfig) if field.name != "pooler")
    return DecoderConfig(**{name: getattr(shared, name) for name in names}, **settings)


def seq2seq(body, kind: str | PositionsConfig) -> Seq2SeqConfig:
    return Seq2SeqConfig(encoder=encoder(body, kind), decoder=decoder(body, kind))
