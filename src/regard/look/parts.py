"""Where a model can be looked at: its sides, their layers, and the places where it attends.

encoder   self-attention of an encoder's layers
decoder   causal self-attention of a decoder's layers
cross     what a decoder asks of an encoder; of a recurrent decoder too, its one layer
pool      one query for each sequence, where a head pools by attention
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.headed import Headed
from regard.models.heads import MaskedHead
from regard.models.seq2seq import Seq2Seq
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.pooling import AttentionPooling, ScoredAttention
from regard.nn.recurrent import RecurrentDecoder
from regard.nn.stacks import Stack
from regard.tasks.base.predictor import Predictor

Side = Literal["encoder", "decoder"]
Place = Literal["encoder", "decoder", "cross", "pool"]
Head = tuple[Place, int, int]
"""The place, the layer and the head, both from 0."""

Model = Encoder | Decoder | Seq2Seq | Headed
Looked = Model | Predictor
"""What can be looked at: a model, or what holds one."""

SIDES: dict[Place, Side] = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder", "pool": "encoder"}

Attention = SelfAttention | CrossAttention | ScoredAttention


def model_of(looked: Looked) -> Model:
    """The model itself, whatever holds it."""
    model = looked if isinstance(looked, nn.Module) else getattr(looked, "model", None)
    if isinstance(model, Encoder | Decoder | Seq2Seq | Headed):
        return model
    raise TypeError(
        f"a {type(looked).__name__} cannot be looked into: give a model, or what regard.load gives"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    encoder: Encoder | None
    decoder: Decoder | None
    attentions: dict[Place, list[Attention]]
    """One for each layer; only places that the model has."""
    masked: MaskedHead | None
    """What scores the vocabulary from an encoder's states."""

    @classmethod
    def of(cls, looked: Looked) -> "Parts":
        model = model_of(looked)
        encoder = model if isinstance(model, Encoder) else getattr(model, "encoder", None)
        decoder = model if isinstance(model, Decoder) else getattr(model, "decoder", None)
        head: Any = model.head if isinstance(model, Headed) else None
        found: dict[Place, list[Attention]] = {}
        if encoder is not None and isinstance(encoder.body, Stack):
            found["encoder"] = [layer.attention for layer in encoder.body.each]
        if decoder is not None and isinstance(decoder.body, Stack):
            found["decoder"] = [layer.attention for layer in decoder.body.each]
            across = [layer.cross_attention for layer in decoder.body.each]
            if own := [each for each in across if each is not None]:
                found["cross"] = [*own]
        if decoder is not None and isinstance(decoder.body, RecurrentDecoder) and decoder.body.attention:
            found["cross"] = [decoder.body.attention]
        pool = getattr(getattr(head, "pool", None), "attention", None)
        if isinstance(pool, AttentionPooling):
            found["pool"] = [pool.attention]
        return cls(encoder, decoder, found, head if isinstance(head, MaskedHead) else None)

    @property
    def sides(self) -> dict[Side, Encoder | Decoder]:
        both: dict[Side, Encoder | Decoder | None] = {"encoder": self.encoder, "decoder": self.decoder}
        return {side: part for side, part in both.items() if part is not None}

    def depth(self, side: Side) -> int:
        """How many layers write to the residual stream; a recurrent body counts as one."""
        body = self.sides[side].body
        return len(body.each) if isinstance(body, Stack) else 1

    def writers(self, side: Side) -> list[nn.Module]:
        """For each layer, the part that gives the stream as the layer leaves it, on every path."""
        body = self.sides[side].body
        if isinstance(body, Stack):
            return [layer.feed_forward_residual for layer in body.each]
        return [body.dropout]


def head_count(attention: Attention) -> int:
    return 1 if isinstance(attention, ScoredAttention) else attention.heads


def each_head(looked: Looked) -> list[Head]:
    """All heads that can be scaled, ranked or pruned: those with an output matrix behind them."""
    return [
        (place, layer, head)
        for place, layers in Parts.of(looked).attentions.items()
        for layer, attention in enumerate(layers)
        if not isinstance(attention, ScoredAttention)
        for head in range(attention.heads)
    ]


def resolved(number: int, count: int, what: str) -> int:
    """From 0; negative numbers count from the end."""
    if not -count <= number < count:
        raise ValueError(f"{what} {number}, where there are {count}: count from 0 to {count - 1}")
    return number % count


def chosen(wanted: Sequence[int] | None, count: int) -> list[int]:
    """Which of `count` are meant; what is past them is left out, for another place may have it."""
    if wanted is None:
        return [*range(count)]
    return sorted({number % count for number in wanted if -count <= number < count})
