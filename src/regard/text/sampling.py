"""BPE-dropout (Provilkov et al. 2020, algorithm 1): a word cut differently each time it is met.

At every step each possible merge is dropped with probability `dropout`; of those left, the one learned first
is done. At 0 this is plain BPE; at 1 every word falls into its characters. The `tokenizers` library can do it
too, but draws from a generator that cannot be seeded, and then a training run could not be repeated.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import pairwise
from random import Random
from typing import Any

from regard.text.specials import BYTES


class DropoutBPE:
    """The merges of a BPE model, given as the `model` part of its `tokenizer.json`."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        others = ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
        unlike = [name for name in others if model.get(name)]
        if model.get("type") != "BPE" or not model.get("merges") or unlike:
            kind = " with ".join([str(model.get("type")), *unlike])
            raise ValueError(
                f"a tokenizer with a {kind} model cannot sample: only plain BPE with merges can; "
                "train one with kind='bpe' or 'byte-bpe'"
            )
        self._vocabulary: Mapping[str, int] = model["vocab"]
        # Old files write a merge as one string.
        merges = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(merges)}
        self._byte_fallback = bool(model.get("byte_fallback")) and all(
            byte in self._vocabulary for byte in BYTES
        )
        self._unknown = self._vocabulary.get(model.get("unk_token") or "")

    def sample(self, words: Iterable[str], dropout: float, seed: int) -> list[int]:
        draw = Random(seed).random
        ids: list[int] = []
        for word in words:
            for symbol in self._merge(word, dropout, draw):
                ids += self._spell(symbol)
        return ids

    def _merge(self, word: str, dropout: float, draw: Callable[[], float]) -> list[str]:
        """The possible merges wait in a heap; those that are dropped return to it after the next merge."""
        ranks = self._ranks
        symbols = [*word, ""]  # a ring that the empty symbol closes; what is merged away becomes empty too
        after, before = [*range(1, len(symbols)), 0], [*range(-1, len(word))]
        waiting = [(ranks[two], place, two) for place, two in enumerate(pairwise(symbols)) if two in ranks]
        heapify(waiting)
        dropped = []
        while waiting:
            merge = heappop(waiting)
            _, place, (left, right) = merge
            gone = after[place]
            if symbols[place] != left or symbols[gone] != right:
                continue  # one of the two has been merged with another since
            if draw() < dropout:
                dropped.append(merge)
                continue
            symbols[place], symbols[gone] = left + right, ""
            after[place] = after[gone]
            before[after[place]] = place
            for start in (before[place], place):
                two = symbols[start], symbols[after[start]]
                if two in ranks:
                    heappush(waiting, (ranks[two], start, two))
            for merge in dropped:
                heappush(waiting, merge)
            dropped = []
        return [symbol for symbol in symbols if symbol]

    def _spell(self, symbol: str) -> list[int]:
        if symbol in self._vocabulary:
            return [self._vocabulary[symbol]]
        if self._byte_fallback:
            return [self._vocabulary[BYTES[byte]] for byte in symbol.encode()]
        return [] if self._unknown is None else [self._unknown]
