"""Answering with a trained model: questions and texts in, stretches of the texts out."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np

from regard.hub import is_foreign
from regard.models.heads import SpanHead
from regard.tasks.answering.spans import SpanScores, join
from regard.tasks.answering.windows import Laid, QuestionError, lay_out
from regard.tasks.base.encoders import open_reader
from regard.tasks.base.faster import Precision
from regard.tasks.base.folder import read_config
from regard.tasks.base.guards import CONFIG, folder_errors, read_whole
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import EncoderPredictor, Piece, Reader
from regard.text import DataError, Origin
from regard.text.training import each_text

LONGEST_ANSWER = 30
"""Tokens of an answer, where nothing else says."""
OVERLAP = 128
"""Tokens that windows share."""


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    text: str
    """Cut out of the context."""
    start: int
    """Its first character there."""
    end: int
    """The one behind its last."""
    probability: float
    """Of this span among all, and none."""
    score: float
    """The sum of its start's and its end's."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a text says to a question."""

    question: str
    best: AnswerSpan | None
    """None: the text has no answer."""
    spans: tuple[AnswerSpan, ...]
    """The best ones, whether they are good enough or not."""
    none: float
    """The probability that the text has no answer; 0 for a model that never says so."""

    @property
    def text(self) -> str:
        """Of the best; empty if there is none."""
        return "" if self.best is None else self.best.text

    def to_dict(self) -> dict[str, Any]:
        found = None if self.best is None else asdict(self.best)
        return {
            "question": self.question,
            "answer": found,
            "none": self.none,
            "spans": [asdict(span) for span in self.spans],
        }


