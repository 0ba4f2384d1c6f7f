"""Masks are a function of (seed, draw, example, place): as many as asked for, and on no special token."""

from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from regard.config import ConfigError, from_dict
from regard.data.corruption import Corrupted, Corruption, span_tail, word_starts
from regard.data.hashing import uniform
from regard.settings.training import MaskingConfig
from regard.text.specials import BYTES
from regard.text.tokenizer import Tokenizer
from regard.text.training import TokenizerConfig

CLS, SEP, MASK = 1, 2, 4
SPECIALS = frozenset({0, CLS, SEP, 3, MASK})
VOCABULARY = 40
STARTS = np.arange(VOCABULARY) % 3 != 0  # a third of the ids continue a word
UNITS = ("token", "word", "span")

EXAMPLES = st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=25), max_size=6)
CONFIGS = st.builds(
    MaskingConfig,
    share=st.floats(0.05, 0.9),
    mask=st.floats(0, 0.5),
    random=st.floats(0, 0.5),
    unit=st.sampled_from(UNITS),
    span=st.floats(1, 5.5),
    fresh=st.booleans(),
    copies=st.integers(1, 3),
)


def corruption(config: MaskingConfig, seed: int = 0, vocabulary: int = VOCABULARY) -> Corruption:
    starts = np.arange(vocabulary) % 3 != 0
    return Corruption(config, mask=MASK, vocabulary=vocabulary, specials=SPECIALS, seed=seed, starts=starts)


def run(
    made: Corruption, examples: list[list[int]], numbers: list[int] | None = None, epoch: int = 0
) -> Corrupted:
    flat = np.array([id for example in examples for id in example], dtype=np.int64)
    numbers = list(range(len(examples))) if numbers is None else numbers
    return made.corrupt(flat, [len(example) for example in examples], numbers, epoch)


def same(one: Corrupted, other: Corrupted) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("ids", "places", "labels")
    )


def stretches(example: list[int]) -> list[tuple[int, list[list[int]]]]:
    """The number of each run without special tokens, a special one being a run too, and the places of the
    tokens of each of its words."""
    found: list[tuple[int, list[list[int]]]] = []
    number = -1
    for place, id in enumerate(example):
        if id in SPECIALS:
            number += 1
            continue
        if place == 0 or example[place - 1] in SPECIALS:
            number += 1
            found.append((number, []))
        if STARTS[id] or not found[-1][1]:
            found[-1][1].append([])
        found[-1][1][-1].append(place)
    return found


def by_the_definition(
    config: MaskingConfig, seed: int, example: list[int], number: int, epoch: int
) -> tuple[list[int], dict[int, int]]:
    """One word after the other: what the example becomes, and what stood at the places to predict."""
    draw = epoch if config.fresh else epoch % config.copies
    tail = [1.0]
    if config.unit == "span":
        weights = _truncated_geometric(config.span)
        tail = [sum(weights[k:]) for k in range(10)]
    rate = brentq(lambda s: 1 - np.prod([1 - s * t for t in tail]) - config.share, 0, 1, xtol=1e-15)
    ordinary = [id for id in range(VOCABULARY) if id not in SPECIALS]
    ids, labels = list(example), {}
    for stretch, words in stretches(example):
        units = [[place] for word in words for place in word] if config.unit == "token" else words
        for unit, places in enumerate(units):
            backs = [
                back
                for back, longer in enumerate(tail)
                if uniform(seed, draw, 0, number, stretch, unit - back)[0] < rate * longer
            ]
            if not backs:
                continue
            kind = uniform(seed, draw, 1, number, stretch, unit - backs[0])[0]
            for place in places:
                labels[place] = example[place]
                if kind < config.mask:
                    ids[place] = MASK
                elif kind < config.mask + config.random:
                    chance = uniform(seed, draw, 2, number, place)[0]
                    ids[place] = ordinary[int(chance * len(ordinary))]
    return ids, labels


def _truncated_geometric(mean: float) -> list[float]:
    def weights(p: float) -> list[float]:
        raw = [p * (1 - p) ** (k - 1) for k in range(1, 11)]
        return [each / sum(raw) for each in raw]

    if mean == 1:
        return [1.0] + [0.0] * 9
    if mean >= 5.5 - 1e-9:
        return [0.1] * 10
    p = brentq(lambda p: sum(k * w for k, w in enumerate(weights(p), 1)) - mean, 1e-12, 1 - 1e-12, xtol=1e-15)
    return weights(p)


