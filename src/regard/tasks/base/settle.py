"""What tasks settle before the first step: the tokenizer; of an encoder's tasks, all that they share."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config import to_dict
from regard.data import Plan, fingerprint
from regard.hub import Checkpoint, DecoderCheckpoint
from regard.models.headed import Headed
from regard.nn.stacks import is_static
from regard.tasks.base.encoders import build, find_start, rate_factor
from regard.tasks.base.faster import Precision
from regard.tasks.base.folder import clear
from regard.tasks.base.job import Job
from regard.tasks.base.reading import Reader
from regard.tasks.base.recipe import Written
from regard.tasks.base.tokens import settled_tokenizer
from regard.text import Tokenizer
from regard.train.ranks import Ranks

LONGEST = 512
"""Most tokens of an input, where nothing else says."""


def settle_tokenizer(
    recipe: Any,
    start: Checkpoint | DecoderCheckpoint | None,
    lines: Iterable[str],
    *,
    paths: Sequence[Path],
    folder: Path,
    ranks: Ranks,
    begun: bool,
) -> Tokenizer:
    """The start's, or one learned from these lines; it lies in the folder from now on. `paths` are the files
    that a run must not be resumed without."""

    def make() -> Tokenizer:
        own = None if start is None else start.tokenizer
        return Tokenizer.train(lines, recipe.tokenizer) if own is None else own

    if ranks.builder:
        if not begun:
            clear(folder)
        text = to_dict(replace(recipe.data, root="", test=()))
        settings = json.dumps([to_dict(recipe.tokenizer), text, recipe.model.start])
        settled_tokenizer(folder, fingerprint(paths, settings), begun=begun, make=make)
    ranks.wait()
    return Tokenizer.load(folder)


def settle_longest(wanted: int, model: Headed, usual: int = LONGEST) -> int:
    """Most tokens of an input: as many as asked for, as far as the model goes."""
    positions = model.config.encoder.positions
    most = positions.longest if positions.kind == "learned" else None
    if wanted and most is not None and wanted > most:
        raise ValueError(f"data.longest={wanted}, but the model reads {most} tokens at most: choose {most}")
    return wanted or min(usual, most or usual)


@dataclass(frozen=True, slots=True)
class SettledEncoder:
    """What an encoder's task has settled, whatever its head."""

    recipe: Any
    start: Checkpoint | None
    model: Headed
    reader: Reader
    ranks: Ranks
    static: bool

    def plan(self, lengths: np.ndarray) -> Plan:
        return Plan([lengths], self.recipe.batch)

    def job(self, **parts: Any) -> Job:
        """With what each task has of its own; `metric`, `data` and so on, as `Job` has them."""
        recipe, optimizer = self.recipe, self.recipe.optimizer
        return Job(
            recipe=recipe,
            model=self.model,
            ranks=self.ranks,
            static=self.static,
            d_model=self.model.config.encoder.d_model,
            factor=rate_factor(self.model, optimizer.layer_decay, optimizer.head_rate),
            **parts,
        )


def settle_encoder(
    written: Written[Any],
    *,
    examples: int,
    words: int,
    lines: Iterable[str],
    paths: Sequence[Path],
    head: Callable[[Any, Checkpoint | None], Any],
    folder: Path,
    ranks: Ranks,
    begun: bool,
    usual: int = LONGEST,
) -> SettledEncoder:
    """For so many examples with so many words: the whole recipe, the tokenizer (learned from these lines, if
    nothing is started from) and the model, in training mode, with the `head` that fits recipe and start; it
    reads `usual` tokens at most, where the recipe does not say."""
    recipe = written.completed(examples, words, cuda=ranks.device.type == "cuda", ranks=ranks.count)
    start, recipe = find_start(recipe, written.where)
    tokenizer = settle_tokenizer(recipe, start, lines, paths=paths, folder=folder, ranks=ranks, begun=begun)
    torch.manual_seed(recipe.train.seed)
    model = build(recipe.model, head(recipe, start), start, len(tokenizer)).to(ranks.device).train()
    precision: Precision = "bfloat16" if recipe.train.bfloat16(ranks.device) else "float32"
    longest = settle_longest(recipe.data.longest, model, usual)
    reader = Reader(model, tokenizer, longest=longest, precision=precision)
    static = ranks.device.type == "cuda" and is_static(model.config.encoder.body)
    return SettledEncoder(recipe, start, model, reader, ranks, static)