class Answerer(EncoderPredictor):
    """Questions and texts in, stretches of the texts out.

    >>> answerer = regard.load("runs/answers", regard.Answerer)
    >>> found = answerer.answer("Who met Bob?", "On Monday, Ann Leeson met Bob in Rome.")
    >>> found.text, found.best.start
    ('Ann Leeson', 11)
    """

    task: ClassVar[str] = "answer"

    def __init__(
        self,
        reader: Reader,
        *,
        longest_answer: int = LONGEST_ANSWER,
        overlap: int = OVERLAP,
        threshold: float | None = None,
    ) -> None:
        """`longest_answer` and `overlap` (of windows, where a text is longer than the model can read) are in
        tokens. With a `threshold`, there may be no answer: where that scores higher than the best span by
        more."""
        if not isinstance(reader.model.head, SpanHead):
            raise TypeError(
                f"a {type(reader.model.head).__name__} does not answer: give a model with a SpanHead"
            )
        for name, value, least in (("longest_answer", longest_answer, 1), ("overlap", overlap, 0)):
            if value < least:
                raise ValueError(f"{name}={value} must be at least {least}")
        super().__init__(reader)
        self.longest_answer, self.overlap, self.threshold = longest_answer, overlap, threshold

    def about(self) -> dict[str, Any]:
        own = {"longest_answer": self.longest_answer, "overlap": self.overlap, "threshold": self.threshold}
        return {**super().about(), **own}

    def with_reader(self, reader: Reader) -> "Answerer":
        return self._with(reader, self.threshold)

    def with_threshold(self, threshold: float | None) -> "Answerer":
        """None: there always is an answer."""
        return self._with(self.reader, threshold)

    def _with(self, reader: Reader, threshold: float | None) -> "Answerer":
        return Answerer(reader, longest_answer=self.longest_answer, overlap=self.overlap, threshold=threshold)

    @overload
    def answer(  # type: ignore[overload-overlap]  # a string is a sequence of strings
        self, questions: str, contexts: str, *, n_best: int = 5
    ) -> Answered: ...

    @overload
    def answer(
        self,
        questions: Iterable[str],
        contexts: str | Iterable[str],
        *,
        n_best: int = 5,
        progress: Progress | None = None,
    ) -> list[Answered]: ...

    def answer(
        self,
        questions: str | Iterable[str],
        contexts: str | Iterable[str],
        *,
        n_best: int = 5,
        progress: Progress | None = None,
    ) -> Answered | list[Answered]:
        """Each question about its context, or all about one. Contexts may be of any length: those longer than
        the model can read are read in overlapping windows."""
        if isinstance(questions, str):
            return self.answer([questions], contexts, n_best=n_best)[0]
        if n_best < 1:
            raise ValueError(f"n_best={n_best} must be at least 1")
        questions = [*each_text(questions)]
        texts = [contexts] * len(questions) if isinstance(contexts, str) else [*each_text(contexts)]
        if len(texts) != len(questions):
            raise ValueError(f"{len(texts)} contexts for {len(questions)} questions: give one for each")
        return self.answered(questions, texts, self.lay_out(questions, texts), n_best, progress=progress)

    def answered(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        laid: Sequence[Laid],
        n_best: int,
        *,
        progress: Progress | None = None,
    ) -> list[Answered]:
        """The same of what is laid out already."""
        return [
            self._answered(*each, n_best)
            for each in zip(questions, contexts, laid, self.spans(laid, progress=progress), strict=True)
        ]

    def lay_out(self, questions: Sequence[str], contexts: Sequence[str]) -> list[Laid]:
        """As they are read; for those that are scored again and again."""
        found = []
        for number, (question, context) in enumerate(zip(questions, contexts, strict=True), 1):
            try:
                found.append(self.lay_one(question, context))
            except QuestionError as error:
                raise DataError(Origin("questions", number), str(error), remedy="shorten it") from error
        return found

    def lay_one(self, question: str, context: str) -> Laid:
        return lay_out(self.tokenizer, question, context, longest=self.longest, overlap=self.overlap)

    def rows(self, laid: Sequence[Laid], *, progress: Progress | None = None) -> list[list[np.ndarray]]:
        """For each question, the scores of each of its windows: float32 [tokens, 2]."""
        pieces = [
            Piece(window.ids, window.segments if self.reader.paired else None, number)
            for number, each in enumerate(laid)
            for window in each.windows
        ]
        found = iter(
            self.reader.read(
                pieces, lambda states, _: self.reader.head(states), rows="tokens", progress=progress
            )
        )
        return [[next(found) for _ in each.windows] for each in laid]

    def spans(self, laid: Sequence[Laid], *, progress: Progress | None = None) -> list[SpanScores]:
        return [
            self.join(each, own) for each, own in zip(laid, self.rows(laid, progress=progress), strict=True)
        ]

    def join(self, laid: Laid, rows: Sequence[np.ndarray]) -> SpanScores:
        return join(laid, rows, self.longest_answer, none=self.threshold is not None)

    def best(self, laid: Laid, scores: SpanScores, context: str) -> str:
        """The text of the best span, whether it is good enough or not."""
        first = next(iter(scores.ranked(1)), None)
        return "" if first is None else context[laid.offsets[first[0]][0] : laid.offsets[first[1]][1]]

    def _answered(self, question: str, context: str, laid: Laid, scores: SpanScores, n_best: int) -> Answered:
        chances, none = scores.probabilities()
        spans = []
        for first, last in scores.ranked(n_best):
            start, end = laid.offsets[first][0], laid.offsets[last][1]
            cell = first, last - first
            spans.append(
                AnswerSpan(context[start:end], start, end, float(chances[cell]), float(scores.scores[cell]))
            )
        good = spans and (self.threshold is None or scores.margin <= self.threshold)
        return Answered(question, spans[0] if good else None, tuple(spans), none)


def open_answerer(
    folder: Path | str, *, device: str = "auto", precision: Precision | None = None
) -> Answerer:
    """What a training has made, or a folder of Hugging Face's, which always gives an answer: see
    `Answerer.with_threshold`."""
    _, reader = open_reader(folder, "span", device=device, precision=precision)
    about = {} if is_foreign(Path(folder)) else read_config(Path(folder))
    about = {"longest_answer": LONGEST_ANSWER, "overlap": OVERLAP, "threshold": None} | about
    with folder_errors(Path(folder) / CONFIG):
        threshold = about["threshold"]
        return Answerer(
            reader,
            longest_answer=read_whole(about, "longest_answer"),
            overlap=read_whole(about, "overlap", least=0),
            threshold=None if threshold is None else float(threshold),
        )
