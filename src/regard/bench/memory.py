"""A translation memory of a million segments: the nearest one, and rapidfuzz over all of them.

Segments are drawn: 4 to 24 words, out of 50,000 by Zipf's law, as words come in texts. What is looked for is
one of them, the same or with some words exchanged, dropped or added, so that it scores 70 to 99; or a new
one. Both sides count the same score, and each round holds their best ones equal.
"""

import random
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from regard.bench.results import BenchError, Report, Row, compared, processor, report
from regard.bench.timing import in_turns, one_round
from regard.memory import Memory, Segment
from regard.memory.words import levenshtein, score, words
from regard.tasks.base.terminal import say

TITLE = "The nearest of a million segments: a translation memory, and rapidfuzz over all of them"
METHOD = (
    "A million drawn segments of 4 to 24 words; one lookup of the best match that scores 70 or more, against "
    "rapidfuzz's process.extractOne over the words of all segments; in turns, the best scores held equal."
)
SEGMENTS = 1_000_000
TYPES = 50_000
ROUNDS = 3
LOOKUPS, SCANS = 100, 2
"""Texts that are looked up in a round, by us and by rapidfuzz."""
NEAR = 70


def drawn(count: int, seed: int) -> Iterator[str]:
    """Different texts."""
    chance = np.random.default_rng(seed)
    shares = 1 / np.arange(1, TYPES + 1)
    bounds = (shares / shares.sum()).cumsum()
    seen: set[int] = set()
    while len(seen) < count:
        for length in chance.integers(4, 25, size=1000):
            own = np.searchsorted(bounds, chance.random(length))
            text = " ".join(f"w{each}" for each in own)
            if hash(text) not in seen and len(seen) < count:
                seen.add(hash(text))
                yield text


def changed(text: str, chance: random.Random) -> str:
    """With a fifth of its words exchanged, dropped or others put in, but one at least."""
    own = text.split()
    for _ in range(max(len(own) // 5, 1)):
        place = chance.randrange(len(own))
        match chance.randrange(3):
            case 0:
                own[place] = f"w{chance.randrange(TYPES)}"
            case 1:
                del own[place]
            case _:
                own.insert(place, f"w{chance.randrange(TYPES)}")
    return " ".join(own)


def measure(console: Console, segments: int = SEGMENTS) -> Report:
    """A memory needs rapidfuzz itself, so where that is missing there is nothing on either side."""
    levenshtein()
    with tempfile.TemporaryDirectory() as folder:
        sources = [*drawn(segments, seed=0)]
        say(console, f"{segments:,} segments are imported")
        with Memory(Path(folder) / "memory.db", create=True) as memory:
            memory.add(Segment(text, "x", "en", "de") for text in sources)
            rows = [*measured(memory, sources)]
    shown = {"title": TITLE, "method": METHOD, "machine": processor()}
    return report("memory", rows=rows, peers=["rapidfuzz"], **shown)


def measured(memory: Memory, sources: Sequence[str]) -> Iterator[Row]:
    from rapidfuzz import __version__, process

    chance = random.Random(0)
    every = [words(text) for text in sources]
    kinds = {
        "the same text": chance.sample(sources, LOOKUPS),
        "70 to 99": [changed(text, chance) for text in chance.sample(sources, LOOKUPS)],
        "a new text": [*drawn(LOOKUPS, seed=1)],
    }

    def ours(texts: Sequence[str]) -> list[int]:
        found = [memory.search(text, "en", "de", at_least=NEAR, limit=1) for text in texts]
        return [own[0].score if own else 0 for own in found]

    def theirs(texts: Sequence[str]) -> list[int]:
        scores = []
        for text in texts:
            own = words(text)
            found = process.extractOne(
                own, every, scorer=levenshtein().normalized_similarity, score_cutoff=NEAR / 100 - 1e-9
            )
            scores.append(0 if found is None else score(text, sources[found[2]]))
        return scores

    for kind, texts in kinds.items():
        few = texts[:SCANS]
        if ours(few) != theirs(few):
            raise BenchError(f"{kind}: the memory finds {ours(few)}, and a scan {theirs(few)}")
        sides = {"regard": partial(ours, texts), "rapidfuzz": partial(theirs, few)}
        one_round(sides)  # warms up
        times = in_turns(sides, ROUNDS)
        yield compared(
            [1000 * each / LOOKUPS for each in times["regard"]],
            [1000 * each / SCANS for each in times["rapidfuzz"]],
            work=f"{len(sources):,} segments",
            setting=kind,
            unit="ms",
            peer=f"rapidfuzz {__version__}",
            notes="same scores",
        )
