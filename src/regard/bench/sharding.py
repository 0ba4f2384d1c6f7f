"""A model that is cut (FSDP2) beside the same one whole, on one NVIDIA GPU: losses, memory, speed.

GPT-2's large shape (36 layers of 1,280: 774 M weights), blocks of 1,024 tokens, bfloat16; both with the same
first weights and batches, 50 steps of fresh text, losses held equal to 1e-3 before anything is timed (a model
that learns few batches by heart jumps, and after a jump any rounding shows). One rank has nothing to share,
so what is seen is what the machinery of cutting costs. And what the model of scale (train/scaling.py) had
said of both.
"""

import gc
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from rich.console import Console

from regard.bench.results import BenchError, Report, Row, compared, report
from regard.bench.timing import in_turns, rates
from regard.bench.training import laid, repeat, stepping
from regard.models.decoder import Decoder
from regard.settings.models import DecoderConfig
from regard.settings.presets import gpt
from regard.settings.training import AverageConfig, OptimizerConfig
from regard.tasks.base.terminal import say
from regard.tasks.language.data import BlockBatch
from regard.tasks.language.train import LanguageLoss
from regard.train.engine import Engine
from regard.train.ranks import Ranks
from regard.train.scaling import Cluster, scaled
from regard.train.sharded import ShardedEngine
from regard.train.workload import Workload, workload_of

TITLE = "A model cut by FSDP2 on one NVIDIA GPU, beside the same one whole"
METHOD = (
    "GPT-2's large shape, 774 M weights, 16 blocks of 1,024 tokens a step, as frequent as words, bfloat16, "
    "compiled layers, one rank; the first 50 losses held equal to 1e-3; theirs is the flat vector with "
    "captured steps."
)
VOCABULARY, LONGEST, ROWS, LOSSES, STEPS = 50_257, 1024, 16, 50, 10
RATE, WARMING = 1e-4, 20
APART = 1e-3
WHOLE = "regard, whole"


def shape(
    layers: int = 36, d_model: int = 1280, heads: int = 20, vocabulary: int = VOCABULARY
) -> DecoderConfig:
    return gpt(vocabulary, layers=layers, d_model=d_model, heads=heads, d_ff=4 * d_model)


def made(
    config: DecoderConfig,
    ranks: Ranks,
    *,
    cut: bool,
    recompute: bool = False,
    offload: bool = False,
    quick: bool = True,
) -> Any:
    """An engine with its first weights; `quick`, as `regard train` has long runs: compiled, and captured
    where that can be; `offload` is for one that is cut."""
    torch.manual_seed(0)
    model = Decoder(config).to(ranks.device).train()
    on_cuda = ranks.device.type == "cuda"
    settings: dict[str, Any] = {
        "optimizer": OptimizerConfig(learning_rate=RATE, weight_decay=0.01),
        "average": AverageConfig(),
        "ranks": ranks,
        "seed": 0,
        "bfloat16": True,
        "recompute": recompute,
    }
    loss = LanguageLoss(model)
    if cut:
        engine: Any = ShardedEngine(model, loss, offload=offload, **settings)
    else:
        engine = Engine(model, loss, captured=on_cuda and quick and not recompute, **settings)
    if quick and on_cuda:
        engine.compile(loss.compile)
    return engine


def batches(count: int, rows: int, longest: int, vocabulary: int) -> list[BlockBatch]:
    """Tokens as frequent as words are (1 / rank), so that there is something to learn in any of them."""
    torch.manual_seed(1)
    slots = rows * longest
    shares = 1 / torch.arange(1, vocabulary + 1, dtype=torch.float64)
    texts = []
    for _ in range(count):
        text = laid([longest] * rows, slots, rows, longest, vocabulary)
        texts.append(replace(text, ids=torch.multinomial(shares, slots, replacement=True)))
    return [BlockBatch(text, text.ids.roll(-1), slots) for text in texts]


