"""Labels of very many texts."""

from collections.abc import Sequence
from pathlib import Path

from regard.config import ConfigError
from regard.tasks.base.bulk import Bulk, Kind, counted, spread
from regard.tasks.base.faster import Precision
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import TooLong
from regard.tasks.base.tables import says_something
from regard.tasks.classification.classifier import Prediction, open_classifier
from regard.tasks.classification.commands import (
    TABLE_COLUMNS,
    Shown,
    check_probabilities,
    line_of,
    table_values,
)

KINDS: dict[str, Kind] = {"label": "text", "labels": "texts", "probability": "number", "value": "number"}


class ClassifyBulk:
    def __init__(
        self,
        folder: Path | str,
        *,
        device: str = "auto",
        precision: Precision | None = None,
        probabilities: bool = False,
        top_k: int | None = None,
        min_probability: float | None = None,
        too_long: TooLong = "cut",
    ) -> None:
        check_probabilities(top_k, min_probability)
        self.classifier = open_classifier(folder, device=device, precision=precision)
        if self.classifier.problem == "number" and (top_k is not None or min_probability is not None):
            raise ConfigError("--top-k and --min-probability are for labels, but this model gives numbers")
        self._shown = Shown(top_k or (len(self.classifier.labels) if probabilities else 0), min_probability)
        self._too_long: TooLong = too_long
        self.kinds: dict[str, Kind] = {name: KINDS[name] for name in TABLE_COLUMNS[self.classifier.problem]}
        if self._shown.most and self.classifier.problem != "number":
            self.kinds["probabilities"] = "json"

    def __call__(self, *texts: Sequence[str], progress: Progress | None = None) -> Bulk:
        """A single list of texts may have pairs in it, with a tab between the two. A blank text has no label,
        as in a table; as a plain line it has what `regard classify` prints for one."""
        if len(texts) == 2:
            cells = [list(pair) for pair in zip(*texts, strict=True)]
        else:
            cells = [text.split("\t") for text in texts[0]]
        bad = {
            number: f"{len(row)} texts in a line: give one, or two with a tab between them"
            for number, row in enumerate(cells)
            if len(row) > 2
        }
        refused = self._too_long == "error"
        found: list[Prediction | None] = [None] * len(cells)
        tokens = cut = 0
        for width in (1, 2):  # texts, and pairs
            chosen = [number for number, row in enumerate(cells) if len(row) == width]
            firsts, seconds = [cells[each][0] for each in chosen], None
            if width == 2:
                seconds = [cells[each][1] for each in chosen]
            pieces = self.classifier.reader.pieces(firsts, seconds, "cut" if refused else self._too_long)
            long = {piece.text for piece in pieces if not piece.whole}
            tokens += sum(len(piece.ids) for piece in pieces)
            cut += len(long)
            for place, own in enumerate(self.classifier.predictions(pieces, len(chosen), progress=progress)):
                if place in long and refused:
                    bad[chosen[place]] = f"longer than {self.classifier.longest} tokens"
                else:
                    found[chosen[place]] = own
        blank = {
            number
            for number, own in enumerate(zip(*texts, strict=True))
            if number not in bad and not all(map(says_something, own))
        }
        return self._bulk(texts, found, tokens, 0 if refused else cut, bad, blank)

    def _bulk(
        self,
        texts: Sequence[Sequence[str]],
        found: Sequence[Prediction | None],
        tokens: int,
        cut: int,
        bad: dict[int, str],
        blank: set[int],
    ) -> Bulk:
        shown = self._shown
        sure = {number: shown.of(each) for number, each in enumerate(found) if each is not None}
        lines = [""] * len(found)
        for number, each in sure.items():
            lines[number] = line_of("\t".join(own[number] for own in texts), each, False, shown)
        kept = [number for number in sure if number not in blank]
        rows: list[list[object]] = [table_values(self.classifier, sure[number], True) for number in kept]
        if "probabilities" in self.kinds:
            rows = [
                [*row, shown.likely(each)]
                for row, each in zip(rows, (found[number] for number in kept), strict=True)
                if each is not None
            ]
        unsure = sum(not sure[number].labels for number in kept)
        return Bulk(
            columns={
                name: spread([row[place] for row in rows], kept, len(found))
                for place, name in enumerate(self.kinds)
            },
            tokens=tokens,
            flags=counted(
                blank=len(blank), cut=cut, unsure=unsure if self.classifier.problem == "single" else 0
            ),
            bad=bad,
            lines=lines,
        )
