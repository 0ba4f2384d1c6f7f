"""Continuing a text, against `generate` of transformers with the same random weights, in GPT-2's small shape.

CPU: a prompt of 32 tokens, 64 new ones, batches of 1, 8 and 64, in float32 (packed, as `regard generate` does
it) and in int8; theirs is float32. An NVIDIA GPU: 128 new tokens, batches of 1 and 64, both in bfloat16, our
steps captured. The likeliest token each time, from ids to ids. Sides run in turns, five rounds; the median of
the ratio of new tokens a second is reported. On the CPU in float32 both sides must write the same tokens. (In
other formats a random model, whose best tokens are nearly as good as each other, soon writes something else.)
"""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table as Grid
from torch import Tensor

from regard.decode import DecodeConfig, decode
from regard.decode.captured import CapturedStepper
from regard.hub.families import GPT2
from regard.hub.weights import read_weights
from regard.models.decoder import Decoder
from regard.models.presets import gpt
from regard.nn.packed import pack
from regard.nn.quantized import quantize

ROUNDS, VOCABULARY, PROMPT = 5, 50257, 32
Continue = Callable[[Tensor, int], list[list[int]]]
"""From prompts and a number of new tokens to the tokens behind each prompt's first."""


def peer() -> Any:
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY)).eval()
    # Nothing ends a text before its number of tokens.
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def same_weights(theirs: Any) -> Decoder:
    config = gpt(VOCABULARY, layers=12, d_model=768, heads=12, d_ff=3072)
    tensors = {
        name.removeprefix(GPT2.prefix): tensor
        for name, tensor in theirs.state_dict().items()
        if name != "lm_head.weight"  # tied
    }
    weights, _ = read_weights(tensors, config, GPT2, Path("GPT2LMHeadModel"))
    ours = Decoder(config).eval()
    parameters = dict(ours.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            parameters[name].copy_(weight)
    return ours


def ours(stepper: Decoder | CapturedStepper) -> Continue:
    def go_on(prompts: Tensor, new: int) -> list[list[int]]:
        config = DecodeConfig(method="greedy", maximum=new)
        state = stepper.start(rows=len(prompts), capacity=prompts.shape[1] + new)
        found = decode(stepper, state, prompts.tolist(), end=None, config=config)
        return [list(row[0].ids) for row in found]

    return go_on


def theirs(model: Any) -> Continue:
    def go_on(prompts: Tensor, new: int) -> list[list[int]]:
        prompts = prompts.to(model.device)
        everything = torch.ones_like(prompts)
        found = model.generate(prompts, attention_mask=everything, max_new_tokens=new, do_sample=False)
        return [row[1:] for row in found.tolist()]

    return go_on


def seconds(work: Continue, prompts: Tensor, new: int) -> float:
    start = time.perf_counter()
    work(prompts, new)  # ends with the tokens on the host
    return time.perf_counter() - start


def compare(sides: dict[str, Continue], other: Continue, batch: int, new: int, grid: Grid) -> None:
    prompts = torch.randint(0, VOCABULARY - 1, (batch, PROMPT))
    expected = other(prompts, new)  # a round before the first warms up
    agreed = {}
    for name, side in sides.items():
        found = side(prompts, new)
        both = zip(found, expected, strict=True)
        same = sum(a == b for row, wanted in both for a, b in zip(row, wanted, strict=True))
        agreed[name] = (same - batch * (PROMPT - 1)) / (batch * new)
        if "float32" in name and found != expected:
            raise RuntimeError(f"{name}, batch {batch}: {agreed[name]:.1%} of transformers' tokens, not all")
    times: dict[str, list[float]] = {name: [] for name in sides}
    peers: list[float] = []
    for _ in range(ROUNDS):
        peers.append(seconds(other, prompts, new))
        for name, side in sides.items():
            times[name].append(seconds(side, prompts, new))
    rate = batch * new / statistics.median(peers)
    for name, own in times.items():
        ratios = sorted(theirs / mine for theirs, mine in zip(peers, own, strict=True))
        grid.add_row(
            str(batch),
            name,
            f"{batch * new / statistics.median(own):,.0f}",
            f"{rate:,.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{ratios[0]:.2f} - {ratios[-1]:.2f}",
            f"{agreed[name]:.0%}",
        )


def table(title: str) -> Grid:
    grid = Grid(title=title)
    for column in ("batch", "regard", "tokens/s", "transformers", "times as fast", "range", "same tokens"):
        grid.add_column(column)
    return grid


def on_cpu(console: Console, model: Any) -> None:
    decoder = same_weights(model)
    sides = {
        "float32": ours(pack(decoder)),
        "int8": ours(quantize(decoder)),
    }
    grid = table(f"GPT-2 small, 64 new tokens, CPU, {torch.get_num_threads()} threads")
    for batch in (1, 8, 64):
        compare(sides, theirs(model), batch, 64, grid)
    console.print(grid)


def on_cuda(console: Console, model: Any) -> None:
    captured = CapturedStepper(same_weights(model).cuda(), precision="bfloat16")
    grid = table(f"GPT-2 small, 128 new tokens, bfloat16, {torch.cuda.get_device_name()}")
    half = model.cuda().to(torch.bfloat16)
    for batch in (1, 64):
        compare({"captured": ours(captured)}, theirs(half), batch, 128, grid)
    console.print(grid)


def main() -> None:
    console = Console()
    torch.set_num_threads(min(2, os.cpu_count() or 1))
    with torch.no_grad():
        if torch.cuda.is_available():
            on_cuda(console, peer())
        on_cpu(console, peer())
