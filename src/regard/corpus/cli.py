"""`regard corpus`: many files through a model. Imports no torch."""

from collections.abc import Callable
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.tasks.base.options import (
    DECODING,
    FILES,
    Device,
    Dimensions,
    Precision,
    To,
    TooLong,
    command,
    there,
)

corpus_app = typer.Typer(
    help="Corpora: embed, translate, classify, tag or answer very many texts, shard by shard.",
    no_args_is_help=True,
)

In = Annotated[
    list[str],
    typer.Argument(
        metavar="IN...", help="Files, folders, globs, or addresses of fsspec (s3://...); may be compressed."
    ),
]
Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder for the shards and their manifest.")]
Model = Annotated[Path, typer.Option("--model", help="A model folder.", callback=there)]


def _shared(
    to_format: Annotated[
        Literal["npy", "text", "jsonl", "parquet"] | None,
        typer.Option("--write", help="What shards are; unless given, what suits the task."),
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="The column of the ids; unless given, they are FILE:LINE.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="A column that is written beside the results; may be repeated."),
    ] = None,
    shard_tokens: Annotated[
        int, typer.Option("--shard-tokens", help="About so many tokens are a shard, at 4 bytes each.")
    ] = 500_000,
    engine: Annotated[
        Literal["auto", "local", "ray"],
        typer.Option("--engine", help="local: processes of this machine; auto: ray where --ray is given."),
    ] = "auto",
    workers: Annotated[
        int | None,
        typer.Option("--workers", help="Processes with a model each; unless given, one, or one a GPU."),
    ] = None,
    ray: Annotated[
        str | None, typer.Option("--ray", help="The address of a Ray cluster; unless given, one is started.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start anew where other input, or another model, has been.")
    ] = False,
    precision: Precision = None,
    device: Device = "auto",
) -> None: ...


def corpus_command(declared: Callable[..., None]) -> Callable[..., None]:
    """A command of this list: with IN, OUT, --model, its own options, and those that all of them have."""
    own = signature(declared, eval_str=True).parameters.values()
    shared = signature(_shared, eval_str=True).parameters.values()
    first = [
        Parameter("inputs", Parameter.KEYWORD_ONLY, annotation=In),
        Parameter("folder", Parameter.KEYWORD_ONLY, annotation=Out),
        Parameter("model", Parameter.KEYWORD_ONLY, annotation=Model),
    ]
    every = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*first, *own, *shared)]

    def stub(**given: Any) -> None: ...

    stub.__signature__ = signature(stub).replace(parameters=every)  # type: ignore[attr-defined]
    stub.__name__, stub.__doc__, stub.__module__ = declared.__name__, declared.__doc__, declared.__module__
    return stub


@corpus_app.command()
@command("regard.corpus.commands", files=FILES)
@corpus_command
def embed(
    pool: Annotated[
        Literal["first", "mean", "max"] | None,
        typer.Option("--pool", help="How a text becomes one vector; unless given, as the model has it."),
    ] = None,
    normalised: Annotated[
        bool | None,
        typer.Option("--normalised/--raw", help="Vectors of length 1, or not; else the model's way."),
    ] = None,
    layer: Annotated[
        int | None, typer.Option("--layer", help="Of which layer; 0 is the embedding, -1 the last.")
    ] = None,
    dimensions: Dimensions = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            help="Which of the model's prompts stands before each text; unless given, its default.",
        ),
    ] = None,
    too_long: TooLong = "cut",
) -> None:
    """Vectors of a corpus: what regard embed gives, in shards (.npy, Parquet or JSONL)."""


@corpus_app.command()
@command("regard.corpus.commands", decoding=DECODING, files=FILES)
@corpus_command
def translate(
    to: To = None,
    source_language: Annotated[
        str | None, typer.Option("--from", help="Source language of a model that is told it, as NLLB is.")
    ] = None,
    too_long: Annotated[
        Literal["split", "warn", "error"],
        typer.Option("--too-long", help="Lines past the model's length: split, warn, or bad records."),
    ] = "split",
    split: Annotated[
        Literal["auto", "always", "never"],
        typer.Option("--split", help="Lines of several sentences, one by one."),
    ] = "auto",
    glossary: Annotated[
        Path | None, typer.Option("--glossary", help="Terms that must become what it says.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Columns score and confidence.")] = False,
    flags: Annotated[
        bool, typer.Option("--flags", help="A column of what somebody should look at; counted, too.")
    ] = False,
    greedy: Annotated[bool, typer.Option("--greedy", help="The likeliest token each time.")] = False,
) -> None:
    """Translate a corpus: line by line what regard translate gives, in shards (text, JSONL or Parquet)."""


@corpus_app.command()
@command("regard.corpus.commands", files=(*FILES, "second"))
@corpus_command
def classify(
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A column with all labels' probabilities.")
    ] = False,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Of so many labels only.")] = None,
    min_probability: Annotated[
        float | None, typer.Option("--min-probability", help="Labels that are less likely are left out.")
    ] = None,
    too_long: TooLong = "cut",
) -> None:
    """Labels of a corpus, in shards (JSONL, Parquet or text)."""


@corpus_app.command()
@command("regard.corpus.commands", files=FILES)
@corpus_command
def tag() -> None:
    """Tags of the words of a corpus, in shards (JSONL or Parquet)."""


@corpus_app.command()
@command("regard.corpus.commands", files=(*FILES, "second"))
@corpus_command
def answer(
    n_best: Annotated[int, typer.Option("--n-best", help="Answers for each question.")] = 1,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="How much better no answer must score; unless given, as learned."),
    ] = None,
) -> None:
    """Answers to questions, each about a text of its own, in shards (JSONL or Parquet)."""


Kind = Annotated[
    Literal["auto", "exact", "faiss", "ivfpq"],
    typer.Option("--kind", help="How neighbours are found; auto: exactly, up to 100,000 vectors."),
]


@corpus_app.command()
@command("regard.corpus.commands")
def mine(
    sources: Annotated[Path, typer.Argument(help="A folder of regard corpus embed.")],
    targets: Annotated[Path, typer.Argument(help="Another, of the other language, by the same model.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Score, source and target, tabs between them.")],
    threshold: Annotated[
        float, typer.Option("--threshold", help="Pairs of a smaller margin are left out.")
    ] = 1.06,
    neighbours: Annotated[
        int, typer.Option("--neighbours", help="That a pair's nearness is compared with.")
    ] = 4,
    kind: Kind = "auto",
) -> None:
    """Parallel sentences of two corpora, by the margin of their vectors, best first."""


@corpus_app.command()
@command("regard.corpus.commands")
def dedupe(
    vectors: Annotated[Path, typer.Argument(help="A folder of regard corpus embed.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The texts that stay: lines, or .jsonl.")],
    threshold: Annotated[
        float, typer.Option("--threshold", help="The cosine from which two records are duplicates.")
    ] = 0.95,
    kind: Kind = "auto",
) -> None:
    """A corpus without near-duplicates: of each group of them, the first stays."""
