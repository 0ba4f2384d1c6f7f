"""Commands for every task: check, train, evaluate, import, export, look, vocabulary, bench. No torch here."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.tasks.base.options import Device, Dimensions, From, Json, Model, To, command

Settings = Annotated[
    list[str] | None, typer.Argument(help="Values on top of the recipe: model.layers=4 data.root=DIR")
]


def check(
    given: Annotated[
        list[str] | None,
        typer.Argument(
            help="A recipe (.toml), or files of text, and values on top: data.label=1; or a model folder."
        ),
    ] = None,
    pairs: Annotated[
        tuple[Path, Path] | None, typer.Option("--pairs", help="Two files, line by line translations.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", help="What files are for: classify, tag, answer, ...; unless given, a guess."),
    ] = None,
    valid: Annotated[
        list[str] | None, typer.Option("--valid", help="Beside files: what is validated on. May be repeated.")
    ] = None,
    test: Annotated[
        list[str] | None, typer.Option("--test", help="Beside files: what is tested on. May be repeated.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Of the files, as Python calls it: cp1252, utf-16, ...")
    ] = None,
    separator: Annotated[
        str | None, typer.Option("--separator", help="Between the cells of tables: ';', or '\\t' for a tab.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Labels are doubted by this model's vectors, not by letters and words."),
    ] = None,
    examples: Annotated[int, typer.Option("--examples", help="Shown for each finding.")] = 3,
    accept: Annotated[
        bool, typer.Option("--accept", help="Of a model folder: take its files for whole as they are now.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
) -> None:
    """Is this text fit to train on, or this model folder whole? Exits with 1 if not."""
    import json

    from rich.console import Console

    from regard.tasks import check as doctor
    from regard.tasks.base.formats import FileOptions

    console = Console(quiet=as_json)
    settings = [each for each in given or [] if "=" in each and not Path(each).exists()]
    names = [each for each in given or [] if each not in settings]
    if len(names) == 1 and not settings and pairs is None and (accept or Path(names[0]).is_dir()):
        files = doctor.check_model(Path(names[0]), accepted=accept, console=console)
        if as_json:
            plain = [{"file": str(each.file), "state": each.state, "why": each.why} for each in files]
            typer.echo(json.dumps(plain, ensure_ascii=False, indent=1))
        raise typer.Exit(1 if any(each.state == "damaged" for each in files) else 0)
    if accept:
        raise typer.BadParameter("--accept is for a model folder: give that alone")
    recipe = names.pop(0) if names and names[0].endswith(".toml") else None
    read: dict[str, Any] = {"encoding": encoding, "separator": separator}
    report = doctor.check(
        recipe,
        settings,
        pairs,
        files=names,
        valid=valid or (),
        test=test or (),
        task=task,
        options=FileOptions(**{name: value for name, value in read.items() if value is not None}),
        model=model,
        device=device,
        examples=examples,
        console=console,
    )
    if as_json:
        typer.echo(json.dumps(report.to_dict(), ensure_ascii=False, indent=1))
    raise typer.Exit(0 if report.ok else 1)


def train(
    recipe: Annotated[str | None, typer.Argument(help="A TOML file; not needed with --resume.")] = None,
    settings: Settings = None,
    out: Annotated[Path, typer.Option("--out", help="The folder that becomes the model.")] = Path(
        "runs/model"
    ),
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out where it stopped.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in --out.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the whole recipe and the expected time; train nothing.")
    ] = False,
    gpus: Annotated[
        int | None,
        typer.Option("--gpus", min=1, help="--dry-run: say what so many GPUs a node would do, by a model."),
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="--gpus: so many nodes of them.")] = 1,
    gpu_memory: Annotated[
        float | None,
        typer.Option("--gpu-memory", min=1, help="--gpus: GB that a process can use of each; otherwise 150."),
    ] = None,
    links: Annotated[
        str | None,
        typer.Option(
            "--links",
            help="--gpus: GB/s of a GPU inside its node, and between nodes; otherwise 450,50.",
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget", min=1, help="--gpus: tokens to learn from, as 20e9; otherwise 20 for each weight."
        ),
    ] = None,
    no_check: Annotated[bool, typer.Option("--no-check", help="Do not look at the text first.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="The same as train.seed=N batch.seed=N.")] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="So many models, seeds 0, 1, ...: how figures spread.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Train a model as a recipe says."""
    from functools import partial

    from regard.tasks.registry import read_recipe

    if gpus is None and (nodes > 1 or any(each is not None for each in (budget, gpu_memory, links))):
        raise typer.BadParameter(
            "--nodes and --budget say what --gpus would do, as do --gpu-memory and --links: give that too"
        )
    if gpus is not None and not dry_run:
        raise typer.BadParameter("--gpus is for --dry-run; to train on several, start regard by torchrun")
    values = [*(settings or []), *([] if seed is None else [f"train.seed={seed}", f"batch.seed={seed}"])]
    if recipe is not None and "=" in recipe:  # with --resume, the first value may stand in the recipe's place
        values.insert(0, recipe)
        recipe = None
    begun = None
    if recipe is not None:
        written = read_recipe(recipe, values)  # a mistake in it is told before torch is imported
        if not (dry_run or resume or seeds):
            from regard.tasks.ahead import begin

            begun = begin(written, out, check=not no_check)

    from regard.tasks import run
    from regard.tasks.seeds import train_seeds

    if dry_run:
        from regard.train.scaling import Cluster

        cluster = None if gpus is None else Cluster(gpus=gpus, nodes=nodes, **_given(gpu_memory, links))
        run.dry_run(recipe, *values, device=device, cluster=cluster, budget=budget)
        return
    if seed is not None and seeds is not None:
        raise typer.BadParameter("--seed and --seeds: give one of the two")
    train_all = partial(run.fit, ahead=begun) if seeds is None else partial(train_seeds, seeds=seeds)
    try:
        outcome = train_all(
            recipe, *values, out=out, resume=resume, overwrite=overwrite, check=not no_check, device=device
        )
    except KeyboardInterrupt:
        typer.echo("stopped before the first step; start again with the same command", err=True)
        raise typer.Exit(130) from None
    finally:
        if begun is not None:
            begun.end()
    if outcome.stopped is not None:
        again = f"regard train --resume --out {shlex.quote(str(out))}"
        if seeds is not None:
            again = f"the same command and --resume (--seeds {seeds})"
        typer.echo(f"stopped at step {outcome.step}; continue with: {again}", err=True)
        raise typer.Exit(128 + outcome.stopped)
    if os.environ.get("RANK", "0") == "0":
        typer.echo(f"trained in {outcome.seconds:.0f} s; the model is in {out}")


