"""The loop: batches in, a trained model out; can be stopped at any moment and continued as if it never was.

    for each step:   engine.step(batches of the step)
    now and then:    log; validate with the averaged weights, keep the best; write a checkpoint

What makes a run exact: batches, dropout and the learning rate are functions of the step alone, so that a
checkpoint (standing.py) is the weights, frozen ones too, the optimizer's state and one number.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import torch
from rich.console import Console
from torch import Tensor, nn

from regard.data.batches import prefetch
from regard.nn.memory import memory_errors
from regard.settings.training import AverageConfig, OptimizerConfig, TrainConfig
from regard.train.choice import is_sharded, sharded_engine
from regard.train.engine import IDLE, STATISTICS, Engine
from regard.train.objectives import Sums
from regard.train.optim import learning_rate
from regard.train.pace import Pace, affordable
from regard.train.ranks import Ranks
from regard.train.report import Report
from regard.train.resume import load_checkpoint, save_checkpoint
from regard.train.signals import Stop, listening
from regard.train.standing import MOST_PIECES, Standing
from regard.train.workload import Workload, workload_of

TOLERATED = 5
"""So many updates in a row may be skipped for a gradient that is not finite."""

SAVED_AFTER = 120.0
"""Seconds after which a checkpoint is written, whatever the step."""
SAVED_AFTER_LOOKING = 10.0
"""Seconds after which one is written at a validation."""
LONG = 2e14
"""Compiling takes ten seconds and more; it wins them back in runs with at least so many parameters times
tokens,"""
LONG_MINUTES = 3.0
"""or with at least so much time."""
UNCOMPILED = 20
"""Steps before anything is compiled, unless that was asked for: so the first losses are there after seconds.
A function of the step, or else noted in `Standing`: a resumed run computes each step as an uninterrupted one
would."""
KNOWN_AFTER = 0.3
"""Of a limit of time. If there was no validation by then, there is one, to see how long it takes."""


class TrainingError(RuntimeError):
    """Training cannot go on; the message says why and what to try."""


class Feed(Protocol):
    """Where the batches of a step come from."""

    def parts(self, step: int, split: int) -> list[tuple[int, Any]]:
        """This rank's batches of a step, from 1, each with its number among all of the step. `split` cuts
        each batch in so many, for a device too small for it."""

    def idle(self, step: int, split: int) -> list[Any]:
        """Any batches, as many as this rank has fewer than the one that has most."""


Parts = tuple[int, list[tuple[int, Any]]]
"""The batches of a step, each with its number, and in how many pieces they were cut."""
Validate = Callable[[], tuple[Mapping[str, float], str]]
"""Figures of the model as it stands, and an example of what it says."""


@dataclass(frozen=True, slots=True)
class Outcome:
    step: int
    steps: int
    best: Mapping[str, float]
    best_step: int
    skipped: int
    seconds: float
    """Of training and validation, all sittings together."""
    stopped: int | None
    """The signal that ended it, if one did."""


class Trainer:
    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any], Sums],
        feed: Feed,
        config: TrainConfig,
        *,
        optimizer: OptimizerConfig,
        average: AverageConfig,
        folder: Path,
        ranks: Ranks,
        console: Console,
        d_model: int,
        tokens: int,
        static: bool,
        work: Callable[[], Workload] | None = None,
        metric: tuple[str, Literal["high", "low"]] = ("loss", "low"),
        validate: Validate | None = None,
        keep: Callable[[Mapping[str, Tensor], Mapping[str, Any]], None],
        factor: Callable[[str], float] | None = None,
        compile: Callable[[], None] | None = None,
        perplexity: bool = True,
        unit: str = "tokens",
    ) -> None:
        """`keep` is given the weights worth keeping, by name, with their figures: all of the model's, with
        frozen ones and persistent buffers. A step takes about so many `tokens`, all its parts
        together; `work` says what one part asks of a GPU. `static` says that sizes
        never change from batch to batch, so that a step can be compiled and captured. `factor` gives each
        parameter, by name, its factor on the learning rate. `compile` has what is computed beside the layers
        compiled with them. `perplexity` says whether nll has one,
        `unit` what the tokens are to a user."""
        self.model, self.feed, self.config, self.ranks = model, feed, config, ranks
        self.folder, self.console, self.optimizer = folder, console, optimizer
        self._d_model, self._metric, self._validate, self._keep = d_model, metric, validate, keep
        self._perplexity, self._unit = perplexity, unit
        on_cuda = ranks.device.type == "cuda"
        size = sum(parameter.numel() for parameter in model.parameters())
        long = config.minutes >= LONG_MINUTES if config.minutes else size * config.steps * tokens >= LONG
        compiles = static and (on_cuda and long if config.compile == "auto" else config.compile == "yes")
        self.sharded = is_sharded(
            config, average, ranks, work or partial(workload_of, model, name="", tokens=tokens)
        )
        """Whether no rank has the whole model."""
        again = config.activation_checkpointing
        captured = on_cuda and static and config.capture != "no" and not (self.sharded or again)
        for name, done in (("compile", compiles), ("capture", captured)):
            if getattr(config, name) == "yes" and not done:
                raise ValueError(
                    f"train.{name}='yes', but a step of this model on {ranks.device} cannot be: it takes a "
                    "Transformer on CUDA, whose batches all have one size, and to be captured neither fsdp "
                    "nor activation_checkpointing; choose 'auto'"
                )
        self.compiled = False
        self._compile = compile
        self._compile_after: int | None = None
        """How many steps; None: never, or it is done."""
        if compiles:
            self._compile_after = UNCOMPILED if config.compile == "auto" else 0
        settings: dict[str, Any] = {
            "optimizer": optimizer,
            "average": average,
            "ranks": ranks,
            "seed": config.seed,
            "bfloat16": config.bfloat16(ranks.device),
            "factor": factor,
            "recompute": again,
        }
        self.engine = (
            sharded_engine(model, loss, offload=config.cpu_offload, **settings)
            if self.sharded
            else Engine(model, loss, captured=captured, **settings)
        )
        self.standing = Standing(steps=config.steps)
        self._rate = 0.0
        self._history: list[Tensor] = []
        """Statistics of the last steps, not read yet."""
        self._counted = 0
        self._idle = 0.0
        """Seconds spent waiting for batches since the last log."""
        self._logged = self._saved = time.monotonic()
        self._pace = Pace()
        self._spare = True
        """Whether there is time for a validation before the last one."""

    def resume(self) -> None:
        """Continue from the folder's checkpoint."""
        self.standing, self._history = load_checkpoint(
            self.folder, self.engine, self.ranks, self.optimizer.kind
        )
        standing = self.standing
        if standing.compiled and self._compile_after is not None:
            self._compile_after = 0
        # more steps or more patience than before: it goes on
        if not self.config.minutes:
            standing.steps = self.config.steps
        elif standing.finished:
            self._plan()
        standing.finished = self._finished()

    def compile(self) -> None:
        """From now on steps are compiled, if they are to be."""
        if self._compile_after is None:
            return
        self._compile_after, self._pace = None, Pace()
        self.compiled = self.standing.compiled = True
        self.engine.compile(self._compile)

    def run(self) -> Outcome:
        """Train to the end, or until a signal asks to stop: then a checkpoint is written first."""
        standing, config = self.standing, self.config
        began, before = time.monotonic(), standing.seconds
        if standing.step == 0:
            self._save()  # from here on, whatever is kept belongs to a run that can be resumed
        self._saved = time.monotonic()
        with listening() as stop:
            quiet = not self.ranks.first
            report = Report(
                self.folder, config.steps, self.console, start=standing.step, quiet=quiet, unit=self._unit
            )
            if standing.step:
                report.say(f"continuing from step {standing.step} of {standing.steps}")
            try:
                if standing.finished and not standing.best_step:  # it was to have more, and kept nothing yet
                    self._look(report)
                    self._save()
                for split, parts in self._timed(self._steps()):
                    standing.step += 1
                    parts = self._step(parts if split == standing.split else None, report)
                    self._history.append(self.engine.statistics.clone())
                    self._counted += sum(part.tokens for number, part in parts if number != IDLE)
                    report.moved(standing.step, standing.steps)
                    standing.seconds = before + time.monotonic() - began
                    self._pace.stepped(time.monotonic())
                    asked = self._asked(stop)
                    unknown = self._plan()
                    last = standing.step >= standing.steps
                    if last or standing.step % config.log_every == 0:
                        self._log(report)
                    regular = standing.step % config.validate_every == 0 and self._spare
                    looked = last or unknown or regular
                    paused = time.monotonic()
                    if looked:
                        self._look(report)
                        standing.seconds = before + time.monotonic() - began
                        standing.took = time.monotonic() - paused
                        standing.finished = self._finished()
                    if standing.finished or asked or self._is_due(looked):
                        self._save()
                    standing.seconds = before + time.monotonic() - began
                    if looked:
                        standing.took = time.monotonic() - paused
                        self._pace.paused(standing.took)
                    if standing.finished or asked:
                        break
            finally:
                report.close()
        return Outcome(
            step=standing.step,
            steps=standing.steps,
            best=standing.best,
            best_step=standing.best_step,
            skipped=standing.skipped,
            seconds=standing.seconds,
            stopped=stop.signal if not standing.finished else None,
        )

    def _is_due(self, looked: bool) -> bool:
        """Whether a checkpoint should be written now, perhaps just after a validation. Ranks have to agree,
        which costs a message, so they ask rarely."""
        step, waited = self.standing.step, time.monotonic() - self._saved
        if self.config.save_every and step % self.config.save_every == 0:
            return True
        late = waited > (SAVED_AFTER_LOOKING if looked else SAVED_AFTER)
        if self.ranks.count == 1:
            return late
        return (looked or step % self.config.log_every == 0) and bool(self.ranks.share(late))

    def _finished(self) -> bool:
        standing = self.standing
        return standing.step >= standing.steps or 0 < self.config.patience <= standing.waited

    def _steps(self) -> Iterator[Parts]:
        """The batches of each step that is left, prepared ahead, and in how many pieces they were cut."""
        config = self.config

        def pinned(step: int) -> Parts:
            split = self.standing.split
            parts = self._parts(step, split)
            if not on_cuda:
                return split, parts
            with torch.cuda.device(self.ranks.device):  # a new thread starts on the first one
                return split, [(number, part.pin()) for number, part in parts]

        on_cuda = self.ranks.device.type == "cuda"
        workers = config.workers if on_cuda else 0
        left = range(self.standing.step + 1, config.steps + 1) if not self.standing.finished else range(0)
        jobs = (partial(pinned, step) for step in left)
        return prefetch(jobs, workers=workers, ahead=4 * max(workers, 1))

    def _parts(self, step: int, split: int) -> list[tuple[int, Any]]:
        """This rank's batches of a step; where ranks gather layers together, as many as any other has."""
        parts = self.feed.parts(step, split)
        if not self.engine.lockstep:
            return parts
        return [*parts, *((IDLE, batch) for batch in self.feed.idle(step, split))]

    def _timed(self, batches: Iterator[Parts]) -> Iterator[Parts]:
        """The same, and how long one had to wait for them."""
        while True:
            began = time.monotonic()
            item = next(batches, None)
            self._idle += time.monotonic() - began
            if item is None:
                return
            yield item

    def _step(self, parts: list[tuple[int, Any]] | None, report: Report) -> list[tuple[int, Any]]:
        """One step; where the device's memory does not do, the same step in smaller pieces. None: the parts
        were prepared before it was known how small."""
        step = self.standing.step
        self._rate = learning_rate(step, self.standing.steps, self.optimizer, self._d_model)
        if self._compile_after is not None and step > self._compile_after:
            if step > 1:
                report.say(f"step {step}: compiling the model; steps are faster from here on")
            self.compile()
        while True:
            if parts is None:
                parts = self._parts(step, self.standing.split)
            try:
                with self._talking(), memory_errors():
                    self.engine.step(step, parts, self._rate)
                return parts
            except torch.OutOfMemoryError as error:
                if self.engine.lockstep:  # the other ranks are in the middle of this step
                    raise TrainingError(
                        f"step {step}: the batches are too large for the memory of {self.ranks.device}: "
                        "lower batch.tokens and raise batch.parts, or set train.activation_checkpointing=true"
                    ) from error
                self.engine.forget()
                torch.cuda.empty_cache()
                if self._compile_after is not None:  # which takes less memory
                    self.compile()
                    continue
                if self.standing.split >= MOST_PIECES:
                    raise TrainingError(
                        f"step {step}: a batch cut in {self.standing.split} is still too large for the "
                        f"memory of {self.ranks.device}: lower batch.tokens or choose a smaller model"
                    ) from error
                self.standing.split *= 2
                report.say(
                    f"step {step}: out of memory; batches are now computed in {self.standing.split} pieces, "
                    "whose gradients add up"
                )
                parts = None

    def _plan(self) -> bool:
        """With a limit of time: how many steps there will be, at the speed so far; and whether it is time to
        find out how long a validation takes, of which one more must fit in."""
        standing, config = self.standing, self.config
        if not config.minutes or (self.ranks.count > 1 and standing.step % config.log_every):
            return False  # ranks have to agree, which costs a message
        each = self._pace.each or (standing.seconds / standing.step if standing.finished else None)
        seconds, each, took = self.ranks.share((standing.seconds, each, standing.took))
        limit = 60 * config.minutes
        self._spare = limit - seconds > 2 * took
        if each is not None or seconds >= limit:
            more = affordable(limit - seconds, each or limit, took, config.validate_every)
            standing.steps = min(config.steps, standing.step + more)
        return self._validate is not None and not took and seconds > KNOWN_AFTER * limit

    def _asked(self, stop: Stop) -> bool:
        """Whether a signal came. Ranks have to agree, which costs a message, so they ask rarely."""
        if self.ranks.count == 1:
            return stop.signal is not None
        if self.standing.step % self.config.log_every:
            return False
        return bool(self.ranks.share(stop.signal is not None))

    def _log(self, report: Report) -> None:
        """Read what the steps since the last time have left."""
        standing = self.standing
        rows = torch.stack(self._history).tolist()
        now = time.monotonic()
        figures = [dict(zip(STATISTICS, row, strict=True)) for row in rows]
        for step, figure in enumerate(figures, start=standing.step - len(figures) + 1):
            standing.in_a_row = standing.in_a_row + 1 if figure["skipped"] else 0
            standing.skipped += int(figure["skipped"])
            if standing.in_a_row >= TOLERATED:
                raise TrainingError(
                    f"step {step}: the loss or its gradient was not finite {TOLERATED} times in a row; the "
                    "weights are those from before. Lower optimizer.learning_rate, or raise optimizer.warmup"
                )
        whole = [figure for figure in figures if not figure["skipped"]]
        if whole:
            mean = {name: sum(figure[name] for figure in whole) / len(whole) for name in STATISTICS}
            perplexity = {"perplexity": math.exp(min(mean["nll"], 700.0))} if self._perplexity else {}
            tokens = self._counted * self.ranks.count
            report.logged(
                standing.step,
                {
                    "loss": mean["loss"],
                    **perplexity,
                    "norm": mean["norm"],
                    "rate": self._rate,
                    "tokens_per_second": tokens / max(now - self._logged, 1e-9),
                    "data_wait": self._idle / max(now - self._logged, 1e-9),
                    "seconds": standing.seconds,
                    "skipped": standing.skipped,
                },
            )
        self._history, self._counted, self._idle, self._logged = [], 0, 0.0, now

    def _look(self, report: Report) -> None:
        """Validate the averaged weights; keep them if they are the best."""
        standing, engine = self.standing, self.engine
        engine.mark()
        figures: Mapping[str, float] = {}
        example = ""
        began = time.monotonic()
        name, wanted = self._metric
        with engine.shown(averaged=True) as weights:
            if self._validate is not None:
                if self.ranks.first:
                    figures, example = self._validated()
                figures, example = self.ranks.share((figures, example))
                if name not in figures:
                    raise ValueError(f"metric {name!r} is none of those measured: {', '.join(figures)}")
            better = standing.judge(figures, name, wanted)
            if better and self.ranks.first:
                facts = {"step": standing.step, "seconds": standing.seconds, "valid": dict(figures)}
                self._keep(weights, facts)
        report.validated(
            standing.step, figures, best=better, example=example, seconds=time.monotonic() - began
        )
        self._logged += time.monotonic() - began  # validation is no part of the speed of training

    def validated(self) -> tuple[Mapping[str, float], str]:
        """What a validation would say now; nothing is kept of it."""
        with self.engine.shown(averaged=False):
            return self._validated() if self.ranks.first else ({}, "")

    def _validated(self) -> tuple[Mapping[str, float], str]:
        modes = {part: part.training for part in self.model.modules()}  # a frozen one may be in eval mode
        self.model.eval()
        try:
            with uncompiled(self.compiled), torch.no_grad():
                return cast(Validate, self._validate)()
        finally:
            for part, training in modes.items():
                part.training = training

    def _talking(self) -> AbstractContextManager[None]:
        """Ranks that gather layers together may lose one another there."""
        return self.ranks.talking() if self.engine.lockstep else nullcontext()

    def _save(self) -> None:
        """Of a model that is cut, all ranks write."""
        with self._talking():
            save_checkpoint(
                self.folder, self.engine, self.standing, self._history, self.ranks, self.optimizer.kind
            )
        self._saved = time.monotonic()


@contextmanager
def uncompiled(compiled: bool) -> Iterator[None]:
    """Sizes change from here on: let compiled layers run as they are written."""
    if not compiled:
        yield  # the compiler takes seconds to import
        return
    with torch.compiler.set_stance("force_eager"):
        yield
