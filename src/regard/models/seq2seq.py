"""From one sequence to another (Vaswani et al. 2017, fig. 1): an encoder, and a decoder that looks at it.

    P(y | x) = prod_t P(y_t | y_<t, Encoder(x))

Either side may be a Transformer or recurrent. Trained on whole targets shifted by one; decoded step by step.
"""

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.nn import Ids
from regard.nn.state import RecurrentState, TransformerState
from regard.settings.models import Seq2SeqConfig


class Seq2Seq(nn.Module):
    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config.encoder)
        self.decoder = Decoder(config.decoder, d_memory=config.encoder.d_model)
        if config.shared:
            self.encoder.embedding.tokens.weight = self.decoder.embedding.tokens.weight

    def forward(
        self, source: Ids, source_layout: Layout, target: Int[Tensor, "targets"], target_layout: Layout
    ) -> Float[Tensor, "targets d_model"]:
        """The decoder's states for these target tokens; `decoder.head` scores what follows each."""
        return self.decoder(target, target_layout, self.encoder.remember(source, source_layout))

    def start(
        self, source: Ids, source_layout: Layout, *, capacity: int = 256
    ) -> TransformerState | RecurrentState:
        """Encode the sources: a state with one row for each, nothing decoded yet."""
        return self.decoder.start(memory=self.encoder.remember(source, source_layout), capacity=capacity)

    def prefill(
        self, ids: Ids, layout: Layout, state: TransformerState | RecurrentState
    ) -> Float[Tensor, "sequences vocab"]:
        """Forced prefixes of the targets, sequence r for row r; the scores for what follows each."""
        return self.decoder.prefill(ids, layout, state)

    def step(
        self, tokens: Int[Tensor, "rows"], state: TransformerState | RecurrentState
    ) -> Float[Tensor, "rows vocab"]:
        return self.decoder.step(tokens, state)
