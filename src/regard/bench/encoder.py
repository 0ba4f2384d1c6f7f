"""The packed encoder against `torch.nn.TransformerEncoder` on padded batches, forward and backward, CPU.

The paper's base size, the same weights on both sides, training mode, no dropout (torch's layer would also
drop attention weights, and leave its fast kernel for it). Batches are drawn at random from real text, in the
order drawn: 64 sentences of Multi30k (10,000 pieces); 16 reviews of IMDB (30,000), cut at 512 tokens. Both
sides run on every batch, one after the other; the median over the batches of the ratio of real tokens a
second is reported.
"""

import random
import statistics
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table as Grid
from torch import Tensor, nn

from bench.peers import torch_encoder
from regard.layout import Layout
from regard.nn.initialize import InitialConfig, initialize
from regard.nn.positions import PositionsConfig
from regard.nn.stacks import Stack, TransformerConfig
from regard.text import Table, Tokenizer, TokenizerConfig, read_lines, read_table_lines

DATA = Path(__file__).parents[2] / "shared" / "data"
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


def timed(module: nn.Module, gradient: Tensor, *inputs: Tensor | Layout, **more: Tensor) -> float:
    start = time.perf_counter()
    module(*inputs, **more).backward(gradient)
    return time.perf_counter() - start


def check_equal(ours: Stack, theirs: nn.Module, x: Tensor, layout: Layout, hidden: Tensor) -> None:
    with torch.no_grad():
        other = layout.from_grid(theirs(layout.to_grid(x), src_key_padding_mask=hidden))
        difference = float((ours(x, layout) - other).abs().max())
    if difference > 1e-4:
        raise RuntimeError(f"the two sides differ by {difference:.1e}")


def compare(name: str, pool: list[int], sequences: int, batches: int, grid: Grid) -> None:
    torch.manual_seed(0)
    chance = random.Random(0)
    ours = Stack(D_MODEL, TransformerConfig(dropout=0.0), PositionsConfig(kind="none"), causal=False)
    initialize(ours, InitialConfig())
    theirs = torch_encoder(ours, HEADS, D_FF)
    ratios, rates, fill = [], [], []
    for number in range(-1, batches):
        layout = Layout.of(chance.sample(pool, sequences))
        x, gradient = torch.randn(2, layout.tokens, D_MODEL)
        hidden = torch.arange(layout.longest) >= layout.lengths[:, None]
        padded, padded_gradient = layout.to_grid(x), layout.to_grid(gradient)
        if number < 0:
            check_equal(ours, theirs, x, layout, hidden)
        # Each goes first every other time, so that neither always runs on a warm cache.
        if number % 2:
            seconds = timed(ours, gradient, x, layout)
            peer = timed(theirs, padded_gradient, padded, src_key_padding_mask=hidden)
        else:
            peer = timed(theirs, padded_gradient, padded, src_key_padding_mask=hidden)
            seconds = timed(ours, gradient, x, layout)
        if number < 0:
            continue  # the first batch warms up
        ratios.append(peer / seconds)
        rates.append(layout.tokens / seconds)
        fill.append(layout.tokens / (sequences * layout.longest))
    grid.add_row(
        name,
        f"{statistics.mean(fill):.0%}",
        f"{statistics.median(rates):,.0f}",
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f} - {max(ratios):.2f}",
    )


def main() -> None:
    console = Console()
    if not DATA.is_dir():
        console.print("this benchmark needs the real data beside the checkout: ../shared/data")
        return
    grid = Grid(title=f"packed encoder / torch.nn.TransformerEncoder, {torch.get_num_threads()} threads")
    for column in ("batches", "real tokens in the padded grid", "tokens/s", "times as fast", "range"):
        grid.add_column(column)
    compare("Multi30k, 64 sentences", lengths(captions(), 10_000), 64, batches=25, grid=grid)
    compare("IMDB, 16 reviews", lengths(reviews(), 30_000), 16, batches=15, grid=grid)
    console.print(grid)
