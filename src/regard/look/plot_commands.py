"""What `regard plot ...` does at the prompt: a picture, written to --out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rich.console import Console

from regard.config import ConfigError
from regard.look.claims import ON_GPU, QUICK, ClaimsConfig, measure
from regard.look.plot_attention import plot_alignment, plot_heads
from regard.look.plot_claims import plot_claims, tables_of
from regard.look.plot_context import plot_context
from regard.look.plot_curves import plot_curves, read_runs
from regard.look.plot_maps import Method, plot_map, project
from regard.look.plot_positions import LENGTH, Biases, Kind, Positions, formula, plot_positions, positions_of
from regard.look.plot_weights import Side, attention_of
from regard.look.plots import check_out, save
from regard.meaning.cluster import kmeans
from regard.meaning.context import word_in_context
from regard.meaning.describe import telling_words
from regard.tasks.base.lines import incoming
from regard.tasks.base.reading import TooLong
from regard.tasks.base.terminal import counting, say
from regard.tasks.embedding.embedder import open_embedder
from regard.tasks.load import load
from regard.tasks.translation.opening import open_translator
from regard.text import DataError, Origin, Table, read_labelled, read_table_lines
from regard.train.ranks import find_device


def positions(
    out: Path,
    model: Path | None = None,
    *,
    width: int | None = None,
    length: int | None = None,
    base: float | None = None,
    kind: Kind | None = None,
    side: Literal["encoder", "decoder"] = "encoder",
    device: str = "auto",
    console: Console,
) -> None:
    """The positions of a formula, or of a model."""
    check_out(out)
    if length is not None and length < 2:
        raise ConfigError(f"--length {length}: draw 2 positions at least")
    found: Positions | Biases
    if model is None:
        size = 128 if width is None else width
        found = formula(kind or "sinusoidal", size, length or LENGTH, 10_000.0 if base is None else base)
    else:
        for name, value in (("--width", width), ("--base", base), ("--kind", kind)):
            if value is not None:
                raise ConfigError(f"{name} {value}: a model has its own; give one or the other")
        found = positions_of(load(model, device=device, precision="float32"), length, side)
    save(plot_positions(found), out)
    say(console, f"{out}: {found.title}")


def heads(
    model: Path,
    text: str,
    out: Path,
    *,
    layer: int | None = None,
    head: int | None = None,
    second: str | None = None,
    side: Side | None = None,
    target: str | None = None,
    to: str | None = None,
    words: bool = False,
    device: str = "auto",
    console: Console,
) -> None:
    """What the heads of a model look at while it reads a text."""
    check_out(out)
    loaded = load(model, device=device, precision="float32")
    attention = attention_of(loaded, text, second=second, side=side, target=target, to=to)
    figure = plot_heads(attention.by_words() if words else attention, layer, head)
    save(figure, out)
    say(console, f"{out}: {figure.get_suptitle().splitlines()[0]}")


def alignment(
    model: Path,
    source: str,
    out: Path,
    *,
    target: str | None = None,
    to: str | None = None,
    layer: int | None = None,
    device: str = "auto",
    console: Console,
) -> None:
    """Which word of a translation comes from which; of the model's own, unless one is given."""
    check_out(out)
    translator = open_translator(model, device=device, precision="float32")
    written = translator.translate(source, to=to).text if target is None else target
    save(plot_alignment(translator.align(source, written, to=to, layer=layer)), out)
    say(console, f"{out}: {written}")


def curve(runs: Sequence[Path], out: Path, *, metric: str | None = None, console: Console) -> None:
    """The training of several runs, side by side."""
    check_out(out)
    save(plot_curves(read_runs(runs), metric), out)
    say(console, f"{out}")


