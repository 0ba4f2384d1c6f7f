"""RoBERTa (Liu et al. 2019): BERT without a second sentence, positions counted from behind that of the pad
token.
"""

from dataclasses import replace

from regard.hub.facts import Facts
from regard.hub.families import bert
from regard.hub.family import EncoderFamily
from regard.hub.names import Family
from regard.hub.vocabularies import BYTE_PAIRS, CAMEMBERT_PIECES, XLM_PIECES
from regard.hub.writing import check_head, require
from regard.models.headed import HeadedConfig
from regard.settings.models import EncoderConfig
from regard.text import Tokenizer

HEADS = {
    "masked": {
        "head.dense.*": "lm_head.dense.*",
        "head.norm.*": "lm_head.layer_norm.*",
        "head.vocabulary.bias": "lm_head.bias",
        "head.vocabulary.weight": "lm_head.decoder.weight",
    },
    "classify": {"head.dense.*": "classifier.dense.*", "head.output.*": "classifier.out_proj.*"},
    "tag": {"head.output.*": "classifier.*"},
    "span": {"head.output.*": "qa_outputs.*"},
    **bert.SENTENCES,
}


def read(facts: Facts[Family], pooler: bool) -> EncoderConfig:
    return bert.read(facts, pooler, first=facts.count("pad", least=0) + 1)


def check_first(encoder: EncoderConfig, tokenizer: Tokenizer, stem: str) -> None:
    pad = tokenizer.ids.pad
    require(
        pad is not None and pad + 1 == encoder.positions.first,
        f"positions.first={encoder.positions.first}",
        f"{stem} counts positions from the id of its pad token + 1, and the tokenizer's is {pad}",
        "train with model.encoder.positions.first=0",
    )


def _check(config: HeadedConfig, tokenizer: Tokenizer) -> None:
    encoder = config.encoder
    bert.check_encoder(encoder)
    check_first(encoder, tokenizer, "RoBERTa")
    require(
        encoder.embedding.segments > 0,
        "embedding.segments=0",
        "RoBERTa has one or more",
        "train with model.encoder.embedding.segments=1",
    )
    check_head(config, ROBERTA)


ROBERTA = EncoderFamily(
    name="roberta",
    stem="Roberta",
    prefix="roberta.",
    buffers=bert.BERT.buffers,
    body=bert.BODY,
    heads=HEADS,
    aliases={"lm_head.decoder.bias": "lm_head.bias"},
    keys=bert.KEYS,
    defaults={**bert.DEFAULTS, "vocabulary": 50265, "pad": 1},
    vocabulary=BYTE_PAIRS,
    read=read,
    claims=lambda encoder, tokenizer: encoder.positions.first > 0,
    check=_check,
    says={"position_embedding_type": "absolute"},
    classifier=("first", "tanh"),
    masked_activation="gelu",
)


def _is_unigram(tokenizer: Tokenizer) -> bool:
    return bool(tokenizer.state["model"].get("type") == "Unigram")


XLM_ROBERTA = replace(
    ROBERTA,
    name="xlm-roberta",
    stem="XLMRoberta",
    defaults={**ROBERTA.defaults, "vocabulary": 250002},
    vocabulary=XLM_PIECES,
    claims=lambda encoder, tokenizer: ROBERTA.claims(encoder, tokenizer) and _is_unigram(tokenizer),
)
"""RoBERTa over a hundred languages (Conneau et al. 2020): pieces in the place of bytes. E5, BGE and others
of many languages are embedders on it."""
CAMEMBERT = replace(
    XLM_ROBERTA,
    name="camembert",
    stem="Camembert",
    defaults={**ROBERTA.defaults, "vocabulary": 32005},
    vocabulary=CAMEMBERT_PIECES,
    claims=lambda encoder, tokenizer: (
        XLM_ROBERTA.claims(encoder, tokenizer) and "<s>NOTUSED" in tokenizer.vocabulary
    ),
)
"""The same for French (Martin et al. 2020)."""
