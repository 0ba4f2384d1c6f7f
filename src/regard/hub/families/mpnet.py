"""MPNet (Song et al. 2020): BERT without segments, with positions counted from behind the pad token's and,
beside them, a relative bias in attention that all layers share: T5's buckets.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.hub.facts import Facts
from regard.hub.families import bert, roberta
from regard.hub.family import EncoderFamily
from regard.hub.names import Family
from regard.hub.vocabularies import MPNET_PIECES
from regard.hub.writing import check_head, require
from regard.models.headed import HeadedConfig
from regard.settings.models import EncoderConfig
from regard.text import Tokenizer

_LAYER = bert.LAYER
_PAD = 1
"""Whatever config.json says."""
_REACH = 128
"""Of the bias; no key says so."""


def _read(facts: Facts[Family], pooler: bool) -> EncoderConfig:
    config = bert.read(facts, pooler, first=_PAD + 1)
    biased: dict[str, Any] = {"beside": "relative", "shared": True, "reach": _REACH}
    return replace(config, positions=replace(config.positions, buckets=facts.count("buckets"), **biased))


def _check(config: HeadedConfig, tokenizer: Tokenizer) -> None:
    encoder, positions = config.encoder, config.encoder.positions
    bert.check_encoder(replace(encoder, positions=replace(positions, beside="none", shared=False)))
    require(
        positions.first == _PAD + 1,
        f"positions.first={positions.first}",
        f"MPNet counts positions from {_PAD + 1}",
        f"train with model.encoder.positions.first={_PAD + 1}",
    )
    roberta.check_first(encoder, tokenizer, "MPNet")
    require(
        positions.shared,
        "positions.shared=false",
        "MPNet's layers share one bias",
        "train with model.encoder.positions.shared=true",
    )
    require(
        positions.reach == _REACH,
        f"positions.reach={positions.reach}",
        f"MPNet's is {_REACH}",
        f"train with model.encoder.positions.reach={_REACH}",
    )
    require(
        encoder.embedding.segments == 0,
        f"embedding.segments={encoder.embedding.segments}",
        "MPNet has none",
        "train with model.encoder.embedding.segments=0",
    )
    check_head(config, MPNET)


def _words(config: HeadedConfig) -> Mapping[str, Any]:
    return {"buckets": config.encoder.positions.buckets}


MPNET = EncoderFamily(
    name="mpnet",
    stem="MPNet",
    prefix="mpnet.",
    buffers=bert.BERT.buffers,
    body={
        "encoder.embedding.tokens.*": "embeddings.word_embeddings.*",
        "encoder.embedding.positions.table.*": "embeddings.position_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
        "encoder.body.layers.0.attention.bias.table.weight": "encoder.relative_attention_bias.weight",
        "encoder.body.layers.#.attention.project.*": (
            f"{_LAYER}attention.attn.q.* {_LAYER}attention.attn.k.* {_LAYER}attention.attn.v.*"
        ),
        "encoder.body.layers.#.attention.output.*": f"{_LAYER}attention.attn.o.*",
        "encoder.body.layers.#.attention_residual.norm.*": f"{_LAYER}attention.LayerNorm.*",
        "encoder.body.layers.#.feed_forward.inner.*": f"{_LAYER}intermediate.dense.*",
        "encoder.body.layers.#.feed_forward.output.*": f"{_LAYER}output.dense.*",
        "encoder.body.layers.#.feed_forward_residual.norm.*": f"{_LAYER}output.LayerNorm.*",
        "encoder.pooler.dense.*": "pooler.dense.*",
    },
    heads=roberta.HEADS,
    aliases=roberta.ROBERTA.aliases,
    keys={
        **{word: key for word, key in bert.KEYS.items() if word not in ("segments", "head_dropout")},
        "buckets": "relative_attention_num_buckets",
    },
    defaults={**bert.DEFAULTS, "vocabulary": 30527, "segments": 0, "pad": _PAD, "buckets": 32},
    vocabulary=MPNET_PIECES,
    read=_read,
    claims=lambda encoder, tokenizer: encoder.positions.beside == "relative",
    check=_check,
    words=_words,
    classifier=("first", "tanh"),
    masked_activation="gelu",
    dropouts={"classify": "dropout", "tag": "dropout"},
)