def texts_map(
    model: Path,
    file: str,
    out: Path,
    *,
    method: Method = "pca",
    labels: str = "clusters",
    text: str | None = None,
    clusters: int | None = None,
    named: int = 14,
    too_long: TooLong = "cut",
    device: str = "auto",
    console: Console,
) -> None:
    """Texts on a plane by their vectors, coloured by a column of their table, or by clusters."""
    check_out(out)
    texts, given = read_texts(file, None if labels == "clusters" else labels, text)
    if clusters is not None and given is not None:
        raise ConfigError(f"--clusters {clusters} and --labels {labels}: give one of the two")
    embedder = open_embedder(model, device=device)
    with counting("texts", total=len(texts)) as advance:
        vectors = embedder.embed(texts, too_long=too_long, progress=advance)
    projection = project(vectors, method)
    groups: list[str | None] = []
    if given is None:
        found = kmeans(vectors, clusters)
        words = telling_words(found, texts, most=3)
        names = [", ".join([str(number), *telling]) for number, telling in enumerate(words, start=1)]
        groups = [None if number is None else names[number] for number in found.numbers()]
        title = f"{len(texts):,} texts by meaning, in {len(names)} clusters"
    else:
        groups += given
        called = f"column {labels}" if labels.isdecimal() else labels
        title = f"{len(texts):,} texts by meaning, coloured by {called}"
    save(plot_map(projection, texts, groups, title=title, named=named), out)
    say(console, f"{out}: {title}")


def read_texts(file: str, labels: str | None, text: str | None) -> tuple[list[str], list[str] | None]:
    """A text a line, or from a table (TSV, CSV, JSONL, Parquet) a column of texts and one of their labels.
    Columns go by name, or by place from 0. Texts are in the column "text", or where the labels go by place
    in the first that is not theirs. Blank texts are left out."""
    table = Table(path=file)
    try:
        is_table = file != "-" and bool(table.resolve_format())
    except DataError:
        is_table = False
    if not is_table:
        if labels is not None or text is not None:
            raise ConfigError(
                f"--labels {labels}, --text {text}: {file} is no table with columns; name a .tsv, .csv, "
                ".jsonl or .parquet file, or colour by clusters"
            )
        texts, given = list(incoming(file)), None
    else:
        label = None if labels is None else _column(labels)
        column = _column(text) if text is not None else int(label == 0) if isinstance(label, int) else "text"
        if label is None:
            texts, given = [line.text for line in read_table_lines(table, text=column)], None
        else:
            rows = [*read_labelled(table, text=column, label=label)]
            texts, given = [row.text for row in rows], [", ".join(row.labels) for row in rows]
    kept = [place for place, each in enumerate(texts) if each.strip()]
    if not kept:
        raise DataError(Origin(file), "no text to draw", remedy="give a file with several texts")
    return [texts[place] for place in kept], None if given is None else [given[place] for place in kept]


def _column(name: str) -> str | int:
    return int(name) if name.isdecimal() else name


def context(
    model: Path,
    word: str,
    sentences: Sequence[str],
    out: Path,
    *,
    others: Sequence[str] | None = None,
    device: str = "auto",
    console: Console,
) -> None:
    """How a word's vectors move between sentences."""
    check_out(out)
    embedder = open_embedder(model, device=device, precision="float32")
    save(plot_context(word_in_context(embedder, word, sentences, others or ())), out)
    say(console, f"{out}")


def claims(out: Path, *, quick: bool = False, seed: int = 0, device: str = "auto", console: Console) -> None:
    """Why the Transformer: measured here, drawn, and printed as numbers."""
    check_out(out)
    config = replace(QUICK if quick else ClaimsConfig(), seed=seed)
    if find_device(device) == "cuda":
        config = replace(config, **ON_GPU)
    with telling() as tell:
        found = measure(config, device=device, tell=tell)
    save(plot_claims(found), out)
    for title, table in tables_of(found):
        say(console, title)
        console.print(table)
        say(console, "")
    say(console, f"{out}: measured on {found.machine}")


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """A function for what is being done next: one line that changes on a terminal, lines elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda line: say(console, line)
        return
    with console.status("") as status:
        yield status.update
