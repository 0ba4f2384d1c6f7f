"""Whole models, built as visible trees of parts from frozen configurations."""

from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.heads import (
    ClassifyHead,
    MaskedHead,
    Pool,
    PoolConfig,
    RegressHead,
    TagHead,
    next_sentence_head,
)
from regard.models.presets import DECODERS, ENCODERS, SEQ2SEQ
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig

__all__ = [
    "DECODERS",
    "ENCODERS",
    "SEQ2SEQ",
    "ClassifyHead",
    "Decoder",
    "DecoderConfig",
    "Encoder",
    "EncoderConfig",
    "MaskedHead",
    "Pool",
    "PoolConfig",
    "RegressHead",
    "Seq2Seq",
    "Seq2SeqConfig",
    "TagHead",
    "next_sentence_head",
]
