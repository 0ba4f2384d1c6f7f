"""Parallel sentences in two corpora, by the margin of their vectors (Artetxe and Schwenk 2019).

    score(x, y) = cos(x, y) / ( sum_{z in NN_k(x)} cos(x, z) / 2k + sum_{z in NN_k(y)} cos(y, z) / 2k )

A pair that is nearer than either's other neighbours scores above 1. As LASER's `mine_bitext` does with
`retrieval=max`: the best partner of each source and of each target are candidates; they are taken best first,
each sentence once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from regard.config import ConfigError
from regard.corpus.index import ShardedIndex, choose, open_index
from regard.corpus.texts import any_order
from regard.corpus.vectors import ShardedVectors
from regard.meaning.nearest import Scores
from regard.tasks.base.outputs import is_stream, written_whole
from regard.tasks.base.terminal import say
from regard.tasks.base.vectors import Rows

_BLOCK = 4096
"""Rows that are searched for at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    scores: Scores
    """Best first."""
    sources: Rows
    targets: Rows


def mined(
    sources: ShardedIndex, targets: ShardedIndex, *, neighbours: int = 4, threshold: float = 1.06
) -> Pairs:
    if neighbours < 1:
        raise ConfigError(f"--neighbours {neighbours}: give 1 or more")
    if sources.vectors.shape[1] != targets.vectors.shape[1]:
        raise ConfigError("the two corpora have vectors of different widths: make both with one model")
    forward, forward_cosines = _neighbours(sources.vectors, targets, neighbours)
    backward, backward_cosines = _neighbours(targets.vectors, sources, neighbours)
    of_sources, of_targets = forward_cosines.mean(axis=1), backward_cosines.mean(axis=1)
    ahead = forward_cosines / ((of_sources[:, None] + of_targets[forward]) / 2)
    back = backward_cosines / ((of_targets[:, None] + of_sources[backward]) / 2)
    from_sources, from_targets = ahead.argmax(axis=1), back.argmax(axis=1)
    left = np.concatenate([np.arange(len(ahead)), backward[np.arange(len(back)), from_targets]])
    right = np.concatenate([forward[np.arange(len(ahead)), from_sources], np.arange(len(back))])
    scores = np.concatenate([ahead.max(axis=1), back.max(axis=1)])
    return _each_once(scores, left, right, threshold)


def _neighbours(vectors: ShardedVectors, index: ShardedIndex, k: int) -> tuple[Rows, Scores]:
    found = [index.search(vectors[start : start + _BLOCK], k) for start in range(0, len(vectors), _BLOCK)]
    return np.concatenate([rows for rows, _ in found]), np.concatenate([cosines for _, cosines in found])


def _each_once(scores: Scores, left: Rows, right: Rows, threshold: float) -> Pairs:
    taken: list[int] = []
    seen_left, seen_right = set[int](), set[int]()
    for place in np.lexsort((right, left, -scores)):
        if scores[place] < threshold:
            break
        one, other = int(left[place]), int(right[place])
        if one not in seen_left and other not in seen_right:
            seen_left.add(one)
            seen_right.add(other)
            taken.append(int(place))
    chosen = np.array(taken, dtype=np.int64)
    return Pairs(scores[chosen], left[chosen], right[chosen])


def mine(
    sources: Path, targets: Path, out: Path, *, neighbours: int, threshold: float, kind: str, console: Console
) -> int:
    """Write score, source and target, tabs between them, best first; how many pairs there are."""
    sides = [ShardedVectors(each) for each in (sources, targets)]
    made = [each.manifest["model"]["sha256"] for each in sides]
    if made[0] != made[1]:
        raise ConfigError(f"{sources} and {targets} were made by different models: embed both with one")
    ways = [[each.manifest["settings"]["settings"].get(name) for name in ("pool", "layer")] for each in sides]
    if ways[0] != ways[1]:
        raise ConfigError(f"{sources} and {targets} differ in --pool or --layer: embed both alike")
    told = partial(say, console)
    indexes = [open_index(each, choose(len(each), kind)[0], told) for each in sides]
    pairs = mined(*indexes, neighbours=neighbours, threshold=threshold)
    count = 0

    def lines(source_text: Callable[[int], str], target_text: Callable[[int], str]) -> Iterator[str]:
        nonlocal count
        for score, source, target in zip(pairs.scores, pairs.sources, pairs.targets, strict=True):
            one, other = source_text(source), target_text(target)
            if one and other:
                count += 1
                yield f"{score:.6f}\t{one}\t{other}\n"

    beside = None if is_stream(out) else out.parent
    with (
        written_whole(out) as file,
        any_order(sides[0], pairs.sources, beside) as one,
        any_order(sides[1], pairs.targets, beside) as other,
    ):
        file.writelines(lines(one, other))
    return count
