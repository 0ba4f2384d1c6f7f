"""The command line: argv becomes one call. No logic lives here; help is printed without importing torch."""

import os
import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard import __version__

app = typer.Typer(
    name="regard",
    help="The Transformer, whole: from raw text to a trained model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """The Transformer, whole: from raw text to a trained model."""


Settings = Annotated[
    list[str] | None, typer.Argument(help="Values on top of the recipe: model.layers=4 data.root=DIR")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
Beam = Annotated[int | None, typer.Option("--beam", help="Hypotheses followed side by side; 1 is greedy.")]
Penalty = Annotated[
    float | None, typer.Option("--length-penalty", help="Above the model's own, longer ones win.")
]
To = Annotated[str | None, typer.Option("--to", help="Target language of a model that writes several.")]


@app.command()
def check(
    recipe: Annotated[str | None, typer.Argument(help="A recipe whose text is looked at.")] = None,
    settings: Settings = None,
    pairs: Annotated[
        tuple[Path, Path] | None, typer.Option("--pairs", help="Two files instead of a recipe.")
    ] = None,
    examples: Annotated[int, typer.Option("--examples", help="Shown for each finding.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Is this text fit to train on? Exits with 1 if not."""
    import json

    from rich.console import Console

    from regard.tasks import commands

    console = Console(quiet=as_json)
    report = commands.check(recipe, settings or [], pairs, examples=examples, console=console)
    if as_json:
        typer.echo(json.dumps(report.to_dict(), ensure_ascii=False, indent=1))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def train(
    recipe: Annotated[str | None, typer.Argument(help="A TOML file; not needed with --resume.")] = None,
    settings: Settings = None,
    out: Annotated[Path, typer.Option("--out", help="The folder that becomes the model.")] = Path(
        "runs/model"
    ),
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in --out stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in --out.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the whole recipe and the expected time; train nothing.")
    ] = False,
    no_check: Annotated[bool, typer.Option("--no-check", help="Do not look at the text first.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="The same as train.seed=N batch.seed=N.")] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="So many models, seeds 0, 1, ...: how figures spread.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Train a model as a recipe says."""
    from functools import partial

    from regard.tasks import run
    from regard.tasks.seeds import train_seeds

    values = [*(settings or []), *([] if seed is None else [f"train.seed={seed}", f"batch.seed={seed}"])]
    if recipe is not None and "=" in recipe:  # with --resume, the first value may stand in the recipe's place
        values.insert(0, recipe)
        recipe = None
    if dry_run:
        run.rehearse(recipe, *values, device=device)
        return
    if seed is not None and seeds is not None:
        raise typer.BadParameter("--seed and --seeds: give one of the two")
    train_all = run.train if seeds is None else partial(train_seeds, seeds=seeds)
    try:
        outcome = train_all(
            recipe, *values, out=out, resume=resume, overwrite=overwrite, check=not no_check, device=device
        )
    except KeyboardInterrupt:
        typer.echo("stopped before the first step; start again with the same command", err=True)
        raise typer.Exit(130) from None
    if outcome.stopped is not None:
        again = f"regard train --resume --out {shlex.quote(str(out))}"
        if seeds is not None:
            again = f"the same command and --resume (--seeds {seeds})"
        typer.echo(f"stopped at step {outcome.step}; go on with: {again}", err=True)
        raise typer.Exit(128 + outcome.stopped)
    if os.environ.get("RANK", "0") == "0":
        typer.echo(f"trained in {outcome.seconds:.0f} s; the model is in {out}")


@app.command()
def translate(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    file: Annotated[str, typer.Argument(help="Text, one sentence a line; - for what comes in.")] = "-",
    n_best: Annotated[
        int,
        typer.Option("--n-best", help="Translations for each line, i ||| text ||| score; widens the beam."),
    ] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="The log-probability before each line.")] = False,
    align: Annotated[
        bool, typer.Option("--align", help="Which word came from which: text ||| 0-0 1-2")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One object a line.")] = False,
    to: To = None,
    too_long: Annotated[
        Literal["split", "warn", "error"],
        typer.Option("--too-long", help="Lines past the model's length: split by sentence, warn, error."),
    ] = "split",
    beam: Beam = None,
    length_penalty: Penalty = None,
    method: Annotated[
        Literal["beam", "greedy", "sample"] | None, typer.Option("--method", help="How to search.")
    ] = None,
    no_repeat: Annotated[
        int | None, typer.Option("--no-repeat", help="No sequence of so many tokens twice.")
    ] = None,
    maximum: Annotated[int | None, typer.Option("--maximum", help="Most tokens of a translation.")] = None,
    suppress: Annotated[list[str] | None, typer.Option("--suppress", help="A word that never comes.")] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", help="Of sampling.")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Sample from so many tokens.")] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", help="Sample from so much probability.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of sampling.")] = None,
    engine: Annotated[
        Literal["regard", "ctranslate2"],
        typer.Option("--engine", help="ctranslate2: for a folder of regard export --to ctranslate2."),
    ] = "regard",
    precision: Annotated[
        Literal["float32", "int8"] | None,
        typer.Option("--precision", help="Of the arithmetic; int8 is for the CPU."),
    ] = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option("--batch-tokens", help="Tokens read at a time; fewer take less memory, and longer."),
    ] = None,
    device: Device = "auto",
) -> None:
    """Translate a file, or what comes in, line by line."""
    from regard.tasks import commands

    commands.translate(
        model,
        file,
        out=sys.stdout,
        device=device,
        engine=engine,
        precision=precision,
        batch_tokens=batch_tokens,
        to=to,
        n_best=n_best,
        scores=scores,
        align=align,
        as_json=as_json,
        too_long=too_long,
        suppressed=suppress or [],
        decoding={
            "method": method,
            "beam": beam,
            "length_penalty": length_penalty,
            "no_repeat": no_repeat,
            "maximum": maximum,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
        },
    )


@app.command()
def align(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    source: Annotated[str, typer.Argument(help="A sentence.")],
    target: Annotated[str | None, typer.Argument(help="Its translation; unless given, the model's.")] = None,
    to: To = None,
    device: Device = "auto",
) -> None:
    """Draw which word of a translation comes from which word of the source."""
    from rich.console import Console

    from regard.tasks import commands

    commands.align(model, source, target, to=to, device=device, console=Console())


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="A model folder, or a file of translations.")],
    source: Annotated[Path | None, typer.Option("--source", help="What is translated.")] = None,
    reference: Annotated[
        list[Path] | None, typer.Option("--reference", help="How it should be; may be repeated.")
    ] = None,
    labelled: Annotated[
        list[Path] | None,
        typer.Option("--labelled", help="For a classifier or tagger: text written as its training text was."),
    ] = None,
    text: Annotated[
        list[Path] | None, typer.Option("--text", help="For a language model: text to foretell.")
    ] = None,
    stride: Annotated[
        int, typer.Option("--stride", help="With --text: windows move on by so many tokens; 0: half of one.")
    ] = 0,
    window: Annotated[
        int, typer.Option("--context", help="With --text: tokens of a window; 0: as in training.")
    ] = 0,
    scaling: Annotated[
        Literal["none", "linear", "ntk", "yarn"],
        typer.Option("--scaling", help="With a --context longer than the trained one: of rotary positions."),
    ] = "none",
    against: Annotated[
        Path | None, typer.Option("--against", help="Another model, or file: is the first one better?")
    ] = None,
    to: To = None,
    beam: Beam = None,
    length_penalty: Penalty = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Upper and lower case are the same.")
    ] = False,
    tokenize: Annotated[
        str | None,
        typer.Option("--tokenize", help="sacrebleu's tokenizer for BLEU: 13a, intl, zh, char, ..."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
) -> None:
    """How good is a model? A translator: BLEU, chrF and TER, and whether it is better than another. A
    classifier or tagger: accuracy, F1 and what fits. A language model: perplexity."""
    import json

    from rich.console import Console

    from regard.tasks import commands
    from regard.tasks.encoders import commands as encoders
    from regard.tasks.language import commands as language

    if text:
        console = Console(quiet=as_json)
        foretold = language.evaluate(
            model, text, stride=stride, context=window, scaling=scaling, device=device, console=console
        )
        if as_json:
            typer.echo(json.dumps(foretold, indent=1))
        return
    if labelled:
        console = Console(quiet=as_json)
        figures = encoders.evaluate(model, labelled, device=device, console=console)
        if as_json:
            typer.echo(json.dumps(figures, ensure_ascii=False, indent=1))
        return
    found = commands.evaluate(
        model,
        source,
        reference or [],
        against=against,
        to=to,
        lowercase=lowercase,
        tokenize=tokenize,
        decoding={"beam": beam, "length_penalty": length_penalty},
        device=device,
        console=Console(quiet=as_json, width=None if sys.stdout.isatty() else 160),
    )
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=1))


TooLong = Annotated[
    Literal["cut", "windows", "error"],
    typer.Option("--too-long", help="Texts past the model's length: cut and count, windows, error."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Precision = Annotated[
    Literal["float32", "bfloat16", "int8"] | None,
    typer.Option("--precision", help="int8 is for the CPU; unless given, bfloat16 on a GPU."),
]


@app.command()
def classify(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    file: Annotated[
        str, typer.Argument(help="A text a line, or two with a tab between; - for what comes in.")
    ] = "-",
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Of every label, the likeliest first.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One object a line.")] = False,
    too_long: TooLong = "cut",
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Label texts: label, probability and text, line by line."""
    from regard.tasks.encoders import commands

    commands.classify(
        model,
        file,
        out=sys.stdout,
        device=device,
        as_json=as_json,
        probabilities=probabilities,
        too_long=too_long,
        precision=precision,
    )


@app.command()
def tag(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    file: Annotated[
        str, typer.Argument(help="CoNLL, CoNLL-U, or a sentence a line; - for sentences that come in.")
    ] = "-",
    form: Annotated[
        Literal["conll", "conllu", "text"] | None,
        typer.Option("--format", help="Of the file, where its name does not tell."),
    ] = None,
    word: Annotated[int, typer.Option("--word", help="CoNLL: the column of the words, from 0.")] = 0,
    column: Annotated[
        str | None, typer.Option("--tag", help="The column that is replaced: -1; CoNLL-U: UPOS.")
    ] = None,
    comment: Annotated[str, typer.Option("--comment", help="CoNLL: what comments begin with.")] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Tags take the place of those in the file.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Of plain text: one object a sentence, with spans.")
    ] = False,
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Tag words: every line of the file as it is, with a tag behind it."""
    from regard.tasks.encoders import commands

    commands.tag(
        model,
        file,
        out=sys.stdout,
        form=form,
        word=word,
        column=column,
        comment=comment,
        replace=replace,
        as_json=as_json,
        device=device,
        precision=precision,
    )


@app.command()
def fill(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    text: Annotated[str, typer.Argument(help="A text with [MASK] in it.")],
    top: Annotated[int, typer.Option("--top", help="Candidates for each mask.")] = 5,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Guess the masked words of a text."""
    from rich.console import Console

    from regard.tasks.encoders import commands

    commands.fill(model, text, top=top, device=device, as_json=as_json, console=Console())


@app.command()
def embed(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    file: Annotated[str, typer.Argument(help="A text a line; - for what comes in.")],
    out: Annotated[Path, typer.Option("--out", help="The NumPy file for the vectors.")],
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
    words: Annotated[
        bool, typer.Option("--words", help="A vector for each word; which they are is written beside it.")
    ] = False,
    too_long: TooLong = "cut",
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Turn texts into vectors."""
    from rich.console import Console

    from regard.tasks.meaning import commands

    commands.embed(
        model,
        file,
        out,
        pool=pool,
        normalised=normalised,
        layer=layer,
        words=words,
        too_long=too_long,
        device=device,
        precision=precision,
        console=Console(),
    )


@app.command()
def search(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    corpus: Annotated[Path, typer.Argument(help="A text a line.")],
    queries: Annotated[list[str], typer.Argument(help="What is looked for.")],
    top: Annotated[int, typer.Option("--top", help="Hits for each query.")] = 5,
    kind: Annotated[
        Literal["auto", "exact", "faiss"], typer.Option("--kind", help="auto: faiss where it pays.")
    ] = "auto",
    index: Annotated[
        Path | None, typer.Option("--index", help="Where the index is kept; unless given, beside the corpus.")
    ] = None,
    as_json: Json = False,
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Find the texts that mean what a query means."""
    from rich.console import Console

    from regard.tasks.meaning import commands

    commands.search(
        model,
        corpus,
        queries,
        top=top,
        kind=kind,
        index=index,
        device=device,
        precision=precision,
        as_json=as_json,
        console=Console(),
    )


@app.command()
def cluster(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    file: Annotated[str, typer.Argument(help="A text a line; - for what comes in.")],
    clusters: Annotated[int | None, typer.Option("--clusters", help="How many groups (k-means).")] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Instead: groups of texts at least so near, 0 to 1.")
    ] = None,
    smallest: Annotated[int, typer.Option("--smallest", help="With --threshold: texts in a group.")] = 2,
    examples: Annotated[int, typer.Option("--examples", help="Shown for each group.")] = 3,
    seed: Annotated[int, typer.Option("--seed", help="Of k-means.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One object a line, with its group.")] = False,
    device: Device = "auto",
) -> None:
    """Group texts by what they mean."""
    from rich.console import Console

    from regard.tasks.meaning import commands

    commands.cluster(
        model,
        file,
        clusters=clusters,
        threshold=threshold,
        smallest=smallest,
        examples=examples,
        seed=seed,
        device=device,
        as_json=as_json,
        console=Console(),
    )


@app.command()
def context(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    word: Annotated[str, typer.Argument(help="A word that all the sentences have.")],
    sentences: Annotated[list[str], typer.Argument(help="Two or more.")],
    device: Device = "auto",
) -> None:
    """How far a word's vectors move from one sentence to another, layer by layer."""
    from rich.console import Console

    from regard.tasks.meaning import commands

    commands.context(model, word, sentences, device=device, console=Console())


@app.command(name="import")
def bring_in(
    folder: Annotated[Path, typer.Argument(help="A Hugging Face folder.")],
    out: Annotated[Path, typer.Argument(help="The model folder that it becomes.")],
) -> None:
    """Take over a BERT, RoBERTa, DistilBERT, sentence-transformers or GPT-2 model."""
    from rich.console import Console

    from regard.tasks import exchange

    exchange.bring_in(folder, out, console=Console())


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
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
    """Write a model for other tools."""
    from rich.console import Console

    from regard.tasks import exchange

    exchange.send_out(model, out, to=to, precision=precision, samples=samples, console=Console())


@app.command()
def generate(
    model: Annotated[Path, typer.Argument(help="A model folder, or one of GPT-2's.")],
    prompt: Annotated[
        list[str] | None, typer.Option("--prompt", help="What is gone on from; may be repeated.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", help="Prompts, one a line; - for what comes in.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", help="Texts for each prompt.")] = 1,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", help="Most new tokens; 256.")] = None,
    stop: Annotated[
        list[str] | None, typer.Option("--stop", help="A string before which a text ends; may be repeated.")
    ] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", help="Of sampling; 0.8.")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Sample from so many tokens; 0: all.")] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="Sample from so much probability; 0.95.")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option("--min-p", help="Sample from tokens with this share of the best one's.")
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option("--repetition-penalty", help="Above 1: what came is less likely.")
    ] = None,
    no_repeat: Annotated[
        int | None, typer.Option("--no-repeat", help="No sequence of so many tokens twice.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of sampling; 0.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="The likeliest token each time.")] = False,
    beam: Annotated[int | None, typer.Option("--beam", help="Search with so many hypotheses.")] = None,
    past: Annotated[
        Literal["stop", "slide"],
        typer.Option("--past", help="Where the context is full: stop, or go on from its last half."),
    ] = "stop",
    as_json: Annotated[bool, typer.Option("--json", help="One object a line.")] = False,
    precision: Annotated[
        Literal["float32", "bfloat16", "int8"] | None,
        typer.Option("--precision", help="int8 is for the CPU; unless given, bfloat16 on a GPU."),
    ] = None,
    device: Device = "auto",
) -> None:
    """Go on where a prompt ends: the prompt and what a language model writes behind it."""
    from regard.tasks.language import generate_command

    generate_command.generate(
        model,
        prompt or [],
        file,
        out=sys.stdout,
        precision=precision,
        device=device,
        greedy=greedy,
        beam=beam,
        samples=samples,
        stop=stop or [],
        past=past,
        as_json=as_json,
        decoding={
            "maximum": max_tokens,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repetition_penalty": repetition_penalty,
            "no_repeat": no_repeat,
            "seed": seed,
        },
    )


plot_app = typer.Typer(
    help="Pictures: positions, heads, alignment, curves, maps of meaning, claims.", no_args_is_help=True
)
app.add_typer(plot_app, name="plot")
Out = Annotated[Path, typer.Option("--out", help="The picture: a name in .png, .svg or .pdf.")]


@plot_app.command(name="positions")
def plot_positions(
    out: Out,
    model: Annotated[Path | None, typer.Argument(help="A model folder; unless given, the formula.")] = None,
    width: Annotated[int | None, typer.Option("--width", help="Of the formula; 128.")] = None,
    length: Annotated[
        int | None, typer.Option("--length", help="Positions; 50, or all that a model has learned.")
    ] = None,
    base: Annotated[float | None, typer.Option("--base", help="n of the formula; 10000.")] = None,
    kind: Annotated[
        Literal["sinusoidal", "rotary"] | None, typer.Option("--kind", help="Which formula; sinusoidal.")
    ] = None,
    side: Annotated[
        Literal["encoder", "decoder"], typer.Option("--side", help="Which one of a translator.")
    ] = "encoder",
    device: Device = "auto",
) -> None:
    """How positions are told apart: sinusoidal, rotary, or as a model has them."""
    from rich.console import Console

    from regard.look import plot_commands

    plot_commands.positions(
        out,
        model,
        width=width,
        length=length,
        base=base,
        kind=kind,
        side=side,
        device=device,
        console=Console(),
    )


@plot_app.command(name="heads")
def plot_heads(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    text: Annotated[str, typer.Argument(help="What the model reads.")],
    out: Out,
    layer: Annotated[int | None, typer.Option("--layer", help="Only this one, counted from 0.")] = None,
    head: Annotated[int | None, typer.Option("--head", help="Only this one, counted from 0.")] = None,
    second: Annotated[str | None, typer.Option("--second", help="Another text, read as a pair.")] = None,
    side: Annotated[
        Literal["encoder", "decoder", "cross"] | None,
        typer.Option("--side", help="Of a translator: cross is from the decoder to the source."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="The translation; unless given, the model's.")
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="Whole words in place of tokens.")] = False,
    to: To = None,
    device: Device = "auto",
) -> None:
    """Who looks at what: every head of every layer, or some of them large."""
    from rich.console import Console

    from regard.look import plot_commands

    plot_commands.heads(
        model,
        text,
        out,
        layer=layer,
        head=head,
        second=second,
        side=side,
        target=target,
        to=to,
        words=words,
        device=device,
        console=Console(),
    )


