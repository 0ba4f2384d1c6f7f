"""Recipes from wherever they come, to model folders: what `regard train` and `regard.fit` call."""

import os
import shlex
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.config import ConfigError, read_table
from regard.disk import AGAIN, DiskFullError
from regard.nn.memory import freed_memory_kept
from regard.tasks.ahead import Ahead, sweep
from regard.tasks.base.folder import METRICS, NEXT, RECIPE, WEIGHTS, check_tokenizer, clear, read_metrics
from regard.tasks.base.forecast import Forecast, timed, way_of
from regard.tasks.base.job import Job, build_trainer, text_digest, train
from regard.tasks.base.outlook import outlook
from regard.tasks.base.own_recipe import own_recipe, own_text, write_own_recipe
from regard.tasks.base.recipe import Tables, Written, given_text, recipe_text, refuse_pipes
from regard.tasks.base.task import Later
from regard.tasks.registry import as_recipe, get_task, read_recipe
from regard.text.doctor import render
from regard.train import resume as checkpoints
from regard.train.ranks import Ranks, ignore_torchrun, restarted
from regard.train.scaling import Cluster
from regard.train.trainer import Outcome, TrainingError
from regard.train.watch import LostRankError, advised

LOCKS: Any = import_module("fcntl") if find_spec("fcntl") else None
"""Windows has none."""
SIZES = ("big", "base", "small", "mini", "tiny")
"""Presets, each smaller than the one before."""
PATIENT = 30.0
"""Seconds that the preparation of another model may take in a dry run."""


def written_recipe(
    recipe: Path | str | Mapping[str, Any] | None, settings: tuple[str, ...], folder: Path, *, resume: bool
) -> Written[Any]:
    """A file, plain data or, to resume, what the folder was begun with; with settings on top."""
    if recipe is None:
        if not resume:
            raise ConfigError("no recipe: name a TOML file, or resume a folder with --resume --out FOLDER")
        recipe = own_recipe(folder, NEXT if (folder / NEXT).exists() else RECIPE)
        if not recipe.exists():
            raise ConfigError(f"{folder}: nothing to resume, it has no recipe.toml; give the recipe")
    if isinstance(recipe, Mapping):
        if settings:
            raise ConfigError(f"settings {list(settings)} beside plain data: put them into it")
        written = as_recipe(recipe)
    else:
        written = read_recipe(recipe, settings)
    refuse_pipes(written)
    return written


def _replaces(recipe: object, written: Written[Any], folder: Path) -> bool:
    """Whether what is resumed is a run that was to take the place of the one there, and was stopped before it
    did. It is if no recipe is named, or its own."""
    if not (folder / NEXT).exists() or recipe is None:
        return (folder / NEXT).exists()
    if own_text(folder, NEXT) == given_text(written):
        return True
    if (last := checkpoints.find(folder)) is not None:
        raise ConfigError(
            f"{folder} holds {last.name} of one run, and {NEXT} of another that was to take its place; this "
            f"recipe is not the latter's: remove {folder / NEXT} to continue the former, replace it by "
            "--overwrite, or continue the latter by --resume without a recipe"
        )
    return False


