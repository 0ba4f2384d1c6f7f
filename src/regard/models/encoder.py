"""An encoder: tokens in, one contextual vector for each out. BERT's family, and a translator's source side.

x = Body(Embedding(ids))        Body: a Transformer stack that sees both ways, or recurrent layers
"""

from dataclasses import dataclass, field

from torch import nn

from regard.layout import Layout
from regard.nn import Ids, Stream
from regard.nn.embedding import Embedding, EmbeddingConfig
from regard.nn.initialize import InitialConfig, initialize
from regard.nn.layers import NormConfig, build_norm
from regard.nn.masks import Mask
from regard.nn.pooling import Pooler
from regard.nn.positions import POSITIONS, PositionsConfig, added_positions
from regard.nn.recurrent import RecurrentConfig, RecurrentEncoder
from regard.nn.stacks import Stack, TransformerConfig
from regard.nn.state import Memory

Body = TransformerConfig | RecurrentConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderConfig:
    vocabulary: int
    """Entries of the vocabulary."""
    d_model: int = 512
    """Width of the residual stream."""
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    positions: PositionsConfig = field(default_factory=PositionsConfig)
    body: Body = field(default_factory=TransformerConfig)
    pooler: bool = False
    """BERT's tanh(W x_first + b), for the heads that want a sequence in that one vector."""
    initial: InitialConfig = field(default_factory=InitialConfig)

    def __post_init__(self) -> None:
        check_widths(self.vocabulary, self.d_model, self.positions, self.body)


def check_widths(vocabulary: int, d_model: int, positions: PositionsConfig, body: Body) -> None:
    """What the parts cannot know by themselves."""
    if vocabulary < 1:
        raise ValueError(f"vocabulary={vocabulary} must be at least 1")
    if d_model < 1:
        raise ValueError(f"d_model={d_model} must be at least 1")
    if isinstance(body, TransformerConfig):
        body.attention.width(d_model)
    elif POSITIONS[positions.kind].rotary or POSITIONS[positions.kind].bias:
        raise ValueError(
            f"positions.kind={positions.kind!r} acts inside attention, which a recurrent body has not"
        )


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
