"""A made-up language whose texts say plainly what they are labelled, and the smallest models that read it."""

import io
import random
from functools import cache
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from regard.models.headed import Headed, HeadedConfig
from regard.settings.models import ClassifyConfig, EmbedConfig, HeadConfig, PoolConfig
from regard.settings.shape import EncoderShape
from regard.tasks import run
from regard.tasks.base.reading import Reader
from regard.text import Tokenizer, TokenizerConfig
from regard.train.trainer import Outcome

WORDS = ("sun", "rain", "tree", "house", "dog", "river", "old", "red", "sees", "likes")
TINY: dict[str, Any] = {"preset": "tiny", "d_model": 16, "heads": 2, "layers": 2, "d_ff": 32, "dropout": 0.1}


@cache
def texts(count: int, seed: int = 0) -> tuple[str, ...]:
    """No two are alike."""
    chance = random.Random(seed)
    drawn = (" ".join(chance.choices(WORDS, k=chance.randint(2, 9))) for _ in range(4 * count))
    return tuple(dict.fromkeys(drawn))[:count]


def sunny(text: str) -> str:
    return "yes" if "sun" in text.split() else "no"


def write(folder: Path, name: str, *rows: tuple[object, ...]) -> str:
    """A TSV file without a header; its name."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(str(cell) for cell in row) for row in rows]
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return name


def recipe(folder: Path, label: Any = sunny, count: int = 200, **tables: dict[str, Any]) -> dict[str, Any]:
    """Plain data; the corpus is written into the folder: label and text."""
    train = write(folder, "train.tsv", *((label(text), text) for text in texts(count)))
    valid = write(folder, "valid.tsv", *((label(text), text) for text in texts(60, seed=1)))
    plain: dict[str, Any] = {
        "task": "classify",
        "data": {"train": train, "valid": valid, "root": str(folder), "text": 1, "label": 0},
        "tokenizer": {"kind": "words", "vocabulary": 30},
        "model": TINY,
        "batch": {"tokens": 160},
        "optimizer": {"learning_rate": 3e-3, "warmup": 10},
        "train": {"steps": 20, "validate_every": 10, "log_every": 5, "save_every": 5},
    }
    for name, table in tables.items():
        plain[name] = {**plain.get(name, {}), **table}
    return plain


def train(plain: Any, out: Path, **settings: Any) -> tuple[Outcome, str]:
    """And what was said."""
    said = io.StringIO()
    outcome = run.fit(plain, out=out, device="cpu", console=Console(file=said, width=200), **settings)
    return outcome, said.getvalue()


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.train([" ".join(WORDS)] * 2, TokenizerConfig(kind="words", vocabulary=30))


@cache
def subwords() -> Tokenizer:
    """Of a few letters each."""
    return Tokenizer.train([" ".join(WORDS)] * 2, TokenizerConfig(kind="wordpiece", vocabulary=40))


def model(head: HeadConfig | None = None, vocabulary: int = 60, **shape: Any) -> Headed:
    """With weights far from zero, so that everything can be felt."""
    torch.manual_seed(0)
    head = head or ClassifyConfig(labels=3, pool=PoolConfig(kind="mean"))
    wants = isinstance(head, ClassifyConfig | EmbedConfig) and head.pool.kind == "pooler"
    encoder = EncoderShape(**(shape or TINY), **({"encoder": {"pooler": True}} if wants else {}))
    made = Headed(HeadedConfig(encoder=encoder.build(vocabulary), head=head))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return made


def reader(made: Headed | None = None, longest: int = 512, own: Tokenizer | None = None) -> Reader:
    return Reader(made or model(), own or tokenizer(), longest=longest)
