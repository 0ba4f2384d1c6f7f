"""Runs that are killed without warning, again and again, in processes of their own; then let go to the end.

    python -m tests.gauntlet.killing TASK KILLS SAVES SEED FOLDER      prints what was found, as JSON

Every run must end as the one that nobody killed: the same model, the same checkpoint, the same figures. Of
the kills, SAVES happen while a file is being written. Every other run writes a checkpoint after each step, so
that it goes on from the midst; and the first is `regard train` itself, with all that it does beside.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from safetensors.torch import load_file

from regard.config import write_toml
from regard.tasks import run
from tests.settings.corpora import recipes

STEPS = {"steps": 8, "validate_every": 2, "log_every": 1}
"""Checkpoints are written when a run of the usual settings writes them: seldom."""
OFTEN = {**STEPS, "save_every": 1}
FILES = ("model.safetensors", "checkpoint.safetensors", "adapter/adapter.safetensors")


def child(work: Callable[[], object]) -> int:
    """A process that does this; its number."""
    number = os.fork()
    if number:
        return number
    try:
        work()
        os._exit(0)
    except BaseException as error:
        sys.stderr.write(f"{error!r}\n")
        sys.stderr.flush()
        os._exit(1)


def ended(number: int) -> bool:
    """Whether it came to its end by itself, and well; waits for it."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0


def fit(plain: dict[str, Any], folder: Path, *, slowly: bool = False) -> None:
    sync = os.fsync

    def slow(descriptor: int) -> None:
        time.sleep(0.01)  # so that a save takes long enough to be killed in
        sync(descriptor)

    os.fsync = slow if slowly else sync
    with (folder / "said").open("a") as said:
        there = {each.name for each in folder.iterdir() if each.suffix != ".partial"}
        resumed = there > {"said"}
        run.fit(
            None if resumed else plain,  # whatever it has written, it goes on without the recipe
            out=folder,
            resume=resumed,
            check=False,
            device="cpu",
            console=Console(file=said),
        )


def kill(number: int, folder: Path, after: float, *, saving: bool) -> int | None:
    """Kill it after so many seconds, and then in the midst of a save, if that is wanted. None, or with what
    it had ended before."""
    deadline = time.monotonic() + after
    while time.monotonic() < deadline or (saving and not any(folder.glob("*.partial"))):
        there, status = os.waitpid(number, os.WNOHANG)
        if there:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.0005)
    os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)
    return None


def prompted(recipe: Path, folder: Path) -> subprocess.Popen[bytes]:
    """The same at a prompt, doctor and all; whatever is there already, it goes on without the recipe."""
    given = ["--resume"] if any(folder.glob("recipe*.toml")) else [str(recipe)]
    with (folder / "said").open("a") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "regard", "train", *given, "--out", folder, "--device", "cpu"],
            stdout=said,
            stderr=said,
        )


def result(folder: Path) -> tuple[dict[str, Any], dict[str, float]]:
    there = [folder / file for file in FILES if (folder / file).exists()]  # what is solved for has no steps
    tensors = {f"{file.name} {name}": each for file in there for name, each in load_file(file).items()}
    return tensors, json.loads((folder / "metrics.json").read_text())["valid"]


def differences(folder: Path, wanted: tuple[dict[str, Any], dict[str, float]]) -> list[str]:
    tensors, figures = result(folder)
    other = [
        name
        for name in wanted[0].keys() | tensors.keys()
        if not _same(wanted[0].get(name), tensors.get(name))
    ]
    return [*other[:3], *(name for name in figures if figures[name] != wanted[1].get(name))]


def _same(one: Any, other: Any) -> bool:
    return one is not None and other is not None and torch.equal(one, other)


def recipe_of(task: str, place: Path) -> dict[str, Any]:
    """Of a task, or of another way to a model: from a start, by adapters, solved for at once."""
    every = recipes(place / "text")
    if task in every:
        return {**every[task], "train": STEPS}
    own = {**every["classify" if task == "logistic" else "translate"], "train": STEPS}
    if not (place / "begun").exists():
        (place / "begun").mkdir(parents=True)
        assert ended(child(lambda: fit(own, place / "begun"))), "nobody killed it"
    own = {name: table for name, table in own.items() if name != "tokenizer"}
    start: dict[str, Any] = {"start": str(place / "begun")}
    if task == "adapter":
        start["adapter"] = {"rank": 2, "alpha": 4.0}
    solved = {"head": {"fit": "logistic"}} if task == "logistic" else {}
    return {**own, "model": start, **solved}


def main(task: str, kills: int, saves: int, seed: int, place: Path) -> dict[str, Any]:
    chance = random.Random(seed)
    plain = recipe_of(task, place)
    (place / "whole").mkdir(parents=True)

    def first() -> None:
        fit(plain, place / "whole")
        (place / "modules").write_text("\n".join(sys.modules))

    assert ended(child(first)), "nobody killed it"
    for name in (place / "modules").read_text().split():
        with suppress(Exception):
            import_module(name)  # here, once, and not in every child
    (place / "timed").mkdir()
    began = time.monotonic()
    assert ended(child(lambda: fit(plain, place / "timed"))), "nobody killed it"
    took = time.monotonic() - began
    wanted = result(place / "whole")
    found: dict[str, Any] = {"kills": 0, "saves": 0, "runs": 1, "failures": []}
    folder = place / "prompted"
    folder.mkdir()
    (place / "recipe.toml").write_text(write_toml({**plain, "train": OFTEN}))
    process = prompted(place / "recipe.toml", folder)
    found["kills"] += kill(process.pid, folder, chance.uniform(1, 8), saving=False) is None
    went_on = prompted(place / "recipe.toml", folder).wait() == 0
    found["failures"] += failures_of(folder, wanted, went_on=went_on)
    while found["kills"] < kills:
        folder = place / f"run{found['runs']}"
        folder.mkdir()
        own = {**plain, "train": (STEPS, OFTEN)[found["runs"] % 2]}
        found["runs"] += 1
        for _ in range(chance.randint(1, 3)):
            saving = found["saves"] < saves
            number = child(lambda: fit(own, folder, slowly=saving))  # noqa: B023
            code = kill(number, folder, chance.uniform(0, took), saving=saving)
            if code:
                found["failures"].append(f"{folder}: ended with {code}, by nobody's doing")
            found["kills"] += code is None
            found["saves"] += code is None and saving
        went_on = ended(child(lambda: fit(own, folder)))  # noqa: B023
        found["failures"] += failures_of(folder, wanted, went_on=went_on)
    return found


def failures_of(folder: Path, wanted: tuple[dict[str, Any], dict[str, float]], *, went_on: bool) -> list[str]:
    if not went_on:
        said = (folder / "said").read_text().splitlines()
        return [f"{folder}: not resumed: {said[-1:]}"]
    other = differences(folder, wanted)
    return [f"{folder}: differs in {', '.join(other)}"] if other else []


if __name__ == "__main__":
    torch.set_num_threads(1)
    task, kills, saves, seed, place = sys.argv[1:]
    sys.stdout.write(json.dumps(main(task, int(kills), int(saves), int(seed), Path(place))) + "\n")
