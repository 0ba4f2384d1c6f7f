"""Sentences with a tag for each word, for taggers: which files, read into memory."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np

from regard.config import check_choices
from regard.tasks.base.files import TextFilesConfig
from regard.tasks.base.formats import refuse
from regard.tasks.base.splits import Split, Splits, check_hold_out
from regard.text import (
    DataError,
    OnError,
    Scheme,
    Skipped,
    Table,
    TagError,
    Tagged,
    detect_scheme,
    read_conll,
    read_conllu,
    read_tagged,
    to_iob2,
)
from regard.text.columns import ConlluColumn
from regard.text.files import COMPRESSED
from regard.text.remote import placed

Format = Literal["conll", "conllu", "jsonl", "parquet", "arrow"]

_SUFFIXES: dict[str, Format] = {
    ".conllu": "conllu",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
}

COLUMNS = (".conll", ".conll03", ".col", ".bio", ".iob", ".iob2", ".conllu")
"""Names of files that have a word a line end so."""


COLUMNS_NEEDED = "write a word and its tag a line (CoNLL), or lists of both in JSON lines"


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedConfig(TextFilesConfig):
    train: tuple[str, ...]
    """What is learned from: a file, or a list of files."""
    valid: tuple[str, ...] = ()
    """What progress is measured on. Without it, some of the training sentences are held out."""
    test: tuple[str, ...] = ()
    """What the finished model is measured on."""
    root: str = ""
    """Where relative paths start from; unless given, the folder of the recipe."""
    format: Format | None = None
    """Of the files. Unless given, their names tell: .conllu, .jsonl, .parquet, .arrow; all others are columns
    of words and tags, one word a line (conll)."""
    word: str | int | None = None
    """The column of the words: its number from 0 in conll (0 unless given), its name in a table (words)."""
    tag: str | int | None = None
    """The column of the tags: its number in conll (-1, the last, unless given), its name in a table (tags),
    or one of CoNLL-U's (UPOS)."""
    names: tuple[str, ...] = ()
    """Where the tags of a table are numbers, the tag for each."""
    problem: Literal["tags", "number"] = "tags"
    """A word has a tag, or a number: then the column of the tags has numbers, and these are learned."""
    scheme: Literal["detect", "IOB2", "IOB1", "BIOES", "BILOU", "none"] = "detect"
    """How tags mark spans in conll and tables; they are learned as IOB2 whatever it is. none: tags are left
    as they are."""
    separator: str | None = None
    """Between the columns of conll; unless given, tabs where the first line has one, else spaces."""
    comment: str = ""
    """Lines of a conll file that begin with this are passed over."""
    hold_out: int = 0
    """Sentences held out for validation where there is no `valid`; 0: a twentieth, at most 1,000."""
    longest: int = 0
    """Most tokens that are read at once, special ones included; 0: as many as the model can read, at most
    512. Longer sentences are read in overlapping windows."""
    on_error: OnError = "raise"
    """What to do with a broken sentence: stop there, or skip it and count it."""

    def __post_init__(self) -> None:
        check_choices(self)
        TextFilesConfig.__post_init__(self)
        if not self.train:
            raise ValueError('train is empty: name a file, train = "train.conll"')
        if self.longest and self.longest < 4:
            raise ValueError(f"longest={self.longest} leaves no room for a word: choose 4 or more")
        check_hold_out(self.hold_out, self.valid)
        for name in (*self.train, *self.valid, *self.test):
            self._check_columns(self.format_of(name), name)

    def format_of(self, name: str | Path) -> Format:
        return self.format or format_of(name)

    def _check_columns(self, form: Format, name: str) -> None:
        for key in ("word", "tag"):
            column = getattr(self, key)
            if column is None:
                continue
            if form == "conll" and not isinstance(column, int):
                raise ValueError(
                    f"{key}={column!r}, but {name} has columns without names (conll): give the number, from 0"
                )
            if form == "conllu" and key == "tag" and column not in get_args(ConlluColumn):
                raise ValueError(
                    f"tag={column!r} is no column of CoNLL-U, as {name} is: choose from "
                    f"{', '.join(get_args(ConlluColumn))}"
                )
            if form == "conllu" and key == "word":
                raise ValueError(f"word={column!r}, but in CoNLL-U, as {name} is, words have their place")


def format_of(name: str | Path) -> Format:
    """As the name of a file tells."""
    path = Path(name)
    inner = path.with_suffix("") if path.suffix in COMPRESSED else path
    return _SUFFIXES.get(inner.suffix.lower(), "conll")


