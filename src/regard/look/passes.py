"""What a pass leaves behind to be looked at: references, and what follows from them when it is asked for.

    scores    Q K^T / sqrt(d_head), with the bias of positions      weights   softmax of the visible ones
    stream    x after the embedding (`inputs`) and after each layer     norms     |x| of each token
    logits    Head(norm(x)) of each layer's x: the logit lens            nostalgebraist 2020

Weights are computed by the equation of `regard.nn.multihead.Asked` from the queries and keys that the pass
itself used, so they are those of the fast path whatever kernel ran. Dropout of weights is not in them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor

from regard.layout import Layout
from regard.look.kept import Attended, wide
from regard.look.parts import SIDES, Place, Side, resolved

What = Literal["weights", "scores", "queries", "keys", "values", "stream", "norms", "logits", "inputs"]
WHATS: tuple[What, ...] = get_args(What)
OF_ATTENTION: frozenset[What] = frozenset(("weights", "scores", "queries", "keys", "values"))


@dataclass(slots=True, eq=False)
class Run:
    """What one side did in a pass."""

    ids: Tensor
    layout: Layout
    """The sequences; in a step of a decoder, one token for each row."""
    inputs: Tensor | None = None
    stream: dict[int, Tensor] = field(default_factory=dict)
    """After each of the layers that are looked at."""
    norms: dict[int, Tensor] = field(default_factory=dict)
    """The same; -1 is the embedding."""
    attended: dict[tuple[Place, int], Attended] = field(default_factory=dict)


class Views(ABC):
    """What can be asked of a pass, or of a trace about its last one. Layers, heads and sequences count from
    0, layers and sequences also from the end; a `place` can be left out where there is only one. Tensors are
    in float32 or finer, without gradients."""

    @property
    @abstractmethod
    def shown(self) -> "Pass":
        """The pass that is asked."""

    def weights(
        self, place: Place | None = None, *, layer: int = -1, head: int | None = None, sequence: int = 0
    ) -> Tensor:
        """[heads, queries, keys], or of one head [queries, keys]: rows sum to 1, hidden keys weigh 0."""
        return self.shown.attention("weights", place, layer, head, sequence)

    def scores(
        self, place: Place | None = None, *, layer: int = -1, head: int | None = None, sequence: int = 0
    ) -> Tensor:
        """The same before the softmax, with the bias of positions; those of hidden keys too."""
        return self.shown.attention("scores", place, layer, head, sequence)

    def queries(
        self, place: Place | None = None, *, layer: int = -1, head: int | None = None, sequence: int = 0
    ) -> Tensor:
        """[heads, queries, d_head], or of one head [queries, d_head]; rotated by rotary positions, if any."""
        return self.shown.attention("queries", place, layer, head, sequence)

    def keys(
        self, place: Place | None = None, *, layer: int = -1, head: int | None = None, sequence: int = 0
    ) -> Tensor:
        """[heads, keys, d_head], or of one head; heads that share a key each have it."""
        return self.shown.attention("keys", place, layer, head, sequence)

    def values(
        self, place: Place | None = None, *, layer: int = -1, head: int | None = None, sequence: int = 0
    ) -> Tensor:
        """[heads, keys, d_value], or of one head; heads that share a value each have it."""
        return self.shown.attention("values", place, layer, head, sequence)

    def stream(self, side: Side | None = None, *, layer: int = -1, sequence: int = 0) -> Tensor:
        """[tokens, d_model] after this layer, before a final norm. Of a recurrent body there is one layer."""
        run, side = self.shown.run("stream", side)
        return self.shown.rows(run, self.shown.at(run.stream, "stream", side, layer), sequence)

    def inputs(self, side: Side | None = None, *, sequence: int = 0) -> Tensor:
        """[tokens, d_model]: the embedding."""
        run, side = self.shown.run("inputs", side)
        return self.shown.rows(run, run.inputs, sequence)

    def norms(self, side: Side | None = None, *, sequence: int = 0) -> Tensor:
        """[1 + layers, tokens]: how long the stream's vectors are, after the embedding and after each layer
        that is looked at."""
        run, side = self.shown.run("norms", side)
        stacked = torch.stack([run.norms[layer] for layer in sorted(run.norms)], dim=1)
        return self.shown.rows(run, stacked, sequence).T

    def logits(self, side: Side | None = None, *, layer: int = -1, sequence: int = 0) -> Tensor:
        """[tokens, vocabulary]: what the output head makes of the stream after this layer, through the final
        norm, if there is one; of the last layer, the model's own scores. By the weights that the model has
        when it is asked."""
        run, side = self.shown.run("logits", side)
        states = self.shown.at(run.stream, "logits", side, layer)
        own = run.layout.split(states)[resolved(sequence, run.layout.sequences, "sequence")]
        with torch.no_grad():
            return wide(cast(Callable[[Tensor], Tensor], self.shown.lens)(own))

    def ids(self, side: Side | None = None, *, sequence: int = 0) -> list[int]:
        """The tokens that were read."""
        run, _ = self.shown.run("ids", side)
        return run.layout.split(run.ids)[resolved(sequence, run.layout.sequences, "sequence")].tolist()

    def sequences(self, side: Side | None = None) -> int:
        return self.shown.run("ids", side)[0].layout.sequences

    @property
    def places(self) -> tuple[Place, ...]:
        """Where something was seen."""
        return tuple(dict.fromkeys(place for run in self.shown.runs.values() for place, _ in run.attended))

    def layers(self, place: Place | None = None) -> list[int]:
        """Those whose attention was looked at."""
        place = self.shown.only(place)
        run = self.shown.runs[SIDES[place]]
        return sorted(layer for own, layer in run.attended if own == place)


@dataclass(slots=True, eq=False)
class Pass(Views):
    what: frozenset[What]
    attending: dict[Place, int]
    """Layers of each place."""
    depths: dict[Side, int]
    """Layers of each side."""
    lens: Callable[[Tensor], Tensor] | None
    """From the stream to scores of the vocabulary."""
    scored: Side | None
    """Whose stream that is."""
    runs: dict[Side, Run] = field(default_factory=dict)

    @property
    def shown(self) -> "Pass":
        return self

    def attention(
        self, what: What, place: Place | None, layer: int, head: int | None, sequence: int
    ) -> Tensor:
        self.check(what)
        place = self.only(place)
        found = self.attended(place, layer)
        row = resolved(sequence, len(found.queries), "sequence")
        if head is not None and head not in found.heads:
            number, heads = layer % self.attending[place], ", ".join(map(str, found.heads))
            raise ValueError(f"head {head} was not looked at in {place} layer {number}, only {heads}")
        with torch.no_grad(), torch.autocast(found.queries[row].device.type, enabled=False):
            asked: Any = getattr(found, what)  # weights and scores are computed, the rest is kept
            every = asked(row) if what in ("weights", "scores") else wide(asked[row]).transpose(0, 1)
        return every if head is None else every[found.heads.index(head)]

    def attended(self, place: Place, layer: int) -> Attended:
        number = resolved(layer, self.attending[place], f"layer of {place}:")
        found = self.runs[SIDES[place]].attended.get((place, number))
        if found is None:
            raise ValueError(f"{place} layer {number} was not looked at: trace it with layers=[{number}]")
        return found

    def only(self, place: Place | None) -> Place:
        seen = self.places
        if place is None and len(seen) == 1:
            return seen[0]
        if place is None or place not in seen:
            listed = ", ".join(seen) or "none"
            raise ValueError(f"place={place!r}, but this pass attended in: {listed}; name one of them")
        return place

    def run(self, what: str, side: Side | None) -> tuple[Run, Side]:
        if what != "ids":
            self.check(what)
        able = [each for each in self.runs if what != "logits" or each == self.scored]
        if side is None and len(able) == 1:
            side = able[0]
        if side is None or side not in able:
            listed = ", ".join(able) or "none"
            raise ValueError(
                f"side={side!r}, but {what} of this pass are there for: {listed}; name one of them"
            )
        return self.runs[side], side

    def check(self, what: str) -> None:
        if what not in self.what:
            asked = ", ".join(sorted({*self.what, what}))
            raise ValueError(f"{what} were not asked for: trace with what=({asked})")

    def at(self, kept: dict[int, Tensor], what: str, side: Side, layer: int) -> Tensor:
        number = resolved(layer, self.depths[side], f"layer of the {side}:")
        if number not in kept:
            raise ValueError(
                f"the {what} of layer {number} was not looked at: trace it with layers=[{number}]"
            )
        return kept[number]

    def rows(self, run: Run, states: Tensor | None, sequence: int) -> Tensor:
        if states is None:
            raise ValueError("nothing was seen there")
        return wide(run.layout.split(states)[resolved(sequence, run.layout.sequences, "sequence")])
