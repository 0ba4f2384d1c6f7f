"""Whole models, built as visible trees of parts from frozen configurations."""

from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.headed import Headed, HeadedConfig
from regard.models.heads import (
    ClassifyConfig,
    ClassifyHead,
    EmbedConfig,
    EmbedHead,
    MaskedConfig,
    MaskedHead,
    Pool,
    PoolConfig,
    TagConfig,
    TagHead,
)
from regard.models.presets import DECODERS, ENCODERS, MODERN, SEQ2SEQ
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig

__all__ = [
    "DECODERS",
    "ENCODERS",
    "MODERN",
    "SEQ2SEQ",
    "ClassifyConfig",
    "ClassifyHead",
    "Decoder",
    "DecoderConfig",
    "EmbedConfig",
    "EmbedHead",
    "Encoder",
    "EncoderConfig",
    "Headed",
    "HeadedConfig",
    "MaskedConfig",
    "MaskedHead",
    "Pool",
    "PoolConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
    "TagConfig",
    "TagHead",
]
