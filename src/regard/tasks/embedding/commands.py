"""What embedding's command does: embed."""

from pathlib import Path

import numpy as np
from rich.console import Console

from regard.config import ConfigError
from regard.tasks.base.faster import Precision
from regard.tasks.base.lines import incoming
from regard.tasks.base.reading import TooLong
from regard.tasks.base.terminal import counting, say
from regard.tasks.base.vectors import save_vectors, texts_path
from regard.tasks.embedding.embedder import PoolKind, open_embedder


def embed(
    model: Path,
    file: str,
    out: Path,
    *,
    pool: PoolKind | None = None,
    normalised: bool | None = None,
    layer: int | None = None,
    words: bool = False,
    too_long: TooLong = "cut",
    device: str = "auto",
    precision: Precision | None = None,
    console: Console,
) -> None:
    """A vector for each line, as a NumPy file; or for each word, and beside it which: line, tab, word."""
    texts = list(incoming(file))
    embedder = open_embedder(model, device=device, precision=precision)
    if words:
        if pool is not None or normalised is not None or too_long == "windows":
            raise ConfigError(
                "--words: a word is the mean of its tokens, as they are; only --layer goes with it"
            )
        found = embedder.words(texts, layers=[-1 if layer is None else layer], too_long=too_long)
        names = [f"{line}\t{word}" for line, each in enumerate(found, start=1) for word in each.words]
        vectors = np.concatenate([each.vectors[0] for each in found])
        save_vectors(out, vectors, names)
        say(console, f"{out}: {len(names):,} words; which they are is in {texts_path(out)}")
        return
    with counting("lines", total=len(texts)) as advance:
        vectors = embedder.embed(
            texts, pool=pool, normalised=normalised, layer=layer, too_long=too_long, progress=advance
        )
    save_vectors(out, vectors)
    rows, width = vectors.shape
    say(console, f"{out}: {rows:,} vectors of {width} numbers")