@settings(max_examples=60)
@given(EXAMPLES, CONFIGS, st.integers(0, 2**63), st.integers(0, 5))
def test_a_batch_is_corrupted_as_the_definition_says_word_by_word(examples, config, seed, epoch):
    found = run(corruption(config, seed), examples, epoch=epoch)
    expected = [
        by_the_definition(config, seed, example, number, epoch) for number, example in enumerate(examples)
    ]
    assert found.ids.tolist() == [id for ids, _ in expected for id in ids]
    assert found.labels.tolist() == [labels[place] for _, labels in expected for place in sorted(labels)]


@settings(max_examples=60)
@given(EXAMPLES, CONFIGS, st.integers(0, 9))
def test_labels_are_the_originals_and_nothing_else_changes(examples, config, epoch):
    flat = np.array([id for example in examples for id in example], dtype=np.uint16)
    before = flat.copy()
    lengths = np.array([len(example) for example in examples], dtype=np.int64)
    found = corruption(config).corrupt(flat, lengths, np.arange(len(examples)), epoch)
    assert np.array_equal(flat, before)
    assert np.array_equal(found.labels, flat[found.places])
    assert (np.diff(found.places) > 0).all()
    assert {each.dtype for each in (found.ids, found.places, found.labels)} == {np.dtype(np.int64)}
    elsewhere = np.ones(len(flat), dtype=bool)
    elsewhere[found.places] = False
    assert np.array_equal(found.ids[elsewhere], flat[elsewhere])
    assert not SPECIALS & set(found.labels.tolist())  # special tokens are never chosen,
    assert not (SPECIALS - {MASK}) & set(found.ids[found.places].tolist())  # and none but the mask is put in


@settings(max_examples=60)
@given(EXAMPLES.filter(bool), CONFIGS, st.integers(0, 5), st.randoms(use_true_random=False))
def test_an_example_has_the_same_masks_in_any_company(examples, config, epoch, chance):
    made = corruption(config)
    order = [*range(len(examples))]
    chance.shuffle(order)
    alone = [run(made, [example], [number], epoch) for number, example in enumerate(examples)]
    together = run(made, [examples[number] for number in order], order, epoch)
    assert together.ids.tolist() == [id for number in order for id in alone[number].ids.tolist()]
    assert together.labels.tolist() == [id for number in order for id in alone[number].labels.tolist()]


def corpus(examples: int, words: int, vocabulary: int) -> list[list[int]]:
    chance = np.random.default_rng(1)
    rows = chance.integers(5, vocabulary, size=(examples, words)).tolist()
    return [[CLS, *row, SEP] for row in rows]


@pytest.mark.spec("5.3")
@pytest.mark.parametrize("unit", UNITS)
def test_every_epoch_has_masks_of_its_own_unless_there_are_copies(unit):
    text = corpus(20, 30, VOCABULARY)

    def epochs(**settings: object) -> list[Corrupted]:
        made = corruption(from_dict(MaskingConfig, {"unit": unit, **settings}))
        return [run(made, text, epoch=epoch) for epoch in range(6)]

    fresh, copies, once = epochs(), epochs(fresh=False, copies=3), epochs(fresh=False, copies=1)
    assert len({one.ids.tobytes() for one in fresh}) == 6
    assert len({one.ids.tobytes() for one in copies}) == 3
    assert all(same(copies[epoch], copies[epoch + 3]) for epoch in range(3))
    assert all(same(one, once[0]) for one in once)
    assert not same(run(corruption(MaskingConfig(unit=unit), seed=1), text), fresh[0])


