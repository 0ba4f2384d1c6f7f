"""Tiny models of each family with random weights, as folders: what is tested where no model is given.

Between them they have each task's head, most kinds of positions, both places of the norm, shared keys, a
window, and recurrent bodies.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from regard.models.decoder import Decoder
from regard.models.headed import Headed, HeadedConfig
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import (
    ClassifyConfig,
    DecoderConfig,
    EmbedConfig,
    EncoderConfig,
    HeadConfig,
    MaskedConfig,
    Seq2SeqConfig,
    SpanConfig,
    TagConfig,
)
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    NormConfig,
    PositionsConfig,
    RecurrentConfig,
    TransformerConfig,
)
from regard.tasks.answering.answerer import Answerer
from regard.tasks.base.predictor import Predictor, save
from regard.tasks.base.reading import Reader
from regard.tasks.classification.classifier import Classifier
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.language.generator import Generator
from regard.tasks.pretraining.filler import Filler
from regard.tasks.reranking.reranker import Reranker
from regard.tasks.tagging.tagger import Tagger
from regard.tasks.translation.translator import Translator
from regard.text import Tokenizer, TokenizerConfig
from regard.text.phrasebook import phrases

LONGEST = 64
SPREAD = 0.15
"""Of random numbers on top of the initial weights, so that heads look somewhere and every bias counts."""
LABELS = ("B-X", "I-X", "O")


def _body(**settings: Any) -> TransformerConfig:
    plain: dict[str, Any] = {
        "layers": 2,
        "attention": AttentionConfig(heads=4),
        "feed_forward": FeedForwardConfig(d_ff=128),
    }
    return TransformerConfig(**plain | settings)


CLASSIC = _body()
GPT = _body(feed_forward=FeedForwardConfig(d_ff=128, activation="gelu_tanh"), norm=NormConfig(place="pre"))
BERT = _body(feed_forward=FeedForwardConfig(d_ff=128, activation="gelu"))
MODERN = _body(
    attention=AttentionConfig(heads=4, kv_heads=2, bias=False),
    feed_forward=FeedForwardConfig(d_ff=128, activation="swiglu", bias=False),
    norm=NormConfig(kind="rms", place="pre"),
)
WINDOW = _body(window=3)
LSTM, GRU = RecurrentConfig(cell="lstm", attention="additive"), RecurrentConfig(cell="gru", attention="dot")
Shape = tuple[TransformerConfig | RecurrentConfig, str]

TRANSLATORS: dict[str, Shape] = {
    "translator": (_body(layers=1), "sinusoidal"),  # its export is three graphs, each in seconds for a layer
    "modern translator": (MODERN, "rotary"),
    "recurrent translator": (LSTM, "none"),
}
LANGUAGE: dict[str, Shape] = {
    "language model": (GPT, "learned"),
    "modern language model": (MODERN, "rotary"),
    "recurrent language model": (GRU, "none"),
}
ENCODERS: dict[str, tuple[Shape, HeadConfig]] = {
    "classifier": ((BERT, "learned"), ClassifyConfig(labels=len(LABELS))),
    "filler": ((BERT, "alibi"), MaskedConfig()),
    "tagger": ((CLASSIC, "relative"), TagConfig(tags=len(LABELS))),
    "answerer": ((WINDOW, "fraction"), SpanConfig()),
    "embedder": ((MODERN, "rotary"), EmbedConfig()),
    "reranker": ((CLASSIC, "learned"), ClassifyConfig(labels=1)),
}
EXPORTED = ("translator", "language model", "classifier")
"""One of each make: writing a graph takes seconds."""


def write_tiny(folder: Path) -> dict[str, Path]:
    """All of them, by name. The same weights each time."""
    torch.manual_seed(0)
    texts = [side for pair in phrases("train", 100) for side in (pair.source, pair.target)]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(kind="words", vocabulary=200))
    found = {}
    for name, predictor in _predictors(tokenizer):
        with torch.no_grad():
            for parameter in predictor.model.parameters():
                parameter.add_(SPREAD * torch.randn_like(parameter))
        found[name] = folder / name.replace(" ", "-")
        save(predictor, found[name])
    return found


def _predictors(tokenizer: Tokenizer) -> Iterator[tuple[str, Predictor]]:
    size = len(tokenizer)
    for name, shape in TRANSLATORS.items():
        model = Seq2Seq(Seq2SeqConfig(encoder=_encoder(size, shape), decoder=_decoder(size, shape)))
        yield name, Translator(model.eval(), tokenizer, longest=LONGEST)
    for name, shape in LANGUAGE.items():
        yield name, Generator(Decoder(_decoder(size, shape)).eval(), tokenizer, longest=LONGEST)
    for name, (shape, head) in ENCODERS.items():
        headed = Headed(HeadedConfig(encoder=_encoder(size, shape), head=head))
        reader = Reader(headed.eval(), tokenizer, longest=LONGEST)
        match head:
            case ClassifyConfig(labels=1):
                yield name, Reranker(reader)
            case ClassifyConfig():
                yield name, Classifier(reader, LABELS)
            case MaskedConfig():
                yield name, Filler(reader)
            case TagConfig():
                yield name, Tagger(reader, LABELS)
            case SpanConfig():
                yield name, Answerer(reader)
            case EmbedConfig():
                yield name, Embedder(reader)


def _encoder(vocabulary: int, shape: Shape) -> EncoderConfig:
    return EncoderConfig(**_parts(vocabulary, shape))


def _decoder(vocabulary: int, shape: Shape) -> DecoderConfig:
    return DecoderConfig(**_parts(vocabulary, shape))


def _parts(vocabulary: int, shape: Shape) -> dict[str, Any]:
    body, kind = shape
    return {
        "vocabulary": vocabulary,
        "d_model": 64,
        "embedding": EmbeddingConfig(dropout=0.1),
        "positions": PositionsConfig(kind=kind, longest=LONGEST),
        "body": body,
    }
