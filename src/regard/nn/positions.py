"""Where a token stands: eight answers and those of plugins, one setting.

Added to the embedding:

    sinusoidal  PE(pos, 2i) = sin(pos / n^(2i/d)),
                PE(pos, 2i+1) = cos(pos / n^(2i/d))                          Vaswani et al. 2017, 3.5
                or all sines and then all cosines, as Marian writes them; or these with n^(i/(d/2-1)), as
                tensor2tensor, fairseq and so M2M100 do
    learned     a trained row for each position                              Devlin et al. 2019
    index       PE(pos, i) = pos: the naive way, for contrast; it grows without bound
    fraction    PE(pos, i) = pos / longest: bounded, but near places are hardly apart

Acting inside self-attention:

    rotary      queries and keys rotated by angles that grow with it          Su et al. 2021
    relative    a trained bias for each distance (in buckets) and head       Raffel et al. 2020
    alibi       a bias of -slope * distance, slopes fixed for each head      Press et al. 2022

And none. Rotary pairs dimension i with i + d/2, where the paper pairs 2i with 2i + 1: the same up to an
order of the dimensions, without strided access, and what published rotary checkpoints use. The relative
bias has one table for each layer or, as T5 and MPNet have it, one for all. MPNet's (Song et al. 2020) stands
beside learned positions.

A rotary model reads inputs s times longer than it was trained on if its pairs, which turn by f_i = n^(-2i/d)
from one position to the next, turn slower:

    linear      f_i / s                                                      Chen et al. 2023
    ntk         n s^(d/(d-2)) for n: the fastest pair keeps its f_0, the     bloc97 2023, in
                slowest gets f_i / s, the others lie between                 Peng et al. 2023, 3.1
    yarn        (1 - r_i) f_i + r_i f_i / s, and queries and keys are        Peng et al. 2023
                multiplied by 0.1 ln(s) + 1. r_i = (i - low) / (high - low), within 0 and 1, where
                pair `low` turns 32 times in the trained length (rounded down) and `high` once (up)
    llama3      the same mixture, but r_i is linear in the number of turns:  Grattafiori et al. 2024
                1 for one turn or none in the trained length, 0 from four on

YaRN's paper has r linear in the number of turns too; this one, linear in i, is that of its authors' code and
of published checkpoints. tests/nn/test_positions.py holds linear, yarn and llama3 equal to transformers'.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.settings.network import POSITIONS, PositionsConfig, Scaling, Sinusoids


@dataclass(frozen=True, kw_only=True, slots=True)
class Positions:
    """A kind of positions: what it adds where. Each part is built from the `PositionsConfig`; None where this
    kind does nothing there.

    >>> class Near(torch.nn.Module):
    ...     def forward(self, distance):
    ...         return -distance.abs().float().expand(self.heads, *distance.shape)
    >>> def near(config, heads, causal, kept):
    ...     part = Near()
    ...     part.heads = heads if kept is None else len(kept)
    ...     return part
    >>> regard.register(regard.Positions(name="near", bias=near))
    >>> outcome = regard.fit("recipe.toml", "model.positions=near", out="runs/near")
    """

    name: str
    added: Callable[["PositionsConfig", int], nn.Module] | None = None
    """added(config, d_model): forward(positions, longest, dtype) gives rows to add to the embedding."""
    rotary: Callable[["PositionsConfig", int], nn.Module] | None = None
    """rotary(config, d_head): forward(x, positions, longest) changes queries, and keys, by their places."""
    bias: Callable[["PositionsConfig", int, bool, Sequence[int] | None], nn.Module] | None = None
    """bias(config, heads, causal, kept): forward(distance) is added to scores, [heads, *distance]; `kept` are
    those of the heads that are there, if not all are."""


def frequencies(width: int, base: float) -> Float[Tensor, "half"]:
    """n^(-2i/width) for every i below width / 2: how far each pair turns from one position to the next."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)


def angles(length: int, frequencies: Float[Tensor, "half"]) -> Float[Tensor, "length half"]:
    """Every position below `length` times every frequency."""
    return torch.arange(length, dtype=torch.float64, device="cpu")[:, None] * frequencies


