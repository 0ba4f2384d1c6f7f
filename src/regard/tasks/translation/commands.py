"""What translation's commands do: translate, align, evaluate."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TextIO

from rich.console import Console

from regard.config import ConfigError, override
from regard.decode import DecodeConfig
from regard.memory import Memory, read_glossary, recall
from regard.memory.glossary import GlossarySettings
from regard.memory.recall import Use
from regard.memory.segments import chosen_pairs, may_be_same
from regard.memory.store import NEAR
from regard.tasks.base.decoding import changed
from regard.tasks.base.faster import Precision
from regard.tasks.base.formats import AS_NAMED, FileOptions, only_lines
from regard.tasks.base.outputs import Assignment, BrokenFilesError, Inputs, assign, do_each
from regard.tasks.base.own_recipe import own_recipe
from regard.tasks.base.pairs import Corpus
from regard.tasks.base.recipe import read_recipe
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.terminal import counting, say
from regard.tasks.translation.alignment import draw
from regard.tasks.translation.document_files import (
    DocumentOptions,
    is_meant,
    read_as,
    source_or_document,
    translate_files,
)
from regard.tasks.translation.engine import Split, TooLong
from regard.tasks.translation.evaluate import compare, render_comparison, render_scores, score
from regard.tasks.translation.languages import pair_of
from regard.tasks.translation.lines import (
    SHORTEN,
    LineCounts,
    translate_lines,
    translate_table,
)
from regard.tasks.translation.opening import open_translator
from regard.tasks.translation.recipe import RECIPE
from regard.tasks.translation.train import spread_out
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Origin, read_lines

Engine = Literal["regard", "ctranslate2"]


def open_by_engine(model: Path, engine: Engine, device: str, precision: Precision | None) -> Translator:
    """A model folder or, for CTranslate2, an exported one."""
    if engine == "regard":
        return open_translator(model, device=device, precision=precision)
    # regard.deploy stands above: it exports any task
    return import_module("regard.deploy.engine").open_deployed(model, device=device, precision=precision)


def translate(
    model: Path,
    inputs: Inputs = None,
    *,
    out: TextIO,
    into: str | None = None,
    files: FileOptions = AS_NAMED,
    format: str | None = None,
    fresh: bool = False,
    report: Path | None = None,
    keep_numbers: bool = False,
    set: Sequence[str] | None = None,
    engine: Engine = "regard",
    device: str = "auto",
    precision: Precision | None = None,
    greedy: bool = False,
    decoding: dict[str, Any] | None = None,
    scores: bool = False,
    align: bool = False,
    as_json: bool = False,
    to: str | None = None,
    source_language: str | None = None,
    too_long: TooLong = "split",
    split: Split = "auto",
    glossary: Path | None = None,
    inflected: bool = True,
    memory: Path | None = None,
    memory_use: Use = "exact",
    languages: str | None = None,
    flags: bool = False,
    suppress: Sequence[str] | None = None,
    batch_tokens: int | None = None,
    adapter: Path | None = None,
    prompt: str | None = None,
) -> None:
    """Line by line, or a column of a table, or documents whole. `decoding` has settings of `DecodeConfig` by
    name, in place of the translator's own."""
    files, document = read_as(format, files)
    source, target = _pair(languages, source_language, to)

    def meant(file: str) -> bool:
        return format is not None or is_meant(file, source or pair_of(model)[0])

    read = partial(source_or_document, document=document)
    given = assign(inputs, into, files, as_json=as_json, read=read, meant=meant)
    documents = [each for each in given if each.source.document is not None]
    if documents and (scores or align):
        raise ConfigError("--scores and --align are of lines, but documents are translated as a whole")
    lines = [each for each in given if each.source.document is None]
    _check_used(given, {"--fresh": fresh, "--report": report, "--set": set}, keep_numbers)
    if flags and any(not each.tabular and each.format != "jsonl" for each in lines):
        raise ConfigError("--flags has no place in plain lines: give --json, or write a table")
    remembered = None if memory is None else Memory(memory)
    translator = open_by_engine(model, engine, device, precision)
    own = pair_of(model)
    likely = (own[0], own[1] if len(translator.languages) < 2 else None)
    which = GlossarySettings(source=source, target=target, likely=likely)
    terms = None if glossary is None else read_glossary(glossary, settings=which)
    pair = ("", "") if remembered is None else _memory_pair(remembered, source, target, likely)
    near = NEAR if translator.fuzzy is None else min(NEAR, translator.fuzzy.at_least)
    recalled = None if remembered is None else recall(remembered, *pair, use=memory_use, at_least=near)
    if adapter is not None:
        if engine != "regard":
            raise ConfigError(
                f"--adapter beside --engine {engine}: export the folder of the training instead"
            )
        translator = translator.with_adapter(adapter)
    settings: dict[str, Any] = {
        "scores": scores,
        "align": align,
        "to": to,
        "source_language": source_language,
        "decoding": changed(translator.decoding, decoding or {}, greedy=greedy),
        "suppressed": suppress or (),
        "too_long": too_long,
        "split": split,
        "glossary": terms,
        "inflected": inflected,
        "memory": recalled,
        "flags": flags,
        "batch_tokens": batch_tokens,
        "prompt": prompt,
    }

    def work(each: Assignment) -> None:
        with each.opened(out) as page, counting("lines", beside=page) as advance:
            how = {**settings, "window": each.source.window, "progress": advance}
            if each.tabular:
                how["numbers"] = keep_numbers
                counts = translate_table(translator, each.source, page, each.format, **how)
            else:
                listed = each.format == "jsonl"
                with _named(each.source.name):
                    counts = translate_lines(translator, each.source.lines(), page, as_json=listed, **how)
        _say_notes(counts)

    broken: BrokenFilesError | None = None
    if documents:
        beside = ("scores", "align", "to", "memory")
        how = {**{name: own for name, own in settings.items() if name not in beside}, "flags": True}
        options = DocumentOptions(
            fresh=fresh,
            report=report,
            numbers=keep_numbers,
            settings=override({}, set or ()),
            memory=recalled,
        )
        try:
            translate_files(translator, documents, out, options, to=to, pair=own, beside=bool(lines), **how)
        except BrokenFilesError as error:  # lines and tables do not wait for them
            broken = error
    if lines:
        do_each(lines, work)
    if broken is not None:
        raise broken