@pytest.mark.spec("5.1")
@pytest.mark.parametrize("share", [0.15, 0.4])
@pytest.mark.parametrize("unit", UNITS)
def test_the_share_is_kept_within_what_chance_allows(unit, share):
    text = corpus(2000, 60, VOCABULARY)
    found = run(corruption(MaskingConfig(unit=unit, share=share)), text)
    tokens = 2000 * 60
    # Var <= n p q E[size^2] / E[size], where tokens are chosen in groups of that size.
    together = 1.0
    if unit != "token":
        sizes = np.array([len(word) for example in text for _, words in stretches(example) for word in words])
        together *= (sizes**2).sum() / sizes.sum()
    if unit == "span":
        lengths, weights = np.arange(1, 11), np.array(_truncated_geometric(3.8))
        together *= (weights @ lengths**2) / (weights @ lengths)
    assert abs(len(found.places) - share * tokens) < 5 * (tokens * share * (1 - share) * together) ** 0.5


@pytest.mark.spec("5.1")
@pytest.mark.parametrize("unit", UNITS)
def test_of_the_chosen_80_in_100_are_masked_10_replaced_and_10_kept(unit):
    vocabulary = 30_000  # a random token is hardly ever the one it replaces
    text = corpus(3000, 60, vocabulary)
    found = run(corruption(MaskingConfig(unit=unit), vocabulary=vocabulary), text)
    now = found.ids[found.places]
    masked, kept = now == MASK, now == found.labels
    # Decisions are one for each group: as many as tokens, or fewer by the mean square size of the groups.
    together = {"token": 1, "word": 2, "span": 2 * 5.5 * 1.2}[unit]
    for wanted, group in ((0.8, masked), (0.1, kept), (0.1, ~masked & ~kept)):
        assert abs(group.mean() - wanted) < 5 * (wanted * (1 - wanted) * together / len(now)) ** 0.5


def test_random_tokens_come_from_all_ordinary_ones_alike():
    text = corpus(3000, 60, VOCABULARY)
    found = run(corruption(MaskingConfig(share=0.5, mask=0, random=1)), text)
    counts = np.bincount(found.ids[found.places], minlength=VOCABULARY)
    assert not counts[[*SPECIALS]].any()
    ordinary = np.delete(counts, [*SPECIALS])
    expected = len(found.places) / len(ordinary)
    assert (abs(ordinary - expected) < 6 * expected**0.5).all()


@settings(max_examples=60)
@given(EXAMPLES, st.sampled_from(["word", "span"]), st.floats(0.1, 0.6), st.integers(0, 99))
def test_a_word_is_chosen_and_masked_as_a_whole(examples, unit, share, seed):
    config = MaskingConfig(unit=unit, share=share, mask=0.5, random=0)
    made = corruption(config, seed)
    for number, example in enumerate(examples):
        found = run(made, [example], [number])
        chosen = set(found.places.tolist())
        for _, words in stretches(example):
            for word in words:
                assert len({place in chosen for place in word}) == 1
                assert len({found.ids[place] == MASK for place in word}) == 1


def test_spans_have_the_lengths_of_a_geometric_up_to_ten():
    assert span_tail(3.8).sum() == pytest.approx(3.8)
    assert span_tail(1.0) == pytest.approx([1.0] + [0.0] * 9)
    assert span_tail(5.5) == pytest.approx(np.arange(10, 0, -1) / 10)
    weights = 0.2 * 0.8 ** np.arange(10)  # SpanBERT's p = 0.2 has the mean 3.8 that the paper gives
    assert span_tail(3.797) == pytest.approx(weights[::-1].cumsum()[::-1] / weights.sum(), abs=1e-3)


def test_runs_of_masked_words_are_as_long_as_spans():
    """With few spans, hardly any two touch."""
    words, examples = 40, 20_000
    config = MaskingConfig(unit="span", share=0.002, mask=1, random=0)
    made = Corruption(
        config, mask=MASK, vocabulary=50, specials=SPECIALS, seed=0, starts=np.ones(50, dtype=bool)
    )
    text = corpus(examples, words, 50)
    masked = (run(made, text).ids == MASK).reshape(examples, words + 2)
    # Those at the ends are parts of spans.
    rows = [row for row in masked if row.any() and not row[1] and not row[-2]]
    runs = [len([*group]) for row in rows for on, group in groupby(row.tolist()) if on]
    weights = np.array(_truncated_geometric(3.8))
    spread = (weights @ np.arange(1, 11) ** 2 - 3.8**2) ** 0.5
    assert len(runs) > 200
    assert sum(length > 10 for length in runs) <= 3  # unclipped, a tenth of them would be
    assert abs(np.mean(runs) - 3.8) < 5 * spread / len(runs) ** 0.5


