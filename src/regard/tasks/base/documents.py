"""Plain text as documents: which files, how they part, and what of them is held out.

A document is lines of text, one after the other. A long one is read in passages, so that memory does not grow
with it. What is held out to validate on is whole documents or, where they are few, the end of every document.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, get_args

from regard.config import check_choices
from regard.tasks.base.files import TextFilesConfig
from regard.tasks.base.formats import refuse
from regard.tasks.base.splits import Reader, Split, Splits, check_hold_out
from regard.text import DataError, Line, OnError, Origin, Skipped, Table, read_lines, read_table_lines
from regard.text.records import sift
from regard.text.remote import placed
from regard.text.tables import Format

PASSAGE = 1_000_000
"""Characters of a document that are in memory at once, and of lines that are encoded at once."""

FEW = 100
"""Documents; unless it is said, fewer are not held out whole."""

END = 0.05
"""Of each of them, this share is then held out."""

LONG = 10_000
"""Characters; only a longer line is cut inside."""

PLAIN = (
    "convert it to plain text; to have it read as it is, say data.format=lines, or let its name end in .txt"
)
"""What to do with a file that is neither text nor a table."""

TABLE = ("separator", "encoding", "quoted", "header")
"""Settings of a table."""

NEAR = 100
"""Characters from where a long line should be cut: a space no farther away is taken instead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentsConfig(TextFilesConfig):
    train: tuple[str, ...]
    """What is learned from: a file, a folder of files, or a list of them; plain text, or tables in which a
    row is a document."""
    valid: tuple[str, ...] = ()
    """What progress is measured on. Without it, some of the training text is held out."""
    test: tuple[str, ...] = ()
    """Stays empty: a pretrained model is measured by what is made of it."""
    root: str = ""
    """Where relative paths start from; unless given, the folder of the recipe."""
    documents: Literal["blank", "line", "file", "mark", "messages"] = "blank"
    """How plain text parts: a blank line ends a document, each line is one, each file is one, or a line that
    starts with `mark` begins one. messages, of language models: each line is a dialogue, in JSON."""
    mark: str = ""
    """What the line before each document starts with, such as "<doc"; the line itself is not read."""
    text: str | int = "text"
    """The column of the text in a table: its name, or its number from 0."""
    format: Format | Literal["lines"] | None = None
    """Of tables, where their names do not tell; lines: whatever their names tell, they are plain text."""
    quoted: bool | None = None
    """Whether quotation marks enclose cells; unless given, in CSV they do, in TSV they do not."""
    header: bool | None = None
    """Whether the first row names the columns; unless given, it does if the column is given by name."""
    hold_out: int | float = 0
    """Held out for validation where there is no `valid`: so many documents or, below 1, this share of every
    document, at its end, to the nearest line, or of dialogues this share of them; 0: a twentieth of the
    documents, at most 1,000, or, where they are fewer than 100 and of several lines, 0.05."""
    longest: int = 0
    """Most tokens of a sequence, special ones included; 0: as many as the model can read, at most 512."""
    on_error: OnError = "raise"
    """What to do with a broken line: stop there, or skip it and count it."""

    def __post_init__(self) -> None:
        check_choices(self)
        TextFilesConfig.__post_init__(self)
        if not self.train:
            raise ValueError('train is empty: name a file, train = "train.txt"')
        if self.test:
            raise ValueError(
                f"test={list(self.test)}: pretraining has no test; leave it out, or name it in valid"
            )
        if (self.documents == "mark") != bool(self.mark):
            raise ValueError(
                f"documents={self.documents!r} beside mark={self.mark!r}: set both, documents='mark' and "
                "what the line before each document starts with, or none of them"
            )
        if self.longest and self.longest < 8:
            raise ValueError(f"longest={self.longest} leaves no room for text: choose 8 or more")
        if isinstance(self.hold_out, float) and not 0 <= self.hold_out < 1:
            raise ValueError(
                f"hold_out={self.hold_out} must be a number of documents, whole and written without a point "
                "(5), or a share of every document, from 0 to below 1 (0.05)"
            )
        check_hold_out(self.hold_out, self.valid)


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines of a document, blank ones left out unless they are asked for. A long document comes in several
    passages. One that has no lines stands for a document of which nothing is held out, where of others the
    end is."""

    key: str
    """The text of the document's first passage: documents with the same one are not distinguished when some
    are held out."""
    lines: tuple[str, ...]
    begins: bool
    """Whether it is the first of its document."""
    origin: Origin | None = None
    """Of a dialogue: where it stands."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What the files hold."""

    sizes: Sequence[int]
    """The characters of each document to learn from, what is held out included, line ends not."""
    words: int
    """Of these documents."""
    divisible: bool
    """Whether any document can be cut: one of two lines or more, or of a long one."""
    skipped: Skipped
    """Broken lines, those to validate on included."""

    @property
    def documents(self) -> int:
        return len(self.sizes)


