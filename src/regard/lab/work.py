"""Training a grid: every variant with every seed into a folder of its own, and what each of them cost.

    OUT/runs/VARIANT/seed-0      a model folder, and run.json: figures, examples, cost
    OUT/lab.json                 what is compared

Stopped at any moment, the same command goes on: what is done stays, what was begun is resumed.
"""

import gc
import json
import math
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, cast

import torch
from rich.console import Console
from safetensors import safe_open

from regard.config import ConfigError, override, read_table, to_dict
from regard.data import fingerprint
from regard.lab.grid import Variant
from regard.tasks.base.folder import WEIGHTS, read_metrics, write_json
from regard.tasks.base.own_recipe import own_recipe
from regard.tasks.base.terminal import say
from regard.tasks.registry import read_recipe, task_of
from regard.tasks.run import fit, prepare
from regard.train.ranks import Ranks
from regard.train.report import read_log
from regard.train.resume import find
from regard.train.signals import listening

DONE = "run.json"
LAB = "lab.json"


class Budget(NamedTuple):
    """What every run may take."""

    kind: Literal["tokens", "seconds", "flops"]
    amount: float

    @classmethod
    def of(cls, text: str) -> "Budget":
        kind, sign, amount = text.partition("=")
        try:
            found = float(amount) if sign else float("nan")
        except ValueError:
            found = float("nan")
        if kind not in ("tokens", "seconds", "flops") or not 0 < found < float("inf"):
            raise ConfigError(f"--budget {text!r}: write tokens=2e6, seconds=60 or flops=1e14")
        return cls(cast(Literal["tokens", "seconds", "flops"], kind), found)


@dataclass(frozen=True, slots=True)
class Run:
    """One variant with one seed, trained."""

    variant: str
    seed: int
    metric: str
    better: str
    """high or low"""
    figures: Mapping[str, float]
    """Of the model that was kept, on the validation set; test.NAME on the test set."""
    curve: Sequence[tuple[int, float]]
    """The metric at each validation, by step."""
    example: str
    """What the examples' figure is called."""
    examples: Sequence[float]
    """Of each validation example, where the task says so."""
    parameters: int
    steps: int
    tokens: int
    """Slots of all batches: the most that it was given to read."""
    flops: float
    """6 for each token and each parameter but the embeddings' (Kaplan et al. 2020)."""
    seconds: float
    """Of training, with its validations, over all sittings."""
    tokens_per_second: float
    memory: float
    """GiB at most: of the GPU, or of the process."""
    at_once: int = 1
    """How many ran side by side, and shared what time is measured on."""

    @property
    def value(self) -> float:
        return self.figures[self.metric]


@dataclass(frozen=True, slots=True)
class Plan:
    """One run to be trained."""

    recipe: Path
    variant: Variant
    seed: int
    out: Path
    started: Path | None
    """The folder of the part that it starts from."""
    budget: Budget | None
    device: str
    at_once: int

    @property
    def folder(self) -> Path:
        return run_folder(self.out, self.variant.slug, self.seed)

    @property
    def settings(self) -> list[str]:
        own = [*self.variant.settings, f"train.seed={self.seed}", f"batch.seed={self.seed}"]
        if self.started is not None:
            start = run_folder(self.started, self.variant.start, self.seed).resolve()
            own.append(f"model.start={json.dumps(str(start))}")
        return own


def run_folder(out: Path, slug: str, seed: int) -> Path:
    return out / "runs" / slug / f"seed-{seed}"


def train_grid(
    recipe: Path,
    variants: Sequence[Variant],
    *,
    seeds: int,
    out: Path,
    started: Path | None = None,
    budget: Budget | None = None,
    device: str = "auto",
    at_once: int = 1,
    overwrite: bool = False,
    console: Console,
) -> list[Run] | None:
    """All runs, seed by seed, so many side by side; None if one was stopped."""
    if overwrite:
        shutil.rmtree(out / "runs", ignore_errors=True)
    _claim(out, recipe, variants, seeds, budget, overwrite=overwrite)
    every = [
        Plan(recipe, variant, seed, out, started, budget, device, at_once)
        for seed in range(seeds)
        for variant in variants
    ]
    left = [plan for plan in every if not (plan.folder / DONE).exists()]
    work = _one_by_one(left) if at_once == 1 else _side_by_side(left, at_once)
    numbers = {plan.folder: number for number, plan in enumerate(every, 1)}
    for plan, run in work:
        name = f"{numbers[plan.folder]} of {len(every)}: {plan.variant.name}, seed {plan.seed}"
        if run is None:
            say(console, f"{name}: stopped; the same command goes on")
            return None
        say(console, f"{name}: {run.metric} {run.value:.4g} in {run.seconds:.0f} s")
    return [read_run(plan.folder) for plan in every]


