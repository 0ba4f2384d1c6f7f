"""Which words of a text are translations of each other, by how often they come together (Dice's coefficient):

    dice(s, t) = 2 * pairs with both / (pairs with s + pairs with t)

Each word of the target side has the source word that it is most like, if it is like one. So a source word may
have many: the forms of a translation, and different ones. Imports no torch.
"""

import re
from collections.abc import Iterable

import numpy as np

from regard.text.terms import Term

SAMPLE = 100_000
"""The most pairs that are learned from."""
LOOKED_AT = 16
"""The most words of a side that are looked at: the rarest."""
COMMON = 0.5
"""Words of a larger share of the pairs are no terms."""
TOGETHER, ALIKE = 2, 0.3
"""Pairs in which two words must come together, and Dice's coefficient, at the least."""
_WORD = re.compile(r"[^\W\d_][\w-]*\w")


class Lexicon:
    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Of as many pairs as `SAMPLE`."""
        sides: tuple[dict[str, int], dict[str, int]] = {}, {}
        rows = [
            [
                sorted({own.setdefault(word, len(own)) for word in words})
                for own, words in zip(sides, (_read(source), _WORD.findall(target)), strict=True)
            ]
            for source, target in pairs
        ]
        counts = [np.zeros(len(own) + 1, np.int64) for own in sides]
        for row in rows:
            for count, words in zip(counts, row, strict=True):
                count[words] += 1
        width = len(sides[1]) + 1
        codes = [
            (np.array(_rarest(row[0], counts[0], len(rows)))[:, None] * width)
            + _rarest(row[1], counts[1], len(rows))
            for row in rows
        ]
        flat = np.concatenate([np.empty(0, np.int64), *(each.ravel().astype(np.int64) for each in codes)])
        found, together = np.unique(flat, return_counts=True)
        found, together = found[together >= TOGETHER], together[together >= TOGETHER]
        sources, targets = found // width, found % width
        dice = 2 * together / (counts[0][sources] + counts[1][targets])
        order = np.argsort(-dice, kind="stable")
        spelled = [*sides[0]], [*sides[1]]
        self._known: dict[str, tuple[str, float]] = {}
        for i in order[dice[order] >= ALIKE].tolist():
            self._known.setdefault(spelled[1][targets[i]], (spelled[0][sources[i]], float(dice[i])))

    def terms(self, source: str, target: str) -> list[Term]:
        """Words of a pair that are alike, in the order of the source; each stands once on both sides."""
        places: dict[str, list[re.Match[str]]] = {}
        for match in _WORD.finditer(source):
            places.setdefault(match[0].lower(), []).append(match)
        words, best = _WORD.findall(target), dict[str, tuple[float, str]]()
        for word in words:
            one, dice = self._known.get(word, ("", 0.0))
            if len(places.get(one, ())) == 1 and words.count(word) == 1 and best.get(one, (0.0,))[0] < dice:
                best[one] = dice, word
        found = [Term(*places[one][0].span(), word) for one, (_, word) in best.items()]
        return sorted(found, key=lambda term: term.start)


def _read(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _rarest(words: list[int], counts: np.ndarray, rows: int) -> list[int]:
    rare = [word for word in words if counts[word] <= COMMON * rows]
    return sorted(rare, key=lambda word: (counts[word], word))[:LOOKED_AT]