def _refuse_used(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """A folder that holds another model, or nothing to continue from."""
    last, weights = checkpoints.find(folder), folder / WEIGHTS
    if overwrite:
        return
    if resume and weights.exists() and last is None and not _is_again(folder):
        raise ConfigError(
            f"{folder} holds {WEIGHTS} but no {checkpoints.CHECKPOINT} to go on from: replace it by "
            "--overwrite, or choose another --out"
        )
    held = next((path.name for path in (last, weights) if path is not None and path.exists()), None)
    if held is not None and not resume:
        raise ConfigError(
            f"{folder} already holds {held}: continue it by --resume, replace it by --overwrite, or choose "
            "another --out"
        )


def _is_again(folder: Path) -> bool:
    """Whether a model without a checkpoint is one that this run makes again: it was solved for, or it is not
    whole."""
    if not (folder / RECIPE).exists():
        return False
    return not (folder / METRICS).exists() or read_metrics(folder).get("step") == 0


@contextmanager
def _begun(written: Written[Any], folder: Path) -> Iterator[None]:
    """From here on, it is this run that is resumed. What it takes the place of is there until its text has
    been read (`clear`), and stays if that cannot be, or is interrupted."""
    before = _held_there(folder)
    fresh = not any(folder.iterdir())
    write_own_recipe(folder / NEXT, given_text(written))
    if not any(before):
        clear(folder)
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if _held_there(folder) == before:
            (folder / NEXT).unlink(missing_ok=True)
        mistaken = isinstance(error, Exception)  # who was interrupted may go on
        if fresh and mistaken and [each.name for each in folder.iterdir()] == [RECIPE]:
            (folder / RECIPE).unlink()
        raise


def _held_there(folder: Path) -> tuple[Path | None, bool]:
    return checkpoints.find(folder), (folder / WEIGHTS).exists()


def fit(
    recipe: Path | str | Mapping[str, Any] | None,
    *settings: str,
    out: Path | str,
    resume: bool = False,
    overwrite: bool = False,
    check: bool = True,
    device: str = "auto",
    console: Console | None = None,
    ahead: Ahead | None = None,
) -> Outcome:
    """Train what a recipe says into the folder `out`, which is then a model. With `check`, the text is
    looked at first, and training refused if it makes no sense. `ahead` has begun with the text already.

    >>> outcome = regard.fit("recipe.toml", "model.layers=1", out="runs/a")
    >>> outcome = regard.fit({"data": {"train": ["train.en", "train.de"]}}, out="runs/b")
    >>> sorted(outcome.best)
    ['bleu', 'exact', 'loss']
    """
    folder, console = Path(out), console or Console()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file, not a folder: choose another --out")
    written = written_recipe(recipe, settings, folder, resume=resume)
    with _joined(folder, device) as ranks:
        resume = resume or not ranks.agreed(not restarted())
        replaces = resume and _replaces(recipe, written, folder)
        overwrite = overwrite or replaces
        _refuse_used(folder, resume=resume, overwrite=overwrite)
        ranks = ranks.reaching(folder)
        if not ranks.shared:
            _refuse_behind(checkpoints.reached(folder) if resume else None, folder, ranks)
        with _held(folder) if ranks.builder else nullcontext():
            begun = ranks.share(resume and not replaces and checkpoints.find(folder) is not None)
            if resume and not begun and ranks.first:
                console.print(_from_the_start(folder), highlight=False, markup=False, soft_wrap=True)
            with _begun(written, folder) if ranks.builder and not begun else nullcontext():
                if check and not begun:
                    _check(written, ranks, console, ahead)
                if begun:
                    if ranks.first:
                        check_tokenizer(folder)
                    written = _as_begun(written, folder, ranks)
                job = prepare(written, folder, ranks, console, begun=begun, ahead=ahead)
            with freed_memory_kept() if ranks.device.type == "cpu" else nullcontext():
                return train(job, folder, console, begun=begun)


def _refuse_behind(step: int | None, folder: Path, ranks: Ranks) -> None:
    """Where machines do not share the folder, the checkpoint is on that of the first rank. torch numbers
    machines by their names: with another one among them, the first may be one that has nothing."""
    facts = ranks.gathered((step or 0, socket.gethostname(), str(folder.resolve())))
    (own, host, place), (most, other, there) = facts[0], max(facts, key=lambda each: each[0])
    if most > own:
        has = f"step {own}" if own else "no checkpoint"
        raise ConfigError(
            f"rank 0 on {host} would read {place}, which has {has}, but {there} on {other} has step {most}: "
            "copy the latter to the former, or choose an --out that all machines share; to go on without it, "
            "remove it"
        )


def _from_the_start(folder: Path) -> str:
    if checkpoints.find(folder) is None:
        return f"{folder}: no checkpoint yet, training starts from the beginning"
    return f"{folder}: training starts from the beginning, by {NEXT}, in the place of what is there"


def _as_begun(written: Written[Any], folder: Path, ranks: Ranks) -> Written[Any]:
    """A recipe whose missing values are those of the run that goes on, not what suits the processes and the
    machine of today: with other batches, or another number of steps, it would be another run."""
    known = (folder / RECIPE).exists() if ranks.first else False
    begun = ranks.share(read_table(own_recipe(folder)) if known else {})
    own = written.spec.suited

    def suited(recipe: Any, plain: Mapping[str, Any], *sizes: int, **machine: Any) -> Tables:
        return {
            table: {key: begun.get(table, {}).get(key, value) for key, value in values.items()}
            for table, values in own(recipe, plain, *sizes, **machine).items()
        }

    return replace(written, spec=replace(written.spec, suited=suited))


@contextmanager
def _joined(folder: Path, device: str) -> Iterator[Ranks]:
    """What ends a run for a reason that is not its own is told with how to go on: a disk that is full, a rank
    that is lost."""
    ranks = Ranks.join(device)
    if ranks.watch is not None:
        ranks.watch.start(lambda: _go_on(folder))
    end: BaseException | None = None
    try:
        yield ranks
    except DiskFullError as error:
        again = f"continue with: regard train --resume --out {shlex.quote(str(folder))}"
        end = DiskFullError(error.path, error.why, again if checkpoints.find(folder) else AGAIN)
        raise end from error
    except LostRankError as error:
        ignore_torchrun()
        end = LostRankError(advised(str(error), lambda: _go_on(folder)))
        raise end from error
    except BaseException as error:
        end = error
        raise
    finally:
        ranks.leave(end)


def _go_on(folder: Path) -> str:
    step = checkpoints.reached(folder)
    if step is None:
        return f"there is no checkpoint yet: {AGAIN}"
    return f"to continue from step {step}, the last checkpoint, give the same command again with --resume"


def prepare(
    written: Written[Any],
    folder: Path,
    ranks: Ranks,
    console: Console,
    *,
    begun: bool = False,
    ahead: Ahead | None = None,
) -> Job:
    """Everything up to the first step; only the recipe's own task is imported."""
    own = get_task(written.checked.task).prepare
    own = own.part if isinstance(own, Later) else own
    if ahead is not None:
        ahead.wait()
    if ranks.builder:
        sweep(folder)
    job = own(written, folder, ranks, console, begun=begun)
    if ranks.count > 1:
        ranks.check_same("text or tokens", text_digest(job))
    return job


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Nobody else trains into the folder meanwhile: two runs would write over each other's files."""
    folder.mkdir(parents=True, exist_ok=True)
    if LOCKS is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system that knows no locks
            try:
                LOCKS.flock(descriptor, LOCKS.LOCK_EX | LOCKS.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"{folder}: another run is at work there; wait for its end, or choose another --out"
                ) from None
        yield
    finally:
        os.close(descriptor)


def _check(written: Written[Any], ranks: Ranks, console: Console, ahead: Ahead | None) -> None:
    """The first rank looks; the others wait for what it says."""
    doctor = get_task(written.checked.task).check
    if doctor is None:
        return
    report = ahead.report() if ahead is not None else None
    if report is None and ranks.first:
        report = doctor(written, tokens=False)
    if report is not None and not report.ok:
        render(report, console)
    elif report is not None:
        more = f"; {len(report.findings)} remarks, see regard check" if report.findings else ""
        console.print(f"text: {report.verdict}{more}", highlight=False, markup=False, soft_wrap=True)
    ok, verdict = ranks.share(report and (report.ok, report.verdict))
    if not ok:
        raise TrainingError(f"{verdict}; mend the files, or train all the same with --no-check")


def dry_run(
    recipe: Path | str | Mapping[str, Any] | None,
    *settings: str,
    device: str = "auto",
    console: Console | None = None,
    cluster: Cluster | None = None,
    budget: float | None = None,
) -> None:
    """Print the whole recipe, the size of the model and how long training would take here: everything is
    prepared, and a few steps are timed; nothing is kept. What is printed is a recipe itself. With
    train.minutes, a validation is timed too, and where they are too few, it is said what would do better.
    With a `cluster`, nothing is timed: it is said what is expected there, and until so many tokens (`budget`)
    are read."""
    aside, console = console or Console(stderr=True), console or Console()
    ranks = Ranks.join(device if cluster is None else "cpu")
    with _kept_for_a_while(ranks) as (folder, own):
        written = written_recipe(recipe, settings, folder, resume=False)
        if cluster is not None:
            job = prepare(_elsewhere(written, cluster), folder, own, aside)
            lines = [f"# {job.parameters:,} parameters", *outlook(job, cluster, budget)]
        else:
            foreseen = _foreseen(written, folder, own, aside)
            job, lines = foreseen.job, [*foreseen.lines()]
            if foreseen.too_little:
                lines += [*foreseen.remedies(), *_smaller(written, foreseen, ranks), foreseen.last_remedy()]
    ranks.leave()
    text = recipe_text(job.recipe)
    if ranks.first:
        console.print("\n".join([text, *lines]), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _kept_for_a_while(ranks: Ranks) -> Iterator[tuple[Path, Ranks]]:
    """A folder of all ranks that is gone afterwards, and the ranks that know what they see of it."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(ranks.share(made))
        own = ranks.reaching(folder)
        if own.builder:
            folder.mkdir(parents=True, exist_ok=True)
        try:
            yield folder, own
            ranks.wait()
        finally:
            if own.builder and not own.first:  # on another machine
                shutil.rmtree(folder, ignore_errors=True)


def _elsewhere(written: Written[Any], cluster: Cluster) -> Written[Any]:
    """A recipe that is filled in with what suits those GPUs, not this machine."""
    own = written.spec.suited

    def suited(recipe: Any, plain: Mapping[str, Any], *sizes: int, **machine: Any) -> Tables:
        return own(recipe, plain, *sizes, **{**machine, "cuda": True, "ranks": cluster.ranks})

    return replace(written, spec=replace(written.spec, suited=suited))


def _foreseen(written: Written[Any], folder: Path, ranks: Ranks, console: Console) -> Forecast:
    """What a recipe would do, and what it would without a limit of time."""
    suited, given = written.spec.suited, []

    def noted(recipe: Any, plain: Mapping[str, Any], *sizes: int, **machine: Any) -> Tables:
        unlimited = {**plain, "train": {**plain.get("train", {}), "minutes": 0}}
        given.append(suited(recipe, unlimited, *sizes, **machine))
        return suited(recipe, plain, *sizes, **machine)

    began = time.monotonic()
    job = prepare(replace(written, spec=replace(written.spec, suited=noted)), folder, ranks, console)
    prepared = time.monotonic() - began
    usual = written.plain.get("train", {}).get("steps", given[0]["train"]["steps"])
    trainer = build_trainer(job, folder, console)
    timing, prepared = ranks.share((timed(job, trainer), prepared))  # all have to say the same of it
    return Forecast(job=job, timing=timing, prepared=prepared, usual=usual, way=way_of(trainer))


def _smaller(written: Written[Any], foreseen: Forecast, ranks: Ranks) -> Iterator[str]:
    """The next smaller preset, if there is one and it is soon known how fast it would be."""
    model = foreseen.job.recipe.model
    if getattr(model, "start", "") or model.preset not in SIZES or foreseen.prepared > PATIENT:
        return
    for preset in SIZES[SIZES.index(model.preset) + 1 :]:
        plain = {**written.plain, "model": {**written.plain.get("model", {}), "preset": preset}}
        try:
            other = as_recipe({**plain, "task": written.checked.task}, written.where)
        except ConfigError:  # not every task has every preset
            continue
        with _kept_for_a_while(ranks) as (folder, own):
            found = _foreseen(other, folder, own, Console(quiet=True))
        if not found.too_little:
            epochs = found.steps / found.job.feed.plan.steps(0)
            yield f"#   model.preset={preset}: {found.steps:,} steps, {epochs:.2g} epochs"
        return
