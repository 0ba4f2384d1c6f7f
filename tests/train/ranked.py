"""Training in float64 on several ranks, each a process: `python -m tests.train.ranked FOLDER < RUNS`.

RUNS is JSON: a list of `Asked`, which all ranks do one after the other.
"""

import io
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn

from regard.data import Store, open_or_build
from regard.models.decoder import Decoder
from regard.settings.presets import DECODERS
from regard.settings.training import AverageConfig, BatchConfig, OptimizerConfig, TrainConfig
from regard.tasks.language.data import BlockFeed
from regard.tasks.language.train import LanguageLoss
from regard.train.ranks import Ranks
from regard.train.report import read_log
from regard.train.trainer import Trainer
from tests.tasks.test_runs import QUIET, free_port

WORDS, SIZE, STEPS, PARTS = 61, 8, 9, 4


@dataclass(frozen=True)
class Asked:
    name: str
    """Of its folder."""
    fsdp: str = "no"
    optimizer: str = "adam"
    average: str = "ema"
    offload: bool = False
    recompute: bool = False
    until: int = 0
    """The step before which it is killed; 0: never."""
    resume: bool = False
    frozen: bool = False
    """The first layer and the embedding are not trained."""
    steps: int = STEPS


class KilledError(Exception):
    pass


class Until:
    def __init__(self, feed: BlockFeed, last: int) -> None:
        self._feed, self._last = feed, last

    def parts(self, step: int, split: int = 1) -> Any:
        if self._last and step > self._last:
            raise KilledError
        return self._feed.parts(step, split)

    def idle(self, step: int, split: int = 1) -> Any:
        return self._feed.idle(step, split)


def stream(folder: Path) -> Store:
    """So many tokens that epochs end with steps of fewer parts than there are ranks."""
    chance = np.random.default_rng(0)
    rows = ({"ids": chance.integers(0, WORDS, size=length)} for length in (300, 191, 250))
    return open_or_build(folder / "stream", "made up", {"ids": np.uint16}, lambda: rows)


class Kept:
    def __init__(self, model: nn.Module) -> None:
        self.model, self.weights = model, dict[str, Tensor]()

    def __call__(self, weights: Any, facts: Any) -> None:
        self.weights = {name: each.clone() for name, each in weights.items()}

    def validate(self) -> tuple[dict[str, float], str]:
        """Figures of the model as it is shown, which hang on all of its weights."""
        total = sum(float(each.double().sin().sum()) for each in self.model.parameters())
        return {"loss": 0.0, "sines": total}, ""  # of equals the last is the best


def train(asked: Asked, folder: Path, ranks: Ranks) -> None:
    torch.manual_seed(1)
    model = Decoder(DECODERS["tiny"](WORDS)).double().train()
    if asked.frozen:
        model.embedding.requires_grad_(False)
        model.body.layers[0].requires_grad_(False)
    kept = Kept(model)
    batch = BatchConfig(tokens=24, parts=PARTS)
    feed = BlockFeed(
        stream(folder), batch, size=SIZE, across=True, static=False, rank=ranks.rank, ranks=ranks.count
    )
    trainer = Trainer(
        model,
        LanguageLoss(model, 0.1),
        Until(feed, asked.until),
        TrainConfig(
            steps=asked.steps,
            validate_every=3,
            log_every=1,
            save_every=3,
            workers=0,
            fsdp=asked.fsdp,  # type: ignore[arg-type]
            cpu_offload=asked.offload,
            activation_checkpointing=asked.recompute,
        ),
        optimizer=OptimizerConfig(
            kind=asked.optimizer,  # type: ignore[arg-type]
            learning_rate=1e-2,
            warmup=2,
            weight_decay=0.1,
        ),
        average=AverageConfig(kind=asked.average, decay=0.9, last=2),  # type: ignore[arg-type]
        folder=folder / asked.name,
        ranks=ranks,
        console=Console(file=io.StringIO()),
        d_model=128,
        tokens=24 * PARTS,
        static=False,
        validate=kept.validate,
        keep=kept,
        factor=lambda name: 0.5 if "layers.0" in name else 1.0,
    )
    if asked.resume:
        trainer.resume()
    try:
        trainer.run()
    except KilledError:
        return
    with trainer.engine.shown(averaged=False) as last:
        if ranks.first:
            found = {f"last.{name}": each.clone() for name, each in last.items()}
            found |= {f"best.{name}": each for name, each in kept.weights.items()}
            torch.save(found, folder / f"{asked.name}.pt")


def main() -> None:
    torch.set_num_threads(1)
    ranks = Ranks.join("cpu")
    for asked in json.load(sys.stdin):
        train(Asked(**asked), Path(sys.argv[1]), ranks)
    ranks.leave()


def launched(folder: Path, count: int, *asked: Asked) -> None:
    """All these runs by so many processes."""
    text, port = json.dumps([asdict(each) for each in asked]), str(free_port())
    place = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    stream(folder)
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.train.ranked", str(folder)],
            env={**QUIET, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
    said = [process.communicate(timeout=500)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * count, "\n".join(said)


def found(folder: Path, name: str) -> tuple[list[float], dict[str, Tensor]]:
    """The losses of a run and what it found when it validated; its last weights, and the best averaged
    ones."""
    log = read_log(folder / name)
    figures = [entry["loss"] for entry in log if "loss" in entry]
    figures += [entry["valid"]["sines"] / 1000 for entry in log if "valid" in entry]
    return figures, torch.load(folder / f"{name}.pt")


def difference(folder: Path, name: str, other: str) -> float:
    """The largest, of losses and weights."""
    (losses, weights), (theirs, others) = found(folder, name), found(folder, other)
    assert len(losses) == len(theirs) > 0
    assert weights.keys() == others.keys()
    far = [abs(one - two) for one, two in zip(losses, theirs, strict=True)]
    far += [float((weights[key] - others[key]).abs().max()) for key in weights]
    return max(far)


if __name__ == "__main__":
    assert "RANK" in os.environ
    main()
