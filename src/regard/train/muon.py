"""Muon: the momentum of a matrix, made orthogonal. For the matrices inside a Transformer's layers.

    m = b m + (1 - b) g,   n = b m + (1 - b) g                      Nesterov's momentum
    O = U V^T of n = U S V^T, nearly
    w -= rate (0.2 sqrt(max(rows, columns)) O + decay w)            Jordan et al. 2024, Liu et al. 2025

Every direction of such an update is about as long as any other; in AdamW's a few have most of the length.
0.2 sqrt(...) makes its elements as large as AdamW's usually are: one rate, one schedule and one decay serve
both. O comes without a decomposition, from five of Newton and Schulz's steps,

    X = n / |n|,   five times   A = X X^T,   X = 3.4445 X + (-4.775 A + 2.0315 A^2) X

which bring every singular value above 0.002 |n| to between 0.68 and 1.21: near enough to 1. On CUDA they run
in bfloat16. They cost 4 or 5 d_model / tokens of the products for the gradients of so many tokens: little in
large batches, much in small ones. tests/train/test_muon.py holds a step equal to torch.optim.Muon's, which
takes one matrix after the other, reads its rate on the host, and so cannot be captured.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.layers import FeedForward, TransformerLayer
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.settings.training import OptimizerConfig
from regard.train.flat import ALIGNMENT, FlatParameters
from regard.train.optim import FlatAdam

COEFFICIENTS = (3.4445, -4.775, 2.0315)
STEPS = 5
SHORTEST = 1e-7
"""A momentum shorter than this is not made longer: it is nothing, or rounding."""


def layer_matrices(model: nn.Module) -> dict[str, list[int]]:
    """What Muon takes, by name: the matrix of each nn.Linear in a TransformerLayer. Where projections share
    one matrix, their rows: each is made orthogonal by itself, as if it were alone."""
    rows: dict[int, list[int]] = {}
    for layer in model.modules():
        if not isinstance(layer, TransformerLayer):
            continue
        for part in layer.modules():
            match part:
                case nn.Linear():
                    rows.setdefault(id(part.weight), [part.out_features])
                case SelfAttention():
                    rows[id(part.project.weight)] = [part.d_queries, part.d_keys, part.d_values]
                case CrossAttention():
                    rows[id(part.project_memory.weight)] = [part.d_keys, part.d_values]
                case FeedForward() if part.gated:
                    rows[id(part.inner.weight)] = [part.inner.out_features // 2] * 2
                case _:
                    pass
    return {name: rows[id(each)] for name, each in model.named_parameters() if id(each) in rows}


def orthogonal(matrices: Float[Tensor, "matrices rows columns"]) -> Float[Tensor, "matrices rows columns"]:
    """U V^T of each U S V^T, nearly; in the precision of the input."""
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices  # the squares are then the smaller ones
    x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp(min=SHORTEST)
    for _ in range(STEPS):
        squares = x @ x.mT
        polynomial = torch.baddbmm(squares, squares, squares, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x.mT if tall else x


@dataclass(frozen=True, slots=True)
class _Matrix:
    start: int
    rows: int
    columns: int

    @property
    def stop(self) -> int:
        return self.start + self.rows * self.columns

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns


def update_scale(rows: int, columns: int) -> float:
    """What makes the elements of such an orthogonal matrix as large as AdamW's updates usually are."""
    return 0.2 * math.sqrt(max(rows, columns))


class FlatMuon:
    """Muon over the parts of flat weights that come first, AdamW over all others. Its momentum is at their
    places in the vector of AdamW's means, where the vector of squares stays 0."""

    def __init__(self, weights: FlatParameters, config: OptimizerConfig, rows: dict[str, list[int]]) -> None:
        """`rows` says of what height the matrices are that share a parameter."""
        self._rest = FlatAdam(weights, config)
        self.means, self.squares, self.skip = self._rest.means, self._rest.squares, self._rest.skip
        self._momentum, self._decay = config.momentum, config.weight_decay
        self._weights = weights
        self._parts = [part for part in weights.parts if part.first]
        self._end = max((part.span.stop for part in self._parts), default=0)
        device = weights.values.device
        self._precision = torch.bfloat16 if device.type == "cuda" else weights.values.dtype
        self._rate = torch.zeros((), dtype=weights.values.dtype, device=device)
        self._gap = torch.zeros(ALIGNMENT, dtype=weights.values.dtype, device=device)
        self._shapes: dict[tuple[int, int], list[_Matrix]] = {}
        """Matrices of one shape are one batch of products."""
        for name, place in weights.places.items():
            start = place.start
            if start < self._end:
                for height in rows[name]:
                    matrix = _Matrix(start, height, place.shape[1])
                    self._shapes.setdefault(matrix.shape, []).append(matrix)
                    start = matrix.stop

    def set_rate(self, rate: float) -> None:
        self._rest.set_rate(rate)
        self._rate.fill_(rate)

    def step(self) -> None:
        """Reads nothing from the host. Where the step is to be skipped, the gradient counts as 0, and so do
        the rate and the pull on the momentum."""
        if self._parts:
            self._move()
        self._rest.step()

    def _move(self) -> None:
        values, means = self._weights.values, self.means[: self._end]
        skipped = self.skip.bool()
        gradients = self._weights.gradients[: self._end].masked_fill(skipped, 0.0)
        means.lerp_(gradients, (1 - self._momentum) * (1 - self.skip.to(means.dtype)))
        updates = self._orthogonal(gradients.lerp_(means, self._momentum))
        rate = self._rate.masked_fill(skipped, 0.0)
        for part in self._parts:
            own = rate * part.factor
            value = values[part.span]
            if part.decays and self._decay:
                value.mul_(1 - own * self._decay)
            value.addcmul_(updates[part.span], own, value=-1)

    def _orthogonal(self, momentum: Float[Tensor, "first"]) -> Float[Tensor, "first"]:
        """Every matrix in such a vector, orthogonal and scaled, in its place."""
        found: dict[int, Tensor] = {}
        rough = momentum.to(self._precision)
        for shape, matrices in self._shapes.items():
            batch = torch.stack([rough[each.start : each.stop].view(shape) for each in matrices])
            scaled = update_scale(*shape) * orthogonal(batch).to(momentum.dtype)
            found |= {each.start: row for each, row in zip(matrices, scaled.flatten(1), strict=True)}
        pieces, end = [], 0
        for start in sorted(found):
            pieces += [self._gap[: start - end], found[start]]  # parameters begin at round places
            end = start + len(found[start])
        return torch.cat([*pieces, self._gap[: len(momentum) - end]])

    @property
    def updates(self) -> int:
        """Steps that did change the weights."""
        return self._rest.updates

    @updates.setter
    def updates(self, updates: int) -> None:
        self._rest.updates = updates
