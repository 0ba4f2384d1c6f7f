"""Answers to very many questions, each about a text of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.tasks.answering.answerer import Answered, open_answerer
from regard.tasks.answering.commands import AT_ONCE, table_values
from regard.tasks.answering.windows import Laid, QuestionError
from regard.tasks.base.bulk import Bulk, Kind, counted, spread
from regard.tasks.base.faster import Precision
from regard.tasks.base.predictor import Progress
from regard.tasks.base.tables import says_something

KINDS: dict[str, Kind] = {
    "answer": "text",
    "start": "whole",
    "end": "whole",
    "probability": "number",
    "no_answer": "number",
}


class AnswerBulk:
    def __init__(
        self,
        folder: Path | str,
        *,
        device: str = "auto",
        precision: Precision | None = None,
        n_best: int = 1,
        threshold: float | None = None,
    ) -> None:
        if n_best < 1:
            raise ValueError(f"n_best={n_best} must be at least 1")
        self.answerer = open_answerer(folder, device=device, precision=precision)
        if threshold is not None:
            self.answerer = self.answerer.with_threshold(threshold)
        self._n_best = n_best
        self.kinds: dict[str, Kind] = {**KINDS, **({"answers": "json"} if n_best > 1 else {})}

    def __call__(self, *texts: Sequence[str], progress: Progress | None = None) -> Bulk:
        questions, contexts = texts
        kept: list[int] = []
        bad: dict[int, str] = {}
        blank = tokens = 0
        found: list[Answered] = []
        for start in range(0, len(questions), AT_ONCE):  # the spans of long texts take memory
            part: dict[int, Laid] = {}
            for number in range(start, min(start + AT_ONCE, len(questions))):
                if not (says_something(questions[number]) and says_something(contexts[number])):
                    blank += 1
                    continue
                try:
                    part[number] = self.answerer.lay_one(questions[number], contexts[number])
                except QuestionError as error:
                    bad[number] = str(error)
            own = [questions[each] for each in part], [contexts[each] for each in part]
            found += self.answerer.answered(*own, [*part.values()], self._n_best, progress=progress)
            tokens += sum(len(window.ids) for each in part.values() for window in each.windows)
            kept += part
        rows: list[list[Any]] = [table_values(each, self._n_best) for each in found]
        return Bulk(
            columns={
                name: spread([row[place] for row in rows], kept, len(questions))
                for place, name in enumerate(self.kinds)
            },
            tokens=tokens,
            flags=counted(blank=blank, no_answer=sum(each.best is None for each in found)),
            bad=bad,
        )