@pytest.mark.parametrize("unit", UNITS)
def test_each_place_of_a_text_is_chosen_as_often_as_any_other(unit):
    examples, words = 6000, 12
    made = Corruption(
        MaskingConfig(unit=unit, mask=1, random=0),
        mask=MASK,
        vocabulary=50,
        specials=SPECIALS,
        seed=0,
        starts=np.ones(50, dtype=bool),
    )
    masked = (run(made, corpus(examples, words, 50)).ids == MASK).reshape(examples, words + 2)
    shares = masked[:, 1:-1].mean(axis=0)
    assert (abs(shares - 0.15) < 5 * (0.15 * 0.85 / examples) ** 0.5).all()


@settings(max_examples=60)
@given(EXAMPLES, CONFIGS, st.integers(0, 30))
def test_beyond_the_most_the_words_with_the_largest_draws_are_left_as_they_are(examples, config, most):
    made = corruption(config)
    flat = np.array([id for example in examples for id in example], dtype=np.int64)
    lengths, numbers = [len(example) for example in examples], range(len(examples))
    free = made.corrupt(flat, lengths, numbers, 0)
    bound = made.corrupt(flat, lengths, numbers, 0, most=most)
    kept = np.isin(free.places, bound.places)
    assert len(bound.places) == kept.sum() <= most
    assert np.array_equal(bound.ids[bound.places], free.ids[bound.places])
    assert np.array_equal(bound.labels, flat[bound.places])
    left = free.places[~kept]
    assert np.array_equal(bound.ids[left], flat[left])
    if len(free.places) <= most:
        assert same(bound, free)
    elif config.unit == "token":
        assert len(bound.places) == most
        draws = _token_draws(examples)
        assert draws[bound.places].max(initial=0) <= draws[left].min()


def _token_draws(examples: list[list[int]]) -> np.ndarray:
    draws = []
    for number, example in enumerate(examples):
        own = np.full(len(example), 2.0)
        for stretch, words in stretches(example):
            for unit, place in enumerate(place for word in words for place in word):
                own[place] = uniform(0, 0, 0, number, stretch, unit)[0]
        draws.append(own)
    return np.concatenate([np.empty(0), *draws])


@pytest.mark.parametrize("unit", UNITS)
def test_the_bound_holds_for_ordinary_batches_and_is_not_much_above_them(unit):
    text = corpus(30, 60, VOCABULARY)
    made = corruption(MaskingConfig(unit=unit))
    slots = 30 * 62
    counts = [len(run(made, text, epoch=epoch).places) for epoch in range(100)]
    assert max(counts) <= made.most(slots) < 2.5 * np.mean(counts)
    assert made.most(0) == 0
    assert all(made.most(few) <= few for few in range(50))
    assert made.most(10**8) < 0.152 * 10**8
    if unit == "token":
        assert made.most(slots) == np.ceil(0.15 * slots + 6 * (slots * 0.15 * 0.85) ** 0.5)


@pytest.mark.parametrize("unit", UNITS)
def test_nothing_stays_nothing_and_empty_examples_do_not_count(unit):
    made = corruption(MaskingConfig(unit=unit, share=0.5))
    for examples in ([], [[]], [[], []]):
        found = run(made, examples)
        assert [len(each) for each in (found.ids, found.places, found.labels)] == [0, 0, 0]
    full = [7, 8, 10, 11, 13]
    assert same(run(made, [[], full, [], full, []]), run(made, [full, full], [1, 3]))
    assert len(run(made, [[CLS, SEP]]).places) == 0


def test_random_numbers_are_those_of_splitmix64():
    def splitmix(state: int) -> int:
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
        return state ^ (state >> 31)

    golden = 0x9E3779B97F4A7C15
    assert splitmix(golden) == 0xE220A8397B1DCDAF  # the published generator's first number from seed 0
    expected = [(splitmix(golden * n % 2**64) >> 11) / 2**53 for n in range(1, 50)]
    assert uniform(np.arange(49)).tolist() == expected
    nested = splitmix((splitmix(golden * 6 % 2**64) + golden * (2**64 - 3 + 1)) % 2**64)
    assert uniform(5, -3)[0] == (nested >> 11) / 2**53


