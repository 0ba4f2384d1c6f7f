"""Averages of the weights over the last part of training: nearer to the middle of a flat minimum than any
single step, and so better on new text.

    ema    a += (1 - decay) (w - a) after every step                    Polyak and Juditsky 1992
    last   the mean of the weights at the last k validations            Vaswani et al. 2017, 6.1

A model that is fine-tuned forgets. Between what it was and what it has become there is one that can both:

    start  a + start (w_0 - a), w_0 the weights before the first step   Wortsman et al. 2022 (WiSE-FT)

Early on an exponential mean would mostly remember the start: its decay grows as (1 + t) / (10 + t).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.settings.training import AverageConfig


class Average:
    """Holds what the mean needs beside the weights, as vectors that a checkpoint can keep."""

    def __init__(self, values: Float[Tensor, "all"], config: AverageConfig) -> None:
        self.config, self._values = config, values
        self.mean = values.clone() if config.kind == "ema" else None
        self._pull = torch.ones((), dtype=values.dtype, device=values.device)
        self.kept: list[Tensor] = []
        self.first = values.clone() if config.start else None

    def prepare(self, step: int) -> None:
        """Before a step, counted from 1: how far the mean follows it."""
        if self.mean is not None:
            self._pull.fill_(1 - min(self.config.decay, (1 + step) / (10 + step)))

    def follow(self) -> None:
        """After a step. Reads nothing from the host, so it can be part of a captured graph."""
        if self.mean is not None:
            self.mean.lerp_(self._values, self._pull)

    def mark(self) -> None:
        """Before a validation."""
        if self.config.kind == "last":
            self.kept = [*self.kept[1 - self.config.last or len(self.kept) :], self._values.clone()]

    @property
    def current(self) -> Float[Tensor, "all"]:
        """The mean as it stands, or the weights themselves; with their share, those before the first step."""
        mean = self._values if self.mean is None else self.mean
        if self.kept:
            mean = torch.stack(self.kept).mean(dim=0)
        return mean if self.first is None else torch.lerp(mean, self.first, self.config.start)

    def state(self) -> dict[str, Tensor]:
        own = {f"last.{index}": kept for index, kept in enumerate(self.kept)}
        own |= {} if self.mean is None else {"mean": self.mean}
        return own if self.first is None else {**own, "start": self.first}

    def make_room(self, kept: int) -> None:
        """For the state of another that has kept so many."""
        self.kept = [torch.zeros_like(self._values) for _ in range(kept)]

    def load(self, state: dict[str, Tensor]) -> None:
        if self.mean is not None:
            self.mean.copy_(state["mean"])
        if self.first is not None:
            self.first.copy_(state["start"])
        device = self._values.device
        self.kept = [
            state[f"last.{index}"].to(device) for index in range(len(state)) if f"last.{index}" in state
        ]
