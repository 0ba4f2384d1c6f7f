"""What the commands of meaning do at the prompt: search, cluster, context."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from regard.config import ConfigError
from regard.data import fingerprint
from regard.meaning import cluster as clustering
from regard.meaning import describe
from regard.meaning.context import render as render_context
from regard.meaning.context import word_in_context
from regard.meaning.index import Index, Wanted
from regard.tasks.base.faster import Precision
from regard.tasks.base.lines import incoming
from regard.tasks.base.terminal import counting, say
from regard.tasks.embedding.embedder import open_embedder
from regard.text import DataError, Origin


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
    embedder = open_embedder(model, device=device, precision=precision)
    folder = index or corpus.with_name(f"{corpus.name}.index")

    def build() -> Index:
        texts = [text for text in incoming(str(corpus)) if text.strip()]
        if not texts:
            raise DataError(Origin(str(corpus)), "no text to search", remedy="give a file with a text a line")
        with counting("lines", total=len(texts)) as advance:
            return Index.build(texts, embedder.embed(texts, progress=advance), kind=kind)

    made = f"{kind} int8" if precision == "int8" else kind
    files = [path for name in ("config.json", "model.safetensors") if (path := model / name).exists()]
    wanted = fingerprint([corpus, *files], made)
    found = Index.open_or_build(folder, wanted, build)
    for query, hits in zip(queries, found.search(embedder.embed(list(queries)), top), strict=True):
        if as_json:
            plain = {"query": query, "hits": [hit._asdict() for hit in hits]}
            say(console, json.dumps(plain, ensure_ascii=False))
            continue
        if len(queries) > 1:
            say(console, f"\n{query}")
        for hit in hits:
            say(console, f"{hit.score:.4f}  {hit.row + 1:>6}  {hit.text}")
    say(Console(stderr=True), f"{len(found):,} texts, {found.kind}: {found.why}")


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
    embedder = open_embedder(model, device=device)
    with counting("lines", total=len(texts)) as advance:
        vectors = embedder.embed(texts, progress=advance)
    found = (
        clustering.kmeans(vectors, clusters, seed)
        if threshold is None
        else clustering.communities(vectors, threshold, smallest)
    )
    if as_json:
        for text, number in zip(texts, found.numbers(), strict=True):
            say(console, json.dumps({"cluster": number, "text": text}, ensure_ascii=False))
        return
    describe.render(found, texts, console, examples)


def context(model: Path, word: str, sentences: Sequence[str], *, device: str, console: Console) -> None:
    """How far a word's vectors move between sentences, layer by layer."""
    embedder = open_embedder(model, device=device, precision="float32")
    render_context(word_in_context(embedder, word, sentences), console)
