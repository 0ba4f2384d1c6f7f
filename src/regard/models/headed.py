"""An encoder with a head on it: what is trained, kept and used for one task.

    scores = Head(Encoder(ids))

One encoder carries any of the heads: pretrain with one, fine-tune with another (Devlin et al. 2019, 3.2).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layout import Layout
from regard.models.encoder import Encoder
from regard.models.heads import HEADS, Head
from regard.nn import Ids, Stream
from regard.settings.models import EmbedConfig, EncoderConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadedConfig:
    encoder: EncoderConfig
    head: Annotated[Any, HEADS] = field(default_factory=EmbedConfig)
    """One of `regard.models.heads.HeadConfig`, or of a plugin's."""


class Headed(nn.Module):
    def __init__(self, config: HeadedConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config.encoder)
        self.head = cast(Head, HEADS[config.head.kind].build(config.head, self.encoder))

    def forward(
        self, ids: Ids, layout: Layout, segments: Int[Tensor, "tokens"] | None = None
    ) -> Float[Tensor, "rows scores"]:
        """Scores of every token (masked, tag, span), or of every sequence (classify), or vectors (embed).
        Training asks the head for less: see the tasks."""
        states = self.states(ids, layout, segments)
        if HEADS[self.config.head.kind].rows == "tokens":
            return self.head(states)
        return cast(Callable[[Stream, Layout], Tensor], self.head)(states, layout)

    def states(self, ids: Ids, layout: Layout, segments: Int[Tensor, "tokens"] | None = None) -> Stream:
        """What the head stands on. Segments are left out where the encoder does not tell them apart."""
        return self.encoder(ids, layout, segments if self._tells_segments else None)

    def layers(self, ids: Ids, layout: Layout, segments: Int[Tensor, "tokens"] | None = None) -> list[Stream]:
        """The embedding, and what each layer of the encoder makes of it."""
        return self.encoder.layers(ids, layout, segments if self._tells_segments else None)

    @property
    def _tells_segments(self) -> bool:
        return self.config.encoder.embedding.segments > 1

    def depth(self, name: str) -> int:
        """How far up the parameter of this name stands: 0 is the embedding, the last one is the head."""
        top = self.config.encoder.body.layers + 1
        if name.startswith("encoder.embedding."):
            return 0
        if name.startswith("encoder.body.layers."):
            return int(name.split(".")[3]) + 1
        if name.startswith("encoder.body.cells."):  # weight_ih_l0, bias_hh_l1_reverse
            return int(name.rpartition("_l")[2].split("_")[0]) + 1
        return top
