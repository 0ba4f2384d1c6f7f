"""One training job: what every task hands to the trainer, and what happens with it from start to end.

describe    config.json, recipe.toml, data.json: known before the first step
train       the loop; the best weights are kept as they are found
test        the kept model on the test text, as it will be used
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from rich.console import Console
from torch import Tensor, nn

from regard.config import ConfigError
from regard.data import Packed
from regard.models.decoder import Decoder
from regard.nn.adapter import merge
from regard.nn.layers import BatchNorm
from regard.tasks.base.feed import PlannedFeed
from regard.tasks.base.folder import (
    DATA,
    METRICS,
    RECIPE,
    load_weights,
    read_metrics,
    whole,
    write_config,
    write_sealed,
    write_weights,
)
from regard.tasks.base.own_recipe import write_own_recipe
from regard.tasks.base.recipe import recipe_text
from regard.train.curve import draw_curve
from regard.train.objectives import Sums
from regard.train.ranks import Ranks
from regard.train.trainer import Outcome, Trainer, Validate, uncompiled
from regard.train.workload import Workload, workload_of


class Loss(Protocol):
    def __call__(self, batch: Any) -> Sums: ...

    def compile(self) -> None:
        """Have what is computed beside the layers compiled too."""


@dataclass(frozen=True, slots=True)
class Shortcut:
    """One pass over the text, and a model that is solved for."""

    setting: str
    """That asks for it, and what it means."""
    seconds: Callable[[], float]
    """How long it would take, by a try on a few examples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All that is settled before the first step."""

    recipe: Any
    """What `regard.tasks.base.recipe.Recipe` has, as a frozen dataclass."""
    model: nn.Module
    loss: Loss
    feed: PlannedFeed
    validate: Validate
    metric: tuple[str, Literal["high", "low"]]
    """Which figure of `validate` says that a model is better, and which way."""
    ranks: Ranks
    static: bool
    """Sizes never change from batch to batch, so that a step can be compiled and captured."""
    d_model: int
    root: Path
    """Where the paths of the recipe's data start from."""
    about: Mapping[str, Any]
    """config.json: what the use of the model needs to know."""
    data: Mapping[str, Any]
    """data.json: what it learns from."""
    learned: Callable[[Mapping[str, float]], Mapping[str, Any]] | None = None
    """What config.json says of a model that is kept, from the figures that it was validated with."""
    test: Callable[[], tuple[dict[str, Any], list[str]]] | None = None
    """Figures of the model as it stands on the test text, as metrics.json has them, and as lines to read."""
    factor: Callable[[str], float] | None = None
    """Of the learning rate of the parameter of this name."""
    write: Callable[[Path, Mapping[str, Tensor]], None] = write_weights
    """Writes what is worth keeping into the folder."""
    solve: Callable[[], None] | None = None
    """Instead of training: give the model its weights at once."""
    shortcut: Shortcut | None = None
    """What there is instead of training, whether it is asked for or not."""
    unit: str = "tokens"
    """What the speed counts."""
    perplexity: bool = True
    """Whether the exponential of the loss means anything."""

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())


def text_digest(job: Job) -> str:
    """Of the examples, as far as their lengths tell, and of the first of them."""
    digest = hashlib.sha256(np.ascontiguousarray(job.feed.plan.lengths).tobytes())
    rows = job.feed.plan.batches(0, 0)[0]
    for each in job.feed.batch(rows, None, 0).tensors():
        digest.update(each.numpy().tobytes())
    return digest.hexdigest()


def workload(job: Job) -> Workload:
    """Its model, and one batch as its plan fills them: whatever the parts of a step are, a GPU computes one
    after the other. The same on every rank, which all must decide alike."""
    plan = job.feed.plan
    lengths = plan.lengths[-1]
    part = job.feed.batch(plan.batches(0, 0)[0], plan.shapes() if job.static else None, 0)
    texts = [each for each in part._parts().values() if isinstance(each, Packed)]
    seen = float((lengths**2).sum() / max(lengths.sum(), 1))
    work = workload_of(
        job.model,
        name=job.recipe.task,
        tokens=int(plan.slots[-1]),
        predicted=min(1.0, part.tokens / max(texts[-1].tokens, 1)) if texts else 1.0,
        seen=seen / 2 if isinstance(job.model, Decoder) else seen,
    )
    return replace(work, seen=0.0) if work.translates else work


