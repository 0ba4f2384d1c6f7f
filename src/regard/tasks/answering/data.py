"""Questions about texts, for answerers: which files, read into memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from regard.config import check_choices
from regard.tasks.base.files import TextFilesConfig
from regard.tasks.base.splits import Split, Splits, check_hold_out
from regard.text import OnError, Question, Skipped, Table, read_questions, read_squad
from regard.text.files import COMPRESSED
from regard.text.remote import placed

Format = Literal["squad", "tsv", "csv", "jsonl", "parquet", "arrow"]
CANNOT = -1
"""Where no answer can begin or end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionsConfig(TextFilesConfig):
    train: tuple[str, ...]
    """What is learned from: a file, or a list of files."""
    valid: tuple[str, ...] = ()
    """What progress is measured on, and the threshold for no answer learned. Without it, some of the training
    questions are held out, all those about a text together."""
    test: tuple[str, ...] = ()
    """What the finished model is measured on."""
    root: str = ""
    """Where relative paths start from; unless given, the folder of the recipe."""
    format: Format | None = None
    """Of the files. Unless given, their names tell: .json is SQuAD's (1.1 or 2.0); .tsv, .csv, .jsonl,
    .parquet and .arrow are tables, a question a row."""
    question: str | int = "question"
    """Of a table: the column of the question, its name or its number from 0."""
    context: str | int = "context"
    """The column of the text that the question is about."""
    answer: str | int = "answer"
    """The column of the answer, as it stands in the text; empty where the text has none. In JSON lines and
    columnar data it may be {"text": [...], "answer_start": [...]}, as in data sets of Hugging Face: then
    start = ""."""
    start: str | int = "start"
    """The column of the answer's first character in the text, from 0. Empty: there is none; the answer says
    it itself, or stands in its text once."""
    hold_out: int = 0
    """Questions held out for validation where there is no `valid`; 0: a twentieth, at most 1,000."""
    longest: int = 0
    """Most tokens that are read at once, the question's and special ones included; 0: as many as the model
    can read, at most 384. Longer texts are read in overlapping windows."""
    overlap: int = 128
    """Tokens that two windows of a text share; at most half of them."""
    on_error: OnError = "raise"
    """What to do with a broken question: stop there, or skip it and count it."""

    def __post_init__(self) -> None:
        check_choices(self)
        TextFilesConfig.__post_init__(self)
        if not self.train:
            raise ValueError('train is empty: name a file, train = "train.json"')
        if self.longest and self.longest < 16:
            raise ValueError(f"longest={self.longest} leaves no room for a text: choose 16 or more")
        if self.overlap < 0:
            raise ValueError(f"overlap={self.overlap} must be 0 or more")
        check_hold_out(self.hold_out, self.valid)

    def format_of(self, name: str | Path) -> Format | None:
        """None: as a table's name tells."""
        path = Path(name)
        inner = path.with_suffix("") if path.suffix in COMPRESSED else path
        return self.format or ("squad" if inner.suffix.lower() == ".json" else None)


class QuestionCorpus:
    """All questions of a recipe."""

    def __init__(self, config: QuestionsConfig, where: Path) -> None:
        self.config = config
        self.root = where / config.root
        self._splits: Splits[Question] = Splits(
            {split: [reader(config, path) for path in self.paths(split)] for split in get_args(Split)},
            paths=self.paths("train"),
            what="questions",
            key=lambda record: record.context,
            hold_out=config.hold_out,
            on_error=config.on_error,
        )

    def paths(self, split: Split) -> list[Path]:
        names = {"train": self.config.train, "valid": self.config.valid, "test": self.config.test}[split]
        return [placed(self.root, name) for name in names]

    def readers(self, split: Split) -> list[Callable[..., Iterator[Question]]]:
        """For each of the files, a reader that waits to be told what to do with broken questions."""
        return [reader(self.config, path) for path in self.paths(split)]

    def read(self, split: Split, skipped: Skipped | None = None) -> list[Question]:
        return list(self._splits.read(split, skipped))


def reader(
    config: QuestionsConfig, path: Path, *, answered: bool = True
) -> Callable[..., Iterator[Question]]:
    """`answered`: with their answers."""
    form = config.format_of(path)
    if form == "squad":
        return partial(read_squad, path, answered=answered, encoding=config.encoding)
    return partial(
        read_questions,
        Table(path=path, format=form, encoding=config.encoding, separator=config.separator),
        question=config.question,
        context=config.context,
        answer=config.answer if answered else None,
        start=config.start if config.start != "" else None,
    )
