"""Terms inside their sources (Dinu et al. 2019): a model that is trained so copies them. Imports no torch.

    [<2de>] ids <term> ids of the term <trans> ids of what it must become </term> ids <eos>

The source's own tokens all stay as they are: the model reads what it always reads, and links of words are
those of the term. While it is trained, a share of its sources have what their translation has for some words;
when it translates with a glossary, they have what that says.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from random import Random

from regard.memory import read_glossary
from regard.tasks.base.pairs import Corpus, MixedPairsConfig, TermsConfig
from regard.tasks.translation.encoding import TERM_TOKENS
from regard.tasks.translation.lexicon import SAMPLE, Lexicon
from regard.text import Pair, Skipped, Tokenizer
from regard.text.terms import Term, codes, held

LOOKED_AT = 1000
"""Sources that tell how many have a term."""
MOST = 3
"""Terms of a source, where they are words of the text itself."""

FindTerms = Callable[[Pair, str | None], list[Term]]
"""The terms that a pair's source has inside; none where it was not chosen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inline:
    """How a model was given terms while it was trained."""

    longest: int
    """The most tokens of a source with its terms."""

    def __post_init__(self) -> None:
        if not 3 <= self.longest <= 1_000_000:
            raise ValueError(f"longest={self.longest} should be between 3 and 1,000,000")


def terms_of(corpus: Corpus) -> TermsConfig | None:
    config = corpus.config
    return config.terms if isinstance(config, MixedPairsConfig) and config.terms.share else None


def glossary_paths(corpus: Corpus) -> list[Path]:
    """The file of the glossary, if there is one beside the text."""
    config = terms_of(corpus)
    return [corpus.root / config.glossary] if config is not None and config.glossary else []


def training_terms(corpus: Corpus, config: TermsConfig) -> FindTerms:
    """Of a glossary, the terms that a pair has on both sides, as the glossary spells them; else a few words
    that are alike in the text itself."""
    if config.glossary:
        source, target = config.pair
        terms = read_glossary(corpus.root / config.glossary, source=source, target=target).terms

        def find(pair: Pair, to: str | None) -> list[Term]:
            if not pair.source.strip() or _chance(config, pair) is None:
                return []
            found = terms.find(pair.source, codes(pair.source))
            there = held(pair.target, found, names=codes(pair.target, found))
            return [term for term, how in zip(found, there, strict=True) if how]

        return find

    @cache
    def lexicon(to: str | None) -> Lexicon:
        own = (pair for pair, other in corpus.pairs("train", Skipped()) if other == to)
        return Lexicon((pair.source, pair.target) for pair in islice(own, SAMPLE))

    def learned(pair: Pair, to: str | None) -> list[Term]:
        chance = _chance(config, pair)
        if chance is None or not pair.source.strip():
            return []
        found = lexicon(to).terms(pair.source, pair.target)
        chosen = chance.sample(found, min(chance.randint(1, MOST), len(found)))
        return sorted(chosen, key=lambda term: term.start)

    return learned


def _chance(config: TermsConfig, pair: Pair) -> Random | None:
    """By the text and the seed, so that it does not matter when, and beside what, a pair is read; None for
    one that is left as it is."""
    text = f"{config.seed}\0terms\0{pair.source}\0{pair.target}".encode("utf-8", "surrogatepass")
    number = int.from_bytes(blake2b(text, digest_size=8).digest())
    return Random(number) if number < config.share * 2**64 else None


def with_terms(
    tokenizer: Tokenizer, ids: Sequence[int], text: str, terms: Sequence[Term]
) -> tuple[list[int], tuple[tuple[int, int], ...]]:
    """The `ids` of a text with its terms inside; and for each that was put in, its place, and that of a token
    of the term."""
    begin, between, end = (tokenizer.ids.extra[token] for token in TERM_TOKENS)
    offsets = tokenizer.encode(text).offsets
    before = len(ids) - 1 - len(offsets)
    found: list[int] = []
    added: list[tuple[int, int]] = []
    done = 0
    for term, target in zip(terms, tokenizer.encode_batch([each.target for each in terms]), strict=True):
        own = [i for i, (start, stop) in enumerate(offsets) if start < term.end and stop > term.start]
        if not own or not target or before + own[0] < done:  # no token of its own
            continue
        first, last = before + own[0], before + own[-1] + 1
        found += ids[done:first]
        place = len(found) + 1
        added.append((len(found), place))
        found += [begin, *ids[first:last]]
        added += [(len(found) + i, place) for i in range(len(target) + 2)]
        found += [between, *target, end]
        done = last
    return [*found, *ids[done:]], tuple(added)


def expected(corpus: Corpus) -> tuple[str, ...]:
    """What there is to be said of the terms before training."""
    config = terms_of(corpus)
    if config is None:
        return ()
    find = training_terms(corpus, replace(config, share=1.0))
    looked = [*islice(corpus.pairs("train", Skipped()), LOOKED_AT)]
    count = sum(bool(find(pair, to)) for pair, to in looked)
    return (
        f"data.terms: {count:,} of the first {len(looked):,} pairs have a term on both sides; "
        f"{config.share:.0%} of all sources are looked at",
    )