def build_trainer(job: Job, folder: Path, console: Console) -> Trainer:
    def keep(weights: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        job.write(folder, weights)
        if job.learned is not None:
            write_config(folder, job.recipe.task, {**job.about, **job.learned(facts["valid"])})
        name, way = job.metric
        write_sealed(folder / METRICS, {**facts, "metric": name, "better": way})

    recipe = job.recipe
    if job.ranks.count > 1 and any(isinstance(part, BatchNorm) for part in job.model.modules()):
        raise ConfigError(
            "norm kind 'batch' on several processes: each would have a mean of its own; train in one process"
        )
    if recipe.average.start and not getattr(recipe.model, "start", ""):
        raise ConfigError(
            f"average.start={recipe.average.start}, but without model.start there is nothing worth keeping: "
            "leave it out, or name a folder to start from"
        )
    trainer = Trainer(
        job.model,
        job.loss,
        job.feed,
        recipe.train,
        optimizer=recipe.optimizer,
        average=recipe.average,
        folder=folder,
        ranks=job.ranks,
        console=console,
        d_model=job.d_model,
        tokens=recipe.batch.tokens * recipe.batch.parts,
        work=partial(workload, job),
        static=job.static,
        metric=job.metric,
        validate=job.validate,
        keep=keep,
        factor=job.factor,
        compile=job.loss.compile,
        unit=job.unit,
        perplexity=job.perplexity,
    )
    if trainer.sharded and not job.ranks.shared:
        raise ConfigError(
            f"train.fsdp={recipe.train.fsdp!r}: every rank writes its part of a checkpoint, but not all "
            f"machines see {folder} of the first: choose an --out that they share"
        )
    return trainer


def train(job: Job, folder: Path, console: Console, *, begun: bool) -> Outcome:
    """Into a folder, which is then a model; one that was `begun` goes on where it stopped."""
    if job.solve is not None:
        return _solve(job, job.solve, folder, console)
    trainer = build_trainer(job, folder, console)
    if begun:
        trainer.resume()  # refuses another model before anything of this one is written over
    if job.ranks.first:
        _describe(job, folder)
    outcome = trainer.run()
    if job.ranks.first:
        draw_curve(folder, job.metric[0])
    if job.ranks.first and outcome.stopped is None and job.test is not None:
        _test(job, folder, console, compiled=trainer.compiled)
    return outcome


def _solve(job: Job, solve: Callable[[], None], folder: Path, console: Console) -> Outcome:
    began = time.monotonic()
    solve()
    figures, _ = job.validate()
    seconds = time.monotonic() - began
    if job.ranks.first:
        _describe(job, folder)
        write_weights(folder, whole(job.model))
        name, way = job.metric
        facts = {"step": 0, "seconds": seconds, "valid": dict(figures), "metric": name, "better": way}
        write_sealed(folder / METRICS, facts)
        line = "  ".join(f"{name} {value:.4g}" for name, value in figures.items())
        console.print(f"valid  {line}", highlight=False, soft_wrap=True)
    if job.ranks.first and job.test is not None:
        _test(job, folder, console, compiled=False)
    return Outcome(step=0, steps=0, best=figures, best_step=0, skipped=0, seconds=seconds, stopped=None)


def _describe(job: Job, folder: Path) -> None:
    """The files of the model folder that are known from the start; of a run that goes on, also what the model
    that was kept has learned."""
    about = dict(job.about)
    if job.learned is not None and (folder / METRICS).exists():
        about |= job.learned(read_metrics(folder)["valid"])
    write_config(folder, job.recipe.task, about)
    here = replace(job.recipe, data=replace(job.recipe.data, root=str(job.root.resolve())))
    write_own_recipe(folder / RECIPE, recipe_text(here))
    write_sealed(folder / DATA, job.data)


def _test(job: Job, folder: Path, console: Console, *, compiled: bool) -> None:
    if job.test is None:
        return
    merge(job.model)
    load_weights(folder, job.model)
    job.model.eval()
    with uncompiled(compiled):
        plain, lines = job.test()
    metrics = read_metrics(folder)
    metrics["test"] = plain
    write_sealed(folder / METRICS, metrics)
    for line in lines:
        console.print(f"test  {line}", highlight=False, markup=False, soft_wrap=True)
