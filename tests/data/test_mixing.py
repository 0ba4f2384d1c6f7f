"""Own and general text in one epoch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from regard.data import JoinedColumn, Mix, Plan, ragged
from regard.settings.training import BatchConfig

LENGTHS = some.lists(some.integers(1, 30), min_size=1, max_size=40)
SHARES = some.sampled_from([0.1, 0.3, 0.5, 0.8])


@given(LENGTHS, LENGTHS, SHARES, some.integers(0, 5))
def test_an_epoch_has_every_own_row_once_and_general_ones_in_turn(
    own: list[int], general: list[int], share: float, seed: int
) -> None:
    mix = Mix.of(own, general, share, seed)
    drawn = []
    for epoch in range(6):
        rows = mix.rows(epoch)
        assert rows[: len(own)].tolist() == list(range(len(own)))
        drawn += (rows[len(own) :] - len(own)).tolist()
        assert len(drawn) == (epoch + 1) * mix.drawn
    for start in range(0, len(drawn) - len(general) + 1, len(general)):  # shuffle by shuffle
        assert sorted(drawn[start : start + len(general)]) == list(range(len(general)))


def test_the_share_of_the_tokens_is_the_one_that_was_asked_for() -> None:
    random = np.random.default_rng(0)
    own, general = random.integers(3, 60, size=2000), random.integers(5, 25, size=9000)
    for share in (0.1, 0.5, 0.75):
        mix = Mix.of(own, general, share)
        rows = np.concatenate([mix.rows(epoch) for epoch in range(8)])
        lengths = np.concatenate([own, general])[rows]
        assert lengths[rows >= len(own)].sum() / lengths.sum() == pytest.approx(share, abs=0.005)


def test_no_share_of_all_or_nothing() -> None:
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match="must be above 0 and below 1"):
            Mix.of([1], [1], share)


@given(LENGTHS, LENGTHS, SHARES)
def test_batches_hold_what_the_epoch_has_and_fit_their_shapes(
    own: list[int], general: list[int], share: float
) -> None:
    mix = Mix.of(own, general, share)
    plan = Plan([[*own, *general]], BatchConfig(tokens=64), mix)
    (shape,) = plan.shapes()
    for epoch in range(4):
        batches = [batch for step in range(plan.steps(epoch)) for batch in plan.batches(epoch, step)]
        assert sorted(np.concatenate(batches).tolist()) == sorted(mix.rows(epoch).tolist())
        for batch in batches:
            assert plan.lengths[0, batch].sum() <= shape.slots
            assert len(batch) <= shape.sequences


def test_ranks_share_out_the_batches_of_one() -> None:
    lengths = np.random.default_rng(1).integers(3, 20, size=300)
    mix = Mix.of(lengths[:100], lengths[100:], 0.4)
    plan = Plan([lengths], BatchConfig(tokens=100, parts=4), mix)
    for step in range(plan.steps(0)):
        alone = plan.batches(0, step)
        shared = [plan.batches(0, step, rank, 2) for rank in (0, 1)]
        assert [batch.tolist() for batch in alone] == [
            shared[place % 2][place // 2].tolist() for place in range(len(alone))
        ]


@given(some.lists(some.integers(0, 79), min_size=0, max_size=30), some.booleans(), some.booleans())
def test_joined_columns_give_what_one_column_would(rows: list[int], first: bool, last: bool) -> None:
    random = np.random.default_rng(2)
    texts = [random.integers(0, 1000, size=length).tolist() for length in random.integers(1, 9, size=80)]
    whole, both = ragged(texts), JoinedColumn(ragged(texts[:30]), ragged(texts[30:]))
    skips = {"skip_first": int(first), "skip_last": int(last)}
    assert both.lengths.tolist() == whole.lengths.tolist()
    chosen = np.array(rows, dtype=np.int64)
    assert both.gather(chosen, **skips).tolist() == whole.gather(chosen, **skips).tolist()