class DocumentCorpus:
    """All documents of a recipe. Reading them takes no more memory for a larger corpus."""

    def __init__(
        self,
        config: DocumentsConfig,
        where: Path,
        *,
        blank: bool = False,
        check: Callable[[str], object] | None = None,
    ) -> None:
        """`where` is the folder that relative paths start from. With `blank`, lines without text are kept
        inside documents. `check` raises a ValueError for a line that is no dialogue."""
        self.config, self._blank, self._check = config, blank, check
        self.root = where / config.root
        self._readers: dict[Split, list[Reader[Passage]]] = {
            split: [self._reader(path) for path in self.paths(split)] for split in get_args(Split)
        }

    def paths(self, split: Split) -> list[Path]:
        """Of a folder, all files in it, in the order of their names."""
        names = {"train": self.config.train, "valid": self.config.valid, "test": self.config.test}[split]
        return [path for name in names for path in _files(placed(self.root, name))]

    def line_readers(self, split: Split) -> list[Callable[..., Iterator[Line]]]:
        """For each of the files, a reader of its lines, or its rows, that waits to be told what to do with
        broken ones."""
        return [self._lines(path) for path in self.paths(split)]

    def passages(self, split: Split) -> Iterator[Passage]:
        """Held-out text of the training files belongs to `valid`. Where it is the ends of documents, a
        document has the same number in both."""
        if self.share and split != "test":
            return parts(self._whole.read("train", Skipped()), self.survey.sizes, self.share, split)
        return self._splits.read(split, Skipped())

    def whole(self) -> Iterator[Passage]:
        """The training files with nothing held out."""
        return self._whole.read("train", Skipped())

    def lines(self, split: Split) -> Iterator[str]:
        return (line for passage in self.passages(split) for line in passage.lines)

    @cached_property
    def survey(self) -> Survey:
        sizes, words, divisible, skipped = array("q"), 0, False, Skipped()
        for passage in self._whole.read("train", skipped):
            if passage.begins:
                sizes.append(0)
            several = len(passage.lines) > 1 or not passage.begins
            divisible = divisible or several or inside(passage.lines[0], 0) > 0
            sizes[-1] += sum(map(len, passage.lines))
            words += sum(len(line.split()) for line in passage.lines)
        if not sizes:
            raise self._error("no documents to train on", "name files that have text")
        if self.config.valid:
            deque(self._whole.read("valid", skipped), maxlen=0)
        return Survey(sizes, words, divisible, skipped)

    @cached_property
    def share(self) -> float:
        """Of every document, this share is held out at its end; 0: none, or whole documents, as dialogues
        always are."""
        hold_out = self.config.hold_out
        if self.config.documents == "messages":
            return 0.0
        if self.config.valid or hold_out >= 1 or (not hold_out and self.survey.documents >= FEW):
            return 0.0
        count = self.survey.documents
        if not self.survey.divisible:
            if not hold_out and count > 1:
                return 0.0
            whole = f"hold out whole documents, data.hold_out={max(count // 20, 1)}, or " if count > 1 else ""
            raise self._error(
                "every document is a single line, and has no end to hold out",
                f"{whole}name files of data.valid",
            )
        return hold_out or END

    @cached_property
    def _splits(self) -> Splits[Passage]:
        """Documents are held out whole, or not at all."""
        hold_out = int(self.config.hold_out)
        if 0 < self.config.hold_out < 1:
            hold_out = max(round(self.config.hold_out * self.survey.documents), 1)
        if not hold_out and not self.config.valid:
            hold_out = min(1000, max(self.survey.documents // 20, 1))
        return self._of(self._readers, hold_out)

    @cached_property
    def _whole(self) -> Splits[Passage]:
        """With what is held out: beside files to validate on, nothing is."""
        return self._of({**self._readers, "valid": self._readers["valid"] or self._readers["train"]}, 1)

    def _error(self, reason: str, remedy: str) -> DataError:
        return DataError(Origin(str(self.paths("train")[0])), reason, remedy=remedy)

    def _of(self, readers: dict[Split, list[Reader[Passage]]], hold_out: int) -> Splits[Passage]:
        return Splits(
            readers,
            paths=self.paths("train"),
            what="documents",
            key=lambda passage: passage.key,
            hold_out=hold_out,
            on_error=self.config.on_error,
        )

    def _table(self, path: Path) -> Table:
        form = None if self.config.format == "lines" else self.config.format
        return Table(path=path, format=form, **{name: getattr(self.config, name) for name in TABLE})

    def _is_table(self, path: Path) -> bool:
        plain = self.config.format == "lines" or self.config.documents == "messages"
        return not plain and _is_table(self._table(path))

    def _lines(self, path: Path) -> Callable[..., Iterator[Line]]:
        if self._is_table(path):
            return partial(read_table_lines, self._table(path), text=self.config.text)
        return partial(read_lines, path, encoding=self.config.encoding)

    def _reader(self, path: Path) -> Reader[Passage]:
        config = self.config
        if self._is_table(path):
            if config.documents != "blank":
                raise ValueError(
                    f"data.documents={config.documents!r} is for plain text, but {path} is a table, in which "
                    "each row is a document: leave it out"
                )
            return lambda **how: _rows(self._lines(path)(**how), self._blank)
        if config.format is None and config.documents != "messages":
            refuse(str(path), PLAIN)
        if config.documents == "messages":
            return lambda **how: sift(self._dialogues(self._lines(path)(**how)), **how)
        return lambda **how: self._parted(line.text for line in self._lines(path)(**how))

    def _dialogues(self, lines: Iterator[Line]) -> Iterator[Passage | DataError]:
        for line in lines:
            if not line.text.strip():
                continue
            try:
                if self._check is not None:
                    self._check(line.text)
            except ValueError as error:
                yield DataError(line.origin, "no dialogue", f"({error})")
            else:
                yield Passage(line.text, (line.text,), begins=True, origin=line.origin)

    def _parted(self, lines: Iterator[str]) -> Iterator[Passage]:
        match self.config.documents:
            case "line":
                return (Passage(line, (line,), begins=True) for line in lines if line.strip())
            case "blank":
                return parted(lines, lambda line: not line.strip())
            case "mark":
                return parted(lines, lambda line: line.startswith(self.config.mark), blank=self._blank)
            case _:  # a file is one
                return parted(lines, lambda line: False, blank=self._blank)


def is_table(path: Path | str) -> bool:
    """Whether a name says that a file is a table; a folder is one where Hugging Face saved it."""
    path = Path(path)
    return _is_table(Table(path=path)) and not (path.is_dir() and _files(path) != [path])


def _is_table(table: Table) -> bool:
    try:
        table.resolve_format()
    except (DataError, OSError):  # of unknown format: plain text; a name too long is told when it is opened
        return False
    return True


def _files(path: Path) -> list[Path]:
    if not path.is_dir() or any((path / name).exists() for name in ("state.json", "dataset_dict.json")):
        return [path]
    found = sorted(
        each
        for each in path.rglob("*")
        if each.is_file() and not any(part.startswith(".") for part in each.relative_to(path).parts)
    )
    if not found:
        raise DataError(Origin(str(path)), "an empty folder", remedy="name one that has files")
    return found


def _rows(rows: Iterable[Any], blank: bool) -> Iterator[Passage]:
    for row in rows:
        lines = tuple(line for line in row.text.split("\n") if blank or line.strip())
        if row.text.strip():
            yield Passage(row.text, lines, begins=True)


def parted(lines: Iterable[str], ends: Callable[[str], bool], *, blank: bool = False) -> Iterator[Passage]:
    """Documents, where a line for which `ends` holds lies between two of them and is in none. With `blank`,
    lines without text are kept, but not before the first that has some."""
    key, held, size = "", list[str](), 0
    for line in lines:
        over = ends(line)
        if held and (over or size >= PASSAGE):
            text = "\n".join(held)
            yield Passage(key or text, tuple(held), begins=not key)
            key, held, size = key or text, [], 0
        if over:
            key = ""
        elif line.strip() or (blank and (held or key)):
            held.append(line)
            size += len(line)
    if held:
        yield Passage(key or "\n".join(held), tuple(held), begins=not key)


def parts(passages: Iterable[Passage], sizes: Sequence[int], share: float, split: Split) -> Iterator[Passage]:
    """The part of every document to learn from, or the one at its end to validate on; `sizes` are the
    characters of each document.

    Documents are cut between lines, as near to the share as can be, with a line on either side at least; one
    of a single line stays whole. But where the share ends inside a `LONG` line, that line is cut.
    """
    document, place, key, begins = -1, 0, "", False
    for passage in passages:
        if passage.begins:
            if begins:
                yield Passage(key, (), begins=True)
            document, place, key, begins = document + 1, 0, passage.key, True
        lines = list[str]()
        for line in passage.lines:
            own = _divided(line, place, sizes[document], share)[split == "valid"]
            lines += [] if own is None else [own]
            place += len(line)
        if lines:
            yield Passage(key, tuple(lines), begins)
            begins = False
    if begins:
        yield Passage(key, (), begins=True)


def _divided(line: str, begin: int, size: int, share: float) -> tuple[str | None, str | None]:
    """What of a line is to learn from and what to validate on. The line begins after so many characters of
    its document's `size`."""
    end, wanted = begin + len(line), min(size - share * size, size - 1)
    at = inside(line, wanted - begin) if begin <= wanted < end else 0
    if at:
        return line[:at], line[at + 1 :] if line[at] == " " else line[at:]
    nearer = begin + end <= 2 * wanted  # to its end
    return (line, None) if begin == 0 or (nearer and end < size) else (None, line)


def inside(line: str, place: float) -> int:
    """Where a `LONG` line is cut so that there is text on either side: at a space, which then goes as the end
    of a line does, or at the very character if none is `NEAR` the place. 0: the line is not cut."""
    if len(line) <= LONG:
        return 0
    first, last = len(line) - len(line.lstrip()) + 1, len(line.rstrip()) - 1
    if first > last:
        return 0
    at = min(max(round(place), first), last)
    before = line.rfind(" ", max(first, at - NEAR), at + 1)
    behind = line.find(" ", at, min(last, at + NEAR + 1))
    spaces = [space for space in (before, behind) if space > 0]
    return min(spaces, key=lambda space: abs(space - at), default=at)
