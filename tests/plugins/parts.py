"""A plugin, as somebody else would write it: positions, a score, a metric, a head and a task of its own.

The task tells how many words a text has: each record is a line, and the answer is a number.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor, nn

import regard
from regard.config import to_dict
from regard.data import Packed, Plan, pack_flat, ragged
from regard.nn.pooling import pool_mean
from regard.settings.shape import EncoderShape
from regard.settings.training import AverageConfig, BatchConfig, OptimizerConfig, TrainConfig
from regard.tasks.base.encoders import build, find_start, open_reader
from regard.tasks.base.evaluation import say_figures
from regard.tasks.base.feed import Batch, PlannedFeed
from regard.tasks.base.job import Job
from regard.tasks.base.reading import EncoderPredictor, Reader
from regard.tasks.base.recipe import RecipeSpec
from regard.tasks.base.settle import settle_longest, settle_tokenizer
from regard.tasks.base.suited import suited_encoder
from regard.tasks.base.task import EvaluateOptions
from regard.text import TokenizerConfig, read_lines
from regard.train.objectives import Sums

# positions: one trained direction, further along it the later a token comes


class Ramp(nn.Module):
    def __init__(self, d_model: int, longest: int) -> None:
        super().__init__()
        self.longest = longest
        self.direction = nn.Linear(1, d_model, bias=False)

    def forward(self, positions: Tensor, longest: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return self.direction(positions.unsqueeze(1).to(dtype) / self.longest)


RAMP = regard.Positions(name="ramp", added=lambda config, d_model: Ramp(d_model, config.longest))

# a score: the cosine of query and key, times a trained temperature


class CosineScore(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.full((heads, 1, 1), 4.0))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        cosines = torch.einsum("qhd,khd->hqk", F.normalize(queries, dim=-1), F.normalize(keys, dim=-1))
        return self.temperature * cosines


COSINE = regard.Score(name="cosine", build=lambda heads, d_head: CosineScore(heads))

# a metric of translations


def length_ratio(found: Sequence[str], wanted: Sequence[str]) -> float:
    return min(1.0, sum(map(len, found)) / sum(map(len, wanted)))


LENGTHS = regard.Metric(task="translate", figure="length_ratio", function=length_ratio)

# a head: one number for each sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class CountConfig:
    kind: Literal["count"] = "count"
    bias: bool = True
    """Of the output."""


class CountHead(nn.Module):
    def __init__(self, d_model: int, config: CountConfig) -> None:
        super().__init__()
        self.output = nn.Linear(d_model, 1, bias=config.bias)

    def forward(self, x: Tensor, layout: Any) -> Tensor:
        return self.output(pool_mean(x, layout)) * layout.lengths[:, None]


HEAD = regard.HeadSpec(
    name="count",
    config=CountConfig,
    build=lambda config, encoder: CountHead(encoder.config.d_model, config),
    rows="sequences",
)

# a task


@dataclass(frozen=True, kw_only=True, slots=True)
class CountData:
    train: str
    """A text a line."""
    root: str = ""
    """Where relative paths start from."""
    test: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CountRecipe:
    task: Literal["count"] = "count"
    data: CountData
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: EncoderShape = field(default_factory=EncoderShape)
    head: CountConfig = field(default_factory=CountConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    average: AverageConfig = field(default_factory=AverageConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


def suited(recipe: CountRecipe, plain: dict[str, Any], examples: int, words: int, **how: Any) -> Any:
    return suited_encoder(recipe.model, plain, examples, words, seed=recipe.train.seed, **how)


@dataclass(frozen=True, slots=True, eq=False)
class CountBatch(Batch):
    text: Packed
    counts: Tensor
    tokens: int


class CountFeed(PlannedFeed):
    def __init__(self, ids: Any, counts: np.ndarray, config: BatchConfig) -> None:
        super().__init__(Plan([ids.lengths], config), static=False)
        self._ids, self._counts = ids, counts

    def batch(self, rows: np.ndarray, shapes: Any, epoch: int) -> CountBatch:
        packed = pack_flat(self._ids.gather(rows), self.plan.lengths[0, rows].tolist())
        return CountBatch(packed, torch.from_numpy(self._counts[rows]), len(rows))


class CountLoss:
    def __init__(self, model: Any) -> None:
        self.model = model

    def compile(self) -> None: ...

    def __call__(self, batch: CountBatch) -> Sums:
        found = self.model(batch.text.ids, batch.text.layout).squeeze(1)
        loss = F.mse_loss(found, batch.counts, reduction="sum")
        return Sums(loss, loss.detach(), torch.tensor(float(batch.tokens)))


class Counter(EncoderPredictor):
    task: ClassVar[str] = "count"

    def with_reader(self, reader: Reader) -> "Counter":
        return Counter(reader)

    def count(self, texts: Sequence[str]) -> list[float]:
        head: Any = self.model.head
        rows = self.reader.read(self.reader.pieces(texts), lambda states, packed: head(states, packed.layout))
        return [float(row[0]) for row in rows]


def open_counter(folder: Path | str, *, device: str = "auto", precision: Any = None) -> Counter:
    return Counter(open_reader(folder, "count", device=device, precision=precision)[1])


def prepare(written: Any, folder: Path, ranks: Any, console: Any, *, begun: bool = False) -> Job:
    root = written.where / written.checked.data.root
    path = root / written.checked.data.train
    texts = [line.text for line in read_lines(path)]
    counts = np.array([len(text.split()) for text in texts], dtype=np.float32)
    recipe = written.completed(len(texts), int(counts.sum()), cuda=False)
    start, recipe = find_start(recipe, written.where)
    tokenizer = settle_tokenizer(recipe, start, texts, paths=[path], folder=folder, ranks=ranks, begun=begun)
    torch.manual_seed(recipe.train.seed)
    model = build(recipe.model, recipe.head, start, len(tokenizer)).train()
    counter = Counter(Reader(model, tokenizer, longest=settle_longest(0, model)))
    ids = ragged([piece.ids for piece in counter.reader.pieces(texts)])

    def validate() -> tuple[dict[str, float], str]:
        return {"error": float(np.abs(np.array(counter.count(texts)) - counts).mean())}, ""

    return Job(
        recipe=recipe,
        model=model,
        loss=CountLoss(model),
        feed=CountFeed(ids, counts, recipe.batch),
        validate=validate,
        metric=("error", "low"),
        ranks=ranks,
        static=False,
        d_model=model.config.encoder.d_model,
        root=root,
        about={"model": to_dict(model.config), "longest": counter.longest},
        data={"texts": len(texts)},
        unit="texts",
        perplexity=False,
    )


def evaluate(model: Path, options: EvaluateOptions, console: Console) -> dict[str, Any]:
    options.only("text")
    texts = [line.text for path in options.text for line in read_lines(path)]
    found = open_counter(model, device=options.device).count(texts)
    wanted = np.array([len(text.split()) for text in texts])
    figures = {"error": float(np.abs(np.array(found) - wanted).mean())}
    say_figures(console, figures)
    return figures


def count(model: Path, text: str) -> None:
    """How many words a text has, as the model sees it."""
    print(json.dumps(open_counter(model, device="cpu").count([text])))  # noqa: T201


TASK = regard.Task(
    name="count",
    command="count",
    noun="word counter",
    recipe=RecipeSpec(CountRecipe, suited, example='train = "train.txt"'),
    prepare=prepare,
    predictor=Counter,
    open=open_counter,
    heads=("count",),
    evaluate=evaluate,
    commands=(count,),
)

for part in (RAMP, COSINE, LENGTHS, HEAD, TASK):
    regard.register(part)
