"""Vectors of very many texts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.tasks.base.bulk import Bulk, Kind, counted
from regard.tasks.base.faster import Precision
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import TooLong
from regard.tasks.embedding.embedder import PoolKind, open_embedder


class EmbedBulk:
    def __init__(
        self,
        folder: Path | str,
        *,
        device: str = "auto",
        precision: Precision | None = None,
        pool: PoolKind | None = None,
        normalised: bool | None = None,
        layer: int | None = None,
        dimensions: int | None = None,
        prompt: str | None = None,
        too_long: TooLong = "cut",
    ) -> None:
        """`too_long="error"` makes bad records of such texts."""
        self.embedder = open_embedder(folder, device=device, precision=precision)
        self.kinds: dict[str, Kind] = {"vector": "vector"}
        self._how = self.embedder.way(pool=pool, normalised=normalised, layer=layer, dimensions=dimensions)
        self._before = self.embedder.prompt_text(prompt)
        self._too_long: TooLong = too_long

    def __call__(self, *texts: Sequence[str], progress: Progress | None = None) -> Bulk:
        (own,) = texts
        refused = self._too_long == "error"
        prompted = [self._before + text for text in own] if self._before else own
        pieces = self.embedder.reader.pieces(prompted, None, "cut" if refused else self._too_long)
        cut = [piece.text for piece in pieces if not piece.whole]
        vectors = self.embedder.vectors(pieces, len(own), self._how, progress=progress)
        bad = {}
        if refused and cut:
            vectors[np.array(cut)] = 0
            bad = dict.fromkeys(cut, f"longer than {self.embedder.longest} tokens")
        return Bulk(
            columns={"vector": vectors},
            tokens=sum(len(piece.ids) for piece in pieces),
            flags=counted(cut=0 if refused else len(cut), blank=sum(not text.strip() for text in own)),
            bad=bad,
        )
