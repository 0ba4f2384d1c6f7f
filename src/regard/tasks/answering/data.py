"""Questions about texts, for answerers: which files, read into memory, handed out as batches.

    tokens    [CLS] who met bob [SEP] ann lees ##on met bob . [SEP]
    starts      0    -   -   -    -    1   0    0    0   0  0   -       how many gold answers begin here
    ends        0    -   -   -    -    0   0    1    0   0  0   -       and end; - : no answer can

A window without an answer has a 1 at [CLS].
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Unpack, get_args

import numpy as np
from torch import Tensor

from regard.config import check_choices
from regard.data import Column, Packed, Plan, Shape, pack_flat, ragged, spread
from regard.tasks.answering.windows import Laid
from regard.tasks.base.feed import Batch, PlannedFeed, Sharing
from regard.tasks.base.files import TextFilesConfig
from regard.tasks.base.splits import Split, Splits, check_hold_out
from regard.text import DataError, OnError, Question, Skipped, Table, read_questions, read_squad
from regard.text.files import COMPRESSED

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
        return self.format or ("squad" if inner.suffix == ".json" else None)


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
        return [self.root / name for name in names]

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


@dataclass(frozen=True, slots=True, eq=False)
class EncodedQuestions:
    """Windows as a model reads them, with their labels."""

    ids: Column
    segments: Column | None
    starts: Column
    ends: Column
    silent: int
    """Questions whose answers left no token: they are learned as if there was none."""
    answered: int
    """Windows with an answer in them."""


def encode(laid: Sequence[Laid], records: Sequence[Question], *, paired: bool) -> EncodedQuestions:
    """`paired`: the model tells segments apart."""
    ids, segments, silent, answered = [], [], 0, 0
    starts: list[np.ndarray] = []
    ends: list[np.ndarray] = []
    for each, record in zip(laid, records, strict=True):
        spans = each.spans(record.answers)
        silent += bool(record.answers) and not spans
        for window in each.windows:
            both = np.full((2, len(window.ids)), CANNOT, dtype=np.int64)
            both[:, 0] = 0
            both[:, window.first : window.first + window.count] = 0
            for start, end in window.places(spans):
                both[0, start] += 1
                both[1, end] += 1
            answered += not both[0, 0]
            ids.append(window.ids)
            segments.append(window.segments)
            starts.append(both[0])
            ends.append(both[1])
    if not answered:
        raise DataError(
            records[0].origin,
            f"none of {len(records)} questions has an answer to learn",
            remedy="check data.answer and data.start, and that the answers stand in their texts",
        )
    every = ragged(ids)
    marks = ragged(segments) if paired else None
    first, last = (Column(np.concatenate(side), every.offsets) for side in (starts, ends))
    return EncodedQuestions(every, marks, first, last, silent, answered)


@dataclass(frozen=True, slots=True, eq=False)
class QuestionBatch(Batch):
    text: Packed
    segments: Tensor | None
    starts: Tensor
    """Of each slot: how many answers begin there, or that none can."""
    ends: Tensor
    tokens: int
    """Windows, which is what is predicted here."""


class QuestionFeed(PlannedFeed):
    """Batches of windows with their answers."""

    def __init__(self, questions: EncodedQuestions, plan: Plan, **how: Unpack[Sharing]) -> None:
        super().__init__(plan, **how)
        self._questions = questions

    def batch(self, rows: np.ndarray, shapes: tuple[Shape, ...] | None, epoch: int) -> QuestionBatch:
        own = self._questions
        lengths = self.plan.lengths[0, rows].tolist()
        packed = pack_flat(own.ids.gather(rows), lengths, None if shapes is None else shapes[0])
        slots = packed.layout.tokens
        segments = None if own.segments is None else spread(own.segments.gather(rows), slots)
        starts = spread(own.starts.gather(rows), slots, CANNOT)
        return QuestionBatch(
            packed, segments, starts, spread(own.ends.gather(rows), slots, CANNOT), len(rows)
        )
