"""What other programs on the same cores cost: the same work on an idle machine, and beside as many processes
as there are cores that never rest.

    one sentence    translated by a base model, the median of 40
    steps           12 of training a small translator

Threads that wait for one another by spinning make such a machine many times as slow; regard has them spin for
a short while only (`GOMP_SPINCOUNT`, set where regard is imported). Without that: the rows called "as OpenMP
has it". Best run on a machine that has nothing else to do.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from rich.console import Console

from regard.bench.results import Report, Row, compared, processor, report
from regard.decode import DecodeConfig, decode
from regard.layout import Layout
from regard.models.seq2seq import Seq2Seq
from regard.settings.presets import SEQ2SEQ

TITLE = "Beside busy processes, against an idle machine"
METHOD = "The same work in a process of its own, with and without a busy process for each core beside it."
ROUNDS = 3
WORK = """
import json
from regard.bench.busy import sentence, steps
print(json.dumps({"sentence": sentence(), "steps": steps()}))
"""


def sentence() -> float:
    """Milliseconds of one sentence, the middle one of 40."""
    torch.manual_seed(0)
    model = Seq2Seq(SEQ2SEQ["base"](8000)).eval()
    ids, layout = torch.arange(100, 112), Layout.of([12])
    search = DecodeConfig(method="greedy", maximum=12, minimum=12)
    times = []
    for _ in range(45):
        began = time.perf_counter()
        with torch.no_grad():
            decode(model, model.start(ids, layout), [[1]], end=2, config=search)
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times[5:])


def steps() -> float:
    """Seconds of 12 steps of training."""
    torch.manual_seed(0)
    model = Seq2Seq(SEQ2SEQ["small"](4000)).train()
    optimizer = torch.optim.AdamW(model.parameters())
    ids, layout = torch.randint(5, 4000, (2048,)), Layout.of([16] * 128)
    began = time.perf_counter()
    for number in range(13):
        if number == 1:
            began = time.perf_counter()
        states = model(ids, layout, ids, layout)
        torch.nn.functional.cross_entropy(model.decoder.head(states), ids).backward()
        optimizer.step()
        optimizer.zero_grad()
    return time.perf_counter() - began


def measured(**environment: str) -> dict[str, float]:
    command = [sys.executable, "-c", WORK]
    own = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=own)
    found: dict[str, float] = json.loads(done.stdout)
    return found


@contextmanager
def busy() -> Iterator[None]:
    """A process for each core that never rests."""
    every = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for each in every:
            each.kill()
            each.wait()


def measure(console: Console) -> Report | None:
    ways = {"": {}, ", as OpenMP has it": {"GOMP_SPINCOUNT": "30000000000"}}
    idle: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    beside: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, environment in ways.items():
            idle[way].append(measured(**environment))
            with busy():
                beside[way].append(measured(**environment))
    rows: list[Row] = []
    for way in ways:
        for key, work, unit in (
            ("sentence", "one sentence, base size", "ms"),
            ("steps", "12 steps of training", "s"),
        ):
            own, other = [each[key] for each in beside[way]], [each[key] for each in idle[way]]
            rows.append(
                compared(
                    own,
                    other,
                    work=work,
                    setting=f"{os.cpu_count()} busy processes{way}",
                    unit=unit,
                    peer="regard, idle machine",
                )
            )
    return report("busy", title=TITLE, method=METHOD, machine=processor(), rows=rows, peers=())
