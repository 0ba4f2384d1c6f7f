"""How well texts answer queries, by a model that reads both at once: a cross-encoder (Nogueira and Cho
2019)."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from regard.hub.sentence_facts import Activation
from regard.models.heads import ClassifyHead
from regard.tasks.base.encoders import open_reader
from regard.tasks.base.faster import Precision
from regard.tasks.base.folder import FolderError
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import EncoderPredictor, Reader, TooLong
from regard.tasks.reranking.pairs import read_pairs
from regard.text.training import each_text


class Ranked(NamedTuple):
    row: int
    """Which of the texts, counted from 0."""
    text: str
    score: float


class Reranker(EncoderPredictor):
    """A query and texts in, the texts by how well they answer it out.

    >>> reranker = regard.load("runs/reranker", regard.Reranker)
    >>> reranker.rerank("Where is the cat?", ["The dog sleeps.", "The cat is on the mat."])[0].text
    'The cat is on the mat.'
    """

    task: ClassVar[str] = "rerank"

    def __init__(self, reader: Reader, activation: Activation = "none") -> None:
        """`activation` is what stands behind a score."""
        head = reader.model.head
        if not isinstance(head, ClassifyHead) or head.output.out_features != 1:
            raise TypeError(
                f"a {type(head).__name__} does not rank: give a model with a ClassifyHead of 1 score"
            )
        super().__init__(reader)
        self.activation: Activation = activation

    def about(self) -> dict[str, Any]:
        how = {"labels": [], "problem": "number", "activation": self.activation, "pairs": True}
        return {**super().about(), **how}

    def with_reader(self, reader: Reader) -> "Reranker":
        return Reranker(reader, self.activation)

    def rerank(
        self,
        query: str,
        texts: Iterable[str],
        *,
        top: int | None = None,
        too_long: TooLong = "windows",
        progress: Progress | None = None,
    ) -> list[Ranked]:
        """The `top` best texts, or all of them, the best first; equal ones stay in their order."""
        if top is not None and top < 1:
            raise ValueError(f"top={top}: ask for 1 or more")
        own = [*each_text(texts)]
        raw = self.scores([query] * len(own), own, too_long=too_long, raw=True, progress=progress)
        order = np.argsort(-raw, kind="stable")[:top]
        shown = self._behind(raw)
        return [Ranked(int(row), own[row], float(shown[row])) for row in order]

    def scores(
        self,
        queries: Iterable[str],
        texts: Iterable[str],
        *,
        too_long: TooLong = "windows",
        raw: bool = False,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """float32 [pairs], of each query with the text beside it; `raw`, without what stands behind a score.
        Of a pair longer than the model can read, the text is read in windows, and the best one counts; or
        both are cut, with a warning; or it is refused."""
        asked, own = [*each_text(queries)], [*each_text(texts)]
        if len(asked) != len(own):
            raise ValueError(f"{len(asked)} queries for {len(own)} texts: give one for each")
        pieces = read_pairs(self.reader, asked, own, too_long)
        self.reader.warn_of_cuts(pieces)
        rows = self.reader.read(
            pieces, lambda states, packed: self.reader.head(states, packed.layout), progress=progress
        )
        found = np.full(len(own), -np.inf, dtype=np.float32)
        for piece, row in zip(pieces, rows, strict=True):
            found[piece.text] = max(found[piece.text], row[0])
        return found if raw else self._behind(found)

    def _behind(self, raw: np.ndarray) -> np.ndarray:
        return raw if self.activation == "none" else sigmoid(raw)


def sigmoid(scores: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -scores.astype(np.float64))).astype(np.float32)


def open_reranker(
    folder: Path | str, *, device: str = "auto", precision: Precision | None = None
) -> Reranker:
    """What a training has made, or a cross-encoder of sentence-transformers; and any classifier with one
    score."""
    checkpoint, reader = open_reader(folder, "classify", device=device, precision=precision)
    scores = cast(ClassifyHead, reader.model.head).output.out_features
    if scores != 1:
        raise FolderError(
            f"{folder}: a classifier with {scores} labels, where a reranker has one score; train one with "
            'task = "rerank", or give a cross-encoder'
        )
    return Reranker(reader, checkpoint.activation or "none")


def ranks_of_first(scores: Sequence[np.ndarray]) -> np.ndarray:
    """int64: of each list of scores, the rank of its first, from 1; equal ones come before it."""
    return np.array([1 + int((own[1:] >= own[0]).sum()) for own in scores], dtype=np.int64)