def _given(gpu_memory: float | None, links: str | None) -> dict[str, float]:
    """Of GPUs, in bytes."""
    found = {} if gpu_memory is None else {"memory": 1e9 * gpu_memory}
    if links is None:
        return found
    try:
        inside, between = (1e9 * float(each) for each in links.split(","))
    except ValueError:
        inside = between = 0.0
    if not min(inside, between) > 0:
        raise typer.BadParameter(f"--links {links}: give two speeds above 0 with a comma, as in 450,50")
    return {**found, "inside": inside, "between": between}


@command("regard.tasks.evaluate", decoding=("beam", "length_penalty"))
def evaluate(
    model: Annotated[Path, typer.Argument(help="A model folder, or a file of translations.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Labelled text for a classifier, tagger or answerer; text to predict for a language model."
        ),
    ] = None,
    source: Annotated[Path | None, typer.Option("--source", help="What is translated.")] = None,
    references: Annotated[
        list[Path] | None, typer.Option("--reference", help="How it should be; may be repeated.")
    ] = None,
    labelled: Annotated[
        list[Path] | None,
        typer.Option("--labelled", help="The same as FILES, for a classifier, tagger or answerer."),
    ] = None,
    text: Annotated[
        list[Path] | None, typer.Option("--text", help="The same as FILES, for a language model.")
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option("--text-column", help="Of the text, or a tagger's words: a name, or a number from 0."),
    ] = None,
    second_column: Annotated[
        str | None, typer.Option("--second-column", help="Of a classifier's other text, likewise.")
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option("--label-column", help="Of the label, or a tagger's tags; columns are as in training."),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Of the files; unless given, as in training, or UTF-8.")
    ] = None,
    separator: Annotated[
        str | None, typer.Option("--separator", help="Between the cells of tables, likewise.")
    ] = None,
    errors: Annotated[
        Path | None, typer.Option("--errors", help="Write every mistake, to .tsv, .csv or .jsonl.")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", help="Draw how far probabilities can be trusted: .png, .svg, .pdf."),
    ] = None,
    queries: Annotated[
        Path | None, typer.Option("--queries", help="For an embedder: BEIR's JSON lines, or id and text.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option("--corpus", help="For an embedder: the texts that are searched, likewise.")
    ] = None,
    qrels: Annotated[
        Path | None,
        typer.Option("--qrels", help="For an embedder: which text answers which query, BEIR's or TREC's."),
    ] = None,
    rerank: Annotated[
        Path | None, typer.Option("--rerank", help="A reranker that orders what the embedder has found.")
    ] = None,
    candidates: Annotated[
        int, typer.Option("--candidates", help="Of each query, texts that are reranked; 0: 100.")
    ] = 0,
    dimensions: Dimensions = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="Write what was found for each query, as TREC has it.")
    ] = None,
    stride: Annotated[
        int,
        typer.Option("--stride", help="Of a language model's windows, in tokens; 0: half of one."),
    ] = 0,
    context: Annotated[
        int, typer.Option("--context", help="Of a language model: tokens of a window; 0: all it reads.")
    ] = 0,
    scaling: Annotated[
        Literal["none", "linear", "ntk", "yarn"],
        typer.Option("--scaling", help="With a --context longer than the trained one: of rotary positions."),
    ] = "none",
    against: Annotated[
        Path | None, typer.Option("--against", help="Another model, or file: is the first one better?")
    ] = None,
    to: To = None,
    prompt: Annotated[
        str | None,
        typer.Option("--prompt", help="Which of a translator's prompts stands before each source."),
    ] = None,
    source_language: From = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Upper and lower case are the same.")
    ] = False,
    tokenize: Annotated[
        str | None,
        typer.Option("--tokenize", help="sacrebleu's tokenizer for BLEU: 13a, intl, zh, char, ..."),
    ] = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """How good is a model?

    A translator: BLEU, chrF and TER, and whether it is better than another. A classifier or tagger: accuracy,
    F1 of each label, what is confused with what, the worst mistakes, calibration. A language model:
    perplexity. An embedder, alone or with a reranker: nDCG, MRR, recall and MAP."""


