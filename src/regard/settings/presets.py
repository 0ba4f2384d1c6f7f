"""Shapes that have a name: plain configurations, to be changed in any field by `dataclasses.replace`.

                 layers  d_model  heads  d_ff   from
    translators
      tiny          2      128      4     512   a laptop, in a minute
      small         4      256      4    1024   some ten thousand sentences
      base          6      512      8    2048   Vaswani et al. 2017, table 3
      big           6     1024     16    4096   the same
      recurrent     2      512                  Luong et al. 2015, with additive attention
    encoders
      tiny          2      128      2     512   Turc et al. 2019
      mini          4      256      4    1024   the same
      small         4      512      8    2048   the same
      base         12      768     12    3072   Devlin et al. 2019
      recurrent     2      256                  Huang et al. 2015: an LSTM that reads both ways
    language models
      tiny          2      128      4     512   a laptop, in a minute
      small         6      384      6    1536   nanoGPT's model of characters
      base         12      768     12    3072   Radford et al. 2019, the smallest of GPT-2
      recurrent     2      512                  Zaremba et al. 2014: an LSTM, before GPT
                    of each there is a modern twin: RMSNorm, rotary positions, SwiGLU, half as many heads of
                    keys and values, no biases (Touvron et al. 2023; Ainslie et al. 2023)

small is pre-norm: it trains at a high rate with little warm-up. Otherwise dropout is the papers', but for
the attention weights: BERT and GPT-2 drop 10 % of them, which the fused kernels cannot; set
attention.dropout for it."""

from collections.abc import Callable
from typing import Any

from regard.config import from_dict, to_dict
from regard.settings.models import DecoderConfig, EncoderConfig, Seq2SeqConfig
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    InitialConfig,
    NormConfig,
    PositionsConfig,
    RecurrentConfig,
    TransformerConfig,
)


def translator(
    vocabulary: int, *, layers: int, d_model: int, heads: int, d_ff: int, dropout: float
) -> Seq2SeqConfig:
    """The paper's shape: post-norm, ReLU, sinusoidal positions, one matrix for both embeddings and the
    output."""
    body = TransformerConfig(
        layers=layers,
        attention=AttentionConfig(heads=heads),
        feed_forward=FeedForwardConfig(d_ff=d_ff),
        dropout=dropout,
    )
    embedding = EmbeddingConfig(dropout=dropout)
    return Seq2SeqConfig(
        encoder=EncoderConfig(vocabulary=vocabulary, d_model=d_model, embedding=embedding, body=body),
        decoder=DecoderConfig(vocabulary=vocabulary, d_model=d_model, embedding=embedding, body=body),
    )


def bert(vocabulary: int, *, layers: int, d_model: int, heads: int, d_ff: int) -> EncoderConfig:
    """BERT's shape: post-norm, GELU, learned positions and segments under a norm of their own."""
    return EncoderConfig(
        vocabulary=vocabulary,
        d_model=d_model,
        embedding=EmbeddingConfig(scaled=False, segments=2, normed=True),
        positions=PositionsConfig(kind="learned", longest=512),
        body=TransformerConfig(
            layers=layers,
            attention=AttentionConfig(heads=heads),
            feed_forward=FeedForwardConfig(d_ff=d_ff, activation="gelu"),
            norm=NormConfig(eps=1e-12),
        ),
        initial=InitialConfig(scheme="normal"),
    )


def gpt(
    vocabulary: int, *, layers: int, d_model: int, heads: int, d_ff: int, longest: int = 1024
) -> DecoderConfig:
    """GPT-2's shape: pre-norm, approximate GELU, learned positions, tied output."""
    return DecoderConfig(
        vocabulary=vocabulary,
        d_model=d_model,
        embedding=EmbeddingConfig(scaled=False),
        positions=PositionsConfig(kind="learned", longest=longest),
        body=TransformerConfig(
            layers=layers,
            attention=AttentionConfig(heads=heads),
            feed_forward=FeedForwardConfig(d_ff=d_ff, activation="gelu_tanh"),
            norm=NormConfig(place="pre"),
        ),
        initial=InitialConfig(scheme="normal", shrink_residuals=True),
    )


