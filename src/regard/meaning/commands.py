"""What the commands of meaning do at the prompt: search, cluster, context."""

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from regard.config import ConfigError
from regard.meaning import cluster as clustering
from regard.meaning import describe
from regard.meaning import words as word_level
from regard.meaning.context import render as render_context
from regard.meaning.context import word_in_context
from regard.meaning.corpus import open_corpus
from regard.meaning.index import Wanted
from regard.tasks.base.faster import Precision
from regard.tasks.base.formats import AS_NAMED, FileOptions
from regard.tasks.base.terminal import counting, say
from regard.tasks.base.texts import numbered_texts, on_one_line
from regard.tasks.embedding.embedder import open_embedder
from regard.tasks.reranking.reranker import open_reranker


def search(
    model: Path,
    corpus: Path,
    queries: Sequence[str],
    *,
    top: int,
    kind: Wanted | Literal["ivfpq"],
    index: Path | None,
    rerank: Path | None = None,
    candidates: int = 50,
    dimensions: int | None = None,
    device: str,
    precision: Precision | None = None,
    words: bool = False,
    layer: int = -1,
    prompt: str | None = None,
    passage_prompt: str | None = None,
    as_json: bool,
    console: Console,
    files: FileOptions = AS_NAMED,
) -> None:
    """The lines of a corpus that mean what a query means, in order by a reranker, if one is given; with
    `words`, its words."""
    if words and (rerank is not None or dimensions is not None):
        raise ConfigError("--rerank and --dimensions are for texts: leave them out with --words")
    if candidates < 1:
        raise ConfigError(f"--candidates {candidates}: give 1 or more")
    if words:
        word_level.search_words(
            model, corpus, queries, top=top, layer=layer, device=device, as_json=as_json, console=console,
            files=files,
        )  # fmt: skip
        return
    if corpus.is_dir():  # of shards, by regard.corpus, which stands above
        in_shards = import_module("regard.corpus.search").search
        if passage_prompt is not None:
            raise ConfigError(
                "--passage-prompt: a folder of vectors has its prompt, regard corpus embed --prompt"
            )
        if dimensions is not None:
            raise ConfigError(
                "--dimensions: the vectors of a folder are compared as they are; leave it out, or give it to "
                "regard corpus embed"
            )
        if files != AS_NAMED:
            raise ConfigError("a folder of vectors knows its texts: leave out how files are read")
        if index is not None:
            raise ConfigError("--index: a folder of vectors keeps its own; leave it out")
        how: Any = {"device": device, "precision": precision, "as_json": as_json, "console": console}
        in_shards(
            model, corpus, queries, top=top, kind=kind, prompt=prompt, rerank=rerank, candidates=candidates,
            **how,
        )  # fmt: skip
        return
    if kind == "ivfpq":
        raise ConfigError(f"--kind ivfpq is for a folder of regard corpus embed, but {corpus} is a file")
    found = open_corpus(
        model, corpus, kind=kind, index=index, device=device, precision=precision, files=files,
        prompt=prompt, passage_prompt=passage_prompt, dimensions=dimensions,
    )  # fmt: skip
    reranker = None if rerank is None else open_reranker(rerank, device=device, precision=precision)
    every = found.search(queries, top, reranker=reranker, candidates=candidates)
    for query, hits in zip(queries, every, strict=True):
        if as_json:
            plain = [{**hit._asdict(), "line": found.lines[hit.row]} for hit in hits]
            say(console, json.dumps({"query": query, "hits": plain}, ensure_ascii=False))
            continue
        if len(queries) > 1:
            say(console, f"\n{query}")
        for hit in hits:
            say(console, f"{hit.score:.4f}  {found.lines[hit.row]:>6}  {on_one_line(hit.text)}")
    say(Console(stderr=True), f"{len(found.index):,} texts, {found.index.kind}: {found.index.why}")


def cluster(
    model: Path,
    file: str,
    *,
    clusters: int | None,
    threshold: float | None,
    smallest: int,
    examples: int,
    seed: int,
    words: bool = False,
    word: str = "",
    layer: int = -1,
    device: str,
    as_json: bool,
    console: Console,
    files: FileOptions = AS_NAMED,
) -> None:
    """Texts that mean alike: so many groups (k-means), or all that are nearer than a threshold; with `words`,
    its words."""
    if clusters is not None and threshold is not None:
        raise ConfigError("--clusters and --threshold: give one of the two")
    if words or word:
        word_level.cluster_words(
            model, file, word=word, clusters=clusters, threshold=threshold, smallest=smallest,
            examples=examples, seed=seed, layer=layer, device=device, as_json=as_json, console=console,
            files=files,
        )  # fmt: skip
        return
    texts = [text for _, text in numbered_texts(file, files)]
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


def context(
    model: Path,
    word: str,
    sentences: Sequence[str],
    *,
    others: Sequence[str] | None = None,
    device: str,
    console: Console,
) -> None:
    """How far a word's vectors move between sentences, layer by layer; and towards which other words."""
    embedder = open_embedder(model, device=device, precision="float32")
    render_context(word_in_context(embedder, word, sentences, others or ()), console)
