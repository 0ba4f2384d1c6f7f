"""The same word in several sentences: how its vectors part, layer by layer.

    moved = 1 - cos(a, b)

At the embedding the two differ by their places alone; what comes above is the sentence's doing (Ethayarajh
2019). Other words say where it moved to: `apple` beside `phone` and beside `orange`. Their vectors are from
the first sentence that has them, or from the word by itself.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.meaning.describe import visible
from regard.tasks.base.vectors import paired_cosines
from regard.tasks.embedding.embedder import Embedder, WordVectors
from regard.text import DataError, Origin

BAR = 10
"""Cells of the longest bar."""
EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    word: str
    sentences: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    """Where the word stands in each of them."""
    pairs: tuple[tuple[int, int], ...]
    """Of sentences, counted from 0."""
    cosines: npt.NDArray[np.float64]
    """[layers, pairs]; layer 0 is the embedding."""
    vectors: npt.NDArray[np.float32]
    """Of the word, [sentences, layers, d_model]."""
    others: tuple[str, ...] = ()
    """Words that it is compared with."""
    near: npt.NDArray[np.float64] | None = None
    """How near it is to each of them, [layers, others, sentences]: cosines."""

    @property
    def moved(self) -> npt.NDArray[np.float64]:
        """How far apart the word is in the two sentences of each pair, 0 to 2."""
        return 1 - self.cosines


def word_in_context(
    embedder: Embedder, word: str, sentences: Sequence[str], others: Sequence[str] = ()
) -> Moves:
    """A word is found whole, in capitals or not; where a sentence has it several times, the first one
    counts. If the tokenizer cuts it, its vector is the mean of the parts. `others` are words that it is
    compared with in each sentence."""
    if isinstance(sentences, str) or len(sentences) < 2:
        raise ValueError(f"one sentence has nothing to move {word!r} away from: give two or more")
    if not word.strip():
        raise ValueError(f"{word!r} is no word: give one that all sentences have")
    spans = [_find(word.strip(), sentence, number) for number, sentence in enumerate(sentences, start=1)]
    read = embedder.words(sentences)
    vectors = [
        _vectors(own, span, number) for number, (own, span) in enumerate(zip(read, spans, strict=True), 1)
    ]
    pairs = tuple(combinations(range(len(sentences)), 2))
    cosines = np.stack([paired_cosines(vectors[one], vectors[other]) for one, other in pairs], axis=1)
    found = Moves(word.strip(), tuple(sentences), tuple(spans), pairs, cosines, np.stack(vectors))
    if not others:
        return found
    beside = [_other(embedder, other.strip(), sentences, read) for other in others]
    near = [[paired_cosines(own, other) for own in vectors] for other in beside]
    return replace(
        found, others=tuple(each.strip() for each in others), near=np.array(near).transpose(2, 0, 1)
    )


def _other(
    embedder: Embedder, word: str, sentences: Sequence[str], read: Sequence[WordVectors]
) -> npt.NDArray[np.float32]:
    """Of a word in the first sentence that has it, or by itself: [layers, d_model]."""
    if not word:
        raise ValueError("an empty word has no vector: give one to compare with")
    for number, (sentence, own) in enumerate(zip(sentences, read, strict=True), 1):
        if found := _search(word, sentence):
            return _vectors(own, found.span(), number)
    return _vectors(embedder.words([word])[0], (0, len(word)), 1)


def _search(word: str, sentence: str) -> re.Match[str] | None:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", sentence, re.IGNORECASE)


def _find(word: str, sentence: str, number: int) -> tuple[int, int]:
    found = _search(word, sentence)
    if found is None:
        why, remedy = f"the word {word!r} is not in it", "give sentences that have it, in this form"
        raise DataError(Origin("sentence", number), why, repr(sentence), remedy=remedy)
    return found.span()


def _vectors(read: WordVectors, span: tuple[int, int], number: int) -> npt.NDArray[np.float32]:
    """Of the word that stands here, [layers, d_model]."""
    own = [place for place, (start, end) in enumerate(read.spans) if start < span[1] and end > span[0]]
    if not own:
        why = f"the model's tokenizer sees nothing of {read.text[slice(*span)]!r}"
        raise DataError(Origin("sentence", number), why, repr(read.text), remedy="choose another word")
    return np.asarray(read.vectors[:, own].mean(axis=1))


def render(moves: Moves, console: Console) -> None:
    """The sentences, and a table with layers as rows: for each two of them the cosine, and how far the word
    moved, with bars of one scale. What does not fit beside each other comes below."""
    for number, (sentence, (start, end)) in enumerate(zip(moves.sentences, moves.spans, strict=True), 1):
        shown = Text(f"{number}. {visible(sentence[:start])}")
        shown.append(visible(sentence[start:end]), style="bold").append(visible(sentence[end:]))
        console.print(shown, soft_wrap=True)
    most = max(float(moves.moved.max()), 1e-9)
    each = len("cosine moved ") + BAR + 2
    fits = max(1, (console.width - len("embedding ")) // each)
    for first in range(0, len(moves.pairs), fits):
        console.print()
        console.print(_table(moves, range(first, min(first + fits, len(moves.pairs))), most))
    widest = int(moves.moved[-1].argmax())
    one, other = moves.pairs[widest]
    line = f"{visible(moves.word)!r} is furthest apart in {one + 1} and {other + 1}: "
    line += f"{moves.moved[-1, widest]:.3f} at the last layer, {moves.moved[0, widest]:.3f} at the embedding"
    console.print(f"\n{line}", highlight=False, markup=False, soft_wrap=True)
    if moves.near is not None:
        console.print()
        console.print(_near_table(moves))


def _near_table(moves: Moves) -> Table:
    """How near the word is to each of the others, by layer: the sentences side by side."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("layer")
    count = len(moves.sentences)
    for other in moves.others:
        for number in range(count):
            name = f"{visible(moves.word)} ~ {visible(other)}" if number == 0 else ""
            table.add_column(f"{name}\nin {number + 1}", justify="right", no_wrap=True)
    for layer, rows in enumerate(moves.near if moves.near is not None else ()):
        cells = [f"{cosine:.3f}" for row in rows for cosine in row]
        table.add_row("embedding" if layer == 0 else str(layer), *cells)
    return table


def _table(moves: Moves, shown: range, most: float) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("layer")
    for place in shown:
        one, other = moves.pairs[place]
        table.add_column(f"{one + 1}-{other + 1}\ncosine", justify="right", no_wrap=True)
        table.add_column("\nmoved", no_wrap=True, min_width=len("0.000 ") + BAR + 1)
    for layer, cosines in enumerate(moves.cosines):
        cells = []
        for place in shown:
            moved = 1 - cosines[place]
            cells += [f"{cosines[place]:.3f}", f"{moved:.3f} {_bar(moved / most)}"]
        table.add_row("embedding" if layer == 0 else str(layer), *cells)
    return table


def _bar(share: float) -> str:
    eighths = round(max(share, 0) * BAR * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
