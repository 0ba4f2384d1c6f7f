"""One step of training where no rank holds the whole model: FSDP2, layer by layer.

    work      for each part: gather the weights of a layer, use them, let them go; on the way back once more,
              and its gradients are added up over ranks and cut, so that each rank has its rows
    update    every rank its own rows: clip, AdamW or Muon, average

Matrices are cut by rows over all ranks, with their gradients, the optimizer's state and the averages. What
has no rows (biases, norms) is a thousandth of a model: every rank has all of it, in one flat vector, which
travels with the sums of the step as in `Engine`. Layers are gathered in the precision of the products;
embeddings and heads in that of the weights, as `Engine` reads them: so both compute the same.

Validation and the test need whole weights: the first rank keeps a copy of the model beside the one that is
cut, in the memory of the host, and gathers into it. tests/train/test_sharded.py holds the steps equal to
those of `Engine`.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor

from regard.data.hashing import mixed_seed
from regard.nn.layers import TransformerLayer
from regard.settings.training import AverageConfig, OptimizerConfig
from regard.train.average import Average
from regard.train.engine import IDLE, STATISTICS, Batch
from regard.train.flat import FlatParameters, undecayed, whole_state
from regard.train.muon import layer_matrices
from regard.train.objectives import Sums
from regard.train.optim import FlatAdam
from regard.train.ranks import Ranks
from regard.train.recompute import compile_layers, recompute_layers
from regard.train.rows import Rows, RowsOptimizer, own_rows

TOTALS = len(Sums._fields) + 1
"""What travels with the gradients of the small weights: sums, and the squared length of all others."""


class _Step(nn.Module):
    """What is gathered as a whole beside the layers: whatever way a loss looks into the model, its weights
    are there."""

    def __init__(self, model: nn.Module, loss: Callable[[Any], Sums]) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, batch: Any) -> Sums:
        return self._loss(batch)


class ShardedEngine:
    """What `Engine` is to the trainer."""

    lockstep = True
    """Ranks gather layers together: each must compute as many parts as any other."""

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any], Sums],
        *,
        optimizer: OptimizerConfig,
        average: AverageConfig,
        ranks: Ranks,
        seed: int,
        bfloat16: bool = False,
        offload: bool = False,
        recompute: bool = False,
        factor: Callable[[str], float] | None = None,
    ) -> None:
        """`offload` keeps the rows in the memory of the host, and has the optimizer work there. `recompute`
        keeps no activations inside of layers."""
        self._ranks, self._seed, self._bfloat16, self._clip = ranks, seed, bfloat16, optimizer.clip
        self._plain, self.model, self._loss = model, model, loss
        if ranks.first:
            model.to("cpu")  # first: two of them may not fit into the GPU
            self.model, self._loss = _copied(model, loss)
        own = self.model
        matrices = layer_matrices(own) if optimizer.kind == "muon" else {}
        apart = undecayed(own)
        small = {name: each for name, each in own.named_parameters() if each.ndim < 2}
        for each in (*small.values(), *own.buffers()):
            each.data = each.data.to(ranks.device)
        self._step = _cut(own, self._loss, {*small.values()}, ranks, bfloat16=bfloat16, offload=offload)
        if recompute:
            recompute_layers(own)
        self.small = FlatParameters(own, totals=TOTALS, factor=factor, only=small, device=ranks.device)
        """What every rank has whole."""
        self.rows = Rows(own, factor=factor, first=matrices, undecayed=apart)
        self.optimizer = RowsOptimizer(self.rows, FlatAdam(self.small, optimizer), optimizer, matrices)
        self.averages = {
            "": Average(self.small.values, average),
            **{name: Average(each, average) for name, each in self.rows.locals().items()},
        }
        """By the name of the matrix; that of all small weights has none."""
        self.statistics = torch.zeros(len(STATISTICS), dtype=self.small.values.dtype, device=ranks.device)

    def step(self, step: int, parts: Sequence[tuple[int, Batch]], rate: float) -> None:
        """The `step`-th, from 1. Each part comes with its number, which seeds its dropout, or IDLE."""
        self.optimizer.set_rate(rate)
        for each in self.averages.values():
            each.prepare(step)
        for number, part in parts:
            torch.manual_seed(mixed_seed(self._seed, step, max(number, 0)))
            self._work(part.to(self._ranks.device), counts=number != IDLE)
        self._update()

    def forget(self) -> None:
        """Undo what a step has added up so far."""
        self.small.zero()
        self.rows.zero()

    def compile(self, beside: Callable[[], None] | None) -> None:
        """The layers, and what the loss computes beside them."""
        compile_layers(self.model, hooked=True)
        if beside is not None:
            cast(Any, self._loss).compile()
        self.forget()

    def _work(self, batch: Any, *, counts: bool) -> None:
        with torch.autocast(
            self._ranks.device.type, torch.bfloat16, enabled=self._bfloat16, cache_enabled=False
        ):
            sums = self._step(batch)
        (sums.loss if counts else 0.0 * sums.loss).backward()
        if counts:
            found = [each.detach().to(self.small.totals.dtype) for each in sums]
            self.small.totals[: len(found)].add_(torch.stack(found))

    @torch.no_grad()
    def _update(self) -> None:
        small, gradients = self.small, self.rows.gradients()
        own = [torch.linalg.vector_norm(each).square() for each in gradients.values() if each.numel()]
        if own:
            small.totals[-1] = torch.stack(own).sum().to(small.totals.device)
        self._ranks.add_up(small.travelling)
        loss, nll, tokens, squares = small.totals
        tokens = torch.where(tokens == 0, 1, tokens)  # nothing to learn is no gradient, and no 0 / 0
        norm = (torch.linalg.vector_norm(small.gradients).square() + squares).sqrt() / tokens
        shrink = (self._clip / (norm + 1e-6)).clamp(max=1.0) if self._clip else torch.ones_like(norm)
        scale = shrink / tokens
        small.gradients.mul_(scale)
        for each in gradients.values():
            each.mul_(scale.to(each.device))
        self.optimizer.skip.copy_(~torch.isfinite(norm + loss))
        self.optimizer.step(gradients)
        for average in self.averages.values():
            average.follow()
        self.statistics.copy_(torch.stack([loss / tokens, nll / tokens, norm, self.optimizer.skip]))
        self.forget()

    @property
    def fixed(self) -> dict[str, Tensor]:
        """What is not trained: frozen parameters, cut or whole, and persistent buffers."""
        saved = self.model.state_dict(keep_vars=True).keys()
        frozen = {name: each for name, each in self.model.named_parameters() if not each.requires_grad}
        return frozen | {name: each for name, each in self.model.named_buffers() if name in saved}

    def matrix_state(self, name: str) -> dict[str, Tensor]:
        """All that a checkpoint holds of a matrix, each as what is cut."""
        local = self.rows.locals()[name]
        found = {
            "weights": local,
            "means": self.optimizer.means[name],
            "squares": self.optimizer.squares[name],
        }
        found |= {f"average.{key}": each for key, each in self.averages[name].state().items()}
        return {kind: self.rows.like(name, each) for kind, each in found.items()}

    def put(self, target: Tensor, whole: Tensor) -> None:
        """A whole tensor where it belongs; of a matrix that is cut, this rank's rows."""
        if isinstance(target, DTensor):
            own = target.to_local()
            own.copy_(own_rows(target, whole))
        else:
            target.copy_(whole)

    def mark(self) -> None:
        """Before a validation."""
        for each in self.averages.values():
            each.mark()

    @contextmanager
    def shown(self, *, averaged: bool) -> Iterator[Mapping[str, Tensor]]:
        """Meanwhile the model that was given has the averaged weights, or those of the last step, on the
        first rank. What makes it up. All ranks must come here together."""
        self._gather(averaged=averaged)
        if not self._ranks.first:  # what it was given is what is cut
            yield {}
            return
        self._plain.to(self._ranks.device)
        try:
            yield whole_state(self._plain)
        finally:
            self._plain.to("cpu")

    @torch.no_grad()
    def _gather(self, *, averaged: bool) -> None:
        """One matrix after the other."""
        plain = dict(self._plain.named_parameters()) if self._ranks.first else {}
        vector = self.averages[""].current if averaged else self.small.values
        found: dict[str, Tensor] = self.small.named(vector)
        for name, value in found.items():
            if self._ranks.first:
                plain[name].copy_(value)
        for name, local in self.rows.locals().items():
            rows = self.averages[name].current if averaged else local
            value = self.rows.whole(name, rows)
            if self._ranks.first:
                plain[name].copy_(value)
        if self._ranks.first:
            trained = dict(self.model.named_buffers())
            for name, buffer in self._plain.named_buffers():
                buffer.copy_(trained[name])


