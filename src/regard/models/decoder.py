"""A decoder: predicts each token from those before it. GPT's family, and the target side of a translator.

    P(y_t | y_<t, source) = softmax(W h_t)      h = Body(Embedding(y)), each token seeing itself and the past

`forward` takes whole sequences; `step` takes one new token in each row and remembers. tests/models hold
cached steps equal to the whole pass.
"""

from typing import Any, cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layout import Layout
from regard.models.encoder import build_embedding
from regard.nn import Ids, Stream
from regard.nn.embedding import VocabularyHead
from regard.nn.initialize import initialize
from regard.nn.recurrent import RecurrentDecoder
from regard.nn.stacks import Stack
from regard.nn.state import Memory, RecurrentState, TransformerState
from regard.settings.models import DecoderConfig
from regard.settings.network import TransformerConfig


class Decoder(nn.Module):
    def __init__(self, config: DecoderConfig, *, d_memory: int | None = None) -> None:
        """`d_memory` is the width of the encoder's states, if there is an encoder to look at."""
        super().__init__()
        self.config = config
        self.embedding = build_embedding(
            config.vocabulary, config.d_model, config.embedding, config.positions, config.body
        )
        self.body: Stack | RecurrentDecoder = (
            Stack(config.d_model, config.body, config.positions, causal=True, d_memory=d_memory)
            if isinstance(config.body, TransformerConfig)
            else RecurrentDecoder(config.d_model, config.body, d_memory=d_memory)
        )
        tied = self.embedding.tokens if config.tied else None
        self.head = VocabularyHead(
            config.vocabulary, config.d_model, bias=config.head_bias, tied=tied, scaled=config.head_scaled
        )
        initialize(self, config.initial)

    def forward(self, ids: Ids, layout: Layout, memory: Memory | None = None) -> Stream:
        """The states that `head` turns into scores for the next token; take it on predicted positions
        only."""
        return self.body(self.embedding(ids, layout.positions, layout.longest), layout, memory)

    def start(
        self, *, rows: int | None = None, capacity: int = 256, memory: Memory | None = None
    ) -> TransformerState | RecurrentState:
        """An empty state: one row for each source of the memory, or as many rows as asked for."""
        if (rows is None) == (memory is None):
            raise ValueError("give either rows, or the memory whose sources are the rows")
        count = memory.layout.sequences if memory is not None else rows or 0
        like = self.embedding.tokens.weight if memory is None else memory.states
        return self.body.start(rows=count, capacity=capacity, like=like.detach(), memory=memory)

    def prefill(
        self, ids: Ids, layout: Layout, state: TransformerState | RecurrentState
    ) -> Float[Tensor, "sequences vocab"]:
        """Whole prefixes into a fresh state, sequence r to row r; the scores for what follows each."""
        if state.longest or layout.sequences != state.rows:
            raise ValueError(
                f"prefill takes a fresh state and one prefix for each row: {layout.sequences} prefixes, "
                f"{state.rows} rows of up to {state.longest} tokens"
            )
        if 0 in layout.host_lengths:
            raise ValueError("a prefix is empty: nothing can follow it; give it a start token at least")
        x = self.embedding(ids, layout.positions, layout.longest)
        states = self.body.prefill(x, layout, cast(Any, state))  # a body gets the state that it started
        return self.head(states.index_select(0, layout.lasts))

    def step(
        self, tokens: Int[Tensor, "rows"], state: TransformerState | RecurrentState
    ) -> Float[Tensor, "rows vocab"]:
        """One new token in each row; the scores for what follows it."""
        x = self.embedding(tokens, state.lengths, state.longest + 1)
        return self.head(self.body.step(x, cast(Any, state)))