def _one_by_one(plans: Sequence[Plan]) -> Iterator[tuple[Plan, Run | None]]:
    for plan in plans:
        yield plan, train_one(plan)


def _side_by_side(plans: Sequence[Plan], at_once: int) -> Iterator[tuple[Plan, Run | None]]:
    """In processes of their own. A signal reaches them all; what they have begun is resumed the next time."""
    threads = max(1, torch.get_num_threads() // at_once)
    pool = ProcessPoolExecutor(
        at_once, mp_context=get_context("spawn"), initializer=torch.set_num_threads, initargs=(threads,)
    )
    with pool, listening() as stop:
        waiting = {pool.submit(train_one, plan): plan for plan in plans}
        while waiting:
            done, _ = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            if stop.signal is not None:
                for future in waiting:
                    future.cancel()
                for process in active_children():
                    with suppress(OSError):
                        os.kill(cast(int, process.pid), signal.SIGTERM)
                wait(waiting)
                yield next(iter(waiting.values())), None
                return
            for future in done:
                plan = waiting.pop(future)
                try:
                    yield plan, future.result()
                except BaseException:
                    for other in waiting:
                        other.cancel()
                    raise


def read_run(folder: Path) -> Run:
    plain = json.loads((folder / DONE).read_text(encoding="utf-8"))
    return Run(**{**plain, "curve": [tuple(each) for each in plain["curve"]]})


def _claim(
    out: Path,
    recipe: Path,
    variants: Sequence[Variant],
    seeds: int,
    budget: Budget | None,
    *,
    overwrite: bool,
) -> None:
    """A folder is for one recipe with its text and its fixed settings; variants and seeds may be added."""
    fixed = set.intersection(*({*each.settings} for each in variants)) if variants else set()
    text = json.dumps([read_table(recipe), sorted(fixed), budget], default=str, sort_keys=True)
    own = {"recipe": str(recipe), "fingerprint": fingerprint(_files(recipe, sorted(fixed)), text)}
    path = out / LAB
    if path.exists() and not overwrite:
        before = json.loads(path.read_text(encoding="utf-8"))
        if before.get("fingerprint") != own["fingerprint"]:
            raise ConfigError(
                f"{out} compares something else ({before.get('recipe')}, with other text or other fixed "
                "settings): choose another --out, or replace it by --overwrite"
            )
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, {**own, "variants": [asdict(each) for each in variants], "seeds": seeds})


def _files(recipe: Path, settings: Sequence[str]) -> list[Path]:
    """Those that the recipe's [data] names."""
    written = read_recipe(recipe, settings)
    data = to_dict(written.checked.data)
    root = written.where / data.get("root", "")

    def named(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping | list | tuple):
            for each in value.values() if isinstance(value, Mapping) else value:
                yield from named(each)

    return sorted({path for name in named(data) if name and (path := root / name).is_file()})


def train_one(plan: Plan) -> Run | None:
    """None: stopped."""
    folder, settings = plan.folder, plan.settings
    settings += _spent(plan.recipe, settings, plan.budget, plan.device)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "said.txt").open("a", encoding="utf-8") as said, _memory(plan.device) as most:
        begun = find(folder) is not None
        outcome = fit(
            plan.recipe,
            *settings,
            out=folder,
            resume=begun,
            overwrite=not begun,
            check=False,
            device=plan.device,
            console=Console(file=said, width=120),
        )
    if outcome.stopped is not None:
        return None
    run = _read(plan, memory=most(), seconds=outcome.seconds)
    write_json(folder / DONE, asdict(run))
    return run