def _copied(model: nn.Module, loss: Callable[[Any], Sums]) -> tuple[nn.Module, Callable[[Any], Sums]]:
    """Both once more: a loss that computes with the copy of the model."""
    known: dict[int, Any] = {}
    again = copy.deepcopy(loss, known)
    if id(model) not in known:
        raise ValueError(
            f"train.fsdp: {type(loss).__name__} does not hold the model that it computes with as an "
            "attribute, so it cannot be given the one that is cut: train with train.fsdp='no'"
        )
    return known[id(model)], again


def _cut(
    model: nn.Module,
    loss: Callable[[Any], Sums],
    small: set[nn.Parameter],
    ranks: Ranks,
    *,
    bfloat16: bool,
    offload: bool,
) -> nn.Module:
    """The model's matrices become rows, layer by layer; whatever is in none, with the loss around it."""
    kind = ranks.device.type
    ranks.form_group()
    mesh = init_device_mesh(kind, (ranks.count,))
    settings: dict[str, Any] = {
        "mesh": mesh,
        "ignored_params": small,
        "offload_policy": CPUOffloadPolicy(pin_memory=kind == "cuda") if offload else OffloadPolicy(),
    }
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.modules():
        if isinstance(layer, TransformerLayer):
            fully_shard(layer, mp_policy=half if bfloat16 else MixedPrecisionPolicy(), **settings)
    step = _Step(model, loss)
    fully_shard(step, mp_policy=MixedPrecisionPolicy(cast_forward_inputs=False), **settings)
    for part in step.modules():
        if isinstance(part, FSDPModule):  # sums, not means: a step divides by its tokens
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)
    return step
