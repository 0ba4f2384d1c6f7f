"""`regard evaluate MODEL --queries --corpus --qrels`: how well an embedder finds, and how well a reranker
orders what it has found.

    queries -> vectors -> the nearest texts -> (the first of them, by a reranker) -> nDCG, MRR, recall, MAP
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from regard.config import ConfigError
from regard.meaning.nearest import nearest
from regard.tasks.base.formats import JUDGED, only_lines
from regard.tasks.base.predictor import Progress
from regard.tasks.base.ranking import ranking
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import counting, say
from regard.tasks.base.vectors import normalised
from regard.tasks.embedding.embedder import Embedder, open_embedder
from regard.tasks.reranking.reranker import Reranker, open_reranker
from regard.text.judged import Judged, read_judged, write_run

DEPTH = 1000
"""Texts that are found for each query."""
CANDIDATES = 100
"""Of which so many are reranked."""

Found = dict[str, list[tuple[str, float]]]
"""Of each query, by its id: the ids of the texts that were found, and their scores, best first."""


@dataclass(frozen=True, slots=True)
class Retrieval:
    figures: dict[str, dict[str, float]]
    """Of the vectors and, with a reranker, of what it made of them."""
    found: Found
    """The last of these."""


def evaluate(model: Path, options: EvaluateOptions, console: Console) -> dict[str, Any]:
    options.only("queries", "corpus", "qrels", "rerank", "candidates", "dimensions", "run", "encoding")
    if options.queries is None or options.corpus is None or options.qrels is None:
        raise ConfigError(
            "an embedder is measured by what it finds: give --queries, --corpus and --qrels, all three"
        )
    if options.candidates < 0:
        raise ConfigError(f"--candidates {options.candidates}: give 1 or more")
    encoding = options.encoding or "utf-8"
    for path in (options.queries, options.corpus, options.qrels):
        only_lines(path, "tsv", "jsonl", remedy=JUDGED)
    judged = read_judged(options.queries, options.corpus, options.qrels, encoding=encoding)
    embedder = open_embedder(model, device=options.device)
    reranker = None if options.rerank is None else open_reranker(options.rerank, device=options.device)
    with counting("texts", total=len(judged.queries) + len(judged.corpus)) as advance:
        found = find(embedder, judged, dimensions=options.dimensions, progress=advance)
    candidates = options.candidates or CANDIDATES
    with counting("pairs") as advance:
        done = measure(judged, found, reranker, candidates=candidates, progress=advance)
    if options.run is not None:
        write_run(options.run, done.found)
    say(console, f"{len(judged.queries):,} queries, {len(judged.corpus):,} texts")
    if judged.unasked:
        say(console, f"queries without a relevant text, left out: {judged.unasked:,}")
    if judged.own:
        say(console, f"texts with the id of a query, which it does not find (as in BEIR): {judged.own:,}")
    if judged.unknown:
        say(
            console,
            f"relevant texts that are not in the corpus, so that nobody finds them: {judged.unknown:,}",
        )
    console.print(_table(done.figures))
    last = done.figures[[*done.figures][-1]]
    extra = done.figures if len(done.figures) > 1 else {}
    return {**last, **extra, "queries": len(judged.queries), "texts": len(judged.corpus)}


def find(
    embedder: Embedder,
    judged: Judged,
    *,
    depth: int = DEPTH,
    dimensions: int | None = None,
    progress: Progress | None = None,
) -> Found:
    """The nearest texts of each query, with the model's prompts before both; a text with the query's own id
    is none of them (`Judged.is_own`)."""
    embedder.check_cosine()
    ids = [*judged.corpus]
    how: Any = {"dimensions": dimensions, "progress": progress}
    asked, searched = (embedder.prompt_of(side) for side in ("query", "passage"))
    corpus = normalised(embedder.embed([*judged.corpus.values()], prompt=searched, **how))
    queries = normalised(embedder.embed([*judged.queries.values()], prompt=asked, **how))
    rows, scores = nearest(queries, corpus, min(depth + 1, len(corpus)))
    found: Found = {}
    for query, own, each in zip(judged.queries, rows.tolist(), scores.tolist(), strict=True):
        hits = [(ids[row], score) for row, score in zip(own, each, strict=True)]
        found[query] = _in_order(hit for hit in hits if not judged.is_own(query, hit[0]))[:depth]
    return found


def _in_order(hits: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """As trec_eval has them: by the score in single precision; of the same, by the id, backwards."""
    return sorted(
        sorted(hits, key=lambda hit: hit[0], reverse=True),
        key=lambda hit: float(np.float32(hit[1])),
        reverse=True,
    )


def measure(
    judged: Judged,
    found: Found,
    reranker: Reranker | None = None,
    *,
    candidates: int = CANDIDATES,
    progress: Progress | None = None,
) -> Retrieval:
    figures = {"vectors": ranking(_ids(found), judged.judgements)}
    if reranker is not None:
        found = reordered(judged, found, reranker, candidates=candidates, progress=progress)
        figures["reranked"] = ranking(_ids(found), judged.judgements)
    return Retrieval(figures, found)


def reordered(
    judged: Judged,
    found: Found,
    reranker: Reranker,
    *,
    candidates: int = CANDIDATES,
    progress: Progress | None = None,
) -> Found:
    """The first candidates of each query by the reranker; the others stay behind them, as they were."""
    result: Found = {}
    for query, hits in found.items():
        head, rest = hits[:candidates], hits[candidates:]
        texts = [judged.corpus[text] for text, _ in head]
        raw = reranker.scores([judged.queries[query]] * len(head), texts, raw=True, progress=progress)
        best = _in_order((text, float(score)) for (text, _), score in zip(head, raw, strict=True))
        below = (best[-1][1] if best else 0.0) - 1
        result[query] = [*best, *((text, below - place) for place, (text, _) in enumerate(rest))]
    return result


def _ids(found: Found) -> dict[str, list[str]]:
    return {query: [text for text, _ in hits] for query, hits in found.items()}


def _table(figures: dict[str, dict[str, float]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    names: Sequence[str] = [*next(iter(figures.values()))]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for which, own in figures.items():
        table.add_row(which, *(f"{own[name]:.4f}" for name in names))
    return table