def _spent(recipe: Path, settings: Sequence[str], budget: Budget | None, device: str) -> list[str]:
    """How long a run may be, as settings."""
    if budget is None:
        return []
    if budget.kind == "seconds":
        return [f"train.minutes={budget.amount / 60}", "train.steps=1000000"]  # the time alone decides
    given = override(read_table(recipe), settings).get("batch", {})
    if budget.kind == "tokens" and "tokens" in given:
        return [f"train.steps={max(1, round(budget.amount / (given['tokens'] * given.get('parts', 1))))}"]
    with TemporaryDirectory() as folder:
        ranks = Ranks.join(device)
        quiet = Console(file=(Path(folder) / "said.txt").open("w", encoding="utf-8"))
        job = prepare(read_recipe(recipe, settings), Path(folder), ranks, quiet)
        quiet.file.close()
        ranks.leave()
    batch = job.recipe.batch.tokens * job.recipe.batch.parts
    sizes = {name: each.numel() for name, each in job.model.named_parameters()}
    each = batch if budget.kind == "tokens" else 6 * batch * working(sizes)
    steps = max(1, round(budget.amount / each))
    return [f"train.steps={steps}"]


def working(sizes: Mapping[str, int]) -> int:
    """Parameters that every token is multiplied with: all but those of embeddings."""
    return sum(size for name, size in sizes.items() if "embedding" not in name)


def _read(plan: Plan, *, memory: float, seconds: float) -> Run:
    folder = plan.folder
    metrics = read_metrics(folder)
    log = read_log(folder)
    recipe = read_table(own_recipe(folder))
    metric = metrics["metric"]
    figures = {name: float(value) for name, value in metrics["valid"].items()}
    for name, value in metrics.get("test", {}).items():
        number = value.get("value") if isinstance(value, Mapping) else value
        if isinstance(number, int | float):
            figures[f"test.{name}"] = float(number)
    with safe_open(folder / WEIGHTS, framework="pt") as weights:
        shapes = {name: weights.get_slice(name).get_shape() for name in [*weights.keys()]}
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    steps = max((entry["step"] for entry in log), default=0)
    tokens = steps * recipe["batch"]["tokens"] * recipe["batch"].get("parts", 1)
    trained = max((entry["seconds"] for entry in log if "seconds" in entry), default=0.0)
    compare = task_of(folder).examples
    example, values = compare(folder, plan.device) if compare is not None else ("", [])
    return Run(
        variant=plan.variant.name,
        seed=plan.seed,
        metric=metric,
        better=metrics["better"],
        figures=figures,
        curve=[(entry["step"], entry["valid"][metric]) for entry in log if "valid" in entry],
        example=example,
        examples=values,
        parameters=sum(sizes.values()),
        steps=steps,
        tokens=tokens,
        flops=6.0 * tokens * working(sizes),
        seconds=seconds,
        tokens_per_second=tokens / trained if trained else 0.0,
        memory=memory,
        at_once=plan.at_once,
    )


@contextmanager
def _memory(device: str) -> Iterator[Any]:
    """A function that gives the most memory that was held, in GiB."""
    on_gpu, before = torch.cuda.is_available() and device != "cpu", 0
    if on_gpu:  # what an earlier run of this process has left is not this one's
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        with suppress(OSError):  # Linux: the high-water mark begins anew
            Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")

    def most() -> float:
        if on_gpu:
            return (torch.cuda.max_memory_allocated() - before) / 2**30
        try:
            lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        except OSError:
            return 0.0
        return next((int(line.split()[1]) / 2**20 for line in lines if line.startswith("VmHWM")), 0.0)

    yield most


def check_settings(recipe: Path, variants: Sequence[Variant]) -> None:
    """Every variant is checked before the first one is trained."""
    judged = set()
    for variant in variants:
        try:
            override({}, variant.settings)
            start = [f"model.start={variant.start}"] if variant.start else []
            checked = read_recipe(recipe, [*variant.settings, *start]).checked
        except ConfigError as error:
            raise ConfigError(f"{variant.name}: {error}") from error
        judged.add(checked.valid.metric if hasattr(checked, "valid") else "")
    if len(judged) > 1:
        raise ConfigError(
            f"valid.metric={', '.join(sorted(judged))}: variants are judged by one figure; set one"
        )
