"""What embedding's command does: embed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

import numpy as np
from rich.console import Console

from regard.config import ConfigError
from regard.tasks.base.faster import Precision
from regard.tasks.base.formats import AS_NAMED, TABLES, FileOptions, ending
from regard.tasks.base.outputs import Assignment, Inputs, assign, do_each, is_stream
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import TooLong
from regard.tasks.base.sources import Source
from regard.tasks.base.tables import Texts, Wanted, annotate
from regard.tasks.base.terminal import counting, say
from regard.tasks.base.vectors import save_vectors, texts_path
from regard.tasks.embedding.embedder import Embedder, PoolKind, open_embedder


def embed(
    model: Path,
    inputs: Inputs = None,
    out: Path | str | None = None,
    *,
    files: FileOptions = AS_NAMED,
    prompt: str | None = None,
    pool: PoolKind | None = None,
    normalised: bool | None = None,
    layer: int | None = None,
    dimensions: int | None = None,
    words: bool = False,
    too_long: TooLong = "cut",
    device: str = "auto",
    precision: Precision | None = None,
    console: Console,
) -> None:
    """A vector for each line, or for each row of a table, as a NumPy file; in a table, as one more column. Or
    a vector for each word, and beside it which: line, tab, word."""
    given = assign(inputs, None if out is None else str(out), files, as_json=True, behind=".npy")
    for each in given:
        if each.target is not None and ending(each.target) not in TABLES and is_stream(each.target):
            raise ConfigError(f"--out {each.target}: vectors are written to a file; give --out NAME.npy")
    others = (pool, prompt or None, normalised, dimensions)
    if words and (others != (None, None, None, None) or too_long == "windows"):
        raise ConfigError("--words: a word is the mean of its tokens, as they are; only --layer goes with it")
    embedder = open_embedder(model, device=device, precision=precision)
    how: dict[str, Any] = {"pool": pool, "normalised": normalised, "layer": layer, "too_long": too_long}
    read: Any = partial(embedder.embed, prompt=prompt, dimensions=dimensions, **how)

    def work(each: Assignment) -> None:
        if words:
            _embed_words(embedder, each, -1 if layer is None else layer, too_long, console)
        elif each.target is None or ending(each.target) in TABLES:
            with each.opened(cast(TextIO, console.file)) as page, counting("lines", beside=page) as advance:
                _embed_table(each, page, read, advance)
        else:
            texts = _texts(each.source)
            with counting("lines", total=len(texts)) as advance:
                vectors = read(texts, progress=advance)
            save_vectors(each.target, vectors)
            rows, width = vectors.shape
            say(console, f"{each.target}: {rows:,} vectors of {width} numbers")

    do_each(given, work)


def _texts(source: Source) -> list[str]:
    rows = source.rows()
    column = Texts(Wanted(source.options.column), rows, source)
    return [column.of(record) for record in rows.records]


def _embed_table(
    each: Assignment, out: TextIO, read: Callable[[list[str]], np.ndarray], progress: Progress | None
) -> None:
    def work(texts: list[str]) -> list[list[object]]:
        # the shortest numbers that are the same in float32
        return [[[float(str(value)) for value in row]] for row in read(texts)]

    wanted = [Wanted(each.source.options.column)]
    annotate(each.source, out, each.format, added=["vector"], wanted=wanted, work=work, progress=progress)


def _embed_words(
    embedder: Embedder, each: Assignment, layer: int, too_long: TooLong, console: Console
) -> None:
    if each.target is None or ending(each.target) in TABLES:
        raise ConfigError("--words: vectors of words are a NumPy file; give --out NAME.npy")
    found = embedder.words(_texts(each.source), layers=[layer], too_long=too_long)
    names = [f"{line}\t{word}" for line, own in enumerate(found, start=1) for word in own.words]
    save_vectors(each.target, np.concatenate([own.vectors[0] for own in found]), names)
    say(console, f"{each.target}: {len(names):,} words; which they are is in {texts_path(each.target)}")
