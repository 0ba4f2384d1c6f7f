"""Matrices that are cut by rows over all ranks: what a rank has of them, and the optimizers of its rows.

AdamW looks at each weight for itself, so every rank updates its rows and nobody else's. Muon makes a whole
matrix orthogonal (train/muon.py): its momentum is gathered, matrix by matrix, every rank computes the same,
and takes its rows of it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from regard.settings.training import OptimizerConfig
from regard.train.flat import rate_factor
from regard.train.muon import orthogonal, update_scale
from regard.train.optim import FlatAdam, adamw


@dataclass(frozen=True, slots=True)
class RowsPart:
    """Matrices that are updated alike."""

    names: tuple[str, ...]
    first: bool
    """Whether another optimizer takes them."""
    decays: bool
    factor: float
    """On the learning rate."""


class Rows:
    def __init__(
        self,
        model: nn.Module,
        *,
        factor: Callable[[str], float] | None,
        first: Collection[str],
        undecayed: Collection[str],
    ) -> None:
        """Of a model whose matrices are cut already; arguments as `FlatParameters` has them."""
        cut = {name: each for name, each in model.named_parameters() if isinstance(each, DTensor)}
        self.parameters: dict[str, DTensor] = {name: each for name, each in cut.items() if each.requires_grad}
        self.fixed: dict[str, DTensor] = {name: each for name, each in cut.items() if not each.requires_grad}
        kinds: dict[tuple[bool, bool, float], list[str]] = {}
        for name in self.parameters:
            kind = (name not in first, name in undecayed, rate_factor(name, factor))
            kinds.setdefault(kind, []).append(name)
        self.parts = [
            RowsPart(tuple(names), first=not later, decays=not plain, factor=share)
            for (later, plain, share), names in sorted(kinds.items())
        ]

    def locals(self) -> dict[str, Float[Tensor, "rows columns"]]:
        """This rank's rows, by name: the weights themselves."""
        with torch.no_grad():
            return {name: each.to_local() for name, each in self.parameters.items()}

    def gradients(self) -> dict[str, Float[Tensor, "rows columns"]]:
        """Of this rank's rows; without those that no loss has reached."""
        found = {}
        with torch.no_grad():
            for name, each in self.parameters.items():
                if isinstance(each.grad, DTensor):
                    found[name] = each.grad.to_local()
        return found

    def zero(self) -> None:
        for each in self.parameters.values():
            each.grad = None

    def like(self, name: str, local: Tensor) -> DTensor:
        """Such rows of this rank as what they are part of: the rows themselves, wherever they lie. Of what
        is offloaded, `DTensor.from_local` would make copies on the GPU."""
        make = cast(Any, DTensor)
        return cast(DTensor, make(local, cast(Any, self.parameters[name])._spec, requires_grad=False))

    def whole(self, name: str, local: Tensor) -> Float[Tensor, "all columns"]:
        """All rows, of which these are this rank's, where they can be gathered: on the GPU, if there is one.
        All ranks must ask together."""
        whole = self.parameters[name]
        rows = DTensor.from_local(
            local,
            whole.device_mesh,
            whole.placements,
            run_check=False,
            shape=whole.shape,
            stride=whole.stride(),
        )
        return rows.full_tensor()


def own_rows(like: DTensor, whole: Float[Tensor, "all columns"]) -> Float[Tensor, "rows columns"]:
    """This rank's rows of such a matrix, as FSDP deals them out."""
    mesh = like.device_mesh
    each = -(-len(whole) // mesh.size())
    start = min(mesh.get_local_rank() * each, len(whole))
    return whole[start : start + each]


class RowsOptimizer:
    """Of the rows, and of the small weights beside them, which have their own AdamW."""

    def __init__(
        self, rows: Rows, small: FlatAdam, config: OptimizerConfig, heights: Mapping[str, list[int]]
    ) -> None:
        """`heights` says of what height the matrices are that share a parameter, of those that Muon takes."""
        self._rows, self.small, self._config, self._heights = rows, small, config, heights
        locals_ = rows.locals()
        self.means = {name: torch.zeros_like(each) for name, each in locals_.items()}
        self.squares = {name: torch.zeros_like(each) for name, each in locals_.items()}
        self.skip = small.skip
        self._device = next(iter(locals_.values())).device if locals_ else small.skip.device
        self._rate = 0.0
        self._count = torch.zeros((), device=self._device)

    def set_rate(self, rate: float) -> None:
        self._rate = rate
        self.small.set_rate(rate)

    @torch.no_grad()
    def step(self, gradients: Mapping[str, Tensor]) -> None:
        skip = self.skip.to(self._device)
        locals_ = self._rows.locals()
        self._count.add_(1)
        for part in self._rows.parts:
            names = [name for name in part.names if name in gradients]
            rate, decay = self._rate * part.factor, self._config.weight_decay if part.decays else 0.0
            if part.first:
                for name in names:
                    self._move(name, locals_[name], gradients[name], rate, decay, skip)
                continue
            names = [name for name in names if locals_[name].numel()]
            if names:
                adamw(
                    [locals_[name] for name in names],
                    [gradients[name] for name in names],
                    [self.means[name] for name in names],
                    [self.squares[name] for name in names],
                    [self._count] * len(names),
                    self._config,
                    rate=rate,
                    decay=decay,
                    skip=skip,
                )
        self._count.sub_(skip)
        self.small.step()

    def _move(
        self, name: str, value: Tensor, gradient: Tensor, rate: float, decay: float, skip: Tensor
    ) -> None:
        """Muon: as in `FlatMuon`, for one parameter."""
        momentum, skipped = self._config.momentum, skip.bool()
        gradient = gradient.masked_fill(skipped, 0.0)
        mean = self.means[name].lerp_(gradient, (1 - momentum) * (1 - skip.to(value.dtype)))
        ahead = torch.lerp(gradient, mean, momentum)
        precision = (
            torch.bfloat16 if self._rows.parameters[name].device_mesh.device_type == "cuda" else ahead.dtype
        )
        whole = self._rows.whole(name, ahead.to(precision))
        found = [
            update_scale(*each.shape) * orthogonal(each.unsqueeze(0))[0].to(value.dtype)
            for each in whole.split(self._heights[name])
        ]
        own = rate * (1 - skip.to(value.dtype))
        if decay:
            value.mul_(1 - own * decay)
        rows = own_rows(self._rows.parameters[name], torch.cat(found)).to(value.device)
        value.addcmul_(rows, own, value=-1)

    @property
    def updates(self) -> int:
        """Steps that did change the weights."""
        return int(self._count)

    @updates.setter
    def updates(self, updates: int) -> None:
        self._count.fill_(updates)
        self.small.updates = updates
