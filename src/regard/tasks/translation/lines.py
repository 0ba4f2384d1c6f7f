"""Translating a stream of lines into a file: what `regard translate` writes.

    plain           text                        one line for each line read, empty for a blank one
    scores          score<TAB>text              the log-probability
    align           text ||| 0-0 1-2            (source word)-(target word), counted from 0, as Pharaoh does
    n_best > 1      0 ||| text ||| score        as Moses does: the line, counted from 0, several times
    as_json         {"source": ..., "text": ..., "score": ..., ...}

A translation never breaks its line: where the model writes a newline, a space takes its place (but in JSON).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from regard.decode import DecodeConfig
from regard.tasks.base.predictor import Progress
from regard.tasks.translation.engine import TooLong
from regard.tasks.translation.result import Translation
from regard.tasks.translation.translator import Translator


@dataclass(frozen=True, slots=True)
class LineCounts:
    lines: int
    blank: int
    split: int
    """Translated in several pieces, because they are longer than the model was trained on."""
    unfinished: int
    """Stopped at the maximum length."""
    unknown: int
    """With words that the vocabulary does not have."""


def translate_lines(
    translator: Translator,
    lines: Iterable[str],
    out: TextIO,
    *,
    scores: bool = False,
    align: bool = False,
    as_json: bool = False,
    to: str | None = None,
    decoding: DecodeConfig | None = None,
    suppressed: Sequence[str] = (),
    too_long: TooLong = "split",
    window: int = 1000,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> LineCounts:
    """Line i of `out` belongs to line i of `lines`. What a window of lines became is written and flushed
    before the next is read."""
    config = translator.decoding if decoding is None else decoding
    n_best = config.n_best
    if align and n_best > 1 and not as_json:
        raise ValueError(
            "align and n_best: the alignment is that of the best translation only; take n_best=1, or JSON, "
            "which has a place for both"
        )
    blank = split = unfinished = unknown = count = 0
    stream = translator.stream(
        (line.rstrip("\r\n") for line in lines),
        window=window,
        to=to,
        decoding=config,
        suppressed=suppressed,
        too_long=too_long,
        align=align,
        batch_tokens=batch_tokens,
        progress=progress,
    )
    for number, translation in enumerate(stream):
        count = number + 1
        blank += translation.pieces == 0
        split += translation.pieces > 1
        unfinished += not translation.finished
        unknown += translation.unknown > 0
        for line in _written(number, translation, n_best, scores, as_json):
            out.write(line + "\n")
        if count % window == 0:
            out.flush()
    out.flush()
    return LineCounts(lines=count, blank=blank, split=split, unfinished=unfinished, unknown=unknown)


def _written(
    number: int, translation: Translation, n_best: int, scores: bool, as_json: bool
) -> Iterator[str]:
    if as_json:
        yield json.dumps(translation.to_dict(), ensure_ascii=False)
    elif n_best > 1:
        for each in translation.alternatives:
            yield f"{number} ||| {_one_line(each.text)} ||| {each.score:.4f}"
    else:
        score = f"{translation.score:.4f}\t" if scores else ""
        links = translation.alignment
        aligned = "" if links is None else " ||| " + " ".join(f"{i}-{j}" for i, j in links)
        yield score + _one_line(translation.text) + aligned


def _one_line(text: str) -> str:
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