@plot_app.command(name="alignment")
def plot_alignment(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    source: Annotated[str, typer.Argument(help="A sentence.")],
    out: Out,
    target: Annotated[
        str | None, typer.Option("--target", help="Its translation; unless given, the model's.")
    ] = None,
    layer: Annotated[int | None, typer.Option("--layer", help="Of the decoder, counted from 0.")] = None,
    to: To = None,
    device: Device = "auto",
) -> None:
    """Which word of a translation comes from which word of the source."""
    from rich.console import Console

    from regard.look import plot_commands

    plot_commands.alignment(
        model, source, out, target=target, to=to, layer=layer, device=device, console=Console()
    )


@plot_app.command(name="curve")
def plot_curve(
    runs: Annotated[list[Path], typer.Argument(help="Folders that regard train has written.")],
    out: Out,
    metric: Annotated[
        str | None, typer.Option("--metric", help="Beside the loss; the first that all runs log.")
    ] = None,
) -> None:
    """How trainings went, side by side."""
    from rich.console import Console

    from regard.look import plot_commands

    plot_commands.curve(runs, out, metric=metric, console=Console())


@plot_app.command(name="map")
def plot_map(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    file: Annotated[
        str, typer.Argument(help="A text a line, or a table (TSV, CSV, JSONL); - for what comes in.")
    ],
    out: Out,
    method: Annotated[
        Literal["pca", "tsne"], typer.Option("--method", help="pca: true distances; tsne: true neighbours.")
    ] = "pca",
    labels: Annotated[
        str, typer.Option("--labels", help="clusters, or the table's column: a name, or a place from 0.")
    ] = "clusters",
    text: Annotated[str | None, typer.Option("--text", help="The column of the texts.")] = None,
    clusters: Annotated[int | None, typer.Option("--clusters", help="How many (k-means).")] = None,
    named: Annotated[int, typer.Option("--named", help="Texts written into the map, at most.")] = 14,
    too_long: TooLong = "cut",
    device: Device = "auto",
) -> None:
    """Texts on a plane: those that mean alike lie together."""
    from rich.console import Console

    from regard.look import plot_commands

    plot_commands.texts_map(
        model,
        file,
        out,
        method=method,
        labels=labels,
        text=text,
        clusters=clusters,
        named=named,
        too_long=too_long,
        device=device,
        console=Console(),
    )


