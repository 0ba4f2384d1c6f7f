"""Translating a stream of lines, or a column of a table, into a file: what `regard translate` writes.

    plain           text                        one line for each line read, empty for a blank one
    scores          score<TAB>text              the log-probability
    align           text ||| 0-0 1-2            (source word)-(target word), counted from 0, as Pharaoh does
    n_best > 1      0 ||| text ||| score        as Moses does: the line, counted from 0, several times
    as_json         {"source": ..., "text": ..., "score": ..., ...}

A translation never breaks its line: where the model writes a newline, a space takes its place (but in JSON).
A table gets a column `translation` and, where they were asked for, `score`, `alignment`, `alternatives`,
`match` (the best score of a memory's) and `flags`. Tags and placeholders of its cells are kept (`cells.py`).
"""

import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO, TypedDict, Unpack

from regard.decode import DecodeConfig
from regard.memory import Recall
from regard.tasks.base.formats import Format
from regard.tasks.base.predictor import Progress
from regard.tasks.base.sources import Record, Source
from regard.tasks.base.tables import TableWriter, Texts, Wanted
from regard.tasks.translation.aids import GivenGlossary
from regard.tasks.translation.cells import translate_cells
from regard.tasks.translation.engine import Split, TooLong
from regard.tasks.translation.result import Translation
from regard.tasks.translation.translator import Translator
from regard.text import DataError
from regard.text.flags import FlagSettings

SHORTEN = "shorten it, or translate with --too-long split"


@dataclass(frozen=True, slots=True)
class LineCounts:
    lines: int
    blank: int
    split: int
    """Translated in several pieces: of several sentences, or longer than the model was trained on."""
    unfinished: int
    """Stopped at the maximum length."""
    unknown: int
    """With words that the vocabulary does not have."""
    remembered: int = 0
    """Taken from the memory as they are."""
    matched: int = 0
    """Translated by a model that was given a near match of the memory."""
    terms: int = 0
    """Of the glossary, in all lines."""
    missed: Counter[str] = field(default_factory=Counter)
    """Those that are not there, as the glossary translates them."""


class StreamSettings(TypedDict, total=False):
    """What is said of a search; see `Translator.stream`."""

    to: str | None
    source_language: str | None
    suppressed: Sequence[str]
    too_long: TooLong
    split: Split
    align: bool
    glossary: GivenGlossary
    inflected: bool
    memory: Recall | None
    flags: bool | FlagSettings
    batch_tokens: int | None
    progress: Progress | None
    prompt: str | None


def translate_lines(
    translator: Translator,
    lines: Iterable[str],
    out: TextIO,
    *,
    scores: bool = False,
    as_json: bool = False,
    decoding: DecodeConfig | None = None,
    window: int = 1000,
    **settings: Unpack[StreamSettings],
) -> LineCounts:
    """Line i of `out` belongs to line i of `lines`. What a window of lines became is written and flushed
    before the next is read."""
    config = translator.decoding if decoding is None else decoding
    n_best = config.n_best
    if settings.get("align") and n_best > 1 and not as_json:
        raise ValueError(
            "align and n_best: the alignment is that of the best translation only; take n_best=1, or JSON, "
            "which has a place for both"
        )

    def write(number: int, translation: Translation) -> None:
        for line in _written(number, translation, n_best, scores, as_json):
            out.write(line + "\n")

    stripped = (line.rstrip("\r\n") for line in lines)
    stream = translator.stream(stripped, window=window, decoding=config, **settings)
    return _write(stream, write, out, window)


def translate_table(
    translator: Translator,
    source: Source,
    out: TextIO,
    format: Format,
    *,
    scores: bool = False,
    numbers: bool = False,
    decoding: DecodeConfig | None = None,
    window: int = 1000,
    **settings: Unpack[StreamSettings],
) -> LineCounts:
    """A column of a table; every row stays as it is, and gets its translation. With `numbers`, these stay as
    they are."""
    config = translator.decoding if decoding is None else decoding
    rows = source.rows()
    texts = Texts(Wanted(source.options.column), rows, source)
    align, several = settings.get("align", False), config.n_best > 1
    asked = {
        "score": scores,
        "alignment": align,
        "alternatives": several,
        "match": settings.get("memory") is not None,
        "flags": bool(settings.get("flags")),
    }
    added = ["translation", *(name for name, wanted in asked.items() if wanted)]
    writer = TableWriter(out, format, source, rows, added)
    waiting: deque[Record] = deque()
    done = 0

    def read() -> Iterator[str]:
        for record in rows.records:
            waiting.append(record)
            yield texts.of(record)

    def write(number: int, translation: Translation) -> None:
        nonlocal done
        links = " ".join(f"{i}-{j}" for i, j in translation.alignment or ())
        others = [{"text": each.text, "score": round(each.score, 6)} for each in translation.alternatives]
        values = {
            "score": round(translation.score, 6),
            "alignment": links,
            "alternatives": others,
            "match": translation.matches[0].score if translation.matches else "",
            "flags": " ".join(translation.flags or ()),
        }
        own = [values[name] for name, wanted in asked.items() if wanted]
        writer.write(waiting.popleft(), [translation.text, *own])
        done = number + 1

    how: Any = {"numbers": numbers, "decoding": config, **settings}
    try:
        return _write(translate_cells(translator, read(), window=window, **how), write, out, window)
    except DataError as error:
        if error.origin.file != "input":
            raise
        origin = waiting[error.origin.line - 1 - done].origin
        raise DataError(origin, error.reason, error.particulars, SHORTEN) from error


def _write(
    stream: Iterable[Translation], write: Callable[[int, Translation], None], out: TextIO, window: int
) -> LineCounts:
    blank = split = unfinished = unknown = remembered = matched = terms = count = 0
    missed: Counter[str] = Counter()
    for number, translation in enumerate(stream):
        count = number + 1
        blank += translation.pieces == 0 and not translation.remembered
        split += translation.pieces > 1
        unfinished += not translation.finished
        unknown += translation.unknown > 0
        remembered += translation.remembered
        matched += translation.match_given
        terms += len(translation.terms or ())
        missed.update(use.target for use in translation.terms or () if use.how == "missed")
        write(number, translation)
        if count % window == 0:
            out.flush()
    out.flush()
    return LineCounts(
        lines=count,
        blank=blank,
        split=split,
        unfinished=unfinished,
        unknown=unknown,
        remembered=remembered,
        matched=matched,
        terms=terms,
        missed=missed,
    )


def _written(
    number: int, translation: Translation, n_best: int, scores: bool, as_json: bool
) -> Iterator[str]:
    if as_json:
        yield json.dumps(translation.to_dict(), ensure_ascii=False)
    elif n_best > 1:
        for each in translation.alternatives:
            yield f"{number} ||| {one_line(each.text)} ||| {each.score:.4f}"
    else:
        score = f"{translation.score:.4f}\t" if scores else ""
        links = translation.alignment
        aligned = "" if links is None else " ||| " + " ".join(f"{i}-{j}" for i, j in links)
        yield score + one_line(translation.text) + aligned


def one_line(text: str) -> str:
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
