"""Language models to generate with: of any shape at random, or that say what they are told."""

from functools import cache

import torch

from regard.models.decoder import Decoder
from regard.settings.models import DecoderConfig
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    NormConfig,
    PositionsConfig,
    TransformerConfig,
)
from regard.tasks.language.generator import Generator
from regard.text import Tokenizer, TokenizerConfig

TEXTS = [
    "The cat sat on the mat. The dog ran to the house, and the old tree fell.",
    "Über naïve 貓 🙂 it's they'll 12345 🙂🙂",
    "two words, three words; a red house and a blue house",
]


@cache
def tokens(kind: str = "byte-bpe", vocabulary: int = 330) -> Tokenizer:
    return Tokenizer.train(TEXTS * 2, TokenizerConfig(kind=kind, vocabulary=vocabulary))


def config(vocabulary: int, *, longest: int = 64, positions: str = "learned") -> DecoderConfig:
    return DecoderConfig(
        vocabulary=vocabulary,
        d_model=16,
        embedding=EmbeddingConfig(scaled=False, dropout=0.1),
        positions=PositionsConfig(kind=positions, longest=longest),
        body=TransformerConfig(
            layers=1,
            attention=AttentionConfig(heads=2),
            feed_forward=FeedForwardConfig(d_ff=32),
            norm=NormConfig(place="pre"),
        ),
        tied=False,
        head_bias=True,
    )


def model(vocabulary: int, **settings) -> Decoder:
    """At random, but with a will of its own."""
    made = Decoder(config(vocabulary, **settings))
    with torch.no_grad():
        made.embedding.tokens.weight.copy_(torch.randn(vocabulary, 16))
        made.head.weight.copy_(0.5 * torch.randn(vocabulary, 16))
    return made


def generator(kind: str = "byte-bpe", *, ends: float = -9.0, **settings) -> Generator:
    """`ends` is added to the score of the end."""
    tokenizer = tokens(kind)
    made = model(len(tokenizer), **settings)
    with torch.no_grad():
        made.head.bias[tokenizer.require("end")] += ends
    return Generator(made, tokenizer)


class Saying(Decoder):
    """Its scores are a script's: these ids come behind a prompt, and then the last of them for ever."""

    said: list[int]
    before: int

    def _scores(self, state):
        places = (state.lengths - self.before).clamp(max=len(self.said) - 1)
        return 50.0 * torch.nn.functional.one_hot(torch.tensor(self.said)[places], self.config.vocabulary)

    def prefill(self, ids, layout, state):
        super().prefill(ids, layout, state)
        self.before = layout.longest
        return self._scores(state)

    def step(self, tokens, state):
        super().step(tokens, state)
        return self._scores(state)


def scripted(tokenizer: Tokenizer, said: list[int]) -> Generator:
    made = Saying(config(len(tokenizer)))
    made.said = said
    return Generator(made, tokenizer)
