"""Texts that are written together, a token of each at a time; others may join, and leave, between two tokens.

    batch = generator.batch()
    batch.add(generator.asked(["ROMEO:"], max_tokens=40, seed=1))
    while batch.rows:
        for written in batch.step(): ...

Each is written by settings of its own. Long ones and short ones take their steps apart, because a state has
as much room in each row as the longest needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from regard.decode.continuous import ContinuousBatch, Row
from regard.decode.continuous import Prompt as Begun
from regard.decode.sliding import Sliding
from regard.decode.stepper import no_numbers
from regard.tasks.language.continuation import Finished, Generated, Writer, Written
from regard.tasks.language.drafts import GenerateOptions, Prompt, Steps
from regard.text import Tokenizer

SHORT = 1024
"""Tokens of a text that is short; those of up to four times as many are together, and so on."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt, and how it is to be gone on with; both are checked."""

    prompt: Prompt
    options: GenerateOptions

    @property
    def rows(self) -> int:
        return self.options.decoding.n_best

    @property
    def tokens(self) -> int:
        """That a row may come to have."""
        return len(self.prompt.ids) + self.prompt.most

    @property
    def begun(self) -> Begun:
        options, ends = self.options, self.options.end
        return Begun(
            ids=self.prompt.ids,
            config=options.decoding,
            maximum=self.prompt.most,
            ends=() if ends is None else (ends,) if isinstance(ends, int) else ends,
            suppressed=options.suppressed,
            key=self.prompt.key,
        )


@dataclass(slots=True, eq=False)
class _Text:
    """One text behind a prompt."""

    number: int
    sample: int
    asked: Asked
    row: Row
    writer: Writer
    text: str = ""
    scores: list[float] = field(default_factory=list)
    """Of each token."""
    before: float = 0.0
    """Of all tokens but the last."""

    def go_on(self) -> Written:
        """What the row's last token adds."""
        row, writer = self.row, self.writer
        piece = writer.close() if row.over else writer.add(row.token)
        token = None
        if not row.over:
            token = row.token
            self.scores.append(row.score - self.before)
        self.before = row.score
        self.text += piece
        finished: Finished = "stop" if writer.stopped else "end" if row.ended else "length"
        whole = self.whole(finished) if row.over or writer.stopped else None
        error = no_numbers() if row.broken else None
        return Written(self.number, self.sample, token, piece, row.score, whole, error=error)

    def end(self) -> Written:
        """With what is there."""
        piece = self.writer.close()
        self.text += piece
        return Written(self.number, self.sample, None, piece, self.row.score, self.whole("length"))

    def whole(self, finished: Finished) -> Generated:
        ids = tuple(self.row.ids[len(self.asked.prompt.ids) :])
        scores = tuple(self.scores)
        return Generated(self.asked.prompt.text, self.text, ids, self.row.score, finished, scores)


class TextBatch:
    def __init__(self, stepper: Callable[[], Steps], tokenizer: Tokenizer) -> None:
        """`stepper` gives what takes the steps."""
        self._stepper, self._tokenizer = stepper, tokenizer
        self._batches: dict[tuple[int | None, int], ContinuousBatch] = {}
        """By their context, where they go on past it, and by how long their texts may become."""
        self._texts: dict[Row, _Text] = {}
        self._told: list[tuple[Written, Row]] = []
        self._count = 0

    @property
    def rows(self) -> int:
        """Texts that are being written."""
        self._heed()
        return len(self._texts)

    def _heed(self) -> None:
        """Texts whose reader wants no more leave."""
        for written, row in self._told:
            if written.stopped and row in self._texts:
                self._leave(row)

    @property
    def tokens(self) -> int:
        """For which there is room by now: as many in each row as the longest beside it has."""
        sizes = [[len(row.ids) for row in batch.rows] for batch in self._batches.values()]
        return sum(len(each) * max(each, default=0) for each in sizes)

    def add(self, asked: Sequence[Asked]) -> list[int]:
        """Prompts that are read together, and their numbers, in the order in which they came. An error
        changes nothing for the others."""
        found: dict[int, list[Row]] = {}
        kinds = {_kind(each): None for each in asked}
        try:
            for kind in kinds:
                own = [place for place, each in enumerate(asked) if _kind(each) == kind]
                joined = self._batch(kind).join([asked[place].begun for place in own])
                found.update(zip(own, joined, strict=True))
        except BaseException:
            for row in (row for own in found.values() for row in own):
                row.over = True
            raise
        numbers = range(self._count, self._count + len(asked))
        self._count += len(asked)
        for place, number in enumerate(numbers):
            each = asked[place]
            for sample, row in enumerate(found[place]):
                writer = Writer(self._tokenizer, each.prompt.ids, each.options.stop)
                self._texts[row] = _Text(number, sample, each, row, writer)
        return [*numbers]

    def _batch(self, kind: tuple[int | None, int]) -> ContinuousBatch:
        if kind not in self._batches:
            stepper, slides = self._stepper(), kind[0]
            self._batches[kind] = ContinuousBatch(stepper if slides is None else Sliding(stepper, slides))
        return self._batches[kind]

    def step(self) -> list[Written]:
        """One more token of each text, or its end. Whoever reads it may set `Written.stopped`."""
        self._heed()
        self._told = []
        for kind, batch in [*self._batches.items()]:
            if not batch.rows:
                del self._batches[kind]
                continue
            for row in batch.step():
                if row in self._texts:
                    written = self._texts[row].go_on()
                    self._told.append((written, row))
                    if written.whole is not None:
                        self._leave(row)
        return [written for written, _ in self._told]

    def end(self, number: int) -> list[Written]:
        """The texts of a prompt end here, with what there is of them."""
        own = [text for text in self._texts.values() if text.number == number]
        for text in own:
            self._leave(text.row)
        return [text.end() for text in own]

    def _leave(self, row: Row) -> None:
        row.over = True
        del self._texts[row]


def _kind(asked: Asked) -> tuple[int | None, int]:
    room = SHORT
    while room < asked.tokens:
        room *= 4
    return asked.options.slides, room
