"""How well a language model predicts a text: what `regard evaluate MODEL --text FILE` does."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from regard.config import ConfigError
from regard.hub import is_foreign
from regard.models.decoder import Decoder
from regard.settings.models import DecoderConfig
from regard.settings.network import Scaling
from regard.tasks.base.documents import DocumentCorpus, DocumentsConfig
from regard.tasks.base.evaluation import text_options
from regard.tasks.base.own_recipe import own_recipe
from regard.tasks.base.recipe import read_recipe
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import counting, say
from regard.tasks.language.data import Ends, stream_rows
from regard.tasks.language.perplexity import Windows, figures, nll
from regard.tasks.language.recipe import RECIPE, ContextConfig
from regard.tasks.language.start import built, open_language, require_tokenizer
from regard.text import DataError, Origin
from regard.train.ranks import find_device

SAID = {
    "loss": "loss of a token",
    "perplexity": "perplexity of a token",
    "bits_per_byte": "bits per byte",
    "word_perplexity": "perplexity of a word (line ends counted)",
}


def evaluate(folder: Path, options: EvaluateOptions, console: Console) -> dict[str, Any]:
    """`stride` 0 is half a context. A context longer than the trained one may have its rotary positions
    scaled. Documents part as they did in training; for a folder of Hugging Face's, each file is one."""
    options.only("files", "text", "stride", "context", "scaling", "encoding", "separator")
    files, stride = [*options.files, *options.text], options.stride
    context, scaling = options.context, options.scaling
    if not files:
        raise ConfigError("a language model is measured on plain text: give a FILE of it")
    checkpoint = open_language(folder)
    tokenizer = require_tokenizer(checkpoint, folder)
    data, how = _settings(folder, files)
    size = _context(context, checkpoint.longest, checkpoint.config.positions.kind)
    step = stride or max(size // 2, 1)
    if not 1 <= step <= size:
        raise ValueError(f"stride={stride} must be from 1 to the context, {size} tokens, or 0 for half of it")
    place = find_device(options.device)
    config = _scaled(checkpoint.config, scaling, size, checkpoint.longest)
    model: Decoder = built(checkpoint, folder, config, spent=True).to(place).eval()
    data = replace(data, train=tuple(map(str, files)), root="", **text_options(options))
    corpus = DocumentCorpus(data, Path(), blank=True)
    rows = list(stream_rows(corpus.whole(), tokenizer, Ends.of(tokenizer, checkpoint.conventions)))
    ids = np.array([id for row in rows for id in row["ids"]], dtype=np.int64)
    if len(ids) < 2:
        raise DataError(Origin(str(files[0])), "no text to measure on", remedy="name files that have some")
    lengths = np.bincount([row["document"] for row in rows], weights=[len(row["ids"]) for row in rows])
    bounds = np.array([0, len(ids)]) if how.across else np.cumsum([0, *lengths.astype(np.int64)])
    windows = Windows.of(np.unique(bounds), size, step)
    with counting("tokens", total=int(windows.scored.sum())) as advance:
        total, tokens = nll(model, ids, windows, bfloat16=place.startswith("cuda"), progress=advance)
    found: dict[str, Any] = {
        "tokens": tokens,
        **figures(
            total, tokens, size=sum(row["bytes"] for row in rows), words=sum(row["words"] for row in rows)
        ),
        "context": size,
        "stride": step,
    }
    say(console, f"{tokens:,} tokens, read in windows of {size} that move on by {step}")
    for name, words in SAID.items():
        say(console, f"{words}: {found[name]:.4f}")
    return found


def _settings(folder: Path, files: Sequence[Path]) -> tuple[DocumentsConfig, ContextConfig]:
    """As the model was trained."""
    if is_foreign(folder) or not (folder / "recipe.toml").exists():
        return DocumentsConfig(train=tuple(map(str, files)), documents="file"), ContextConfig()
    recipe = read_recipe(own_recipe(folder), lambda task: RECIPE).checked
    return replace(recipe.data, valid=(), hold_out=0), recipe.context


def _scaled(config: DecoderConfig, scaling: Scaling, size: int, trained: int) -> DecoderConfig:
    if scaling == "none":
        return config
    if size <= trained:
        raise ValueError(
            f"scaling={scaling!r} is for contexts longer than the trained one, {trained} tokens: give such a "
            "context"
        )
    positions = replace(config.positions, scaling=scaling, factor=size / trained, trained=trained)
    return replace(config, positions=positions)


def _context(wanted: int, longest: int, kind: str) -> int:
    if wanted < 0 or wanted == 1:
        raise ValueError(f"context={wanted} must be 2 or more, or 0 for all that the model reads")
    if kind == "learned" and wanted > longest:
        raise ValueError(
            f"context={wanted}, but this model's learned positions reach {longest}: choose that at most"
        )
    return wanted or longest