def _check_used(given: Sequence[Assignment], asked: dict[str, Any], keep_numbers: bool) -> None:
    """What would do nothing is refused."""
    if any(each.source.document is not None for each in given):
        return
    for option, value in asked.items():
        if value:
            raise ConfigError(f"{option} is of documents, but {given[0].source.name} is none: leave it out")
    if keep_numbers and not any(each.tabular for each in given):
        raise ConfigError(
            f"--keep-numbers is of documents and tables, but {given[0].source.name} is neither: leave it out"
        )


def _pair(
    languages: str | None, source_language: str | None, to: str | None
) -> tuple[str | None, str | None]:
    """Of the memory and the glossary: en:de or, where it is not given, what the model is asked for."""
    if languages is None:
        return source_language, to
    source, sign, target = languages.partition(":")
    if not (source and sign and target):
        raise ConfigError(f"--languages {languages}: give the source's and the target's, as in en:de")
    for option, asked, own in (("--from", source_language, source), ("--to", to, target)):
        if asked and not may_be_same(asked, own):
            raise ConfigError(
                f"--languages {languages} beside {option} {asked}: give the same language in both"
            )
    return source, target


def _memory_pair(
    memory: Memory, source: str | None, target: str | None, likely: tuple[str | None, str | None]
) -> tuple[str, str]:
    """The languages of the memory that are meant. That it has none of what is asked for is told."""
    pairs = memory.pairs()
    if pairs and not chosen_pairs(pairs, (source, target), likely):
        listed = ", ".join(f"{one}:{other}" for one, other in pairs)
        asked = f"{source or likely[0] or 'any language'} to {target or likely[1] or 'any'}"
        raise ConfigError(
            f"--memory {memory.path}: no segments from {asked}; it has {listed}: choose with --languages"
        )
    return memory.pair(source, target, likely=likely)