@plot_app.command(name="context")
def plot_context(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    word: Annotated[str, typer.Argument(help="A word that all the sentences have.")],
    sentences: Annotated[list[str], typer.Argument(help="Two or more.")],
    out: Out,
    device: Device = "auto",
) -> None:
    """How a word's vectors move from one sentence to another, layer by layer."""
    from rich.console import Console

    from regard.look import plot_commands

    plot_commands.context(model, word, sentences, out, device=device, console=Console())


@plot_app.command(name="claims")
def plot_claims(
    out: Out,
    quick: Annotated[bool, typer.Option("--quick", help="Less of everything: 15 seconds.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Of the models that are trained.")] = 0,
    device: Device = "auto",
) -> None:
    """Why the Transformer: steps, paths, speed and distance, measured here in two or three minutes."""
    from rich.console import Console

    from regard.look import plot_commands

    plot_commands.claims(out, quick=quick, seed=seed, device=device, console=Console())


@app.command()
def look(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
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
    from rich.console import Console

    from regard.look import explore

    explore.look(
        model,
        texts or [],
        second=second,
        to=to,
        out=out,
        port=port,
        browser=browser,
        device=device,
        console=Console(),
    )


@app.command()
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


@app.command()
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


def main() -> None:
    warnings.showwarning = lambda message, *_, **__: typer.echo(f"warning: {message}", err=True)
    try:
        app()
    except (ValueError, OSError, RuntimeError) as error:
        if os.environ.get("REGARD_TRACEBACK") or not _is_told(error):
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)


def _is_told(error: Any) -> bool:
    """Whether the message is meant for the user: an error of ours, or a value that was refused."""
    return isinstance(error, ValueError | OSError) or type(error).__module__.startswith("regard.")
