"""Where a token stands: six answers, one setting.

Added to the embedding:

    sinusoidal  PE(pos, 2i) = sin(pos / n^(2i/d)),
                PE(pos, 2i+1) = cos(pos / n^(2i/d))                          Vaswani et al. 2017, 3.5
    learned     a trained row for each position                              Devlin et al. 2019

Acting inside self-attention:

    rotary      queries and keys turned by angles that grow with it          Su et al. 2021
    relative    a trained bias for each distance (in buckets) and head       Raffel et al. 2020
    alibi       a bias of -slope * distance, slopes fixed for each head      Press et al. 2022

And none. Rotary pairs dimension i with i + d/2, where the paper pairs 2i with 2i + 1: the same up to an
order of the dimensions, without strided access, and what published rotary checkpoints use. The relative
bias has one table for each layer, where T5 shares the first layer's.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionsConfig:
    kind: Literal["sinusoidal", "learned", "rotary", "relative", "alibi", "none"] = "sinusoidal"
    """How tokens know their place."""
    base: float = 10_000.0
    """n of the sinusoidal and rotary formulas: the longest wavelength is 2 pi n."""
    longest: int = 512
    """Rows of the learned table: no input may be longer. The other kinds take any length."""
    buckets: int = 32
    """Relative: how many distances the bias tells apart; half of them exact, half ever wider."""
    reach: int = 128
    """Relative: distances from here on share one bucket."""

    def __post_init__(self) -> None:
        if self.base <= 1:
            raise ValueError(f"positions.base={self.base} must be greater than 1: 10000 is the usual value")
        if self.longest < 1:
            raise ValueError(f"positions.longest={self.longest} must be at least 1")
        if self.buckets < 4 or self.buckets % 4:
            raise ValueError(f"positions.buckets={self.buckets} must be a multiple of 4: halves, each way")
        if self.reach <= self.buckets:
            raise ValueError(
                f"positions.reach={self.reach} must be greater than positions.buckets={self.buckets}"
            )


def angles(length: int, width: int, base: float) -> Float[Tensor, "length half"]:
    """pos / n^(2i/width) for every position below `length` and every i below width / 2."""
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(length, dtype=torch.float64)[:, None] * frequencies


class PositionTable(nn.Module):
    """A function of position, computed once and reused; grown by doubling when a longer input comes."""

    table: Tensor

    def __init__(self, rows: Callable[[int], Tensor], length: int = 512) -> None:
        super().__init__()
        self.rows = rows
        self.register_buffer("table", rows(length).float(), persistent=False)

    def forward(self, positions: Int[Tensor, "*batch"], longest: int) -> Float[Tensor, "*batch width"]:
        if longest > len(self.table):
            # Not state, a cache: the same rows as before come first.
            self.table = self.rows(max(longest, 2 * len(self.table))).float().to(self.table)
        return self.table[positions]


class SinusoidalPositions(nn.Module):
    def __init__(self, d_model: int, base: float = 10_000.0) -> None:
        super().__init__()
        if d_model % 2:
            raise ValueError(f"d_model={d_model} is odd: sine and cosine take turns, choose an even width")
        self.table = PositionTable(
            lambda length: torch.stack(
                [angles(length, d_model, base).sin(), angles(length, d_model, base).cos()], dim=-1
            ).flatten(1)
        )

    def forward(self, positions: Int[Tensor, "tokens"], longest: int) -> Float[Tensor, "tokens d_model"]:
        return self.table(positions, longest)


class LearnedPositions(nn.Module):
    def __init__(self, d_model: int, longest: int) -> None:
        super().__init__()
        self.table = nn.Embedding(longest, d_model)

    def forward(self, positions: Int[Tensor, "tokens"], longest: int) -> Float[Tensor, "tokens d_model"]:
        if longest > self.table.num_embeddings:
            raise ValueError(
                f"an input of {longest} tokens, but positions were learned for {self.table.num_embeddings}: "
                f"split the input, or train with positions.longest={longest}, or with rotary positions"
            )
        return self.table(positions)


class RotaryPositions(nn.Module):
    """Turns a query or key by its position, so that q . k depends on their distance alone."""

    def __init__(self, d_head: int, base: float = 10_000.0) -> None:
        super().__init__()
        if d_head % 2:
            raise ValueError(f"d_head={d_head} is odd: rotary positions turn pairs, choose an even width")
        self.table = PositionTable(
            lambda length: torch.cat(
                [angles(length, d_head, base).cos(), angles(length, d_head, base).sin()], dim=-1
            )
        )

    def forward(
        self, x: Float[Tensor, "tokens heads d_head"], positions: Int[Tensor, "tokens"], longest: int
    ) -> Float[Tensor, "tokens heads d_head"]:
        cosine, sine = self.table(positions, longest).unsqueeze(1).chunk(2, dim=-1)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1).to(x.dtype)


class RelativeBias(nn.Module):
    """A trained bias for each head and bucket of distances. Near distances have a bucket each, farther ones
    share buckets that widen logarithmically up to `reach`."""

    def __init__(self, heads: int, buckets: int = 32, reach: int = 128) -> None:
        super().__init__()
        self.reach = reach
        self.table = nn.Embedding(buckets, heads)

    def bucket(self, distance: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        half = self.table.num_embeddings // 2  # one half for keys before the query, one for keys after it
        exact = half // 2
        size = distance.abs()
        ratio = (size.clamp(min=exact).double() / exact).log() / math.log(self.reach / exact)
        wide = exact + (ratio * (half - exact)).long()
        return torch.where(size < exact, size, wide.clamp(max=half - 1)) + half * (distance > 0)

    def forward(self, distance: Int[Tensor, "*shape"]) -> Float[Tensor, "heads *shape"]:
        """`distance` is key minus query."""
        return self.table(self.bucket(distance)).movedim(-1, 0)


class AlibiBias(nn.Module):
    """-slope * |distance|, the slopes a geometric series over the heads; nothing is trained."""

    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        # The paper's series is for powers of two; for other counts it takes every second slope of the next
        # power.
        power = 2 ** math.floor(math.log2(heads))
        slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        slopes += [2 ** (-8 * (i + 0.5) / power) for i in range(heads - power)]
        self.register_buffer("slopes", torch.tensor(slopes), persistent=False)

    def forward(self, distance: Int[Tensor, "*shape"]) -> Float[Tensor, "heads *shape"]:
        return -self.slopes.view(-1, *[1] * distance.dim()) * distance.abs()


def added_positions(config: PositionsConfig, d_model: int) -> SinusoidalPositions | LearnedPositions | None:
    """The part for the embedding, if this kind acts there."""
    match config.kind:
        case "sinusoidal":
            return SinusoidalPositions(d_model, config.base)
        case "learned":
            return LearnedPositions(d_model, config.longest)
        case _:
            return None


def rotary_positions(config: PositionsConfig, d_head: int) -> RotaryPositions | None:
    """The part that turns queries and keys, if this kind does."""
    return RotaryPositions(d_head, config.base) if config.kind == "rotary" else None


def score_bias(config: PositionsConfig, heads: int) -> RelativeBias | AlibiBias | None:
    """The part that biases scores, if this kind does."""
    match config.kind:
        case "relative":
            return RelativeBias(heads, config.buckets, config.reach)
        case "alibi":
            return AlibiBias(heads)
        case _:
            return None
