"""Tagging a stream of lines into a file: what `regard tag` writes.

    conll     every line as it is, all columns, comments, blank and -DOCSTART- lines; behind each word, as one
              more column, its tag; or, with `replace`, in place of the column of tags
    conllu    the same, but always in place of a column: the format has ten, no more
    text      a sentence a line becomes lines of word<TAB>tag, and a blank line

No more than a window of sentences is held in memory.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, TextIO, get_args

from regard.tasks.base.lines import final
from regard.tasks.base.predictor import Progress
from regard.tasks.tagging.data import COLUMNS
from regard.text import DataError, Origin
from regard.text.columns import ConlluColumn
from regard.text.files import COMPRESSED, LONGEST

LineFormat = Literal["conll", "conllu", "text"]


_SUFFIXES: dict[str, LineFormat] = {
    **dict.fromkeys((*COLUMNS, ".tsv"), "conll"),
    ".conllu": "conllu",
    ".txt": "text",
    ".md": "text",
}


@cache
def _cells(separator: str) -> re.Pattern[str]:
    """Several spaces part cells as one does."""
    mark = re.escape(separator)
    return re.compile(r"[^ ]+" if separator == " " else rf"(?:^|(?<={mark}))[^{mark}]*")


@dataclass(frozen=True, slots=True)
class TagCounts:
    sentences: int
    words: int
    silent: int
    """Words that left no token: a zero-width sign, say."""


def line_format(path: Path | str) -> LineFormat:
    """As the name of a file tells."""
    path = Path(path)
    inner = path.with_suffix("") if path.suffix in COMPRESSED else path
    if inner.suffix.lower() not in _SUFFIXES:
        raise ValueError(
            f"{path}: its name does not tell whether it has columns or plain text; give the format, one of "
            f"{', '.join(get_args(LineFormat))}"
        )
    return _SUFFIXES[inner.suffix.lower()]


@dataclass(slots=True)
class _Sentence:
    """Lines that belong together: those of a sentence, and those between it and the next."""

    lines: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """The line of each word."""
    size: int = 0


def tag_lines(
    lines: Iterable[str | DataError],
    out: TextIO,
    tag_all: Callable[[list[str | Sequence[str]]], Sequence[Any]],
    *,
    format: LineFormat,
    file: str = "input",
    word: int = 0,
    tag: str | int | None = None,
    comment: str = "",
    replace: bool = False,
    separator: str | None = None,
    window: int = 1000,
    progress: Progress | None = None,
) -> TagCounts:
    """`tag_all` is `Tagger.tag`; `lines` have no ends. What a window of sentences became is written and
    flushed before the next is read. `tag` is the column that is replaced: in conll its number (-1 unless
    given), in CoNLL-U its name (UPOS). `separator` is that of conll, unless it is a tab or spaces. An error
    names `file` and the line."""
    if format not in get_args(LineFormat):
        raise ValueError(f"format={format!r} is none of {', '.join(get_args(LineFormat))}")
    writer: _Text | _Columns
    if format == "text":
        writer = _Text(file)
    else:
        writer = _Columns(file, _place(format, tag), format, word, comment, replace, separator)
    sentences = words = silent = 0
    for batch in _batches(writer.sentences(lines), window):
        given: list[str | Sequence[str]] = [writer.given(each) for each in batch]
        for each, found in zip(batch, tag_all(given), strict=True):
            for line in writer.written(each, found.words, found.tags):
                out.write(line + "\n")
            sentences += bool(found.words)
            words += len(found.words)
            silent += sum(chance != chance for chance in found.probabilities)
        out.flush()
        if progress is not None:
            progress(len(batch))
    return TagCounts(sentences, words, silent)


def _place(format: LineFormat, tag: str | int | None) -> int:
    if format == "conll":
        if isinstance(tag, str):
            raise ValueError(f"tag={tag!r}, but columns of conll have no names: give the number, from 0")
        return -1 if tag is None else tag
    name = "UPOS" if tag is None else tag
    if name not in get_args(ConlluColumn):
        raise ValueError(
            f"tag={tag!r} is no column of CoNLL-U: choose from {', '.join(get_args(ConlluColumn))}"
        )
    return 1 + get_args(ConlluColumn).index(name)  # the ID comes before


def _batches(sentences: Iterator[_Sentence], window: int) -> Iterator[list[_Sentence]]:
    batch: list[_Sentence] = []
    for sentence in sentences:
        batch.append(sentence)
        if len(batch) == window:
            yield batch
            batch = []
    if batch:
        yield batch


class _Text:
    """A sentence a line."""

    def __init__(self, file: str) -> None:
        self.file = file

    def sentences(self, lines: Iterable[str | DataError]) -> Iterator[_Sentence]:
        for line in lines:
            if isinstance(line, DataError):
                raise final(line)
            yield _Sentence(lines=[line])

    def given(self, sentence: _Sentence) -> str:
        return sentence.lines[0]

    def written(self, sentence: _Sentence, words: Sequence[str], tags: Sequence[str]) -> Iterator[str]:
        for word, tag in zip(words, tags, strict=True):
            yield f"{word}\t{tag}"
        yield ""


class _Columns:
    """A word a line, a blank line after each sentence."""

    def __init__(
        self, file: str, place: int, format: LineFormat, word: int, comment: str, replace: bool,
        separator: str | None,
    ) -> None:  # fmt: skip
        self.file, self.place = file, place
        self.conllu = format == "conllu"
        self.word = 1 if self.conllu else word
        self.comment = "#" if self.conllu else comment
        self.replace = replace or self.conllu
        self.separator = "\t" if self.conllu else separator or ""

    def sentences(self, lines: Iterable[str | DataError]) -> Iterator[_Sentence]:
        """Lines that are no words stay where they are, at the end of a sentence or before the next."""
        current = _Sentence()
        for number, line in enumerate(lines, start=1):
            if isinstance(line, DataError):
                raise final(line)
            ends = not line.strip(" \t") or line.startswith("-DOCSTART-")
            if not ends and not self._is_aside(line):
                self._add(current, line, number)
            current.lines.append(line)
            current.size += len(line)
            if current.size > LONGEST:
                origin = Origin(self.file, number - len(current.lines) + 1)
                remedy = "part sentences by blank lines, or give the format of the file"
                raise DataError(origin, "sentence too long", f"(at most {LONGEST} characters)", remedy)
            if ends:
                yield current
                current = _Sentence()
        if current.lines:
            yield current

    def given(self, sentence: _Sentence) -> Sequence[str]:
        return sentence.words

    def written(self, sentence: _Sentence, words: Sequence[str], tags: Sequence[str]) -> Iterator[str]:
        tagged = dict(zip(sentence.numbers, tags, strict=True))
        for number, line in enumerate(sentence.lines):
            yield self._with(line, tagged[number]) if number in tagged else line

    def _is_aside(self, line: str) -> bool:
        if self.comment and line.startswith(self.comment):
            return True
        return self.conllu and not line.partition("\t")[0].isdecimal()

    def _add(self, sentence: _Sentence, line: str, number: int) -> None:
        self.separator = self.separator or ("\t" if "\t" in line else " ")
        cells = _cells(self.separator).findall(line)
        wanted = (self.word, self.place) if self.replace else (self.word,)
        for column in wanted:
            if not -len(cells) <= column < len(cells):
                which = f"{column} ({len(cells)} there are, counted from 0)"
                remedy = "fix the line, or check word, tag and the format"
                raise DataError(Origin(self.file, number), "no such column", which, remedy)
        sentence.words.append(cells[self.word])
        sentence.numbers.append(len(sentence.lines))

    def _with(self, line: str, tag: str) -> str:
        if not self.replace:
            return f"{line}{self.separator}{tag}"
        cells = list(_cells(self.separator).finditer(line))
        cell = cells[self.place]
        return f"{line[: cell.start()]}{tag}{line[cell.end() :]}"
