"""From tokens to words, and through all layers at once: views of attention weights.

words     a word is attended to by the sum over its tokens, and attends by the mean over them, so that
          rows still sum to 1
rollout   R_l = A_l R_(l-1),  A = (mean over heads + I) / 2, rows normalised      Abnar and Zuidema 2020
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor

from regard.look.parts import Place
from regard.look.passes import Views
from regard.tasks.translation.alignment import target_spans
from regard.text import Encoding, Tokenizer

Specials = Literal["keep", "drop", "spread"]
"""Special tokens of a view. keep: each has a row and a column of its own. drop: they have none, and a row
sums to what is left, so that one sees how much went to them. spread: they have none, and what is left is made
to sum to 1 again; a row with nothing left stays 0."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """What was read, token by token, and which word each token is part of."""

    tokens: tuple[str, ...]
    """As the vocabulary spells them."""
    owners: tuple[int | None, ...]
    """The word of each; None for a special token."""
    words: tuple[str, ...]
    """As they stand in the text."""
    letters: tuple[str, ...] = ()
    """Those of the text that each token alone stands for; none where that is not known."""

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def of(cls, encoding: Encoding, text: str, second: str | None = None) -> "Tokens":
        """Of a text, or of a pair, as the tokenizer splits it; words of a second text come after those of the
        first."""
        texts = [text] if second is None else [text, second]
        spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
        places = [*zip(encoding.texts, encoding.words, strict=True)]
        for (of_text, word), span in zip(places, encoding.offsets, strict=True):
            if of_text is not None and word is not None:
                spans.setdefault((of_text, word), []).append(span)
        numbers = {place: number for number, place in enumerate(sorted(spans))}
        words = [
            texts[place[0]][min(a for a, _ in spans[place]) : max(b for _, b in spans[place])].strip()
            for place in sorted(spans)
        ]
        owners = [numbers.get((t, w)) if t is not None and w is not None else None for t, w in places]
        letters = [
            texts[t][slice(*span)] if t is not None and w is not None and spans[t, w].count(span) == 1 else ""
            for (t, w), span in zip(places, encoding.offsets, strict=True)
        ]
        return cls(encoding.tokens, tuple(owners), tuple(words), tuple(letters))

    @classmethod
    def written(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> "Tokens":
        """Of tokens that a model wrote: the words that the tokenizer finds in their text. Special tokens are
        none of it."""
        special = {tokenizer.vocabulary[token] for token in tokenizer.specials}
        own = [place for place, id in enumerate(ids) if id not in special]
        text, spans = target_spans(tokenizer, [ids[place] for place in own])
        read = cls.of(encoding := tokenizer.encode(text), text)
        ends: dict[int, int] = {}
        for owner, (_, end) in zip(read.owners, encoding.offsets, strict=True):
            if owner is not None:
                ends[owner] = max(end, ends.get(owner, 0))
        owners: list[int | None] = [None] * len(ids)
        for place, (start, end) in zip(own, spans, strict=True):
            # A span may begin with the space before its word, which then ends where the span does.
            middle = max(start, end - 1)
            owners[place] = next((word for word in sorted(ends) if ends[word] > middle), None)
        return cls(tuple(tokenizer.token(id) for id in ids), tuple(owners), read.words)

    def between(self, before: Sequence[str], after: Sequence[str]) -> "Tokens":
        """With special tokens around them."""
        owners = (*(None for _ in before), *self.owners, *(None for _ in after))
        letters = (*("" for _ in before), *self.letters, *("" for _ in after)) if self.letters else ()
        return Tokens((*before, *self.tokens, *after), owners, self.words, letters)

    @property
    def labels(self) -> tuple[str, ...]:
        """What each token says, in the letters of the text, behind ## where it goes on with a word; without
        letters of its own, as the vocabulary spells it."""
        letters = self.letters or ("",) * len(self)
        mark = "##" if max(map(len, letters), default=0) > 1 else ""  # which all would have, of letters
        begins = (owner is None or owner != last for last, owner in pairwise((None, *self.owners)))
        own = zip(self.tokens, letters, begins, strict=True)
        return tuple(
            token if not said.strip() else said if first else f"{mark}{said}" for token, said, first in own
        )

    def units(self, specials: Specials) -> list[tuple[str, list[int]]]:
        """The words in the order of their first tokens, with the places of these; special tokens among them,
        if they are kept."""
        found: dict[int | str, tuple[str, list[int]]] = {}
        for place, (token, owner) in enumerate(zip(self.tokens, self.owners, strict=True)):
            if owner is not None:
                found.setdefault(owner, (self.words[owner], []))[1].append(place)
            elif specials == "keep":
                found[f"special {place}"] = (token, [place])
        return [*found.values()]


@dataclass(frozen=True, slots=True, eq=False)
class WordWeights:
    weights: Tensor
    """[..., rows, columns]."""
    rows: tuple[str, ...]
    columns: tuple[str, ...]


def merge_words(
    weights: Tensor, queries: Tokens, keys: Tokens | None = None, *, specials: Specials = "keep"
) -> WordWeights:
    """Weights of tokens [..., queries, keys] as weights of words. Without `keys`, the queries ask
    themselves.

    >>> embedder = regard.load("runs/minilm", regard.Embedder)
    >>> traced = regard.look.trace_reading(embedder, "An unbelievable film.")
    >>> merged = regard.look.merge_words(traced.trace.weights(layer=5), traced.read, specials="spread")
    >>> merged.rows, merged.weights.shape
    (('An', 'unbelievable', 'film', '.'), torch.Size([12, 4, 4]))
    """
    keys = queries if keys is None else keys
    if specials not in get_args(Specials):
        raise ValueError(f"specials={specials!r} is none of {', '.join(get_args(Specials))}")
    if weights.shape[-2:] != (len(queries), len(keys)):
        raise ValueError(
            f"weights of {tuple(weights.shape[-2:])} for {len(queries)} queries and {len(keys)} keys: "
            "give the tokens that the pass read"
        )
    rows, columns = queries.units(specials), keys.units(specials)
    summed = torch.stack([weights[..., own].sum(dim=-1) for _, own in columns], dim=-1)
    if specials == "spread":
        summed = normalised(summed)
    meant = torch.stack([summed[..., own, :].mean(dim=-2) for _, own in rows], dim=-2)
    if specials == "spread":
        meant = normalised(meant)
    return WordWeights(meant, tuple(name for name, _ in rows), tuple(name for name, _ in columns))


def normalised(weights: Tensor) -> Tensor:
    """Rows that sum to 1; those of zeros stay."""
    sums = weights.sum(dim=-1, keepdim=True)
    return weights / sums.where(sums != 0, torch.ones_like(sums))


def rollout(weights: Sequence[Tensor]) -> Tensor:
    """How much of each input token is in each state [layers, queries, keys], from the weights [heads,
    queries, keys] of all layers, the lowest first: half of a state comes through the residual connection.

    >>> everywhere = torch.full((1, 2, 2), 0.5)  # one head that looks at both tokens alike
    >>> regard.look.rollout([everywhere, everywhere])[-1]
    tensor([[0.6250, 0.3750],
            [0.3750, 0.6250]])
    """
    if not weights:
        raise ValueError("no weights to roll out: give those of all layers")
    found: list[Tensor] = []
    for layer in weights:
        own = torch.eye(layer.shape[-1], dtype=layer.dtype, device=layer.device)
        mixed = normalised(0.5 * layer.mean(dim=0) + 0.5 * own)
        found.append(mixed @ found[-1] if found else mixed)
    return torch.stack(found)


def trace_rollout(seen: Views, place: Place | None = None, *, sequence: int = 0) -> Tensor:
    """The same of a trace of all layers' weights: of an encoder, or of a decoder's self-attention.

    >>> embedder = regard.load("runs/minilm", regard.Embedder)
    >>> traced = regard.look.trace_reading(embedder, "The bank by the river.")
    >>> regard.look.trace_rollout(traced.trace).shape
    torch.Size([6, 8, 8])
    """
    place = seen.shown.only(place)
    if place not in ("encoder", "decoder"):
        raise ValueError(f"place={place!r} does not attend to itself: roll out encoder or decoder")
    layers = seen.layers(place)
    if layers != [*range(seen.shown.attending[place])]:
        raise ValueError(f"only layers {layers} were looked at: trace all of them to roll out")
    return rollout([seen.weights(place, layer=layer, sequence=sequence) for layer in layers])
