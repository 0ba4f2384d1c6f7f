"""Tags of the words of very many sentences."""

from collections.abc import Sequence
from pathlib import Path

from regard.tasks.base.bulk import Bulk, Kind, counted
from regard.tasks.base.faster import Precision
from regard.tasks.base.predictor import Progress
from regard.tasks.base.tables import says_something
from regard.tasks.tagging.commands import table_values
from regard.tasks.tagging.tagger import open_tagger


class TagBulk:
    def __init__(
        self, folder: Path | str, *, device: str = "auto", precision: Precision | None = None
    ) -> None:
        self.tagger = open_tagger(folder, device=device, precision=precision)
        self.kinds: dict[str, Kind] = {"words": "texts", "tags": "texts"}
        if self.tagger.spans:
            self.kinds["spans"] = "json"

    def __call__(self, *texts: Sequence[str], progress: Progress | None = None) -> Bulk:
        """A list of words may stand for a text."""
        split = [self.tagger.words(each) if isinstance(each, str) else tuple(each) for each in texts[0]]
        laid = self.tagger.lay_out(split)
        found = self.tagger.tagged(split, laid, progress=progress)
        blank = [not says_something(each) for each in texts[0]]
        rows = [
            [None] * len(self.kinds) if nothing else table_values(each, True, self.tagger.spans)
            for nothing, each in zip(blank, found, strict=True)
        ]
        return Bulk(
            columns={name: [row[place] for row in rows] for place, name in enumerate(self.kinds)},
            tokens=sum(len(piece.ids) for piece in laid.pieces),
            flags=counted(blank=sum(blank)),
        )
