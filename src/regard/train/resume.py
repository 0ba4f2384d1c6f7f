"""The checkpoint of a run, whichever way its weights lie: on every rank, or cut over all of them.

    checkpoint.safetensors    one file, by the first rank             `Engine`, standing.py
    checkpoint-STEP/          a file of every rank                    `ShardedEngine`, shards.py

Each engine reads both, on any number of ranks: what is in them is the same, by the names of the parameters.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.train import checkpoint
from regard.train.average import Average
from regard.train.checkpoint import CheckpointError
from regard.train.engine import Engine
from regard.train.ranks import Ranks
from regard.train.standing import Standing, as_standing, check_count, last_step, load, save

CHECKPOINT = "checkpoint.safetensors"


def _shards() -> Any:
    """Imported where it is needed: DCP takes seconds."""
    return import_module("regard.train.shards")


def _cut(folder: Path) -> Path | None:
    """Of checkpoints that all ranks wrote, the last whole one."""
    return _shards().newest(folder) if any(folder.glob("checkpoint-*/standing.json")) else None


def find(folder: Path) -> Path | None:
    """The checkpoint to continue from, if there is one."""
    file, cut = folder / CHECKPOINT, _cut(folder)
    if cut is None:
        return file if file.exists() else None
    step = last_step(file)
    return cut if step is None or step <= _shards().step_of(cut) else file


def reached(folder: Path) -> int | None:
    """The step of that checkpoint."""
    path = find(folder)
    if path is None or path.name == CHECKPOINT:
        return None if path is None else last_step(path)
    return int(_shards().step_of(path))


def check(path: Path) -> bool:
    """Whether every byte of a checkpoint was compared with what was written: older ones do not say it. A
    CheckpointError for one that is damaged."""
    if path.name == CHECKPOINT:
        checkpoint.read(path)
        return checkpoint.has_digest(path)
    shards = _shards()
    shards.check_files(path, shards.read_facts(path))
    return True


def clear(folder: Path) -> None:
    """Make room for a run that takes the place of the one there."""
    (folder / CHECKPOINT).unlink(missing_ok=True)
    if any(folder.glob("checkpoint-*")):
        _shards().clear(folder)


def save_checkpoint(
    folder: Path, engine: Any, standing: Standing, history: Sequence[Tensor], ranks: Ranks, optimizer: str
) -> None:
    """All ranks together. `optimizer` is its kind, `history` the statistics of steps not logged yet."""
    if isinstance(engine, Engine):
        if ranks.first:
            save(folder / CHECKPOINT, engine, standing, history, optimizer=optimizer)
            if any(folder.glob("checkpoint-*")):
                _shards().clear(folder)
        ranks.wait()
        return
    state = _state(engine)
    if history:
        state["history"] = torch.stack([*history])
    updates = engine.optimizer.updates
    _shards().write(folder, state, standing, ranks, updates=updates, optimizer=optimizer)
    if ranks.first:
        (folder / CHECKPOINT).unlink(missing_ok=True)


def load_checkpoint(folder: Path, engine: Any, ranks: Ranks, optimizer: str) -> tuple[Standing, list[Tensor]]:
    """Bring the engine to where the run stood; what else `save_checkpoint` was given."""
    if not ranks.shared and isinstance(engine, Engine):
        return _load_from_first(folder, engine, ranks, optimizer)
    return _load(folder, engine, ranks, optimizer)


def _load_from_first(
    folder: Path, engine: Engine, ranks: Ranks, optimizer: str
) -> tuple[Standing, list[Tensor]]:
    """Other machines do not see the folder: the first rank reads, and sends."""
    found = None
    if ranks.first:
        standing, history = _load(folder, engine, ranks, optimizer)
        found = standing, [each.tolist() for each in history], engine.optimizer.updates
    standing, rows, updates = ranks.share(found)
    engine.optimizer.updates = updates
    kept = ranks.share(len(engine.average.kept))
    if not ranks.first:
        engine.average.make_room(kept)
    vectors = (engine.weights.values, engine.optimizer.means, engine.optimizer.squares)
    for each in (*vectors, *engine.average.state().values(), *engine.fixed.values()):
        ranks.copy_first(each.data)
    like = engine.statistics
    return standing, [torch.tensor(row, dtype=like.dtype, device=like.device) for row in rows]


def _load(folder: Path, engine: Any, ranks: Ranks, optimizer: str) -> tuple[Standing, list[Tensor]]:
    path = find(folder)
    if path is None:
        raise CheckpointError(f"{folder}: there is no checkpoint to continue from; start from the beginning")
    if path.name == CHECKPOINT:
        if isinstance(engine, Engine):
            return load(path, engine, optimizer=optimizer)
        return _load_file(path, engine, optimizer)
    return _load_shards(path, engine, ranks, optimizer)


def _load_shards(path: Path, engine: Any, ranks: Ranks, optimizer: str) -> tuple[Standing, list[Tensor]]:
    shards = _shards()
    facts = shards.read_facts(path)
    alone = isinstance(engine, Engine)
    shards.check_files(path, facts, (0, 1) if alone else (ranks.rank, ranks.count))
    standing, updates = shards.standing_of(path, facts)
    _check_kind(path, facts.get("optimizer"), optimizer)
    lasts = len({name.partition("/")[0] for name in facts["shapes"] if name.startswith("average.last.")})
    state = _state(engine, lasts=lasts)
    shapes = {name: shape for name, shape in facts["shapes"].items() if name != "history"}
    _check_same(path, _shapes(state), shapes)
    statistics = engine.statistics
    history = torch.zeros(facts["shapes"].get("history", [0, len(statistics)]), dtype=statistics.dtype)
    if len(history):
        state["history"] = history
    shards.read(path, state, alone=alone)
    engine.optimizer.updates = updates
    return standing, [*history.to(statistics.device)]


def _load_file(path: Path, engine: Any, optimizer: str) -> tuple[Standing, list[Tensor]]:
    """Into a model that is cut, from a file that has it whole: every rank takes its rows."""
    tensors, facts = checkpoint.read(path)
    _check_kind(path, facts.get("optimizer", "adam"), optimizer)
    try:
        standing, updates = as_standing(facts.get("standing")), check_count("updates", facts.get("updates"))
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged: {error}; start again in a new folder") from error
    try:
        whole = _named(tensors, facts["places"])
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise CheckpointError(
            f"{path}: damaged: it does not say where the weights are in it; start again in a new folder"
        ) from error
    lasts = sum(name.startswith("average.last.") for name in tensors)
    state = _state(engine, lasts=lasts)
    _check_same(path, _shapes(state), _shapes(whole))
    with torch.no_grad():
        for name, target in state.items():
            engine.put(target, whole[name])
    engine.optimizer.updates = updates
    history = tensors.get("history", torch.zeros(0, len(engine.statistics)))
    return standing, [*history.to(engine.statistics)]


def _named(tensors: Mapping[str, Tensor], places: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    """The flat vectors of a file, by the names of parameters."""
    whole = {f"fixed/{name[6:]}": each for name, each in tensors.items() if name.startswith("fixed.")}
    for kind in (name for name in tensors if name != "history" and not name.startswith("fixed.")):
        for name, (start, *shape) in places.items():
            flat = tensors[kind][start : start + torch.Size(shape).numel()]
            whole[f"{kind}/{name}"] = flat.view(shape)
    return whole


def _check_kind(path: Path, kind: object, wanted: str) -> None:
    if kind != wanted:
        raise CheckpointError(f"{path}: begun with optimizer.kind={kind!r}; resume with that")


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, list[int]]:
    return {name: [*each.shape] for name, each in tensors.items()}


def _check_same(path: Path, own: dict[str, list[int]], written: dict[str, list[int]]) -> None:
    if own == written:
        return
    apart = sorted(name for name in own.keys() | written.keys() if own.get(name) != written.get(name))
    raise CheckpointError(
        f"{path}: not of this model, or of one that is averaged another way, or in which other parts are "
        f"frozen ({', '.join(apart[:3])}); resume with the recipe that began it"
    )


def _state(engine: Any, lasts: int | None = None) -> dict[str, Tensor]:
    """All that a checkpoint holds beside `Standing`, by names of parameters: the tensors themselves, to be
    written or read into. With `lasts`, so many kept averages are made room for."""
    averages: dict[str, Average] = engine.averages if not isinstance(engine, Engine) else {"": engine.average}
    for each in averages.values():
        if lasts is not None:
            each.make_room(lasts)
    found = dict(_vectors(engine, averages[""]))
    if not isinstance(engine, Engine):
        for name in engine.rows.parameters:
            found |= {f"{kind}/{name}": each for kind, each in engine.matrix_state(name).items()}
    return found | {f"fixed/{name}": each for name, each in engine.fixed.items()}


def _vectors(engine: Any, average: Average) -> dict[str, Tensor]:
    """What lies in flat vectors, by name."""
    flat = isinstance(engine, Engine)
    weights, optimizer = (
        (engine.weights, engine.optimizer) if flat else (engine.small, engine.optimizer.small)
    )
    vectors = {"weights": weights.values, "means": optimizer.means, "squares": optimizer.squares}
    vectors |= {f"average.{key}": vector for key, vector in average.state().items()}
    return {
        f"{kind}/{name}": each
        for kind, vector in vectors.items()
        for name, each in weights.named(vector).items()
    }
