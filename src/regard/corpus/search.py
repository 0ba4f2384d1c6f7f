"""`regard search` in a folder of vectors that `regard corpus embed` has written."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from regard.config import ConfigError
from regard.corpus.index import choose, open_index
from regard.corpus.vectors import ShardedVectors, text_of
from regard.tasks.base.faster import Precision
from regard.tasks.base.model_hash import model_hash
from regard.tasks.base.terminal import say
from regard.tasks.base.vectors import normalised
from regard.tasks.embedding.embedder import open_embedder
from regard.tasks.reranking.reranker import open_reranker


def search(
    model: Path,
    folder: Path,
    queries: Sequence[str],
    *,
    top: int,
    kind: str,
    prompt: str | None = None,
    rerank: Path | None = None,
    candidates: int = 50,
    device: str,
    precision: Precision | None,
    as_json: bool,
    console: Console,
) -> None:
    """In order by the vectors or, of so many `candidates`, by a reranker."""
    if top < 1:
        raise ConfigError(f"--top {top}: ask for 1 or more")
    vectors = ShardedVectors(folder)
    if vectors.manifest["model"]["sha256"] != model_hash(model, folder):
        made = vectors.manifest["model"]["folder"]
        raise ConfigError(f"{folder} was made by another model ({made}) than {model}: search with that one")
    told = Console(stderr=True)
    chosen, why = choose(len(vectors), kind)
    index = open_index(vectors, chosen, lambda line: say(told, line))
    own = {**vectors.manifest["settings"]["settings"]}
    for name in ("too_long", "prompt"):
        own.pop(name, None)
    embedder = open_embedder(model, device=device, precision=precision)
    embedder.check_cosine()
    asked = embedder.prompt_of("query") if prompt is None else prompt
    reranker = None if rerank is None else open_reranker(rerank, device=device, precision=precision)
    count = min(top if reranker is None else max(top, candidates), len(vectors))
    rows, cosines = index.search(normalised(embedder.embed([*queries], prompt=asked, **own)), count)
    for query, found, scores in zip(queries, rows.tolist(), cosines.clip(-1, 1).tolist(), strict=True):
        records = vectors.records(found)
        if reranker is not None:
            ranked = reranker.rerank(query, [*map(text_of, records)], top=top)
            found, scores = [found[each.row] for each in ranked], [each.score for each in ranked]
            records = [records[each.row] for each in ranked]
        if as_json:
            hits = [
                {"row": row, "id": record.id, "text": text_of(record), "score": score}
                for row, record, score in zip(found, records, scores, strict=True)
            ]
            say(console, json.dumps({"query": query, "hits": hits}, ensure_ascii=False))
            continue
        if len(queries) > 1:
            say(console, f"\n{query}")
        for record, score in zip(records, scores, strict=True):
            say(console, f"{score:.4f}  {record.id}  {text_of(record)}")
    recall = "" if index.recall is None else f", recall@10 {index.recall:.3f} against the exact search"
    say(told, f"{len(vectors):,} texts, {index.kind}: {why}{recall}")
