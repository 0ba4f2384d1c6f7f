"""DistilBERT (Sanh et al. 2019): half of BERT's layers, no segments, no pooler."""

from regard.hub.families import bert
from regard.hub.family import EncoderFamily
from regard.hub.vocabularies import WORD_PIECES
from regard.hub.writing import check_head, require
from regard.models.headed import HeadedConfig
from regard.text import Tokenizer

_LAYER = "transformer.layer.#."
_EPS = 1e-12


def _check(config: HeadedConfig, tokenizer: Tokenizer) -> None:
    body = bert.check_encoder(config.encoder)
    require(
        not config.encoder.pooler,
        "encoder.pooler=true",
        "DistilBERT, which has no segments, has no pooler",
        "train with model.encoder.embedding.segments=2, or without a pooler",
    )
    require(
        body.norm.eps == _EPS,
        f"norm.eps={body.norm.eps}",
        f"DistilBERT's is {_EPS}",
        f"train with model.encoder.embedding.segments=2, or with model.encoder.body.norm.eps={_EPS}",
    )
    check_head(config, DISTILBERT)


DISTILBERT = EncoderFamily(
    name="distilbert",
    stem="DistilBert",
    prefix="distilbert.",
    buffers=bert.BERT.buffers,
    body={
        "encoder.embedding.tokens.*": "embeddings.word_embeddings.*",
        "encoder.embedding.positions.table.*": "embeddings.position_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
        "encoder.body.layers.#.attention.project.*": (
            f"{_LAYER}attention.q_lin.* {_LAYER}attention.k_lin.* {_LAYER}attention.v_lin.*"
        ),
        "encoder.body.layers.#.attention.output.*": f"{_LAYER}attention.out_lin.*",
        "encoder.body.layers.#.attention_residual.norm.*": f"{_LAYER}sa_layer_norm.*",
        "encoder.body.layers.#.feed_forward.inner.*": f"{_LAYER}ffn.lin1.*",
        "encoder.body.layers.#.feed_forward.output.*": f"{_LAYER}ffn.lin2.*",
        "encoder.body.layers.#.feed_forward_residual.norm.*": f"{_LAYER}output_layer_norm.*",
    },
    heads={
        "masked": {
            "head.dense.*": "vocab_transform.*",
            "head.norm.*": "vocab_layer_norm.*",
            "head.vocabulary.bias": "vocab_projector.bias",
            "head.vocabulary.weight": "vocab_projector.weight",
        },
        "classify": {"head.dense.*": "pre_classifier.*", "head.output.*": "classifier.*"},
        "tag": {"head.output.*": "classifier.*"},
        "span": {"head.output.*": "qa_outputs.*"},
        **bert.SENTENCES,
    },
    keys={
        "vocabulary": "vocab_size",
        "d_model": "dim",
        "layers": "n_layers",
        "heads": "n_heads",
        "d_ff": "hidden_dim",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "rows": "max_position_embeddings",
        "std": "initializer_range",
        "pad": "pad_token_id",
        "head_dropout": "seq_classif_dropout",
        "span_dropout": "qa_dropout",
    },
    defaults={
        **bert.DEFAULTS,
        "layers": 6,
        "segments": 0,
        "eps": _EPS,
        "head_dropout": 0.2,
        "span_dropout": 0.1,
    },
    vocabulary=WORD_PIECES,
    read=bert.read,
    claims=lambda encoder, tokenizer: encoder.embedding.segments == 0,
    check=_check,
    classifier=("first", "relu"),
    dropouts={"classify": "head_dropout", "tag": "dropout", "span": "span_dropout"},
)
