"""Where a run stands: how far it is, what was best, and the checkpoint that brings another run there.

A checkpoint is the weights, frozen ones too, the optimizer's state, the averages, the statistics of steps
that were not logged yet, and `Standing`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.train import checkpoint
from regard.train.checkpoint import CheckpointError
from regard.train.engine import Engine

MOST_STEPS = 10**12
"""More than any run takes."""
MOST_PIECES = 64
"""In which a batch that is too large for the memory is computed, at most."""


@dataclass(slots=True)
class Standing:
    """Where a run stands: beside the vectors, all that a checkpoint holds."""

    step: int = 0
    best: dict[str, float] = field(default_factory=dict)
    best_step: int = 0
    waited: int = 0
    """Validations since the best."""
    skipped: int = 0
    """Updates that were not finite."""
    in_a_row: int = 0
    seconds: float = 0.0
    took: float = 0.0
    """Seconds of the last validation, with what was written after it."""
    split: int = 1
    steps: int = 0
    """How many there will be, as far as is known."""
    finished: bool = False
    compiled: bool = False
    """Whether steps are compiled from here on: too little memory has them compiled early."""

    def judge(self, figures: Mapping[str, float], metric: str, wanted: Literal["high", "low"]) -> bool:
        """Note the figures of a validation; whether they are the best so far. Between equals the lower loss
        decides, and then the later one: a figure that does not move yet says nothing for the first."""
        if metric not in self.best:  # also of a run that is resumed with another metric
            order = 1
        else:
            order = _order(figures[metric], self.best[metric], wanted)
            order = order or _order(figures.get("loss", math.nan), self.best.get("loss", math.nan), "low")
        self.waited = 0 if order > 0 else self.waited + 1
        if order >= 0:
            self.best, self.best_step = dict(figures), self.step
        return order >= 0


def save(
    path: Path, engine: Engine, standing: Standing, history: Sequence[Tensor], *, optimizer: str
) -> None:
    """Write a checkpoint. `optimizer` is its kind, `history` the statistics of steps not logged yet."""
    beside = {f"average.{name}": vector for name, vector in engine.average.state().items()}
    beside |= {f"fixed.{name}": value for name, value in engine.weights.fixed.items()}
    if history:
        beside["history"] = torch.stack([*history])
    facts = {"standing": asdict(standing), "updates": engine.optimizer.updates, "optimizer": optimizer}
    checkpoint.write(path, {**_vectors(engine), **beside}, {**facts, "places": _places(engine)})


def last_step(path: Path) -> int | None:
    """Of the checkpoint that is there, if one is."""
    try:
        with safe_open(path, framework="pt") as file:
            return int(json.loads(file.metadata()["facts"])["standing"]["step"])
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None


def load(path: Path, engine: Engine, *, optimizer: str) -> tuple[Standing, list[Tensor]]:
    """Bring the engine to where a checkpoint's was; what else `save` was given. Nothing of the engine changes
    before all of the checkpoint was looked at."""
    tensors, facts = checkpoint.read(path)
    fixed, own = _under("fixed.", tensors), engine.weights.fixed
    if facts.get("places") != _places(engine) or _shapes(fixed) != _shapes(own):
        raise CheckpointError(
            f"{path}: the weights of another model, or of one in which other parts are frozen or "
            "learn faster; resume with the recipe that began it"
        )
    kind = facts.get("optimizer", "adam")
    if kind != optimizer:
        raise CheckpointError(f"{path}: begun with optimizer.kind={kind!r}; resume with that")
    averages = _under("average.", tensors)
    if engine.average.mean is not None and "mean" not in averages:
        raise CheckpointError(
            f"{path}: it holds no mean of the weights; resume with the average.kind that began it"
        )
    if engine.average.first is not None and "start" not in averages:
        raise CheckpointError(
            f"{path}: it does not hold the weights that were started from; resume with the average.start "
            "that began it"
        )
    try:
        _check_tensors(tensors, engine)
        standing, updates = as_standing(facts.get("standing")), check_count("updates", facts.get("updates"))
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged: {error}; start again in a new folder") from error
    for name, vector in _vectors(engine).items():
        vector.copy_(tensors[name])
    for name, value in own.items():
        value.copy_(fixed[name])
    engine.average.load(averages)
    engine.optimizer.updates = updates
    device = engine.weights.values.device
    history = [*tensors["history"].to(device)] if "history" in tensors else []
    return standing, history


def _check_tensors(tensors: Mapping[str, Tensor], engine: Engine) -> None:
    """All that `save` writes for such an engine, each of its size and type, and nothing else."""
    wanted = {**_vectors(engine), **{f"fixed.{name}": each for name, each in engine.weights.fixed.items()}}
    lasts = sum(name.startswith("average.last.") for name in tensors)
    once = [name for name in ("average.mean", "average.start") if name in tensors]
    for name in (*once, *(f"average.last.{index}" for index in range(lasts))):
        wanted[name] = engine.weights.values
    for name, like in wanted.items():
        if name not in tensors:
            raise ValueError(f"it has no {name}")
        found = tensors[name]
        if found.shape != like.shape or found.dtype != like.dtype:
            raise ValueError(
                f"{name} is {list(found.shape)} of {found.dtype}, where {list(like.shape)} of {like.dtype} "
                "belongs"
            )
    if extra := sorted(tensors.keys() - wanted.keys() - {"history"}):
        raise ValueError(f"nothing is known of {extra[:3]}")
    if "history" in tensors:
        history, like = tensors["history"], engine.statistics
        if history.dtype != like.dtype or history.dim() != 2 or history.shape[1] != len(like):
            raise ValueError(
                f"history is {list(history.shape)} of {history.dtype}, where rows of {len(like)} belong"
            )


def as_standing(facts: object) -> Standing:
    """What JSON says, if such a standing can be."""
    if not isinstance(facts, dict) or "step" not in facts:
        raise ValueError("its facts do not say at which step it is")
    known = {each.name for each in fields(Standing)}
    if extra := sorted(facts.keys() - known):
        raise ValueError(f"nothing is known of {extra[:3]}")
    standing = Standing(**facts)
    for name in ("step", "best_step", "waited", "skipped", "in_a_row", "split", "steps"):
        check_count(name, getattr(standing, name))
    if standing.best_step > standing.step:
        raise ValueError(f"best_step={standing.best_step} is behind step={standing.step}")
    if not 1 <= standing.split <= MOST_PIECES:
        raise ValueError(f"split={standing.split} should be from 1 to {MOST_PIECES}")
    for name in ("seconds", "took"):
        value = getattr(standing, name)
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise ValueError(f"{name}={value!r} should be a number from 0 on")
    for name in ("finished", "compiled"):
        if type(getattr(standing, name)) is not bool:
            raise ValueError(f"{name}={getattr(standing, name)!r} should be true or false")
    best = standing.best
    if not isinstance(best, dict) or not all(type(figure) in (int, float) for figure in best.values()):
        raise ValueError(f"best={best!r} should be figures by their names")
    return standing


def check_count(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= MOST_STEPS:
        raise ValueError(f"{name}={value!r} should be a whole number from 0 to {MOST_STEPS:,}")
    return value


def _vectors(engine: Engine) -> dict[str, Tensor]:
    optimizer = engine.optimizer
    return {"weights": engine.weights.values, "means": optimizer.means, "squares": optimizer.squares}


def _places(engine: Engine) -> dict[str, list[int]]:
    return {name: [place.start, *place.shape] for name, place in engine.weights.places.items()}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: each for name, each in tensors.items() if name.startswith(prefix)}


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: each.shape for name, each in tensors.items()}


def _order(figure: float, best: float, wanted: Literal["high", "low"]) -> int:
    """1 if it is better, -1 if it is worse, 0 if it is the same. No number at all is the worst."""
    if math.isnan(figure) or math.isnan(best):
        return int(math.isnan(best)) - int(math.isnan(figure))
    up = (figure > best) - (figure < best)
    return up if wanted == "high" else -up
