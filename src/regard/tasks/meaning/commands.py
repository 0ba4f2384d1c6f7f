"""What the commands of meaning do at the prompt: embed, search, cluster, context."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from regard.config import ConfigError
from regard.data import fingerprint
from regard.tasks.encoders.embedder import PoolKind
from regard.tasks.encoders.reading import TooLong
from regard.tasks.faster import Precision
from regard.tasks.lines import incoming
from regard.tasks.load import load_embedder
from regard.tasks.meaning import cluster as clustering
from regard.tasks.meaning import describe
from regard.tasks.meaning.context import render as render_context
from regard.tasks.meaning.context import word_in_context
from regard.tasks.meaning.index import Index, Wanted
from regard.tasks.meaning.vectors import save_vectors, texts_path
from regard.tasks.terminal import counting, say
from regard.text import DataError, Origin


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
    embedder = load_embedder(model, device=device, precision=precision)
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


def search(
    model: Path,
    corpus: Path,
    queries: Sequence[str],
    *,
    top: int,
    kind: Wanted,
    index: Path | None,
    device: str,
    precision: Precision | None = None,
    as_json: bool,
    console: Console,
) -> None:
    """The lines of a corpus that mean what a query means. The index is kept beside the corpus, and used again
    while both the corpus and the model stay the same, and whether it is in int8."""
    embedder = load_embedder(model, device=device, precision=precision)
    folder = index or corpus.with_name(f"{corpus.name}.index")

    def build() -> Index:
        texts = [text for text in incoming(str(corpus)) if text.strip()]
        if not texts:
            raise DataError(Origin(str(corpus)), "no text to search", remedy="give a file with a text a line")
        with counting("lines", total=len(texts)) as advance:
            return Index.build(texts, embedder.embed(texts, progress=advance), kind=kind)

    made = f"{kind} int8" if precision == "int8" else kind
    wanted = fingerprint([corpus, *_model_files(model)], made)
    found = Index.open_or_build(folder, wanted, build)
    for query, hits in zip(queries, found.search(embedder.embed(list(queries)), top), strict=True):
        if as_json:
            plain = {"query": query, "hits": [hit._asdict() for hit in hits]}
            say(console, json.dumps(plain, ensure_ascii=False))
            continue
        if len(queries) > 1:
            say(console, f"\n{query}")
        for hit in hits:
            line = f"{hit.score:.4f}  {hit.row + 1:>6}  {hit.text}"
            say(console, line)
    Console(stderr=True).print(
        f"{len(found):,} texts, {found.kind}: {found.why}", highlight=False, soft_wrap=True
    )


def _model_files(model: Path) -> list[Path]:
    return [path for name in ("config.json", "model.safetensors") if (path := model / name).exists()]


def cluster(
    model: Path,
    file: str,
    *,
    clusters: int | None,
    threshold: float | None,
    smallest: int,
    examples: int,
    seed: int,
    device: str,
    as_json: bool,
    console: Console,
) -> None:
    """Texts that mean alike: so many groups (k-means), or all that are nearer than a threshold."""
    if clusters is not None and threshold is not None:
        raise ConfigError("--clusters and --threshold: give one of the two")
    texts = [text for text in incoming(file) if text.strip()]
    embedder = load_embedder(model, device=device)
    with counting("lines", total=len(texts)) as advance:
        vectors = embedder.embed(texts, progress=advance)
    found = (
        clustering.kmeans(vectors, clusters, seed)
        if threshold is None
        else clustering.communities(vectors, threshold, smallest)
    )
    if as_json:
        numbers = found.numbers()
        for text, number in zip(texts, numbers, strict=True):
            line = json.dumps({"cluster": number, "text": text}, ensure_ascii=False)
            say(console, line)
        return
    describe.render(found, texts, console, examples)


def context(model: Path, word: str, sentences: Sequence[str], *, device: str, console: Console) -> None:
    """How far a word's vectors move between sentences, layer by layer."""
    embedder = load_embedder(model, device=device, precision="float32")
    render_context(word_in_context(embedder, word, sentences), console)
