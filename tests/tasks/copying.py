"""Small translators for tests: one of each family with random weights, and one that has learned to copy."""

import random
from functools import cache

import torch
import torch.nn.functional as F

from regard.data.packing import pack
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import DecoderConfig, EncoderConfig, Seq2SeqConfig
from regard.settings.network import EmbeddingConfig, NormConfig, PositionsConfig
from regard.tasks.translation.encoding import encode_sources
from regard.tasks.translation.translator import Translator
from regard.text import Specials, Tokenizer, TokenizerConfig
from tests.models.families import BODIES, transformer

WORDS = ["harbour", "lantern", "mirror", "garden", "silver", "bridge", "summer", "candle", "window", "forest"]
LONGEST = 24
RATE = 1e-2


@cache
def tokenizer(*languages: str) -> Tokenizer:
    specials = Specials(cls=None, sep=None, mask=None, extra=tuple(f"<2{each}>" for each in languages))
    config = TokenizerConfig(kind="bpe", vocabulary=72, byte_fallback=False, specials=specials)
    text = [" ".join(WORDS), *(f"{word}, {word}. {word}! {word}" for word in WORDS), "".join(WORDS)]
    return Tokenizer.train(text, config)


FAMILIES = {
    **BODIES,
    "one layer": (transformer(layers=1, norm=NormConfig(place="pre")), "sinusoidal"),
}


def model(family: str, vocabulary: int, d_model: int = 32) -> Seq2Seq:
    body, kind = FAMILIES[family]
    shared = {
        "vocabulary": vocabulary,
        "d_model": d_model,
        "embedding": EmbeddingConfig(dropout=0.0),
        "positions": kind if isinstance(kind, PositionsConfig) else PositionsConfig(kind=kind, longest=64),
        "body": body,
    }
    return Seq2Seq(Seq2SeqConfig(encoder=EncoderConfig(**shared), decoder=DecoderConfig(**shared)))


def translator(family: str = "transformer, sinusoidal", *languages: str, **settings) -> Translator:
    """With random weights, which write nonsense, but always the same."""
    torch.manual_seed(0)
    own = tokenizer(*languages)
    settings = {"longest": LONGEST, "languages": languages, **settings}
    return Translator(model(family, len(own)).eval(), own, **settings)


def sentences(count: int, seed: int, most: int = 5) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, most))) for _ in range(count)]


@cache
def copier(family: str = "one layer", steps: int = 300) -> Translator:
    """A few seconds of training: it writes what it reads, up to five words."""
    torch.manual_seed(0)
    own = tokenizer()
    copies = model(family, len(own), d_model=32)
    start, end = own.require("start"), own.require("end")
    optimizer = torch.optim.AdamW(copies.parameters(), lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for step in range(steps):
        texts = sentences(32, seed=step)
        source = pack(encode_sources(own, texts))
        ids = own.encode_batch(texts)
        inputs = pack([[start, *each] for each in ids])
        labels = pack([[*each, end] for each in ids])
        states = copies(source.ids, source.layout, inputs.ids, inputs.layout)
        loss = F.cross_entropy(copies.decoder.head(states), labels.ids)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(copies.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return Translator(copies.eval(), own, longest=12)