class TaggedCorpus:
    """All sentences of a recipe."""

    def __init__(self, config: TaggedConfig, where: Path) -> None:
        self.config = config
        self.root = where / config.root
        self._splits: Splits[Tagged] = Splits(
            {split: [self._checked(path) for path in self.paths(split)] for split in get_args(Split)},
            paths=self.paths("train"),
            what="sentences",
            key=lambda record: " ".join(record.words),
            hold_out=config.hold_out,
            on_error=config.on_error,
        )

    def paths(self, split: Split) -> list[Path]:
        names = {"train": self.config.train, "valid": self.config.valid, "test": self.config.test}[split]
        return [placed(self.root, name) for name in names]

    def readers(self, split: Split) -> list[Callable[..., Iterator[Tagged]]]:
        """For each of the files, a reader that waits to be told what to do with broken sentences."""
        return [self._checked(path) for path in self.paths(split)]

    def _checked(self, path: Path) -> Callable[..., Iterator[Tagged]]:
        """Where tags are numbers, only such sentences."""
        read = self._reader(path)
        return partial(_with_numbers, read) if self.config.problem == "number" else read

    def _reader(self, path: Path) -> Callable[..., Iterator[Tagged]]:
        config = self.config
        scheme = None if config.scheme == "none" or config.problem == "number" else config.scheme
        match config.format_of(path):
            case "conll":
                if config.format is None:
                    refuse(str(path), COLUMNS_NEEDED)
                return partial(
                    read_conll,
                    path,
                    word=0 if config.word is None else int(config.word),
                    tag=-1 if config.tag is None else int(config.tag),
                    scheme=scheme,
                    comment=config.comment or None,
                    encoding=config.encoding,
                    separator=config.separator,
                )
            case "conllu":
                tag = cast(ConlluColumn, config.tag or "UPOS")
                return partial(read_conllu, path, tag=tag, encoding=config.encoding)
            case form:
                return partial(
                    read_tagged_table,
                    Table(path=path, format=form, encoding=config.encoding),
                    words="words" if config.word is None else config.word,
                    tags="tags" if config.tag is None else config.tag,
                    names=config.names or None,
                    scheme=scheme,
                    numbers=config.problem == "number",
                )

    @property
    def size(self) -> int:
        return self._splits.size

    def read(self, split: Split, skipped: Skipped | None = None) -> list[Tagged]:
        return list(self._splits.read(split, skipped))


def read_tagged_table(
    table: Table,
    *,
    words: str | int,
    tags: str | int,
    names: Sequence[str] | None = None,
    scheme: Scheme | Literal["detect"] | None = "detect",
    numbers: bool = False,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Tagged]:
    """Sentences of a table as `read_conll` gives those of columns: tags in IOB2, "detect" reads twice."""
    skipped = Skipped() if skipped is None else skipped
    note = ""
    if scheme == "detect":
        unread = read_tagged(table, words=words, tags=tags, names=names, on_error="skip", skipped=Skipped())
        scheme = detect_scheme(record.tags for record in unread)
        note = f", read as {scheme} (detected)"
    how: Any = {"names": names, "numbers": numbers, "on_error": on_error, "skipped": skipped}
    for record in read_tagged(table, words=words, tags=tags, **how):
        error = None if record.words else DataError(record.origin, "a sentence without words")
        if error is None and scheme is not None:
            try:
                record = Tagged(record.words, to_iob2(record.tags, scheme), record.origin)
            except TagError as wrong:
                error = DataError(record.origin, "wrong tag", f"({wrong}){note}")
        if error is None:
            yield record
        elif on_error == "raise":
            raise error
        else:
            skipped.add(error)


def tag_names(records: Sequence[Tagged]) -> tuple[str, ...]:
    """All tags there are, the most frequent first."""
    counts = Counter(tag for record in records for tag in record.tags)
    return tuple(sorted(counts, key=lambda tag: (-counts[tag], tag)))


def _with_numbers(
    read: Callable[..., Iterator[Tagged]], *, on_error: OnError, skipped: Skipped
) -> Iterator[Tagged]:
    for record in read(on_error=on_error, skipped=skipped):
        try:
            numbers_of([record])
        except DataError as error:
            if on_error == "raise":
                raise
            skipped.add(error)
        else:
            yield record


def numbers_of(records: Sequence[Tagged]) -> list[list[float]]:
    """The tags of each sentence as numbers."""
    return [
        [_number(record, *each) for each in zip(record.words, record.tags, strict=True)] for record in records
    ]


def _number(record: Tagged, word: str, tag: str) -> float:
    try:
        value = float(tag)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise DataError(
            record.origin,
            "no number",
            f"but {tag!r:.40}, for the word {word!r:.40} of a sentence that begins there",
            remedy="correct it, or leave data.problem out",
        )
    return value


def mark_spans(names: Sequence[str]) -> bool:
    """Whether these are the tags of IOB2."""
    inside = [name for name in names if name != "O"]
    return bool(inside) and all(name[:2] in ("B-", "I-") and len(name) > 2 for name in inside)
