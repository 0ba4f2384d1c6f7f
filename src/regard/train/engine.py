"""One step of training: gradients of all parts, added up; then one update.

    work      for each part: loss, backward; gradients and sums add up
    update    add up over ranks, divide by the tokens of the whole step, clip, AdamW or Muon, average,
              back to zero

Both run as written, or on CUDA as captured graphs that one launch replays. Nothing is read back by the host
within a step. Random numbers (dropout) are a function of (seed, step, part): a resumed run, or one shared
out among ranks, draws what an uninterrupted single one would. An update whose loss or gradient is not finite
does not happen.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.data.hashing import mixed_seed
from regard.settings.training import AverageConfig, OptimizerConfig
from regard.train.average import Average
from regard.train.flat import FlatParameters
from regard.train.muon import FlatMuon, layer_matrices
from regard.train.objectives import Sums
from regard.train.optim import FlatAdam
from regard.train.ranks import Ranks
from regard.train.recompute import compile_layers, recompute_layers

STATISTICS = ("loss", "nll", "norm", "skipped")
"""What a step leaves to be read: means over its tokens, the length of the gradient, and 1 if it was
skipped."""


IDLE = -1
"""The number of a part that is computed for nothing, because other ranks have one more."""


class Batch(Protocol):
    @property
    def tokens(self) -> int:
        """How many are predicted; known on the host."""

    def to(self, device: torch.device) -> Any: ...

    def tensors(self) -> Sequence[Tensor]:
        """What changes from batch to batch on the device, always in the same sizes if it is to be
        captured."""


class Engine:
    lockstep = False
    """Ranks may compute as many parts as each has."""

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
        captured: bool = False,
        recompute: bool = False,
        factor: Callable[[str], float] | None = None,
    ) -> None:
        """`captured` needs CUDA, and batches and a loss whose sizes never change. `recompute` keeps no
        activations inside of layers. `factor` gives each parameter, by name, its factor on the learning
        rate."""
        self.model, self._loss = model, loss
        self._clip = optimizer.clip
        self._ranks, self._seed, self._bfloat16, self._captured = ranks, seed, bfloat16, captured
        matrices = layer_matrices(model) if optimizer.kind == "muon" else {}
        self.weights = FlatParameters(model, totals=len(Sums._fields), factor=factor, first=matrices)
        self.optimizer: FlatAdam | FlatMuon
        match optimizer.kind:
            case "adam":
                self.optimizer = FlatAdam(self.weights, optimizer)
            case "muon":
                self.optimizer = FlatMuon(self.weights, optimizer, matrices)
        self.average = Average(self.weights.values, average)
        self.statistics = torch.zeros(len(STATISTICS), dtype=self.weights.values.dtype, device=ranks.device)
        if recompute:
            recompute_layers(model)
        self._held: Any = None
        self._read: list[Tensor] = []
        self._work_graph: Any = None
        self._update_graph: Any = None

    def step(self, step: int, parts: Sequence[tuple[int, Batch]], rate: float) -> None:
        """The `step`-th, from 1. Each part comes with its number, which seeds its dropout."""
        self.optimizer.set_rate(rate)
        self.average.prepare(step)
        for number, part in parts:
            if self._captured and self._work_graph is None:
                self._capture_work(part)  # before the seed: rehearsals draw random numbers
            torch.manual_seed(mixed_seed(self._seed, step, number))
            if self._captured:
                self._replay_work(part)
            else:
                self._work(part.to(self._ranks.device))
        self._ranks.add_up(self.weights.travelling)
        if self._captured:
            self._replay_update()
        else:
            self._update()

    def forget(self) -> None:
        """Undo what a step has added up so far, and let go of the captured graphs."""
        self._held = self._work_graph = self._update_graph = None
        self._read = []
        self.weights.zero()

    def compile(self, beside: Callable[[], None] | None) -> None:
        """The layers, and what is computed beside them."""
        compile_layers(self.model)
        if beside is not None:
            beside()
        self.forget()

    @contextmanager
    def shown(self, *, averaged: bool) -> Iterator[Mapping[str, Tensor]]:
        """Meanwhile the model has the averaged weights, or those of the last step. What makes it up."""
        values = self.weights.values
        own = values.clone()
        if averaged:
            values.copy_(self.average.current)
        try:
            yield self.weights.whole(values)
        finally:
            values.copy_(own)

    @property
    def fixed(self) -> dict[str, Tensor]:
        """What is not trained: frozen parameters and persistent buffers."""
        return self.weights.fixed

    def mark(self) -> None:
        """Before a validation."""
        self.average.mark()

    def _work(self, batch: Any) -> None:
        # Every weight is used once in a pass: a cache of their casts would only keep memory.
        with torch.autocast(
            self._ranks.device.type, torch.bfloat16, enabled=self._bfloat16, cache_enabled=False
        ):
            sums = self._loss(batch)
        sums.loss.backward()
        self.weights.totals.add_(torch.stack([each.detach().to(self.weights.totals.dtype) for each in sums]))

    def _update(self) -> None:
        loss, nll, tokens = self.weights.totals
        tokens = torch.where(tokens == 0, 1, tokens)  # nothing to learn is no gradient, and no 0 / 0
        gradients = self.weights.gradients
        norm = torch.linalg.vector_norm(gradients) / tokens
        shrink = (self._clip / (norm + 1e-6)).clamp(max=1.0) if self._clip else 1.0
        gradients.mul_(shrink / tokens)
        self.optimizer.skip.copy_(~torch.isfinite(norm + loss))
        self.optimizer.step()
        self.average.follow()
        self.statistics.copy_(torch.stack([loss / tokens, nll / tokens, norm, self.optimizer.skip]))
        self.weights.zero()

    def _capture_work(self, part: Batch) -> None:
        """The first part of all: nothing has been added up yet. Rehearsals let libraries and compilers set
        themselves up; what they add to the gradients is taken back."""
        self._held = part.to(self._ranks.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._work(self._held)
        torch.cuda.current_stream().wait_stream(side)
        self.weights.zero()
        self._work_graph = self._capture(lambda: self._work(self._held))
        # A longer text may come between two steps and have a table grown; the graph reads the one it knew.
        self._read = [
            value
            for part in self.model.modules()
            for value in vars(part).values()
            if isinstance(value, Tensor)
        ]

    def _replay_work(self, part: Batch) -> None:
        for held, fresh in zip(self._held.tensors(), part.tensors(), strict=True):
            held.copy_(fresh, non_blocking=True)
        self._work_graph.replay()

    def _replay_update(self) -> None:
        if self._update_graph is None:
            self._update_graph = self._capture(self._update)
        self._update_graph.replay()

    def _capture(self, work: Callable[[], None]) -> Any:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph
