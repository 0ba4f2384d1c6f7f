"""BERT (Devlin et al. 2019), and what encoders made like it share: post-norm layers with biases, learned
positions, a norm on the embedding.
"""

import warnings
from typing import Any

from regard.hub.facts import Facts
from regard.hub.family import EncoderFamily
from regard.hub.files import HubError, HubWarning
from regard.hub.names import Family
from regard.hub.vocabularies import WORD_PIECES
from regard.hub.writing import check_body, check_head, require
from regard.models.headed import HeadedConfig
from regard.settings.models import EncoderConfig
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

LAYER = "encoder.layer.#."
SENTENCES = {
    "embed": {"head.project.*": "dense/linear.*"},
    "scored": {"head.dense.*": "dense/inner/linear.*", "head.output.*": "dense/output/linear.*"},
}
"""The modules of sentence-transformers, around any family."""
BODY = {
    "encoder.embedding.tokens.*": "embeddings.word_embeddings.*",
    "encoder.embedding.positions.table.*": "embeddings.position_embeddings.*",
    "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
    "encoder.embedding.segments.*": "embeddings.token_type_embeddings.*",
    "encoder.body.layers.#.attention.project.*": (
        f"{LAYER}attention.self.query.* {LAYER}attention.self.key.* {LAYER}attention.self.value.*"
    ),
    "encoder.body.layers.#.attention.output.*": f"{LAYER}attention.output.dense.*",
    "encoder.body.layers.#.attention_residual.norm.*": f"{LAYER}attention.output.LayerNorm.*",
    "encoder.body.layers.#.feed_forward.inner.*": f"{LAYER}intermediate.dense.*",
    "encoder.body.layers.#.feed_forward.output.*": f"{LAYER}output.dense.*",
    "encoder.body.layers.#.feed_forward_residual.norm.*": f"{LAYER}output.LayerNorm.*",
    "encoder.pooler.dense.*": "pooler.dense.*",
}
KEYS = {
    "vocabulary": "vocab_size",
    "d_model": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "d_ff": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "rows": "max_position_embeddings",
    "segments": "type_vocab_size",
    "eps": "layer_norm_eps",
    "std": "initializer_range",
    "pad": "pad_token_id",
    "head_dropout": "classifier_dropout",
}
DEFAULTS: dict[str, Any] = {
    "vocabulary": 30522,
    "d_model": 768,
    "layers": 12,
    "heads": 12,
    "d_ff": 3072,
    "activation": "gelu",
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "rows": 512,
    "segments": 2,
    "eps": 1e-12,
    "std": 0.02,
    "pad": 0,
}


def read(facts: Facts[Family], pooler: bool, *, first: int = 0) -> EncoderConfig:
    """`first` rows of the positions' table are never used."""
    longest = facts.count("rows") - first
    if longest < 1:
        raise HubError(
            f"{facts.path}: {facts.family.keys['rows']} leaves no positions after the first {first}"
        )
    dropout = facts.number("dropout")
    return EncoderConfig(
        vocabulary=facts.count("vocabulary"),
        d_model=facts.count("d_model"),
        embedding=EmbeddingConfig(
            scaled=False, segments=facts.count("segments", least=0), normed=True, dropout=dropout
        ),
        positions=PositionsConfig(kind="learned", longest=longest, first=first),
        body=TransformerConfig(
            layers=facts.count("layers"),
            attention=AttentionConfig(heads=facts.count("heads")),
            feed_forward=FeedForwardConfig(d_ff=facts.count("d_ff"), activation=facts.activation()),
            norm=NormConfig(eps=facts.number("eps")),
            dropout=dropout,
        ),
        pooler=pooler,
        initial=InitialConfig(scheme="normal", std=facts.number("std")),
    )


def check_encoder(encoder: EncoderConfig) -> TransformerConfig:
    """What no encoder made like BERT has."""
    body, embedding = check_body(encoder), encoder.embedding
    inner, norm = body.feed_forward, body.norm
    normed = "train with model.encoder.embedding.normed=true"
    require(embedding.normed, "embedding.normed=false", "they normalise the sum", normed)
    require(
        norm.place == "post", f"norm.place={norm.place!r}", "theirs is post", "train with model.norm=post"
    )
    final = "train with model.encoder.body.final_norm=false"
    require(not body.final_norm, "body.final_norm=true", "they have none", final)
    if inner.dropout or embedding.dropout != body.dropout:
        warnings.warn(
            f"the folder says dropout {body.dropout} for embedding and layers: feed_forward.dropout="
            f"{inner.dropout} and embedding.dropout={embedding.dropout} have no place in it",
            HubWarning,
            stacklevel=6,
        )
    return body


def _check(config: HeadedConfig, tokenizer: Tokenizer) -> None:
    check_encoder(config.encoder)
    check_head(config, BERT)


BERT = EncoderFamily(
    name="bert",
    stem="Bert",
    prefix="bert.",
    buffers=("embeddings.position_ids", "embeddings.token_type_ids"),
    body=BODY,
    heads={
        "masked": {
            "head.dense.*": "cls.predictions.transform.dense.*",
            "head.norm.*": "cls.predictions.transform.LayerNorm.*",
            "head.vocabulary.bias": "cls.predictions.bias",
            "head.vocabulary.weight": "cls.predictions.decoder.weight",
            "head.next_sentence.output.*": "cls.seq_relationship.*",
        },
        "classify": {"head.output.*": "classifier.*"},
        "tag": {"head.output.*": "classifier.*"},
        "span": {"head.output.*": "qa_outputs.*"},
        **SENTENCES,
    },
    aliases={"cls.predictions.decoder.bias": "cls.predictions.bias"},
    keys=KEYS,
    defaults=DEFAULTS,
    vocabulary=WORD_PIECES,
    read=read,
    claims=lambda encoder, tokenizer: True,
    check=_check,
    says={"position_embedding_type": "absolute"},
    classifier=("pooler", "none"),
)
