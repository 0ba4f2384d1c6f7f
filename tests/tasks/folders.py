"""The smallest model folders of three kinds, untrained, and ways to spoil them."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

import regard
from regard.decode import DecodeConfig
from regard.models.decoder import Decoder
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import (
    DecoderConfig,
    EmbedConfig,
    EncoderConfig,
    Seq2SeqConfig,
    SpanConfig,
    TagConfig,
)
from regard.settings.network import TransformerConfig
from regard.tasks.answering.answerer import Answerer
from regard.tasks.base.predictor import Predictor
from regard.tasks.classification.classifier import Classifier
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.language.generator import Generator
from regard.tasks.tagging.tagger import Tagger
from regard.tasks.translation.translator import Translator
from regard.text import Tokenizer, TokenizerConfig
from regard.train.digests import KEY
from tests.tasks.encoders import toys

KINDS = ("translate", "classify", "language")
READERS = ("tag", "answer", "embed")
"""More of the encoders' kinds, which open as classifiers do."""


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.train([" ".join(toys.WORDS)] * 2, TokenizerConfig(kind="words", vocabulary=30))


def predictor(kind: str) -> Predictor:
    torch.manual_seed(0)
    vocabulary = len(tokenizer())
    body = TransformerConfig(layers=2)
    target = DecoderConfig(vocabulary=vocabulary, d_model=16, body=body)
    match kind:
        case "translate":
            source = EncoderConfig(vocabulary=vocabulary, d_model=16, body=body)
            model = Seq2Seq(Seq2SeqConfig(encoder=source, decoder=target))
            return Translator(model, tokenizer(), longest=40, decoding=DecodeConfig(beam=2))
        case "classify":
            return Classifier(toys.reader(toys.model(vocabulary=vocabulary), longest=40), ("a", "b", "c"))
        case "tag":
            return Tagger(
                toys.reader(toys.model(TagConfig(tags=3), vocabulary), longest=40), ("O", "B-a", "I-a")
            )
        case "answer":
            return Answerer(toys.reader(toys.model(SpanConfig(), vocabulary), longest=40))
        case "embed":
            return Embedder(toys.reader(toys.model(EmbedConfig(), vocabulary), longest=40))
        case _:
            return Generator(Decoder(target), tokenizer(), longest=40)


def stored(folder: Path, kind: str) -> Path:
    """A folder as a training leaves it, as far as opening it goes."""
    regard.save(predictor(kind), folder)
    (folder / "metrics.json").write_text('{"step": 1, "valid": {"loss": 1.5}}')
    return folder


def said(folder: Path) -> Any:
    """What the model in a folder makes of a text: the same as long as nothing of it has changed."""
    model: Any = regard.load(folder, device="cpu")
    match model.task:
        case "translate":
            return [(each.text, each.score) for each in model.translate(["sun rain", "old red house"])]
        case "classify":
            return model.scores(["sun rain", "old red house"]).tolist()
        case "tag":
            return [each.tags for each in model.tag(["sun rain", "old red house"])]
        case "answer":
            return [each.to_dict() for each in model.answer(["sun"], ["old red house sees sun"])]
        case "embed":
            return model.embed(["sun rain", "old red house"]).tolist()
        case _:
            return [each.ids for each in model.generate("sun", max_tokens=5, seed=1)]


def edit(folder: Path, change: Callable[[dict[str, Any]], object], *, digests: bool = False) -> None:
    """Change config.json; unless told otherwise as somebody would who leaves the digests out."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    if not digests and isinstance(config, dict):
        config.pop(KEY, None)
    path.write_text(json.dumps(config))
