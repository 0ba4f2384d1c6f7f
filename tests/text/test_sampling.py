import json
import time
from functools import cache
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.tokenizer import Tokenizer
from regard.text.training import Kind, TokenizerConfig

LINES = ["the cat sat on the mat and the cat saw a rat", "der Hund läuft über die grüne Wiese"]


@cache
def trained(kind: Kind) -> Tokenizer:
    return Tokenizer.train(LINES, TokenizerConfig(kind=kind, vocabulary=400))


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe"])
@settings(max_examples=60, deadline=None)
@given(text=st.sampled_from(LINES) | st.text("abcdehort über字😀<0>[]x", max_size=30))
def test_dropout_0_is_the_plain_encoding(kind: Kind, text: str) -> None:
    tokenizer = trained(kind)
    assert tokenizer.sample(text, dropout=0, seed=1) == list(tokenizer.encode(text).ids)


def test_dropout_1_leaves_the_characters() -> None:
    tokenizer = trained("bpe")
    assert [tokenizer.token(i) for i in tokenizer.sample("the cat", dropout=1, seed=1)] == list("▁the▁cat")


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe"])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**64), dropout=st.floats(0, 1), text=st.sampled_from([*LINES, "neues 字 <eos>"]))
def test_every_sample_is_another_spelling_of_the_text(
    kind: Kind, seed: int, dropout: float, text: str
) -> None:
    tokenizer = trained(kind)
    sample = tokenizer.sample(text, dropout=dropout, seed=seed)
    assert tokenizer.decode(sample) == text
    assert sample == tokenizer.sample(text, dropout=dropout, seed=seed)


def test_seeds_differ_in_what_they_draw() -> None:
    assert len({tuple(trained("bpe").sample(LINES[0], dropout=0.3, seed=seed)) for seed in range(20)}) > 10


def test_a_single_merge_is_dropped_as_often_as_asked() -> None:
    config = TokenizerConfig(vocabulary=10, byte_fallback=False)
    tokenizer = Tokenizer.train(["a"] * 2, config)  # one merge: '▁' + 'a'
    lengths = [len(tokenizer.sample("a", dropout=0.3, seed=seed)) for seed in range(2000)]
    assert abs(lengths.count(2) / 2000 - 0.3) < 0.04


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "characters", "words"])
def test_kinds_without_merges_cannot_sample(kind: Kind) -> None:
    with pytest.raises(ValueError, match=r"cannot sample.*train one with kind='bpe'"):
        trained(kind).sample("the cat", dropout=0.1, seed=0)


def naive(tokenizer: Tokenizer, word: str, dropout: float, seed: int) -> list[str]:
    """Algorithm 1 of the paper; merges are drawn in the order learned, up to the one that is done."""
    model = json.loads(tokenizer._json)["model"]
    ranks = {tuple(merge): rank for rank, merge in enumerate(model["merges"])}
    draw = Random(seed).random
    symbols = list(word)
    while True:
        possible = sorted((ranks[two], i) for i, two in enumerate(pairwise(symbols)) if two in ranks)
        kept = next((i for _, i in possible if draw() >= dropout), None)
        if kept is None:
            return symbols
        symbols[kept : kept + 2] = [symbols[kept] + symbols[kept + 1]]


@settings(max_examples=200, deadline=None)
@given(
    word=st.text("atherund", min_size=1, max_size=30),
    dropout=st.sampled_from([0.0, 0.1, 0.5, 0.9]),
    seed=st.integers(0),
)
def test_a_sample_is_what_the_papers_algorithm_draws(word: str, dropout: float, seed: int) -> None:
    tokenizer = trained("bpe")
    sample = [tokenizer.token(id) for id in tokenizer.sample(word, dropout=dropout, seed=seed)]
    assert sample == naive(tokenizer, f"▁{word}", dropout, seed)


def test_a_word_without_end_takes_no_time_without_end() -> None:
    word = "thecatsatonthemat" * 2000
    start = time.perf_counter()
    assert trained("bpe").decode(trained("bpe").sample(word, dropout=0.1, seed=0)) == word
    assert time.perf_counter() - start < 10  # the square of its length would take an hour


def test_dropout_is_a_probability() -> None:
    with pytest.raises(ValueError, match=r"dropout=1.5 is no probability"):
        trained("bpe").sample("the cat", dropout=1.5, seed=0)
