"""The packed encoder against `torch.nn.TransformerEncoder` on padded batches, forward and backward, CPU.

The paper's base size, the same weights on both sides, training mode, no dropout (torch's layer would also
drop attention weights, and leave its fast kernel for it). Batches are drawn at random from real text, in the
order drawn: 64 sentences of Multi30k (10,000 pieces); 16 reviews of IMDB (30,000), cut at 512 tokens. Both
sides run on every batch, in turns: a batch is a round. Real tokens a second are counted.
"""

import random
import statistics
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor, nn

from regard.bench.peers import torch_encoder
from regard.bench.results import BenchError, Report, Row, compared, named, processor, report
from regard.bench.timing import OURS, one_round
from regard.layout import Layout
from regard.nn.initialize import initialize
from regard.nn.stacks import Stack
from regard.settings.network import InitialConfig, PositionsConfig, TransformerConfig
from regard.tasks.base.terminal import say
from regard.text import Table, Tokenizer, TokenizerConfig, read_lines, read_table_lines

TITLE = "Encoder, forward and backward: packed, against torch.nn.TransformerEncoder on padded batches"
METHOD = (
    "The paper's base size, the same weights, training mode without dropout, batches drawn at random from "
    "real text; a batch is a round: 25 of Multi30k, 15 of IMDB."
)
DATA = Path(__file__).parents[4] / "shared" / "data"
"""Real text, beside the checkout."""
D_MODEL, HEADS, D_FF = 512, 8, 2048


def captions() -> Iterator[str]:
    return (line.text for line in read_lines(DATA / "multi30k" / "train.en.gz"))


def reviews() -> Iterator[str]:
    table = Table(path=DATA / "imdb" / "train.tsv.xz", format="tsv")
    return (line.text for line in read_table_lines(table, text=3))


def lengths(texts: Iterator[str], vocabulary: int) -> list[int]:
    """In tokens of a vocabulary learned from the same text, start and end marks included, cut at 512."""
    sample = list(islice(texts, 10_000))
    tokenizer = Tokenizer.train(sample, TokenizerConfig(kind="bpe", vocabulary=vocabulary))
    return [min(512, len(ids) + 2) for ids in tokenizer.encode_batch(sample)]


def check_equal(ours: Stack, theirs: nn.Module, x: Tensor, layout: Layout, hidden: Tensor) -> None:
    with torch.no_grad():
        other = layout.from_grid(theirs(layout.to_grid(x), src_key_padding_mask=hidden))
        difference = float((ours(x, layout) - other).abs().max())
    if difference > 1e-4:
        raise BenchError(f"the two sides differ by {difference:.1e}: at most 1e-4 is rounding")


def compare(setting: str, pool: list[int], sequences: int, batches: int) -> Row:
    torch.manual_seed(0)
    chance = random.Random(0)
    ours = Stack(D_MODEL, TransformerConfig(dropout=0.0), PositionsConfig(kind="none"), causal=False)
    initialize(ours, InitialConfig())
    theirs = torch_encoder(ours, HEADS, D_FF)
    rates: dict[str, list[float]] = {OURS: [], "torch": []}
    fill = []
    for number in range(-1, batches):
        layout = Layout.of(chance.sample(pool, sequences))
        x, gradient = torch.randn(2, layout.tokens, D_MODEL)
        hidden = torch.arange(layout.longest) >= layout.lengths[:, None]
        padded, padded_gradient = layout.to_grid(x), layout.to_grid(gradient)
        if number < 0:
            check_equal(ours, theirs, x, layout, hidden)
        sides = {
            OURS: partial(both_ways, ours, gradient, x, layout),
            "torch": partial(both_ways, theirs, padded_gradient, padded, src_key_padding_mask=hidden),
        }
        times = one_round(sides, number)
        if number < 0:
            continue  # the first batch warms up
        for name, seconds in times.items():
            rates[name].append(layout.tokens / seconds)
        fill.append(layout.tokens / (sequences * layout.longest))
    notes = f"real tokens in the padded grid: {100 * statistics.mean(fill):.0f} %"
    what = {"work": "base encoder", "setting": setting, "unit": "tokens/s", "peer": named("torch")}
    return compared(rates[OURS], rates["torch"], **what, notes=notes)


def both_ways(module: nn.Module, gradient: Tensor, *inputs: Tensor | Layout, **more: Tensor) -> None:
    module(*inputs, **more).backward(gradient)


def measure(console: Console) -> Report | None:
    if not DATA.is_dir():
        say(console, "encoder: needs the real data beside the checkout, ../shared/data; nothing measured")
        return None
    rows = [
        compare("Multi30k, 64 sentences", lengths(captions(), 10_000), 64, batches=25),
        compare("IMDB, 16 reviews", lengths(reviews(), 30_000), 16, batches=15),
    ]
    return report("encoder", title=TITLE, method=METHOD, machine=processor(), rows=rows)