class PositionTable(nn.Module, ABC):
    """A function of position, computed once and reused; grown by doubling when a longer input comes.

    The table is a cache, not state: it is never stored, and stays exact whatever the model is converted to.
    """

    def __init__(self, length: int = 512) -> None:
        super().__init__()
        self.table = self.rows(length).float()

    @abstractmethod
    def rows(self, length: int) -> Float[Tensor, "length width"]:
        """The function, for every position below `length`."""

    def look_up(
        self, positions: Int[Tensor, "tokens"], longest: int, dtype: torch.dtype
    ) -> Float[Tensor, "tokens width"]:
        """The rows of these positions, all below `longest`, in float32 or what is finer of `dtype`."""
        return self.reaching(longest, torch.promote_types(dtype, torch.float32), positions.device)[positions]

    def reaching(
        self, longest: int, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> Float[Tensor, "length width"]:
        """All rows there are, at least so many."""
        table = self.table  # another thread may exchange it
        length = len(table)
        if longest > length or table.dtype != dtype or table.device != torch.device(device):
            length = length if longest <= length else max(longest, 2 * length)
            self.table = table = self.rows(length).to(device, dtype)
        return table


class AddedTable(PositionTable):
    """One whose rows are added to the embedding."""

    def forward(
        self, positions: Int[Tensor, "tokens"], longest: int, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "tokens d_model"]:
        return self.look_up(positions, longest, dtype).to(dtype)


class SinusoidalPositions(AddedTable):
    def __init__(
        self, d_model: int, base: float = 10_000.0, *, order: Sinusoids = "paper", first: int = 0
    ) -> None:
        """Of an odd width, the last dimension is a sine without its cosine. `first` is where the first token
        stands."""
        if order == "tensor2tensor" and (d_model % 2 or d_model < 4):
            raise ValueError(
                f"d_model={d_model}: positions.sinusoids='tensor2tensor' are pairs, two at least; choose an "
                "even width from 4 on"
            )
        self.d_model, self.base, self.order, self.first = d_model, base, order, first
        super().__init__()

    def rows(self, length: int) -> Float[Tensor, "length d_model"]:
        turns = angles(self.first + length, self._frequencies())[self.first :]
        sines, cosines = turns.sin(), turns.cos()
        if self.order == "paper":
            return torch.stack([sines, cosines], dim=-1).flatten(1)[:, : self.d_model]
        return torch.cat([sines, cosines], dim=-1)[:, : self.d_model]

    def _frequencies(self) -> Float[Tensor, "half"]:
        if self.order != "tensor2tensor":
            return frequencies(self.d_model, self.base)
        half = self.d_model // 2
        return self.base ** (-torch.arange(half, dtype=torch.float64, device="cpu") / (half - 1))


class CountedPositions(AddedTable):
    """pos * apart in every dimension: the naive ways to number tokens."""

    def __init__(self, d_model: int, apart: float = 1.0) -> None:
        self.d_model, self.apart = d_model, apart
        super().__init__()

    def rows(self, length: int) -> Float[Tensor, "length d_model"]:
        return (torch.arange(length, dtype=torch.float64) * self.apart)[:, None].repeat(1, self.d_model)


class LearnedPositions(nn.Module):
    def __init__(self, d_model: int, longest: int, first: int = 0) -> None:
        super().__init__()
        self.longest, self.first = longest, first
        self.table = nn.Embedding(first + longest, d_model)

    def forward(
        self, positions: Int[Tensor, "tokens"], longest: int, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "tokens d_model"]:
        self.check(longest)
        return self.table(positions + self.first if self.first else positions).to(dtype)

    def check(self, longest: int) -> None:
        """Whether inputs may be so long."""
        if longest > self.longest:
            raise ValueError(
                f"an input of {longest} tokens, but positions were learned for {self.longest}: "
                f"split the input, or train with positions.longest={longest}, or with rotary positions"
            )


def scaled_frequencies(
    d_head: int,
    base: float,
    scaling: Scaling,
    factor: float,
    trained: int,
    *,
    few: float = 1.0,
    many: float = 32.0,
) -> Float[Tensor, "half"]:
    """The frequencies of rotary pairs, for inputs `factor` times as long as those `trained` on. Yarn and
    llama3: pairs with `few` turns in that length shrink, those with `many` stay."""
    plain = frequencies(d_head, base)
    match scaling:
        case "none":
            return plain
        case "linear":
            return plain / factor
        case "ntk":
            if d_head == 2:
                raise ValueError("d_head=2 is one pair, the fastest, which ntk keeps: choose linear or yarn")
            return frequencies(d_head, base * factor ** (d_head / (d_head - 2)))
        case "yarn":
            low = max(math.floor(_pair_that_turns(many, d_head, base, trained)), 0)
            high = min(math.ceil(_pair_that_turns(few, d_head, base, trained)), d_head - 1)
            pairs = torch.arange(d_head // 2, dtype=torch.float64, device="cpu")
            ramp = ((pairs - low) / max(high - low, 0.001)).clamp(0, 1)
        case "llama3":
            turns = trained * plain / (2 * math.pi)
            ramp = ((many - turns) / (many - few)).clamp(0, 1)
    return plain * (1 - ramp) + plain / factor * ramp


def _pair_that_turns(times: float, d_head: int, base: float, trained: int) -> float:
    """The i for which trained * n^(-2i/d) is `times` whole turns."""
    return d_head * math.log(trained / (times * 2 * math.pi)) / (2 * math.log(base))


SCALED = ("scaling", "factor", "trained", "few_turns", "many_turns", "stretch")
"""What a `PositionsConfig` says of the scaling."""


class RotaryPositions(PositionTable):
    """Rotates a query or key by its position, so that q . k depends on their distance alone."""

    def __init__(self, d_head: int, base: float = 10_000.0, **scaling: Any) -> None:
        """`scaling` is what `PositionsConfig` says of it: scaling, factor, trained and the rest."""
        if d_head % 2:
            raise ValueError(f"d_head={d_head} is odd: rotary positions rotate pairs, choose an even width")
        config = PositionsConfig(kind="rotary", base=base, **scaling)
        self.frequencies = scaled_frequencies(
            d_head,
            base,
            config.scaling,
            config.factor,
            config.trained,
            few=config.few_turns,
            many=config.turns_kept,
        )
        stretch = 0.1 * math.log(config.factor) + 1 if config.stretch is None else config.stretch
        self.stretch = stretch if config.scaling == "yarn" else 1.0
        """Of queries and of keys."""
        super().__init__()

    def rows(self, length: int) -> Float[Tensor, "length d_head"]:
        turns = angles(length, self.frequencies)
        return torch.cat([turns.cos(), turns.sin()], dim=-1) * self.stretch

    def forward(
        self, x: Float[Tensor, "tokens heads d_head"], positions: Int[Tensor, "tokens"], longest: int
    ) -> Float[Tensor, "tokens heads d_head"]:
        cosine, sine = self.look_up(positions, longest, x.dtype).unsqueeze(1).chunk(2, dim=-1)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1).to(x.dtype)


class RelativeBias(nn.Module):
    """A trained bias for each head and bucket of distances. Near distances have a bucket each, farther ones
    share buckets that widen logarithmically up to `reach`. Both directions share the buckets out, unless only
    the past is visible."""

    def __init__(self, heads: int, buckets: int = 32, reach: int = 128, causal: bool = False) -> None:
        super().__init__()
        self.reach = reach
        self.causal = causal
        self.table = nn.Embedding(buckets, heads)
        self.known: Int[Tensor, distances] | None = None
        """The buckets of all distances up to some length: a cache, as the tables of other positions are."""

    def between(self, longest: int, device: torch.device) -> Float[Tensor, "heads distances"]:
        """Of every distance from 1 - longest to longest - 1. Buckets that were found once are not looked for
        again: a layer asks for them in every pass."""
        if torch.compiler.is_compiling():
            return self(torch.arange(1 - longest, longest, device=device))
        known = self.known  # another thread may exchange it
        if known is None or known.device != device or len(known) < 2 * longest - 1:
            most = max(longest, 128)
            self.known = known = self.bucket(torch.arange(1 - most, most, device=device))
        middle = len(known) // 2
        return self.table(known[middle - longest + 1 : middle + longest]).movedim(-1, 0)

    def bucket(self, distance: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        count = self.table.num_embeddings if self.causal else self.table.num_embeddings // 2
        exact = count // 2
        size = -distance.clamp(max=0) if self.causal else distance.abs()
        ratio = (size.clamp(min=exact).double() / exact).log() / math.log(self.reach / exact)
        wide = (exact + (ratio * (count - exact)).long()).clamp(max=count - 1)
        bucket = torch.where(size < exact, size, wide)
        return bucket if self.causal else bucket + count * (distance > 0)

    def forward(self, distance: Int[Tensor, "*shape"]) -> Float[Tensor, "heads *shape"]:
        """`distance` is key minus query."""
        return self.table(self.bucket(distance)).movedim(-1, 0)


class AlibiBias(nn.Module):
    """-slope * |distance|, the slopes a geometric series over the heads; nothing is trained."""

    def __init__(self, heads: int, kept: Sequence[int] | None = None) -> None:
        """`kept` are those of the heads that are there, if not all are."""
        super().__init__()
        self.heads = heads
        self.kept = [*range(heads)] if kept is None else [*kept]

    def slopes(self, device: torch.device | None = None) -> Float[Tensor, "heads"]:
        """2^(-8/n), 2^(-16/n), ... for n heads, a power of two. For other counts the paper takes the series
        of the power below, and then every second slope of the power above."""
        power = 2 ** math.floor(math.log2(self.heads))
        steps = torch.arange(1, power + 1, device=device)
        between = torch.arange(1, self.heads - power + 1, device=device) - 0.5
        slopes = 2.0 ** (-8 * torch.cat([steps, between]) / power)
        return slopes if len(self.kept) == self.heads else slopes[self.kept]

    def forward(self, distance: Int[Tensor, "*shape"]) -> Float[Tensor, "heads *shape"]:
        return -self.slopes(distance.device).view(-1, *[1] * distance.dim()) * distance.abs()


POSITIONS.settle(
    Positions,
    Positions(
        name="sinusoidal",
        added=lambda config, d_model: SinusoidalPositions(
            d_model, config.base, order=config.sinusoids, first=config.first
        ),
    ),
    Positions(
        name="learned", added=lambda config, d_model: LearnedPositions(d_model, config.longest, config.first)
    ),
    Positions(name="index", added=lambda config, d_model: CountedPositions(d_model)),
    Positions(name="fraction", added=lambda config, d_model: CountedPositions(d_model, 1 / config.longest)),
    Positions(
        name="rotary",
        rotary=lambda config, d_head: RotaryPositions(
            d_head, config.base, **{name: getattr(config, name) for name in SCALED}
        ),
    ),
    Positions(
        name="relative",
        bias=lambda config, heads, causal, kept: RelativeBias(
            heads if kept is None else len(kept), config.buckets, config.reach, causal
        ),
    ),
    Positions(name="alibi", bias=lambda config, heads, causal, kept: AlibiBias(heads, kept)),
    Positions(name="none"),
)


def added_positions(config: PositionsConfig, d_model: int) -> nn.Module | None:
    """The part for the embedding, if this kind acts there."""
    build = POSITIONS[config.kind].added
    return None if build is None else build(config, d_model)


def rotary_positions(config: PositionsConfig, d_head: int, *, local: bool = False) -> nn.Module | None:
    """The part that rotates queries and keys, if this kind does; in a layer with a window, `local`."""
    build = POSITIONS[config.kind].rotary
    if local and config.local_base is not None:
        config = replace(config, base=config.local_base, local_base=None)
    return None if build is None else build(config, d_head)


def score_bias(
    config: PositionsConfig, heads: int, *, causal: bool, kept: Sequence[int] | None = None
) -> nn.Module | None:
    """The part that biases scores, if this kind does; for those of the heads that are `kept`."""
    build = POSITIONS[config.kind].bias
    if config.beside != "none":
        build = POSITIONS[config.beside].bias
    return None if build is None else build(config, heads, causal, kept)
