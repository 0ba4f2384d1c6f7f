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
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.config import check_choices
from regard.train.flat import FlatParameters

MOMENTUM = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig:
    kind: Literal["adam", "muon"] = "adam"
    """adam: AdamW for all weights. muon: Muon for the matrices inside Transformer layers, at the same rate,
    and AdamW for the rest: embeddings, heads, biases, norms, recurrent layers."""
    learning_rate: float | None = None
    """The highest rate, reached at the end of the warm-up: 0.001 unless given. For the paper's schedule, a
    factor on its formula: 1 unless given."""
    schedule: Literal["cosine", "inverse_sqrt", "linear", "constant", "paper"] = "cosine"
    """How the rate falls after the warm-up."""
    warmup: int = 400
    """Steps over which the rate rises."""
    final: float = 0.0
    """Share of the peak that is left at the last step (cosine, linear)."""
    betas: tuple[float, float] = (0.9, 0.98)
    """How slowly the means of the gradients and of their squares move."""
    momentum: float = MOMENTUM
    """muon: how slowly the mean of the gradients moves, for the matrices that Muon takes."""
    eps: float = 1e-9
    """Keeps the division finite."""
    weight_decay: float = 0.0
    """Pull of matrices towards 0; embeddings, biases and norms are left alone."""
    clip: float = 1.0
    """Longest gradient; longer ones are shortened to it. 0: never."""
    layer_decay: float = 1.0
    """Fine-tuning: each layer learns at this share of the rate of the one above it; 1: all alike."""
    head_rate: float = 1.0
    """Fine-tuning: factor on the rate of a head that starts from nothing."""

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("learning_rate", "weight_decay", "clip", "final"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name}={value} must be 0 or more, and finite")
        if self.warmup < 0:
            raise ValueError(f"warmup={self.warmup} must be 0 or more")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas={list(self.betas)} must both be in [0, 1)")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum={self.momentum} must be in [0, 1)")
        if self.momentum != MOMENTUM and self.kind != "muon":
            raise ValueError(
                f"momentum={self.momentum} is for the kind muon, but kind={self.kind!r}: leave it out, or "
                "choose the other kind; AdamW's own is the first of betas"
            )
        if not 0 < self.eps < math.inf:
            raise ValueError(f"eps={self.eps} must be greater than 0, and finite")
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"layer_decay={self.layer_decay} must be above 0, and at most 1: all alike")
        if not 0 < self.head_rate < math.inf:
            raise ValueError(f"head_rate={self.head_rate} must be greater than 0, and finite")
        if self.final and self.schedule not in ("cosine", "linear"):
            raise ValueError(
                f"final={self.final} is for the schedules cosine and linear, but schedule={self.schedule!r}: "
                "leave it out, or choose another schedule"
            )


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


class FlatAdam:
    """AdamW over flat weights; its own state is flat vectors too. Each part of the weights is a group,
    at its factor of the rate. The parts that come first are another optimizer's."""

    def __init__(self, weights: FlatParameters, config: OptimizerConfig) -> None:
        device = weights.values.device
        on_cuda = device.type == "cuda"
        parts = [part for part in weights.parts if not part.first]
        self._adam = torch.optim.AdamW(
            [
                {
                    "params": [part.parameter],
                    "weight_decay": config.weight_decay if part.decays else 0.0,
                    # On CUDA the rate is a tensor: a captured step reads it anew each time.
                    "lr": torch.zeros((), device=device) if on_cuda else 0.0,
                    "factor": part.factor,
                }
                for part in parts
            ],
            betas=config.betas,
            eps=config.eps,
            fused=True,
            capturable=on_cuda,
        )
        self.skip = torch.zeros((), device=device)
        """1 where the next step must change nothing: torch's own way to decide that on the device."""
        self._adam.found_inf = self.skip  # type: ignore[attr-defined]
        self.means, self.squares = torch.zeros_like(weights.values), torch.zeros_like(weights.values)
        self._counts = [torch.zeros((), device=device) for _ in parts]
        for part, count in zip(parts, self._counts, strict=True):
            self._adam.state[part.parameter] = {
                "step": count,
                "exp_avg": self.means[part.span],
                "exp_avg_sq": self.squares[part.span],
            }

    def set_rate(self, rate: float) -> None:
        for group in self._adam.param_groups:
            own = rate * group["factor"]
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(own)
            else:
                group["lr"] = own

    def step(self) -> None:
        self._adam.step()

    @property
    def updates(self) -> int:
        """Steps that did change the weights."""
        return int(self._counts[0])

    @updates.setter
    def updates(self, updates: int) -> None:
        for count in self._counts:
            count.fill_(updates)