def losses(engine: Any, given: Sequence[BlockBatch], steps: int) -> list[float]:
    """With a warm-up, as trainings have one."""
    found = []
    for step in range(1, steps + 1):
        engine.step(step, [(0, given[step % len(given)])], RATE * min(1, step / WARMING))
        found.append(engine.statistics[0].clone())
    return torch.stack(found).tolist()


def check_same(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The largest difference of two sets of losses."""
    far = max(abs(one - two) for one, two in zip(ours, theirs, strict=True))
    if not far <= APART:
        raise BenchError(f"losses of both differ by {far:.2g}, which is over {APART}: nothing was timed")
    return far


def peak(engine_of: Any, given: Sequence[BlockBatch], steps: int) -> tuple[Any, list[float], float]:
    """An engine, the losses of its first steps, and the most memory that it took, in GiB."""
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    engine = engine_of()
    found = losses(engine, given, steps)
    return engine, found, (torch.cuda.max_memory_allocated() - before) / 2**30


def workload(config: DecoderConfig, tokens: int) -> Workload:
    with torch.device("meta"):
        return workload_of(Decoder(config), name="", tokens=tokens, seen=LONGEST / 2)


def off(foreseen: float, seen: float) -> str:
    digits = 0 if foreseen > 1000 else 1
    return f"{foreseen:,.{digits}f} ({foreseen / seen - 1:+.0%})"


def measure(console: Console) -> Report | None:
    if not torch.cuda.is_available():
        say(console, "sharding: no NVIDIA GPU on this machine, nothing measured")
        return None
    torch.set_float32_matmul_precision("high")
    ranks, config = Ranks.join("cuda"), shape()
    given = [batch.pin() for batch in batches(LOSSES, ROWS, LONGEST, VOCABULARY)]
    tokens = ROWS * LONGEST
    whole, theirs, most = peak(partial(made, config, ranks, cut=False), given, LOSSES)
    cut, ours, own = peak(partial(made, config, ranks, cut=True), given, LOSSES)
    far = check_same(ours, theirs)
    sides = {
        "cut": partial(repeat, stepping(cut, given), STEPS),
        WHOLE: partial(repeat, stepping(whole, given), STEPS),
    }
    times = in_turns(sides, wait=torch.cuda.synchronize)
    speeds = {side: rates(STEPS * tokens, times[side]) for side in sides}
    del sides, cut, whole
    _, _, fewest = peak(partial(made, config, ranks, cut=True, recompute=True), given, 3)
    work = workload(config, tokens)
    said = {
        "whole": scaled(work, Cluster()),
        "cut": scaled(work, Cluster(), fsdp="yes"),
        "recomputed": scaled(work, Cluster(), fsdp="yes", recomputed=True),
    }
    room = {name: each.memory.total / 2**30 for name, each in said.items()}
    what = {"work": "GPT-2-large, length 1024", "peer": WHOLE}
    fast = {side: statistics.median(speeds[side]) for side in speeds}
    guess = f"foreseen {off(said['cut'].speed, fast['cut'])}, whole {off(said['whole'].speed, fast[WHOLE])}"
    full = f"foreseen {off(room['cut'], own)} GiB, whole {off(room['whole'], most)}"
    rows: list[Row] = [
        compared(
            speeds["cut"], speeds[WHOLE], **what, setting="bfloat16", unit="tokens/s",
            notes=f"{LOSSES} losses within {far:.1g}; {guess}",
        ),
        compared([own], [most], **what, setting="memory", unit="GiB at most", notes=full),
        compared(
            [fewest], [most], **what, setting="memory, activation_checkpointing", unit="GiB at most",
            notes=f"foreseen {off(room['recomputed'], fewest)} GiB",
        ),
    ]  # fmt: skip
    machine = torch.cuda.get_device_name()
    return report("sharding", title=TITLE, method=METHOD, machine=machine, rows=rows, peers=[])
