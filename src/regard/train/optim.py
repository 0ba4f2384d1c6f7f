"""AdamW, and the learning rate of every optimizer.

    m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,  w -= rate (m^ / (sqrt(v^) + eps) + decay w)
                                                                     Loshchilov and Hutter 2019

Muon, which takes the matrices inside the layers from it, is in train/muon.py.

The rate rises linearly over the warm-up, then

    paper          d_model^-0.5 step^-0.5, no peak to choose              Vaswani et al. 2017, eq. 3
    inverse_sqrt   peak sqrt(warmup / step): the paper's shape, with a peak
    cosine         half a wave down to `final`                            Loshchilov and Hutter 2017
    linear         a straight line down to `final`
    constant       the peak
"""

import math
from typing import Any, cast

import torch
from torch import Tensor

from regard.settings.training import OptimizerConfig
from regard.train.flat import FlatParameters


def learning_rate(step: int, steps: int, config: OptimizerConfig, d_model: int) -> float:
    """The rate of this step, counted from 1 to `steps`."""
    warmup = max(config.warmup, 1)
    if config.schedule == "paper":
        factor = 1.0 if config.learning_rate is None else config.learning_rate
        return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    peak = 1e-3 if config.learning_rate is None else config.learning_rate
    if step < config.warmup:
        return peak * step / warmup
    gone = min(1.0, (step - config.warmup) / max(steps - config.warmup, 1))
    match config.schedule:
        case "inverse_sqrt":
            return peak * math.sqrt(warmup / max(step, warmup))
        case "cosine":
            return peak * (config.final + (1 - config.final) * (1 + math.cos(math.pi * gone)) / 2)
        case "linear":
            return peak * (config.final + (1 - config.final) * (1 - gone))
        case "constant":
            return peak


def adamw(
    values: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    counts: list[Tensor],
    config: OptimizerConfig,
    *,
    rate: float | Tensor,
    decay: float,
    skip: Tensor,
) -> None:
    """One update of these weights, unless `skip` is 1. By the kernel under `torch.optim.AdamW(fused=True)`,
    which imports torch's compiler: seconds."""
    torch._fused_adamw_(
        values,
        gradients,
        means,
        squares,
        [],
        counts,
        lr=cast(Any, rate),
        beta1=config.betas[0],
        beta2=config.betas[1],
        weight_decay=decay,
        eps=config.eps,
        amsgrad=False,
        maximize=False,
        found_inf=skip,
    )


class FlatAdam:
    """AdamW over flat weights; its own state is flat vectors too. Each part of the weights is updated by one
    kernel, at its factor of the rate. The parts that come first are another optimizer's."""

    def __init__(self, weights: FlatParameters, config: OptimizerConfig) -> None:
        device = weights.values.device
        self._config = config
        self._values, self._gradients = weights.values, weights.gradients
        self._parts = [part for part in weights.parts if not part.first]
        self._rates: list[Any] = [0.0] * len(self._parts)
        if device.type == "cuda":  # a captured step reads it anew each time
            self._rates = [torch.zeros((), device=device) for _ in self._parts]
        self.skip = torch.zeros((), device=device)
        """1 where the next step must change nothing: the kernel's own way to decide that on the device."""
        self.means, self.squares = torch.zeros_like(weights.values), torch.zeros_like(weights.values)
        self._counts = [torch.zeros((), device=device) for _ in self._parts]

    def set_rate(self, rate: float) -> None:
        for place, part in enumerate(self._parts):
            own = rate * part.factor
            if isinstance(self._rates[place], Tensor):
                self._rates[place].fill_(own)
            else:
                self._rates[place] = own

    @torch.no_grad()
    def step(self) -> None:
        for part, rate, count in zip(self._parts, self._rates, self._counts, strict=True):
            count.add_(1)
            adamw(
                [self._values[part.span]],
                [self._gradients[part.span]],
                [self.means[part.span]],
                [self.squares[part.span]],
                [count],
                self._config,
                rate=rate,
                decay=self._config.weight_decay if part.decays else 0.0,
                skip=self.skip,
            )
            count.sub_(self.skip)

    @property
    def updates(self) -> int:
        """Steps that did change the weights."""
        return int(self._counts[0]) if self._counts else 0

    @updates.setter
    def updates(self, updates: int) -> None:
        for count in self._counts:
            count.fill_(updates)