def _say_notes(counts: LineCounts) -> None:
    notes = (
        (counts.split, "of several sentences or too long for the model: they were translated in pieces"),
        (counts.unknown, "not wholly known: they have words that are not in the model's vocabulary"),
    )
    for count, what in notes:
        if count:
            say(Console(stderr=True), f"{count} of {counts.lines} lines are {what}")
    if counts.remembered:
        say(Console(stderr=True), f"{counts.remembered} of {counts.lines} lines are the memory's")
    if counts.matched:
        say(Console(stderr=True), f"{counts.matched} of {counts.lines} lines were given a near match")
    if counts.terms:
        kept = counts.terms - counts.missed.total()
        listed = ", ".join(f"{term} ({count})" for term, count in counts.missed.most_common(10))
        missed = f"; missed: {listed}" if listed else ""
        say(Console(stderr=True), f"{kept} of {counts.terms} terms of the glossary are there{missed}")


def align(
    model: Path,
    source: str,
    target: str | None,
    *,
    to: str | None,
    source_language: str | None = None,
    device: str,
    console: Console,
) -> None:
    """Draw which words of the source each word of a translation looks at; of the model's own, unless
    given."""
    translator = open_translator(model, device=device)
    how: Any = {"to": to, "source_language": source_language}
    written = translator.translate(source, **how).text if target is None else target
    console.print(f"{source}\n{written}\n", highlight=False, markup=False)
    picture = draw(translator.align(source, written, **how), width=console.width)
    console.print(picture, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _named(file: str) -> Iterator[None]:
    """A line that is refused is reported with its file, and by what can be typed."""
    try:
        yield
    except DataError as error:
        if error.origin.file != "input":
            raise
        origin = Origin(file, error.origin.line)
        raise DataError(origin, error.reason, error.particulars, SHORTEN) from error


def evaluate(model: Path, options: EvaluateOptions, console: Console) -> dict[str, Any]:
    """Scores of a model, or of a file of translations; with `against`, what sets it apart from another."""
    own = (
        "source", "references", "against", "to", "source_language", "prompt", "lowercase", "tokenize",
        "decoding",
    )  # fmt: skip
    options.only(*own, "encoding")
    if options.source is None or not options.references:
        raise ConfigError(
            "a translator is measured on text and its translation: give --source and --reference"
        )
    encoding = options.encoding or "utf-8"
    sources = _texts(options.source, encoding)
    wanted = [_texts(path, encoding) for path in options.references]
    systems = [model, *([] if options.against is None else [options.against])]
    given = {path: _texts(path) for path in systems if path.is_file()}  # which regard wrote, in UTF-8
    for path, lines in [*zip(options.references, wanted, strict=True), *given.items()]:
        if len(lines) != len(sources):
            counts = f"{len(lines)} lines for {len(sources)} sources of {options.source}"
            raise DataError(Origin(str(path)), counts, remedy="give files of equal length")

    def translations(system: Path) -> list[str]:
        if system in given:
            return given[system]
        translator = open_translator(system, device=options.device)
        decoding: DecodeConfig = changed(translator.decoding, dict(options.decoding))
        how: Any = {"to": options.to, "source_language": options.source_language, "prompt": options.prompt}
        return [each.text for each in translator.translate(sources, decoding=decoding, **how)]

    how: dict[str, Any] = {"lowercase": options.lowercase, "tokenize": options.tokenize}
    system = translations(model)
    scores = score(system, wanted, **how)
    render_scores(scores, console)
    plain: dict[str, Any] = {"scores": {name: each.to_dict() for name, each in scores.items()}}
    if options.against is not None:
        comparison = compare(system, translations(options.against), wanted, **how)
        render_comparison(comparison, console)
        plain["comparison"] = comparison.to_dict()
    return plain


def _texts(path: Path, encoding: str = "utf-8") -> list[str]:
    only_lines(path)
    return [line.text for line in read_lines(path, encoding=encoding)]


def examples(model: Path, device: str) -> tuple[str, list[float]]:
    """Of each validation sentence, chrF."""
    from sacrebleu.metrics.chrf import CHRF

    recipe = read_recipe(own_recipe(model), lambda task: RECIPE).checked
    pairs = [
        (pair, to)
        for pair, to in Corpus(recipe.data, Path()).pairs("valid")
        if pair.source.strip() and pair.target.strip()
    ]
    chosen, metric = spread_out(pairs, recipe.valid.sentences), CHRF()
    translator = open_translator(model, device=device)
    to = [each for _, each in chosen if each is not None] or None
    found = translator.translate([pair.source for pair, _ in chosen], to=to)
    return "chrF of a sentence", [
        metric.sentence_score(each.text, [pair.target]).score
        for each, (pair, _) in zip(found, chosen, strict=True)
    ]
