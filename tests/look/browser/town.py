"""Small models of a made-up town: a few kinds of sentences, which each model learns in some seconds.

Ann Lee likes the lovely garden in New York because it is old.
B-PER I-PER                        B-LOC I-LOC                      good
"""

import random
from collections.abc import Callable
from functools import cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.packing import pack
from regard.models.decoder import Decoder
from regard.models.headed import Headed, HeadedConfig
from regard.settings.models import ClassifyConfig, HeadConfig, MaskedConfig, PoolConfig, TagConfig
from regard.settings.presets import bert, gpt
from regard.tasks.base.reading import Reader
from regard.tasks.classification.classifier import Classifier
from regard.tasks.language.generator import Generator
from regard.tasks.pretraining.filler import Filler
from regard.tasks.tagging.tagger import Tagger
from regard.text import Tokenizer, TokenizerConfig

PEOPLE, PLACES = ("Ann Lee", "Tom", "Eva Stone", "Karl"), ("Rome", "New York", "Oslo")
GOOD, BAD = ("lovely", "bright", "warm"), ("dull", "gloomy", "cold")
NOUNS = ("house", "garden", "river", "station", "museum")
VERBS = {"sees": "because it is near", "likes": "because it is old", "finds": "after a long walk"}

Example = tuple[list[str], list[str], str]
"""The words of a sentence, their tags, and whether it is good or bad."""


def example(chance: random.Random) -> Example:
    person, place = chance.choice(PEOPLE).split(), chance.choice(PLACES).split()
    verb, mood = chance.choice([*VERBS]), chance.choice(("good", "bad"))
    middle = [verb, "the", chance.choice(GOOD if mood == "good" else BAD), chance.choice(NOUNS), "in"]
    after = [*VERBS[verb].split(), "."]
    tags = [f"{'I' if number else 'B'}-PER" for number in range(len(person))]
    tags += ["O"] * len(middle) + [f"{'I' if number else 'B'}-LOC" for number in range(len(place))]
    return [*person, *middle, *place, *after], [*tags, *(["O"] * len(after))], mood


def sentences(count: int, seed: int = 0) -> list[Example]:
    chance = random.Random(seed)
    return [example(chance) for _ in range(count)]


def spoken(words: list[str]) -> str:
    return " ".join(words[:-1]) + words[-1]


@cache
def tokenizer_of(kind: Literal["wordpiece", "byte-bpe"]) -> Tokenizer:
    """Frequent words are whole, some are not."""
    texts = [spoken(words) for words, _, _ in sentences(400)]
    config = TokenizerConfig(kind=kind, vocabulary=150 if kind == "wordpiece" else 380)
    return Tokenizer.train(texts, config)


def learn(model: nn.Module, loss: Callable[[list[Example]], Tensor], steps: int, rate: float = 1e-2) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for step in range(steps):
        optimizer.zero_grad()
        loss(sentences(24, seed=step)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


@cache
def language_model() -> Generator:
    """It reads 64 tokens at most."""
    torch.manual_seed(0)
    tokenizer = tokenizer_of("byte-bpe")
    model = Decoder(gpt(len(tokenizer), layers=2, d_model=32, heads=2, d_ff=64, longest=64))
    start, end = tokenizer.require("start"), tokenizer.require("end")

    def loss(examples: list[Example]) -> Tensor:
        ids = tokenizer.encode_batch([spoken(words) for words, _, _ in examples])
        read, follow = pack([[start, *own] for own in ids]), pack([[*own, end] for own in ids])
        return F.cross_entropy(model.head(model(read.ids, read.layout)), follow.ids)

    learn(model, loss, 120)
    return Generator(model, tokenizer, longest=64)


def _encoder(head: HeadConfig, kind: Literal["wordpiece", "byte-bpe"] = "wordpiece") -> Headed:
    torch.manual_seed(0)
    shape = bert(len(tokenizer_of(kind)), layers=2, d_model=32, heads=2, d_ff=64)
    return Headed(HeadedConfig(encoder=shape, head=head))


@cache
def filler() -> Filler:
    tokenizer, model = tokenizer_of("wordpiece"), _encoder(MaskedConfig())
    mask = tokenizer.require("mask")

    def loss(examples: list[Example]) -> Tensor:
        packed = pack(tokenizer.encode_batch([spoken(words) for words, _, _ in examples], template="cls"))
        ids = packed.ids.masked_fill(torch.rand(len(packed.ids)) < 0.2, mask)
        return F.cross_entropy(model(ids, packed.layout), packed.ids)  # of what is not masked too

    learn(model, loss, 160)
    return Filler(Reader(model, tokenizer, longest=64))


@cache
def tagger() -> Tagger:
    tokenizer, labels = tokenizer_of("wordpiece"), ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    model = _encoder(TagConfig(tags=len(labels)))

    def loss(examples: list[Example]) -> Tensor:
        read = [tokenizer.encode_words(words, template="cls") for words, _, _ in examples]
        packed = pack([[*own.ids] for own in read])
        tags = [
            -100 if word is None else labels.index(tagged[word])
            for own, (_, tagged, _) in zip(read, examples, strict=True)
            for word in own.words
        ]
        return F.cross_entropy(model(packed.ids, packed.layout), torch.tensor(tags))

    learn(model, loss, 50)
    return Tagger(Reader(model, tokenizer, longest=64), labels, decode="valid")


@cache
def classifier(pool: Literal["first", "attention"] = "first") -> Classifier:
    tokenizer, labels = tokenizer_of("wordpiece"), ("good", "bad")
    model = _encoder(ClassifyConfig(labels=2, pool=PoolConfig(kind=pool)))

    def loss(examples: list[Example]) -> Tensor:
        packed = pack(tokenizer.encode_batch([spoken(words) for words, _, _ in examples], template="cls"))
        return F.cross_entropy(
            model(packed.ids, packed.layout), torch.tensor([labels.index(each[2]) for each in examples])
        )

    learn(model, loss, 50)
    return Classifier(Reader(model, tokenizer, longest=64), labels)
