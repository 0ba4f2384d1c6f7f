"""What the commands of the command line do, beyond training: check, translate, evaluate."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TextIO

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from regard.config import ConfigError
from regard.decode import DecodeConfig
from regard.tasks.alignment import draw
from regard.tasks.check import check_pairs, check_recipe
from regard.tasks.deploy.engine import open_deployed
from regard.tasks.deploy.folder import Precision, is_exported
from regard.tasks.evaluate import compare, render_comparison, render_scores, score
from regard.tasks.folder import FolderError
from regard.tasks.lines import incoming, translate_lines
from regard.tasks.load import load_as
from regard.tasks.recipe import read_recipe
from regard.tasks.translator import TooLong, Translator
from regard.text import DataError, Origin, read_lines
from regard.text.doctor import Report, render

Engine = Literal["regard", "ctranslate2"]


def check(
    recipe: str | None,
    settings: Sequence[str],
    pairs: tuple[Path, Path] | None,
    *,
    examples: int,
    console: Console,
) -> Report:
    """Look at the text of a recipe, or of two files."""
    if (recipe is None) == (pairs is None):
        raise ConfigError("give a recipe, or two files with --pairs SOURCE TARGET")
    report = (
        check_pairs(*pairs, examples=examples)
        if pairs is not None
        else check_recipe(read_recipe(str(recipe), settings), examples=examples)
    )
    render(report, console)
    return report


def decoding_of(translator: Translator, **wanted: Any) -> DecodeConfig:
    """The model's own way to decode, changed where something was asked for."""
    given = {name: value for name, value in wanted.items() if value is not None}
    beam = given.get("beam", translator.decoding.beam)
    if beam == 1 and "method" not in given:
        given["method"] = "greedy"
    return replace(translator.decoding, **given)


def open_translator(model: Path, engine: Engine, device: str, precision: Precision | None) -> Translator:
    """A model folder, or an exported one, by the engine that runs it."""
    if engine == "ctranslate2":
        return open_deployed(model, device=device, precision=precision)
    if is_exported(model):
        raise FolderError(f"{model}: exported for CTranslate2; translate with --engine ctranslate2")
    return load_as(Translator, model, device=device, precision=precision)


def translate(
    model: Path,
    file: str,
    *,
    out: TextIO,
    device: str = "auto",
    engine: Engine = "regard",
    precision: Precision | None = None,
    batch_tokens: int | None = None,
    to: str | None = None,
    n_best: int = 1,
    scores: bool = False,
    align: bool = False,
    as_json: bool = False,
    too_long: TooLong = "split",
    suppressed: Sequence[str] = (),
    decoding: dict[str, Any] | None = None,
) -> None:
    """Line by line, from a file or "-" for what comes in."""
    translator = open_translator(model, engine, device, precision)
    asked = file == "-" and sys.stdin.isatty()
    console = Console(stderr=True)
    shown = (
        Progress(TextColumn("{task.completed} lines"), TimeElapsedColumn(), console=console, transient=True)
        if console.is_terminal and not out.isatty()
        else None
    )
    with shown or nullcontext(), _named(file):
        task = None if shown is None else shown.add_task("", total=None)
        counts = translate_lines(
            translator,
            incoming(file),
            out,
            n_best=n_best,
            scores=scores,
            align=align,
            as_json=as_json,
            to=to,
            decoding=decoding_of(translator, **(decoding or {})),
            suppressed=suppressed,
            too_long=too_long,
            window=1 if asked else 1000,
            batch_tokens=batch_tokens,
            progress=None if shown is None or task is None else lambda more: shown.advance(task, more),
        )
    notes = (
        (counts.split, "longer than the model was trained on: they were translated in pieces"),
        (counts.unknown, "not wholly known: they have words that are not in the model's vocabulary"),
    )
    for count, what in notes:
        if count:
            console.print(f"{count} of {counts.lines} lines are {what}", highlight=False, soft_wrap=True)


def align(
    model: Path, source: str, target: str | None, *, to: str | None, device: str, console: Console
) -> None:
    """Draw which words of the source each word of a translation looks at; of the model's own, unless
    given."""
    translator = load_as(Translator, model, device=device)
    written = translator.translate(source, to=to).text if target is None else target
    console.print(f"{source}\n{written}\n", highlight=False, markup=False)
    picture = draw(translator.align(source, written, to=to), width=console.width)
    console.print(picture, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _named(file: str) -> Iterator[None]:
    """A line that is refused is told by its file, and by what can be typed."""
    try:
        yield
    except DataError as error:
        if error.origin.file != "input":
            raise
        origin = Origin("standard input" if file == "-" else file, error.origin.line)
        remedy = "shorten it, or translate with --too-long split"
        raise DataError(origin, error.reason, error.particulars, remedy) from error


def evaluate(
    model: Path,
    source: Path | None,
    references: Sequence[Path],
    *,
    against: Path | None = None,
    to: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
    decoding: dict[str, Any] | None = None,
    device: str = "auto",
    console: Console,
) -> dict[str, Any]:
    """Scores of a model, or of a file of translations; with `against`, what sets it apart from another."""
    if source is None or not references:
        raise ConfigError("give --source and --reference, or --labelled for a classifier or tagger")
    sources = _texts(source)
    wanted = [_texts(path) for path in references]
    given = {path: _texts(path) for path in (model, against) if path is not None and path.is_file()}
    for path, lines in [*zip(references, wanted, strict=True), *given.items()]:
        if len(lines) != len(sources):
            raise DataError(
                Origin(str(path)),
                f"{len(lines)} lines for {len(sources)} sources of {source}",
                remedy="give files of equal length",
            )

    def translations(system: Path) -> list[str]:
        if system in given:
            return given[system]
        translator = load_as(Translator, system, device=device)
        found = translator.translate(
            sources,
            to=to,
            decoding=decoding_of(translator, **(decoding or {})),
        )
        return [each.text for each in found]

    system = translations(model)
    scores = score(system, wanted, lowercase=lowercase, tokenize=tokenize)
    render_scores(scores, console)
    plain: dict[str, Any] = {"scores": {name: each.to_dict() for name, each in scores.items()}}
    if against is not None:
        comparison = compare(system, translations(against), wanted, lowercase=lowercase, tokenize=tokenize)
        render_comparison(comparison, console)
        plain["comparison"] = comparison.to_dict()
    return plain


def _texts(path: Path) -> list[str]:
    return [line.text for line in read_lines(path)]
