"""Continuing a text, against `generate` of transformers with the same random weights, in GPT-2's small shape.

On the CPU: a prompt of 32 tokens, 64 new ones, batches of 1, 8 and 64, in float32 (packed, as `regard
generate` does it) and in int8; theirs is float32. The likeliest token each time, from ids to ids. In float32
both sides must write the same tokens. (In other formats a random model, whose best tokens are nearly as good
as each other, soon writes something else.) `generation_cuda.py` has the same on a GPU.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from regard.bench.results import BenchError, Report, Row, compared, named, processor, report, skipped
from regard.bench.timing import in_turns, rates
from regard.decode import DecodeConfig, decode
from regard.decode.captured import CapturedStepper
from regard.hub.families import GPT2
from regard.hub.weights import read_weights
from regard.models.decoder import Decoder
from regard.settings.presets import gpt
from regard.tasks.base.faster import Faster

TITLE = "Continuing a text on the CPU: GPT-2's small shape, against generate of transformers"
METHOD = (
    "The same random weights, a prompt of 32 tokens, 64 new ones, the likeliest each time, ids to ids; "
    "theirs is float32, and in float32 both sides must write the same tokens."
)
VOCABULARY, PROMPT = 50257, 32
WORK, UNIT = "GPT-2 small", "tokens/s"
Continue = Callable[[Tensor, int], list[list[int]]]
"""From prompts and a number of new tokens to the tokens behind each prompt's first."""


def peer() -> Any:
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
    def complete(prompts: Tensor, new: int) -> list[list[int]]:
        config = DecodeConfig(method="greedy", maximum=new)
        state = stepper.start(rows=len(prompts), capacity=prompts.shape[1] + new)
        found = decode(stepper, state, prompts.tolist(), end=None, config=config)
        return [list(row[0].ids) for row in found]

    return complete


def theirs(model: Any) -> Continue:
    def complete(prompts: Tensor, new: int) -> list[list[int]]:
        prompts = prompts.to(model.device)
        everything = torch.ones_like(prompts)
        found = model.generate(prompts, attention_mask=everything, max_new_tokens=new, do_sample=False)
        return [row[1:] for row in found.tolist()]

    return complete


def agreement(found: list[list[int]], expected: list[list[int]], new: int) -> float:
    """The share of the new tokens that are the same."""
    both = zip(found, expected, strict=True)
    same = sum(a == b for row, wanted in both for a, b in zip(row, wanted, strict=True))
    return (same - len(expected) * (PROMPT - 1)) / (len(expected) * new)


def compare(sides: Mapping[str, Continue], other: Continue, batch: int, new: int) -> Iterator[Row]:
    """A row for each of our sides, named by its precision."""
    prompts = torch.randint(0, VOCABULARY - 1, (batch, PROMPT))
    expected = other(prompts, new)  # a round before the first warms up
    agreed = {}
    for name, side in sides.items():
        found = side(prompts, new)
        agreed[name] = agreement(found, expected, new)
        if "float32" in name and found != expected:
            raise BenchError(f"{name}, batch {batch}: {agreed[name]:.1%} of transformers' tokens, not all")
    # Every side ends with its tokens on the host: there is nothing to wait for.
    times = in_turns({name: partial(side, prompts, new) for name, side in {"": other, **sides}.items()})
    for name in sides:
        own, theirs = (rates(batch * new, times[side]) for side in (name, ""))
        what = {"work": f"{WORK}, {new} new tokens", "setting": f"{name}, batch {batch}", "unit": UNIT}
        notes = f"same tokens: {100 * agreed[name]:.0f} %"
        yield compared(own, theirs, **what, peer=named("transformers"), notes=notes)


def without(error: ImportError, setting: str) -> Row:
    return skipped(error, work=WORK, setting=setting, unit=UNIT, peer="transformers")


@torch.no_grad()
def rows() -> list[Row]:
    try:
        model = peer()
    except ImportError as error:
        return [without(error, "float32 and int8")]
    decoder = same_weights(model)
    sides = {
        "float32": ours(Faster(decoder, "float32").current()),
        "int8": ours(Faster(decoder, "int8").current()),
    }
    return [row for batch in (1, 8, 64) for row in compare(sides, theirs(model), batch, 64)]


def measure(console: Console) -> Report | None:
    torch.set_num_threads(min(2, os.cpu_count() or 1))
    found = rows()
    return report(
        "generation", title=TITLE, method=METHOD, machine=processor(), rows=found, peers=["transformers"]
    )
