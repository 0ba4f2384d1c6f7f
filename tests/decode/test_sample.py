"""Drawing at random: the right tokens, as often as they should come, and the same again for the same seed."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.decode import DecodeConfig, decode
from regard.decode.sample import draw_tokens, keep_min_p, keep_top_p, sample_streams, uniform
from tests.decode.models import END, START, translator
from tests.models.families import BODIES

PROBABILITIES = torch.tensor([0.05, 0.3, 0.0, 0.3, 0.1, 0.25])


def frequencies(draws: int = 40_000, seed: int = 0, **settings) -> torch.Tensor:
    config = DecodeConfig(method="sample", **settings)
    points = torch.from_numpy(uniform(sample_streams(seed, range(draws), 1), 3))
    tokens = draw_tokens(PROBABILITIES.log().expand(draws, -1), points, config)
    return torch.bincount(tokens, minlength=len(PROBABILITIES)) / draws


def kept(mask: list[int], temperature: float = 1.0) -> torch.Tensor:
    weights = PROBABILITIES ** (1 / temperature) * torch.tensor(mask)
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, PROBABILITIES),
        ({"temperature": 0.7}, kept([1] * 6, 0.7)),
        ({"temperature": 1.5}, kept([1] * 6, 1.5)),
        ({"top_k": 3}, kept([0, 1, 0, 1, 0, 1])),
        ({"top_k": 1}, kept([0, 1, 0, 0, 0, 0])),  # of equals, the lower id
        ({"top_k": 100}, PROBABILITIES),
        ({"top_p": 0.5}, kept([0, 1, 0, 1, 0, 0])),
        ({"top_p": 0.7}, kept([0, 1, 0, 1, 0, 1])),
        ({"top_p": 0.2}, kept([0, 1, 0, 0, 0, 0])),
        ({"min_p": 0.5}, kept([0, 1, 0, 1, 0, 1])),
        ({"top_k": 5, "min_p": 0.5, "temperature": 2.0}, kept([0, 1, 0, 1, 1, 1], 2.0)),
    ],
)
def test_tokens_come_as_often_as_they_are_likely(settings, expected):
    found = frequencies(**settings)
    assert_close(found, expected, atol=0.012, rtol=0)  # five standard deviations
    assert not found[expected == 0].any()


def test_the_likeliest_token_stays_however_small_the_share():
    scores = torch.randn(5, 8).log_softmax(dim=1)
    for kept_scores in (keep_top_p(scores, 1e-9), keep_min_p(scores, 1.0)):
        assert torch.equal(kept_scores.argmax(dim=1), scores.argmax(dim=1))
        assert ((kept_scores > -torch.inf).sum(dim=1) == 1).all()


def test_a_share_of_tokens_is_the_smallest_that_reaches_it():
    scores = torch.randn(20, 400)
    scores[:19] *= 5  # the last row needs most of its tokens
    scores = scores.log_softmax(dim=1)
    for share in (0.1, 0.5, 0.9, 0.999):
        for row, after in zip(scores.exp(), keep_top_p(scores, share), strict=True):
            taken = (after > -torch.inf).nonzero()[:, 0]
            mass = row[taken].sum()
            assert mass >= share - 1e-6
            assert mass - row[taken].min() < share
            assert row[taken].min() >= row[after == -torch.inf].max()


def test_random_numbers_fill_the_unit_evenly_over_sources_samples_and_steps():
    streams = sample_streams(7, range(100), 20)
    numbers = np.stack([uniform(streams, step) for step in range(50)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert len(np.unique(numbers)) == numbers.size
    shares = np.histogram(numbers, bins=20, range=(0, 1))[0] / numbers.size
    assert np.abs(shares - 0.05).max() < 0.004
    grid = numbers.reshape(50, 100, 20)
    for axis in range(3):
        flat = np.moveaxis(grid, axis, 0).reshape(grid.shape[axis], -1)
        assert np.abs(np.corrcoef(flat[:-1].ravel(), flat[1:].ravel())[0, 1]) < 0.02


def samples(seed: int, n_best: int = 4, keys=None, model=None):
    sources = [[3, 7, 4], [5, 6]]
    config = DecodeConfig(method="sample", seed=seed, n_best=n_best, maximum=10)
    return decode(model, model.start(sources), [[START]] * 2, end=END, config=config, keys=keys)


def test_a_seed_repeats_its_samples_and_another_draws_others():
    model = translator(BODIES["gru, dot"])
    assert samples(1, model=model) == samples(1, model=model)
    first, second = ([each.ids for row in samples(seed, model=model) for each in row] for seed in (1, 2))
    assert first != second


def test_samples_of_one_source_differ_and_more_of_them_change_none():
    model = translator(BODIES["gru, dot"])
    few, many = samples(1, 3, model=model), samples(1, 6, model=model)
    for short, long in zip(few, many, strict=True):
        assert [each.ids for each in long[:3]] == [each.ids for each in short]
        assert len({each.ids for each in long}) > 1


def test_samples_hang_on_the_key_of_their_source():
    model = translator(BODIES["gru, dot"])
    by_row, same, others = (
        [[each.ids for each in row] for row in samples(1, keys=keys, model=model)]
        for keys in (None, [0, 1], [0, 5])
    )
    assert by_row == same
    assert by_row[0] == others[0]
    assert by_row[1] != others[1]


def test_the_score_of_a_sample_is_the_models_own():
    model = translator(BODIES["lstm, additive"])
    config = DecodeConfig(method="sample", temperature=2.0, top_k=5, n_best=5, maximum=6, length_penalty=0.5)
    [found] = decode(model, model.start([[3, 7]]), [[START, 4]], end=END, config=config)
    for each in found:
        following = model.log_probabilities([3, 7], [[START, *each.ids]])[0, 1:]
        tokens = [*each.ids[1:], *([END] if each.finished else [])]
        score = sum(float(row[token]) for row, token in zip(following, tokens, strict=False))
        assert each.score == pytest.approx(score, abs=1e-4)
        assert each.ranking == pytest.approx(score / len(tokens) ** 0.5, abs=1e-4)
