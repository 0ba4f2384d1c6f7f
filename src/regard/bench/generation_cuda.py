"""Continuing a text on an NVIDIA GPU, against `generate` of transformers with the same random weights.

GPT-2's small shape, a prompt of 32 tokens, 128 new ones, batches of 1 and 64, both sides in bfloat16, our
steps captured.
"""

import os

import torch
from rich.console import Console

from regard.bench.generation import compare, ours, peer, same_weights, theirs, without
from regard.bench.results import Report, Row, report
from regard.decode.captured import CapturedStepper
from regard.tasks.base.terminal import say

TITLE = "Continuing a text on a GPU: GPT-2's small shape, against generate of transformers"
METHOD = (
    "The same random weights, a prompt of 32 tokens, 128 new ones, the likeliest each time, ids to ids; "
    "both sides in bfloat16, our steps captured."
)


@torch.no_grad()
def rows() -> list[Row]:
    try:
        model = peer()
    except ImportError as error:
        return [without(error, "bfloat16")]
    captured = CapturedStepper(same_weights(model).cuda(), precision="bfloat16")
    half = model.cuda().to(torch.bfloat16)
    return [
        row for batch in (1, 64) for row in compare({"bfloat16": ours(captured)}, theirs(half), batch, 128)
    ]


def measure(console: Console) -> Report | None:
    if not torch.cuda.is_available():
        say(console, "generation-cuda: no NVIDIA GPU on this machine, nothing measured")
        return None
    torch.set_num_threads(min(2, os.cpu_count() or 1))
    machine = torch.cuda.get_device_name()
    found = rows()
    return report(
        "generation-cuda", title=TITLE, method=METHOD, machine=machine, rows=found, peers=["transformers"]
    )
