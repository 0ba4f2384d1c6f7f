"""`regard answer`, `search`, `cluster` and `context`. Imports no torch."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.tasks.base.options import (
    FILES,
    Device,
    Dimensions,
    Into,
    Json,
    JsonLines,
    Layer,
    Lines,
    Model,
    Precision,
    Words,
    command,
)


@command("regard.meaning.commands", files=FILES)
def search(
    model: Model,
    corpus: Annotated[
        Path, typer.Argument(help="A text a line, or a table; or a folder of regard corpus embed.")
    ],
    queries: Annotated[list[str], typer.Argument(help="What is looked for.")],
    top: Annotated[int, typer.Option("--top", help="Hits for each query.")] = 5,
    kind: Annotated[
        Literal["auto", "exact", "faiss", "ivfpq"],
        typer.Option("--kind", help="auto: faiss where it pays; ivfpq: of a folder, the smallest."),
    ] = "auto",
    index: Annotated[
        Path | None, typer.Option("--index", help="Where the index is kept; unless given, beside the corpus.")
    ] = None,
    rerank: Annotated[
        Path | None, typer.Option("--rerank", help="A reranker that orders what the vectors have found.")
    ] = None,
    candidates: Annotated[
        int, typer.Option("--candidates", help="With --rerank: texts that are found for it.")
    ] = 50,
    dimensions: Dimensions = None,
    words: Words = False,
    layer: Layer = -1,
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            help="Which of the model's prompts stands before a query; '' for none. Unless given, query.",
        ),
    ] = None,
    passage_prompt: Annotated[
        str | None,
        typer.Option(
            "--passage-prompt",
            help="The same before the texts. Unless given, document, passage or corpus: whichever there is.",
        ),
    ] = None,
    as_json: Json = False,
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Find the texts that mean what a query means; with --words, words: "the *bank* of the river"."""


@command("regard.meaning.mining", files=("encoding", "separator"))
def mine_negatives(
    model: Model,
    out_file: Annotated[Path, typer.Option("--out", help="JSON lines: query, positive, negatives, scores.")],
    pairs: Annotated[
        Path | None, typer.Option("--pairs", help="A table of queries and texts that answer them.")
    ] = None,
    query_column: Annotated[
        str, typer.Option("--query-column", help="Of --pairs: a name, or a number from 0.")
    ] = "query",
    positive_column: Annotated[
        str, typer.Option("--positive-column", help="Of the texts that answer, likewise.")
    ] = "positive",
    queries: Annotated[
        Path | None, typer.Option("--queries", help="Instead of --pairs, with --qrels: BEIR's or TREC's.")
    ] = None,
    qrels: Annotated[Path | None, typer.Option("--qrels", help="Which text answers which query.")] = None,
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", help="What is searched: BEIR's JSON lines, id and text, or a text a line."),
    ] = None,
    negatives: Annotated[int, typer.Option("--negatives", help="For each query.")] = 7,
    skip: Annotated[
        int, typer.Option("--skip", help="Pass over so many of the nearest: they may be answers too.")
    ] = 0,
    among: Annotated[int, typer.Option("--among", help="Look at so many of the nearest.")] = 100,
    margin: Annotated[
        float | None, typer.Option("--margin", help="Negatives score so much less than the positive.")
    ] = None,
    relative: Annotated[
        float | None, typer.Option("--relative-margin", help="The same as a share of its score: 0.05.")
    ] = None,
    choose: Annotated[
        Literal["first", "any"], typer.Option("--choose", help="The hardest, or any, by --seed.")
    ] = "first",
    seed: Annotated[int, typer.Option("--seed", help="Of --choose any.")] = 0,
    rerank: Annotated[
        Path | None, typer.Option("--rerank", help="A reranker whose scores are compared, and written.")
    ] = None,
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Find texts that are near a query and do not answer it, to train a reranker or an embedder with."""


@command("regard.meaning.commands", files=FILES)
def cluster(
    model: Model,
    file: Lines,
    clusters: Annotated[int | None, typer.Option("--clusters", help="How many groups (k-means).")] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Instead: groups of texts at least so near, 0 to 1.")
    ] = None,
    smallest: Annotated[int, typer.Option("--smallest", help="With --threshold: texts in a group.")] = 2,
    examples: Annotated[int, typer.Option("--examples", help="Shown for each group.")] = 3,
    seed: Annotated[int, typer.Option("--seed", help="Of k-means.")] = 0,
    words: Words = False,
    word: Annotated[str, typer.Option("--word", help="With --words: this one alone, by its senses.")] = "",
    layer: Layer = -1,
    as_json: Annotated[bool, typer.Option("--json", help="One object a line, with its group.")] = False,
    device: Device = "auto",
) -> None:
    """Group texts, or words, by what they mean."""


@command("regard.meaning.commands")
def context(
    model: Model,
    word: Annotated[str, typer.Argument(help="A word that all the sentences have.")],
    sentences: Annotated[list[str], typer.Argument(help="Two or more.")],
    others: Annotated[
        list[str] | None, typer.Option("--with", help="Another word: how near is it? May be repeated.")
    ] = None,
    device: Device = "auto",
) -> None:
    """How far a word's vectors move from one sentence to another, layer by layer."""


@command("regard.meaning.answers", files=(*FILES, "second"))
def answer(
    model: Model,
    questions: Annotated[list[str] | None, typer.Argument(help="What is asked.")] = None,
    context: Annotated[
        str | None, typer.Option("--context", help="The file that is asked about; - for standard input.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--questions",
            help="One a line, or a table, with --context or --corpus; else SQuAD's JSON, or a table that has "
            "contexts too.",
        ),
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option("--corpus", help="A text a line: it is searched first, then read.")
    ] = None,
    embedder: Annotated[
        Path | None, typer.Option("--embedder", help="With --corpus: the model that searches.")
    ] = None,
    top: Annotated[int, typer.Option("--top", help="With --corpus: texts that are read.")] = 10,
    n_best: Annotated[int, typer.Option("--n-best", help="Answers shown for each question.")] = 1,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="How much better no answer must score; unless given, as learned."),
    ] = None,
    as_json: JsonLines = False,
    into: Into = None,
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Answer questions with stretches of a text."""


COMMANDS = (answer, search, mine_negatives, cluster, context)
