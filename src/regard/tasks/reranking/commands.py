"""What reranking's commands do: rerank, evaluate."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.config import ConfigError
from regard.tasks.base.evaluation import labelled_data, own_data, say_figures
from regard.tasks.base.faster import Precision
from regard.tasks.base.formats import AS_NAMED, FileOptions
from regard.tasks.base.reading import TooLong, quietly
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import counting, say
from regard.tasks.base.texts import numbered_texts, on_one_line
from regard.tasks.reranking.data import RankedCorpus
from regard.tasks.reranking.recipe import RECIPE
from regard.tasks.reranking.reranker import open_reranker, ranks_of_first
from regard.tasks.reranking.train import group_scores, measure


def rerank(
    model: Path,
    query: str,
    file: str = "-",
    *,
    top: int | None = None,
    as_json: bool = False,
    too_long: TooLong = "windows",
    precision: Precision | None = None,
    device: str = "auto",
    files: FileOptions = AS_NAMED,
    console: Console,
) -> None:
    """The lines of a file by how well they answer a query; empty ones are no texts."""
    if not query.strip():
        raise ConfigError("the query is empty: say what is looked for")
    if top is not None and top < 1:
        raise ConfigError(f"--top {top}: give 1 or more")
    found_texts = numbered_texts(file, files)
    reranker = open_reranker(model, device=device, precision=precision)
    numbered = [*found_texts]
    with counting("lines", total=len(numbered)) as advance:
        texts = [text for _, text in numbered]
        found = reranker.rerank(query, texts, top=top, too_long=too_long, progress=advance)
    for each in found:
        line = numbered[each.row][0]
        if as_json:
            plain = {"line": line, "text": each.text, "score": each.score}
            say(console, json.dumps(plain, ensure_ascii=False))
        else:
            say(console, f"{each.score:.4f}  {line:>6}  {on_one_line(each.text)}")


def evaluate(model: Path, options: EvaluateOptions, console: Console) -> dict[str, Any]:
    """On queries with positives and negatives, written as those of the training were."""
    if options.queries is not None or options.corpus is not None:
        raise ConfigError(
            f"{model}: a reranker orders what an embedder has found: give that as MODEL, and this as --rerank"
        )
    reranker = open_reranker(model, device=options.device)
    data = labelled_data(model, RECIPE, options)
    records = RankedCorpus(data, Path()).read("valid")
    if not records:
        raise ConfigError(f"{', '.join(map(str, data.valid))}: no queries in it")
    figures = measure(group_scores(reranker, records))
    say_figures(console, figures)
    return {**figures, "queries": len(records)}


def examples(model: Path, device: str) -> tuple[str, list[float]]:
    """Of each validation query, one over the rank of its positive."""
    reranker, data = open_reranker(model, device=device), own_data(model, RECIPE)
    with quietly():
        scores = group_scores(reranker, RankedCorpus(data, Path()).read("valid"))
    return "reciprocal rank", (1 / ranks_of_first(scores)).tolist()