def test_random_numbers_are_even_and_strangers_to_their_neighbours():
    numbers = uniform(3, np.arange(300)[:, None], np.arange(300))
    count = numbers.size
    assert numbers.min() >= 0
    assert numbers.max() < 1
    tenths = np.bincount((numbers * 10).astype(int).ravel())
    assert (abs(tenths - count / 10) < 5 * (count * 0.09) ** 0.5).all()
    for one, other in ((numbers[1:], numbers[:-1]), (numbers[:, 1:], numbers[:, :-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / count**0.5


TEXT = [
    "A cat sat on the mat, and the cat saw a rat.",
    "The rats ran; the cats sat on the matting!",
    "Zwei Hunde laufen über die grüne Wiese.",
] * 3


@pytest.mark.parametrize(
    ("kind", "vocabulary"), [("wordpiece", 70), ("bpe", 330), ("unigram", 300), ("byte-bpe", 290)]
)
def test_words_start_where_the_tokenizer_cuts_them(kind, vocabulary):
    tokenizer = Tokenizer.train(TEXT, TokenizerConfig(kind=kind, vocabulary=vocabulary))
    starts = word_starts(tokenizer)
    assert starts.shape == (len(tokenizer),)
    for text in TEXT:
        encoding = tokenizer.encode(text)
        changes = [one != other for one, other in pairwise(encoding.words)]
        assert starts[list(encoding.ids)].tolist()[1:] == changes  # the first token begins a word anyway
        assert len(set(changes)) == 2  # some words have several tokens


@pytest.mark.parametrize("kind", ["characters", "words"])
def test_characters_and_words_are_all_words(kind):
    assert word_starts(Tokenizer.train(TEXT, TokenizerConfig(kind=kind, vocabulary=100))).all()


def test_bytes_continue_a_word_and_scripts_without_spaces_have_words_of_one_token():
    tokenizer = Tokenizer.train([*TEXT, "我们去北京。"], TokenizerConfig(kind="bpe", vocabulary=400))
    starts = word_starts(tokenizer)
    assert not starts[[tokenizer.vocabulary[byte] for byte in BYTES]].any()
    assert starts[list(tokenizer.encode("我们去北京。").ids)].all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share": 0.0}, "share=0.0 leaves nothing"),
        ({"share": 1.5}, "share=1.5"),
        ({"mask": 0.8, "random": 0.3}, "mask=0.8 and random=0.3"),
        ({"random": -0.1}, "random=-0.1"),
        ({"span": 0.5}, "span=0.5"),
        ({"span": 6.0}, r"choose 1 to 5\.5"),
        ({"copies": 0}, "copies=0"),
        ({"unit": "words"}, "did you mean 'word'"),
    ],
)
def test_a_configuration_that_cannot_be_is_an_error_at_birth(settings, message):
    with pytest.raises(ConfigError, match=message):
        from_dict(MaskingConfig, settings)


def test_what_does_not_fit_together_is_an_error():
    with pytest.raises(ValueError, match="must know which tokens begin words"):
        Corruption(MaskingConfig(unit="word"), mask=4, vocabulary=9, specials=(), seed=0)
    with pytest.raises(ValueError, match=r"ids \[9\] are not in a vocabulary of 9"):
        Corruption(MaskingConfig(), mask=4, vocabulary=9, specials=(9,), seed=0)
    with pytest.raises(ValueError, match="all 2 ids are special"):
        Corruption(MaskingConfig(), mask=1, vocabulary=2, specials=(0,), seed=0)
    with pytest.raises(ValueError, match="seed=-1"):
        Corruption(MaskingConfig(), mask=1, vocabulary=2, specials=(), seed=-1)
    made = corruption(MaskingConfig())
    with pytest.raises(ValueError, match="3 tokens, lengths of shape"):
        made.corrupt(np.array([7, 8, 9]), [2], [0], 0)
    with pytest.raises(ValueError, match="ids go from 7 to 40, but the vocabulary has 40"):
        made.corrupt(np.array([7, 40]), [2], [0], 0)
    with pytest.raises(ValueError, match="count from 0"):
        made.corrupt(np.array([7, 8]), [2], [0], -1)
