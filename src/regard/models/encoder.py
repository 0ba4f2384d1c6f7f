"""An encoder: tokens in, one contextual vector for each out. BERT's family, and a translator's source side.

x = Body(Embedding(ids))        Body: a Transformer stack that sees both ways, or recurrent layers
"""

from torch import nn

from regard.layout import Layout
from regard.nn import Ids, Stream
from regard.nn.embedding import Embedding
from regard.nn.initialize import initialize
from regard.nn.layers import build_norm
from regard.nn.masks import Mask
from regard.nn.pooling import Pooler
from regard.nn.positions import added_positions
from regard.nn.recurrent import RecurrentEncoder
from regard.nn.stacks import Stack
from regard.nn.state import Memory
from regard.settings.models import Body, EncoderConfig
from regard.settings.network import EmbeddingConfig, NormConfig, PositionsConfig, TransformerConfig


def build_embedding(
    vocabulary: int, d_model: int, config: EmbeddingConfig, positions: PositionsConfig, body: Body
) -> Embedding:
    norm = body.norm if isinstance(body, TransformerConfig) else NormConfig()
    own = build_norm(norm, d_model) if config.normed else None
    return Embedding(vocabulary, d_model, config, positions=added_positions(positions, d_model), norm=own)


class Encoder(nn.Module):
    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = build_embedding(
            config.vocabulary, config.d_model, config.embedding, config.positions, config.body
        )
        self.body: Stack | RecurrentEncoder = (
            Stack(config.d_model, config.body, config.positions, causal=False)
            if isinstance(config.body, TransformerConfig)
            else RecurrentEncoder(config.d_model, config.body)
        )
        self.pooler = Pooler(config.d_model) if config.pooler else None
        initialize(self, config.initial)

    def forward(
        self, ids: Ids, layout: Layout, segments: Ids | None = None, mask: Mask | None = None
    ) -> Stream:
        """A `mask` takes the place of the body's own; recurrent bodies have none to replace."""
        x = self.embedding(ids, layout.positions, layout.longest, segments)
        return self.body(x, layout) if mask is None else self.body(x, layout, mask=mask)

    def layers(self, ids: Ids, layout: Layout, segments: Ids | None = None) -> list[Stream]:
        """The embedding, and what each layer makes of it; the last is what `forward` gives. Of a recurrent
        body, only both ends."""
        x = self.embedding(ids, layout.positions, layout.longest, segments)
        if isinstance(self.body, RecurrentEncoder):
            return [x, self.body(x, layout)]
        return [x, *self.body.states(x, layout)]

    def remember(self, ids: Ids, layout: Layout) -> Memory:
        """The states as a memory for a decoder."""
        states = self(ids, layout)
        return Memory(states=states, layout=layout, summary=self.body.summary(states, layout))
