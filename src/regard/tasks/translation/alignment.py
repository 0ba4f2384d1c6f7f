"""Which source word each target word came from, by what the decoder looked at while it wrote.

    a_ij = mean over heads of softmax(Q K^T / sqrt(d_head))_ij      in one layer, i the step that predicts y_i

The last layer but one aligns best (Garg et al. 2019), so it is the default. Special tokens are left out and
each row is made to sum to 1 again; a word of the source collects the weights of its tokens, a word of the
target takes the mean over its own. Words are what white space separates.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from rich.cells import cell_len
from torch import Tensor

from regard.data.packing import Packed
from regard.models.seq2seq import Seq2Seq
from regard.nn.attention import additive_scores, dot_scores, weigh
from regard.nn.recurrent import RecurrentDecoder
from regard.nn.stacks import Stack
from regard.nn.state import Memory
from regard.text import Tokenizer

Span = tuple[int, int]
"""Start and end, in characters."""

SHADES = " ░▒▓█"


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    weights: np.ndarray
    """A row for each target word, a column for each source word. Rows sum to 1, but for a word that no token
    wrote, which has zeros."""
    links: tuple[tuple[int, int], ...]
    """(source word, target word), counted from 0."""

    def __str__(self) -> str:
        """The format of Pharaoh and Moses: "0-0 1-2"."""
        return " ".join(f"{source}-{target}" for source, target in self.links)

    def to_dict(self) -> dict[str, Any]:
        return {
            "source_words": list(self.source_words),
            "target_words": list(self.target_words),
            "weights": self.weights.round(4).tolist(),
            "links": [list(link) for link in self.links],
        }


def can_align(translator: Any) -> bool:
    """Not every engine can tell which word came from which; then words are taken to keep their order."""
    try:
        translator.options(align=True)
    except ValueError:
        return False
    return True


def links_between(
    translator: Any, source: str, target: str, *, to: str | None, source_language: str | None
) -> tuple[tuple[int, int], ...] | None:
    """Of a translation that the model has not made; None for what it cannot read at once."""
    try:
        found: Alignment = translator.align(source, target, to=to, source_language=source_language)
    except ValueError:
        return None
    return found.links


def check_attention(model: Seq2Seq, layer: int | None = None) -> int:
    """The number of the layer that is asked, from 0; an error where there is none to ask."""
    body = model.decoder.body
    if isinstance(body, RecurrentDecoder) and body.attention is None:
        raise ValueError(
            "this model's decoder does not attend to the source (attention='none'), so nothing tells which "
            "word came from which: translate without alignment, or train with attention='additive'"
        )
    count = len(body.each) if isinstance(body, Stack) else 1
    # In deep decoders the last layer already looks for what comes next.
    chosen = (count - 2 if count > 3 else count - 1) if layer is None else layer
    if not 0 <= chosen < count:
        raise ValueError(f"layer={layer}, but the decoder attends in {count}: count from 0 to {count - 1}")
    return chosen


@torch.no_grad()
def cross_attention(model: Seq2Seq, memory: Memory, target: Packed, layer: int | None = None) -> list[Tensor]:
    """For each pair a matrix [query, key]: row i is how much each source token weighs while the decoder reads
    target token i, and predicts the next. Without a `layer`, the last one, or in a deep decoder the last but
    one. `memory` is what the encoder made of the sources."""
    chosen = check_attention(model, layer)
    x = model.decoder.embedding(target.ids, target.layout.positions, target.layout.longest)
    body = model.decoder.body
    if isinstance(body, RecurrentDecoder):
        return _recurrent_weights(body, x, target, memory)
    for before, mask in zip(body.each[:chosen], body.masks, strict=False):
        x = before(x, target.layout, mask, memory)
    asked = body.each[chosen]
    if asked.cross_attention is None:
        raise ValueError("this decoder has no cross-attention to ask")
    cross, weights = asked.cross_attention, list[Tensor]()

    def look_across(x: Tensor) -> Tensor:
        weights.extend(cross.weights(x, target.layout, memory.states, memory.layout))
        return cross(x, target.layout, memory.states, memory.layout)

    asked.through(x, lambda x: asked.attention(x, target.layout, body.masks[chosen]), look_across)
    return [each.mean(dim=0) for each in weights]


def _recurrent_weights(body: RecurrentDecoder, x: Tensor, target: Packed, memory: Memory) -> list[Tensor]:
    """The softmax that `ScoredAttention` takes, by the equation."""
    attention = body.attention
    if attention is None:
        raise ValueError("this decoder has no attention to ask")
    state = body.start(rows=target.layout.sequences, capacity=0, like=x, memory=memory)
    state.sources = None  # what comes is the cells' own output, before they look at the source
    queries = body.prefill(x, target.layout, state)
    asked = queries if attention.match is None else attention.match(queries)
    keys = attention.prepare(memory.states)
    pairs = zip(target.layout.split(asked), memory.layout.split(keys), strict=True)
    if attention.score == "additive":
        return [weigh(additive_scores(q, k, attention.direction)) for q, k in pairs]
    scale = 1.0 if attention.score == "dot" else None
    return [weigh(dot_scores(q.unsqueeze(1), k.unsqueeze(1), scale)).squeeze(0) for q, k in pairs]


def source_spans(tokenizer: Tokenizer, text: str) -> list[Span]:
    """Where each token of a text lies in it."""
    return list(tokenizer.encode(text).offsets)


def target_spans(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, list[Span]]:
    """The text of ids that a model wrote, and where each lies in it. A byte that does not complete a
    character has an empty span where the character will be."""
    text = tokenizer.decode(ids)
    prefixes = tokenizer.decode_batch([ids[: i + 1] for i in range(len(ids))])
    ends = [_agreement(text, prefix) for prefix in prefixes]
    return text, [(start, max(start, end)) for start, end in pairwise([0, *ends])]


def _agreement(text: str, prefix: str) -> int:
    """How many characters are the same from the start."""
    pairs = enumerate(zip(text, prefix, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(text), len(prefix)))


def word_alignment(
    weights: np.ndarray,
    source: str,
    source_spans: Sequence[Span],
    target: str,
    target_spans: Sequence[Span],
    threshold: float | None = None,
) -> Alignment:
    """From the weights of tokens [target, source] to words. Each target word is linked to the source word
    that weighs most, and with a `threshold` to all others that weigh as much."""
    source_words, source_owners = _words(source, source_spans)
    target_words, target_owners = _words(target, target_spans)
    columns = _membership(source_owners, len(source_words))
    rows = _membership(target_owners, len(target_words))
    merged = rows.T @ _normalised(weights.astype(np.float64) @ columns)
    merged = _normalised(merged)
    links = set()
    for j, row in enumerate(merged):
        if row.any():
            links.add((int(row.argmax()), j))
            if threshold is not None:
                links |= {(int(i), j) for i in np.flatnonzero(row >= threshold)}
    return Alignment(tuple(source_words), tuple(target_words), merged, tuple(sorted(links)))


def _words(text: str, spans: Sequence[Span]) -> tuple[list[str], list[int | None]]:
    """The words of a text, and which one each span is part of: the one that its first character is in, or
    that follows where it holds nothing but white space."""
    found = list(re.finditer(r"\S+", text))
    owners: list[int | None] = []
    ends = np.array([word.end() for word in found], dtype=np.int64)
    for start, _ in spans:
        index = int(np.searchsorted(ends, start, side="right"))
        owners.append(index if index < len(found) else None)
    return [word[0] for word in found], owners


def _membership(owners: Sequence[int | None], words: int) -> np.ndarray:
    member = np.zeros((len(owners), words))
    for token, word in enumerate(owners):
        if word is not None:
            member[token, word] = 1.0
    return member


def _normalised(weights: np.ndarray) -> np.ndarray:
    sums = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)


def draw(alignment: Alignment, width: int = 80) -> str:
    """The weights as a picture: rows are written, columns are read, and their words stand on end above them.
    As wide as it must be if the sentence does not fit the width with two characters for each word."""
    labels = [_shortened(word, 18) for word in alignment.target_words]
    margin = max((cell_len(label) for label in labels), default=0)
    count = len(alignment.source_words)
    cell = max(2, min(4, (width - margin - 1) // max(count, 1)))
    heads = [_shortened(word, 14) for word in alignment.source_words]
    height = max((len(head) for head in heads), default=0)
    lines = []
    for level in range(height):
        letters = (head.rjust(height)[level] for head in heads)
        lines.append(" " * (margin + 1) + "".join(_padded(letter, cell) for letter in letters))
    for label, row in zip(labels, alignment.weights, strict=True):
        shades = "".join(SHADES[min(4, int(weight * 5))] * (cell - 1) + " " for weight in row.tolist())
        lines.append(" " * (margin - cell_len(label)) + f"{label} {shades}")
    return "\n".join(line.rstrip() for line in lines)


def _shortened(word: str, most: int) -> str:
    word = unicodedata.normalize("NFC", word)
    return word if len(word) <= most else word[: most - 1] + "…"


def _padded(letter: str, width: int) -> str:
    return letter + " " * max(width - cell_len(letter), 0)