@command("regard.deploy.exchange")
def import_model(
    folder: Annotated[Path, typer.Argument(help="A Hugging Face folder, or a GGUF file.")],
    out: Annotated[Path, typer.Argument(help="The model folder that it becomes.")],
    pickle: Annotated[
        bool, typer.Option("--pickle", help="From pytorch_model.bin, which is read but never run.")
    ] = False,
) -> None:
    """Import a BERT, RoBERTa, DistilBERT, sentence-transformers, GPT-2, Llama, Mistral, Qwen, MarianMT,
    M2M100, NLLB, T5 or mT5 checkpoint."""


@command("regard.deploy.exchange")
def export_model(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    to: Annotated[
        Literal["hf", "ctranslate2", "onnx"],
        typer.Option(
            "--to",
            help="hf: what transformers reads; ctranslate2: a translator for that engine; onnx: any model.",
        ),
    ] = "hf",
    precision: Annotated[
        Literal["float32", "int8"] | None,
        typer.Option("--precision", help="With ctranslate2: of the weights; float32 unless given."),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            "--samples", help="With ctranslate2 and onnx: sentences, one a line, that both must read alike."
        ),
    ] = None,
) -> None:
    """Export a model for other tools."""


@command("regard.look.explore")
def look(
    model: Model,
    texts: Annotated[
        list[str] | None, typer.Argument(help="What the page begins with; with --out, what it shows.")
    ] = None,
    second: Annotated[
        str | None, typer.Option("--second", help="The translation to look at, or the other text of a pair.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="Into which language, of several.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Save the page, with its answers, as one .html file.")
    ] = None,
    port: Annotated[int, typer.Option("--port", help="0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    device: Device = "auto",
) -> None:
    """Look inside a model: a page in the browser, on this machine alone."""


def vocabulary(
    model: Model,
    out: Annotated[Path, typer.Argument(help="Where the changed model goes.")],
    text: Annotated[
        list[Path],
        typer.Option("--text", help="Files of text, line by line, of both sides. May be repeated."),
    ],
    add: Annotated[
        int, typer.Option("--add", min=0, help="New pieces at most, for what the text has often.")
    ] = 1000,
    minimum: Annotated[
        int, typer.Option("--minimum", min=1, help="How often a new piece must stand in the text.")
    ] = 2,
    drop_unused: Annotated[
        bool, typer.Option("--drop-unused", help="Drop the pieces that the text never uses.")
    ] = False,
    encoding: Annotated[str, typer.Option("--encoding", help="Of the files.")] = "utf-8",
) -> None:
    """Another vocabulary for a trained model: new words and characters for your text, or fewer pieces.

    Tokenizer, embeddings and output matrix are changed together; fine-tune the result with model.start."""
    from rich.console import Console

    from regard.tasks import vocabulary as work

    how: Any = {"add": add, "minimum": minimum, "drop_unused": drop_unused, "encoding": encoding}
    work.vocabulary(model, out, text=text, **how, console=Console())


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which ones; unless given, all that this machine can run.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Keep the results here: speed/NAME.json, and speed.md with a picture."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", help="Measure nothing; write speed.md and its picture from what is here."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show what there is.")] = False,
) -> None:
    """Measure speed side by side with other libraries, on this machine."""
    from rich.console import Console

    from regard.bench import commands

    console = Console(width=None if sys.stdout.isatty() else 160)
    measured = commands.bench(names or [], to=to, write=write, listed=listed, console=console)
    raise typer.Exit(0 if measured else 1)


def phrasebook(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")],
    train: Annotated[int, typer.Option("--train", help="Sentences to learn from.")] = 60_000,
    valid: Annotated[int, typer.Option("--valid", help="Sentences to validate on.")] = 500,
    test: Annotated[
        int, typer.Option("--test", help="Sentences with combinations never learned from.")
    ] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="Another seed draws other sentences.")] = 0,
) -> None:
    """Write the built-in English-German corpus."""
    from regard.text.phrasebook import write

    for path in write(folder, train=train, valid=valid, test=test, seed=seed):
        typer.echo(path)
