"""Near matches behind their sources (Bulté & Tezcan 2019, neural fuzzy repair). Imports no torch.

    [<2de>] ids <match> ids of the match's translation <eos>

While it is trained, a model sees a share of its sources so, with the nearest other text of a memory; when it
translates with a memory, it is given what that has.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from regard.memory import Memory, Segment
from regard.tasks.base.pairs import Corpus, FuzzyConfig, MixedPairsConfig
from regard.text import Pair, Skipped

LOOKED_AT = 1000
"""Sources that tell how many have a match."""

Find = Callable[[Pair, str | None], str]
"""The translation of the nearest other text; "" where there is none, or the source is not looked up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fuzzy:
    """How a model was given matches while it was trained."""

    at_least: int
    """The lowest score of a match."""
    longest: int
    """The most tokens of a source with its match."""

    def __post_init__(self) -> None:
        if not 1 <= self.at_least <= 99:
            raise ValueError(f"at_least={self.at_least} should be between 1 and 99")
        if not 3 <= self.longest <= 1_000_000:
            raise ValueError(f"longest={self.longest} should be between 3 and 1,000,000")


def fuzzy_of(corpus: Corpus) -> FuzzyConfig | None:
    config = corpus.config
    return config.fuzzy if isinstance(config, MixedPairsConfig) and config.fuzzy.share else None


def memory_paths(corpus: Corpus) -> list[Path]:
    """The file of the memory, if there is one beside the text."""
    config = fuzzy_of(corpus)
    return [corpus.root / config.memory] if config is not None and config.memory else []


@contextmanager
def near_matches(corpus: Corpus, config: FuzzyConfig) -> Iterator[Find]:
    with _opened(corpus, config) as (memory, pair_of):

        def find(pair: Pair, to: str | None) -> str:
            if not _chosen(config, pair) or not pair.source.strip():
                return ""
            source, target = pair_of(to)
            found = memory.search(pair.source, source, target, at_least=config.at_least, limit=1, exact=False)
            return found[0].target.strip() if found else ""

        yield find


def _chosen(config: FuzzyConfig, pair: Pair) -> bool:
    """By the text and the seed, so that it does not matter when, and beside what, a pair is read."""
    text = f"{config.seed}\0{pair.source}\0{pair.target}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest()) < config.share * 2**64


@contextmanager
def _opened(
    corpus: Corpus, config: FuzzyConfig
) -> Iterator[tuple[Memory, Callable[[str | None], tuple[str, str]]]]:
    """The memory, and the languages in it of a pair with this target language."""
    if config.memory:
        with Memory(corpus.root / config.memory) as memory:
            source, target = memory.pair(*config.pair)
            yield memory, lambda to: (source, to or target)
        return
    # Names of its own, so that de and de-CH are not taken for one another.
    names = {to: f"x{number}" for number, to in enumerate((None, *corpus.config.languages))}
    with tempfile.TemporaryDirectory() as folder, Memory(Path(folder) / "own.db", create=True) as memory:
        memory.add(
            Segment(pair.source, pair.target, "x", names[to])
            for pair, to in corpus.pairs("train", Skipped())
            if pair.source.strip() and pair.target.strip()
        )
        yield memory, lambda to: ("x", names[to])


def expected(corpus: Corpus) -> tuple[str, ...]:
    """What there is to be said of the matches before training."""
    config = fuzzy_of(corpus)
    if config is None:
        return ()
    with near_matches(corpus, replace(config, share=1.0)) as find:
        looked = [*islice(corpus.pairs("train", Skipped()), LOOKED_AT)]
        count = sum(bool(find(pair, to)) for pair, to in looked)
    return (
        f"data.fuzzy: {count:,} of the first {len(looked):,} sources have a near match of {config.at_least} "
        f"% or more; {config.share:.0%} of all sources are looked up",
    )
