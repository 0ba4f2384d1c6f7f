"""What tasks settle before the first step: the tokenizer, and of an encoder its length and sizes."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.config import to_dict
from regard.data import fingerprint
from regard.hub import Checkpoint, DecoderCheckpoint
from regard.models.headed import Headed
from regard.nn.stacks import TransformerConfig
from regard.tasks.folder import clear, settled_tokenizer
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
        return start.tokenizer if start is not None else Tokenizer.train(lines, recipe.tokenizer)

    if ranks.first:
        if not begun:
            clear(folder)
        text = to_dict(replace(recipe.data, root="", test=()))
        settings = json.dumps([to_dict(recipe.tokenizer), text, recipe.model.start])
        settled_tokenizer(folder, fingerprint(paths, settings), begun=begun, make=make)
    ranks.wait()
    return Tokenizer.load(folder)


def settle_longest(wanted: int, model: Headed) -> int:
    """Most tokens of an input: as many as asked for, as far as the model goes."""
    positions = model.config.encoder.positions
    most = positions.longest if positions.kind == "learned" else None
    if wanted and most is not None and wanted > most:
        raise ValueError(f"data.longest={wanted}, but the model reads {most} tokens at most: choose {most}")
    return wanted or min(LONGEST, most or LONGEST)


def may_be_static(model: Headed) -> bool:
    """Whether a pass is the same work for all batches of one size."""
    body = model.config.encoder.body
    return isinstance(body, TransformerConfig) and body.attention.kernel != "equation"
