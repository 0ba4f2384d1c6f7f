"""What a run would do on this machine, by a few steps of it that are timed before anything is trained.

With a limit of time it is said how many steps fit in, beside what the recipe would take without one; and
where that is far too little, which settings make do with the time, as far as what was timed can tell.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from regard.nn.layers import TransformerLayer
from regard.tasks.base.job import Job
from regard.train.pace import affordable
from regard.train.trainer import Trainer

DRY_STEPS = 5
"""That are timed; the first does not count."""
LITTLE = 1 / 3
"""A limit of time that allows for less than this share of the usual steps is told to be too small."""


@dataclass(frozen=True, slots=True)
class Timing:
    """In seconds."""

    step: float
    once: float
    """The model on the examples of a step, without learning from them."""
    look: float = 0.0
    """A validation; 0 where it was not timed."""


def timed(job: Job, trainer: Trainer) -> Timing:
    """A validation is timed where it counts: within a limit of time, or where nothing is trained."""

    def step(number: int) -> None:
        trainer.engine.step(number, job.feed.parts(number), 0.0)

    def once(number: int) -> None:
        device = job.ranks.device
        half = torch.autocast(device.type, torch.bfloat16, enabled=job.recipe.train.bfloat16(device))
        with torch.no_grad(), half:
            for _, part in job.feed.parts(number):
                job.loss(part.to(device))

    trainer.compile()
    steps = [_seconds(job, step, number) for number in range(1, DRY_STEPS + 1)]
    passes = [_seconds(job, once, number) for number in range(1, DRY_STEPS + 1)]
    wanted = job.recipe.train.minutes or job.solve is not None
    look = _seconds(job, lambda _: trainer.validated(), 1) if wanted else 0.0
    return Timing(step=statistics.median(steps[1:]), once=statistics.median(passes[1:]), look=look)


def way_of(trainer: Trainer) -> str | None:
    """Of several ranks, how they train; nothing of one."""
    ranks = trainer.ranks
    if ranks.count == 1:
        return None
    way = "the model is cut over ranks (FSDP)" if trainer.sharded else "every rank has the whole model (DDP)"
    return f"# {ranks.count} ranks, train.fsdp={trainer.config.fsdp}: {way}"


def _seconds(job: Job, work: Callable[[int], object], number: int) -> float:
    began = time.perf_counter()
    work(number)
    if job.ranks.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Forecast:
    job: Job
    timing: Timing
    prepared: float
    """Seconds before the first step."""
    usual: int
    """Steps that the recipe would take without a limit of time."""
    way: str | None = None
    """How several ranks train."""

    @property
    def config(self) -> Any:
        return self.job.recipe.train

    @property
    def steps(self) -> int:
        return self.steps_of(self.timing.step)

    def steps_of(self, each: float) -> int:
        """How many there would be if one took so many seconds."""
        if not self.config.minutes:
            return self.config.steps
        left = 60 * self.config.minutes
        return min(self.config.steps, max(1, affordable(left, each, self.timing.look, self._every)))

    @property
    def too_little(self) -> bool:
        return bool(self.config.minutes) and self.job.solve is None and self.is_little(self.steps)

    def is_little(self, steps: int) -> bool:
        """Far less than usual, or not even warmed up."""
        return steps < LITTLE * self.usual or steps <= self.job.recipe.optimizer.warmup

    @property
    def _every(self) -> int:
        return self.config.validate_every

    def _lasts(self, steps: int) -> float:
        """Minutes, with validations where they were timed."""
        return (steps * self.timing.step + (steps / self._every + 1) * self.timing.look) / 60

    def _epochs(self, steps: int) -> str:
        return f"{steps:,} steps, {steps / self.job.feed.plan.steps(0):.2g} epochs"

    def lines(self) -> Iterator[str]:
        """Comments, below a recipe."""
        job, timing, device = self.job, self.timing, self.job.ranks.device
        size = f"# {job.parameters:,} parameters"
        if self.way is not None:
            yield self.way
        if job.solve is not None:
            yield f"{size}; solved for, not trained: {self._solved()} on {device}"
            return
        speed = f"{timing.step * 1000:.0f} ms a step"
        if not self.config.minutes:
            lasts = f"about {self._lasts(self.steps):.1f} minutes on {device} ({speed})"
            yield f"{size}; {self._epochs(self.steps)}; {lasts}, validations not counted"
            return
        lasts = f"about {min(self.config.minutes, self._lasts(self.steps)):.1f} minutes on {device}"
        yield f"{size}; {self._epochs(self.steps)}; {lasts} ({speed}, {timing.look:.1f} s a validation)"
        test = " and the test at its end" if job.test is not None else ""
        yield f"# not in train.minutes: {self.prepared:.0f} s before the first step{test}"
        whole = f"about {self._lasts(self.usual):.1f} minutes"
        yield f"# without train.minutes: {self._epochs(self.usual)}, {whole}"
        if self.too_little:
            yield f"# train.minutes={self.config.minutes:g} is too little for this; what fits, as timed here:"

    def remedies(self) -> Iterator[str]:
        """Settings that make do with the time, each with what it would take; the one that takes it all."""
        job, timing = self.job, self.timing
        if job.shortcut is not None:
            yield f"#   {job.shortcut.setting}, {self._solved()}"
        layers = sum(isinstance(part, TransformerLayer) for part in job.model.modules())
        shape = job.recipe.model
        if getattr(shape, "start", "") and getattr(shape, "frozen", -1) == 0 and layers > 1:
            half = layers // 2
            each = timing.once + (timing.step - timing.once) * (1 - half / layers)
            if not self.is_little(steps := self.steps_of(each)):
                yield f"#   model.frozen={half}: half of the layers stay as they are, {self._epochs(steps)}"

    def last_remedy(self) -> str:
        return f"#   train.minutes={self._lasts(self.usual):.0f}: {self._epochs(self.usual)}"

    def _solved(self) -> str:
        seconds = 0.0 if self.job.shortcut is None else self.job.shortcut.seconds()
        return f"about {seconds + self.timing.look:.0f} s"