def modern(
    vocabulary: int, *, layers: int, d_model: int, heads: int, d_ff: int, longest: int = 1024
) -> DecoderConfig:
    """What language models became: pre-RMSNorm, rotary positions, SwiGLU, shared keys and values, no biases.
    The gate takes a third of the feed-forward network's weights, so `d_ff` shrinks by a third."""
    return DecoderConfig(
        vocabulary=vocabulary,
        d_model=d_model,
        embedding=EmbeddingConfig(scaled=False),
        positions=PositionsConfig(kind="rotary", longest=longest),
        body=TransformerConfig(
            layers=layers,
            attention=AttentionConfig(heads=heads, kv_heads=heads // 2, bias=False),
            feed_forward=FeedForwardConfig(d_ff=d_ff * 2 // 3 // 64 * 64, activation="swiglu", bias=False),
            norm=NormConfig(kind="rms", place="pre"),
        ),
        initial=InitialConfig(scheme="normal", shrink_residuals=True),
    )


def recurrent(vocabulary: int, *, layers: int, d_model: int, dropout: float) -> Seq2SeqConfig:
    """Before the Transformer: an LSTM that reads both ways, and one that writes and looks at it."""
    parts: dict[str, Any] = {
        "embedding": EmbeddingConfig(dropout=dropout),
        "positions": PositionsConfig(kind="none"),
        "body": RecurrentConfig(layers=layers, dropout=dropout),
    }
    return Seq2SeqConfig(
        encoder=EncoderConfig(vocabulary=vocabulary, d_model=d_model, **parts),
        decoder=DecoderConfig(vocabulary=vocabulary, d_model=d_model, **parts),
    )


def recurrent_encoder(vocabulary: int, *, layers: int, d_model: int, dropout: float) -> EncoderConfig:
    """An LSTM that reads both ways: what taggers and classifiers were before BERT."""
    return EncoderConfig(
        vocabulary=vocabulary,
        d_model=d_model,
        embedding=EmbeddingConfig(scaled=False, segments=2, dropout=dropout),
        positions=PositionsConfig(kind="none"),
        body=RecurrentConfig(layers=layers, dropout=dropout),
        initial=InitialConfig(std=0.1),
    )


def recurrent_decoder(vocabulary: int, *, layers: int, d_model: int, dropout: float) -> DecoderConfig:
    """An LSTM that reads forwards: what language models were before GPT."""
    return DecoderConfig(
        vocabulary=vocabulary,
        d_model=d_model,
        embedding=EmbeddingConfig(scaled=False, dropout=dropout),
        positions=PositionsConfig(kind="none"),
        body=RecurrentConfig(layers=layers, dropout=dropout),
        initial=InitialConfig(std=0.1),
    )


def _pre_norm(config: Seq2SeqConfig) -> Seq2SeqConfig:
    plain = to_dict(config)
    for side in ("encoder", "decoder"):
        plain[side]["body"]["norm"]["place"] = "pre"
    return from_dict(Seq2SeqConfig, plain)


SEQ2SEQ: dict[str, Callable[[int], Seq2SeqConfig]] = {
    "tiny": lambda v: translator(v, layers=2, d_model=128, heads=4, d_ff=512, dropout=0.1),
    "small": lambda v: _pre_norm(translator(v, layers=4, d_model=256, heads=4, d_ff=1024, dropout=0.2)),
    "base": lambda v: translator(v, layers=6, d_model=512, heads=8, d_ff=2048, dropout=0.1),
    "big": lambda v: translator(v, layers=6, d_model=1024, heads=16, d_ff=4096, dropout=0.3),
    "recurrent": lambda v: recurrent(v, layers=2, d_model=512, dropout=0.3),
}
"""Translators by name, for a size of vocabulary."""

ENCODERS: dict[str, Callable[[int], EncoderConfig]] = {
    "tiny": lambda v: bert(v, layers=2, d_model=128, heads=2, d_ff=512),
    "mini": lambda v: bert(v, layers=4, d_model=256, heads=4, d_ff=1024),
    "small": lambda v: bert(v, layers=4, d_model=512, heads=8, d_ff=2048),
    "base": lambda v: bert(v, layers=12, d_model=768, heads=12, d_ff=3072),
    "recurrent": lambda v: recurrent_encoder(v, layers=2, d_model=256, dropout=0.3),
}
"""Encoders by name, for a size of vocabulary."""

DECODERS: dict[str, Callable[[int], DecoderConfig]] = {
    "tiny": lambda v: gpt(v, layers=2, d_model=128, heads=4, d_ff=512),
    "small": lambda v: gpt(v, layers=6, d_model=384, heads=6, d_ff=1536),
    "base": lambda v: gpt(v, layers=12, d_model=768, heads=12, d_ff=3072),
    "recurrent": lambda v: recurrent_decoder(v, layers=2, d_model=512, dropout=0.2),
}
"""Language models by name, for a size of vocabulary: GPT-2's make."""

MODERN: dict[str, Callable[[int], DecoderConfig]] = {
    "tiny": lambda v: modern(v, layers=2, d_model=128, heads=4, d_ff=512),
    "small": lambda v: modern(v, layers=6, d_model=384, heads=6, d_ff=1536),
    "base": lambda v: modern(v, layers=12, d_model=768, heads=12, d_ff=3072),
}
"""The same of a modern make."""
