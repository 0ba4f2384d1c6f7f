"""The smallest thing that can be trained: which token follows which, and a feed that makes up examples."""

import io
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console
from torch import Tensor, nn

from regard.settings.training import AverageConfig, OptimizerConfig, TrainConfig
from regard.train.engine import Engine
from regard.train.objectives import HIDDEN, Sums, token_loss
from regard.train.ranks import Ranks
from regard.train.trainer import Trainer

WORDS = 11
ALONE = Ranks(rank=0, count=1, device=torch.device("cpu"))


class Toy(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 8)
        self.inner = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(16, WORDS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.outer(self.dropout(torch.tanh(self.norm(self.inner(self.embedding(ids))))))


def toy(dropout: float = 0.0, seed: int = 0) -> Toy:
    torch.manual_seed(seed)
    return Toy(dropout)


def uneven(name: str) -> float:
    """Factors on the rate of a toy; the order by them is not that of its parameters."""
    return {"embedding": 3.0, "inner": 0.5, "norm": 0.5, "outer": 0.125}[name.partition(".")[0]]


@dataclass(frozen=True, eq=False)
class ToyBatch:
    ids: Tensor
    labels: Tensor

    @property
    def tokens(self) -> int:
        return int((self.labels != HIDDEN).sum())

    def to(self, device: torch.device) -> "ToyBatch":
        return ToyBatch(self.ids.to(device), self.labels.to(device))

    def tensors(self) -> list[Tensor]:
        return [self.ids, self.labels]


def batch(size: int, seed: int) -> ToyBatch:
    chance = random.Random(seed)
    ids = torch.tensor([chance.randrange(WORDS) for _ in range(size)])
    return ToyBatch(ids, (3 * ids + 1) % WORDS)


def joined(*batches: ToyBatch) -> ToyBatch:
    return ToyBatch(torch.cat([each.ids for each in batches]), torch.cat([each.labels for each in batches]))


class ToyFeed:
    """Twelve examples a step, in two parts of very different sizes."""

    def parts(self, step: int, split: int = 1) -> list[tuple[int, ToyBatch]]:
        pieces = []
        for whole in (batch(2, 2 * step), batch(10, 2 * step + 1)):
            pairs = zip(whole.ids.tensor_split(split), whole.labels.tensor_split(split), strict=True)
            pieces += [ToyBatch(*pair) for pair in pairs if len(pair[0])]
        return list(enumerate(pieces))


Loss = Callable[[ToyBatch], Sums]


class Headed(nn.Module):
    """A frozen body with dropout and a buffer, and a head that is trained; the head has the body's table as
    well, under another name."""

    def __init__(self) -> None:
        super().__init__()
        self.body = toy(0.3)
        self.body.requires_grad_(False)
        self.register_buffer("shift", torch.randn(WORDS))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)
        self.head = nn.Linear(WORDS, WORDS)
        self.table = self.body.embedding

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.body(ids) + self.shift)


def loss_of(model: nn.Module) -> Loss:
    return lambda batch: token_loss(model(batch.ids), batch.labels, 0.1)


def engine(model: nn.Module, loss: Loss | None = None, **settings: Any) -> Engine:
    given = {"optimizer": OptimizerConfig(), "average": AverageConfig(decay=0.9), "ranks": ALONE, "seed": 0}
    return Engine(model, loss or loss_of(model), **{**given, **settings})


class Run:
    """A trainer of a toy, what it keeps and what it says."""

    def __init__(
        self,
        folder: Path,
        *,
        dropout: float = 0.0,
        model: nn.Module | None = None,
        loss: Loss | None = None,
        validate: Any = None,
        average: AverageConfig | None = None,
        optimizer: OptimizerConfig | None = None,
        metric: tuple[str, Literal["high", "low"]] = ("loss", "low"),
        factor: Callable[[str], float] | None = None,
        perplexity: bool = True,
        unit: str = "tokens",
        **settings: Any,
    ) -> None:
        self.folder = folder
        self.model = toy(dropout) if model is None else model
        self.said = io.StringIO()
        self.kept: list[tuple[dict[str, Tensor], dict[str, Any]]] = []
        self.trainer = Trainer(
            self.model,
            loss or loss_of(self.model),
            ToyFeed(),
            TrainConfig(**{"steps": 12, "validate_every": 4, "log_every": 1, "workers": 0, **settings}),
            optimizer=optimizer or OptimizerConfig(learning_rate=1e-2, warmup=2),
            average=average or AverageConfig(decay=0.9),
            folder=folder,
            ranks=ALONE,
            console=Console(file=self.said, width=200),
            d_model=8,
            tokens=64,
            static=False,
            metric=metric,
            validate=validate,
            keep=self._keep,
            factor=factor,
            perplexity=perplexity,
            unit=unit,
        )

    def _keep(self, weights: Any, facts: Any) -> None:
        self.kept.append(({name: weight.clone() for name, weight in weights.items()}, dict(facts)))

    @property
    def values(self) -> Tensor:
        return self.trainer.engine.weights.values
