"""Small models to decode from, and the naive way to score what they could say."""

import dataclasses
import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.models.seq2seq import Seq2Seq
from regard.nn.state import State
from regard.settings.models import Seq2SeqConfig
from tests.models.families import VOCABULARY, decoder, seq2seq

START, END = 1, 2


class Lively:
    """A model's scores made steep, its end made likely enough to come: random models are too even."""

    def __init__(self, model: Seq2Seq | Decoder, *, steep: float = 4.0, end: float = 1.0) -> None:
        self.model = model.eval()
        self.steep, self.end = steep, end
        self.rows: list[int] = []
        """How many each step was asked for."""

    def liven(self, logits: Tensor) -> Tensor:
        logits = self.steep * logits
        logits[:, END] += self.end
        return logits

    def prefill(self, ids: Tensor, layout: Layout, state: State) -> Tensor:
        self.rows.append(layout.sequences)
        return self.liven(self.model.prefill(ids, layout, state))

    def step(self, tokens: Tensor, state: State) -> Tensor:
        self.rows.append(len(tokens))
        return self.liven(self.model.step(tokens, state))

    def start(self, sources: Sequence[Sequence[int]]) -> State:
        with torch.no_grad():
            if isinstance(self.model, Decoder):
                return self.model.start(rows=len(sources), capacity=4)
            layout = Layout.of([len(source) for source in sources])
            return self.model.start(torch.tensor(list(itertools.chain(*sources))), layout, capacity=4)

    @torch.no_grad()
    def log_probabilities(self, source: Sequence[int], targets: Sequence[Sequence[int]]) -> Tensor:
        """[targets, tokens, vocab] from a whole forward pass over targets of one length: what follows each
        token."""
        ids, layout = torch.tensor(targets).flatten(), Layout.of([len(target) for target in targets])
        if isinstance(self.model, Decoder):
            logits = self.model.head(self.model(ids, layout))
        else:
            sources = Layout.of([len(source)] * len(targets))
            states = self.model(torch.tensor(source).repeat(len(targets)), sources, ids, layout)
            logits = self.model.decoder.head(states)
        return self.liven(logits).log_softmax(dim=1).unflatten(0, (len(targets), -1))


def translator(family, vocabulary: int = VOCABULARY, **settings) -> Lively:
    config = seq2seq(*family)
    config = Seq2SeqConfig(
        encoder=dataclasses.replace(config.encoder, vocabulary=vocabulary),
        decoder=dataclasses.replace(config.decoder, vocabulary=vocabulary),
    )
    return Lively(Seq2Seq(config), **settings)


def language_model(family, **settings) -> Lively:
    return Lively(Decoder(decoder(*family)), **settings)


def everything(
    model: Lively, source: Sequence[int], prefix: Sequence[int], vocabulary: int, maximum: int
) -> dict[tuple[int, ...], float]:
    """Every sequence of up to `maximum` tokens that has an end behind it, with its log-probability."""
    others = [token for token in range(vocabulary) if token != END]
    longest = list(itertools.product(others, repeat=maximum))
    following = model.log_probabilities(source, [[*prefix, *tokens] for tokens in longest])
    found = {}
    for tokens, rows in zip(longest, following[:, len(prefix) - 1 :].tolist(), strict=True):
        for length in range(maximum + 1):
            steps = zip(rows, [*tokens[:length], END], strict=False)
            found[(*prefix[1:], *tokens[:length])] = sum(row[token] for row, token in steps)
    return found
