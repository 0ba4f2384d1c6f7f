"""Whole models, built as visible trees of parts from frozen configurations (`regard.settings.models`)."""

from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.headed import Headed, HeadedConfig
from regard.models.heads import ClassifyHead, EmbedHead, MaskedHead, Pool, TagHead
from regard.models.seq2seq import Seq2Seq

__all__ = [
    "ClassifyHead",
    "Decoder",
    "EmbedHead",
    "Encoder",
    "Headed",
    "HeadedConfig",
    "MaskedHead",
    "Pool",
    "Seq2Seq",
    "TagHead",
]
