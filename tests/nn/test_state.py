"""What decoding remembers."""

import pytest
import torch
from torch.testing import assert_close

from regard.layout import Layout
from regard.nn.kernels import attend_cached
from regard.nn.positions import AlibiBias
from regard.nn.state import KeyValueCache, RecurrentState, Sources, State, TransformerState


def cache(rows: int = 3, capacity: int = 4) -> KeyValueCache:
    like = torch.zeros(0, dtype=torch.float64)
    return KeyValueCache(layers=2, rows=rows, capacity=capacity, kv_heads=2, d_head=4, d_value=3, like=like)


def fill(whole: KeyValueCache, lengths: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Write random keys and values to both layers; what was written, layer by layer."""
    layout = Layout.of(lengths)
    whole.reserve(layout.longest)
    written = []
    for layer in range(2):
        keys = torch.randn(layout.tokens, 2, 4, dtype=torch.float64)
        values = torch.randn(layout.tokens, 2, 3, dtype=torch.float64)
        whole.layer(layer).write(keys, values, layout)
        written.append((keys, values))
    whole.advance(torch.tensor(lengths))
    return written


def held(whole: KeyValueCache, layer: int, row: int) -> torch.Tensor:
    return whole.layer(layer).keys[row, :, : int(whole.lengths[row])].transpose(0, 1)


def test_rows_hold_what_was_written_and_appended():
    whole = cache()
    written = fill(whole, [2, 3, 1])
    new = torch.randn(3, 2, 4, dtype=torch.float64)
    for layer in range(2):
        whole.layer(layer).append(new, torch.zeros(3, 2, 3, dtype=torch.float64))
    whole.advance()
    assert whole.lengths.tolist() == [3, 4, 2]
    for layer in range(2):
        for row, keys in enumerate(Layout.of([2, 3, 1]).split(written[layer][0])):
            assert torch.equal(held(whole, layer, row), torch.cat([keys, new[row : row + 1]]))


def test_the_buffer_doubles_past_its_capacity_and_loses_nothing():
    whole = cache(capacity=2)
    fill(whole, [2, 1, 2])
    before = [held(whole, 1, row).clone() for row in range(3)]
    whole.reserve(7)
    assert whole.layer(0).keys.shape[2] >= 9
    for row in range(3):
        assert torch.equal(held(whole, 1, row), before[row])


@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 0], [1], [0, 0, 1, 1, 2, 2], [], [2, 2, 2]])
def test_select_keeps_drops_repeats_and_reorders_rows(rows):
    whole = cache()
    fill(whole, [2, 3, 1])
    before = [held(whole, 1, row).clone() for row in range(3)]
    whole.select(rows)
    assert whole.rows == len(rows)
    assert whole.longest == max([[2, 3, 1][row] for row in rows], default=0)
    for row, origin in enumerate(rows):
        assert torch.equal(held(whole, 1, row), before[origin])


def test_rows_of_one_source_are_its_queries():
    sources = Sources(Layout.of([5, 3, 4]))
    assert sources.asking.lengths.tolist() == [1, 1, 1]
    sources.select([0, 0, 0, 2, 2])
    assert sources.asking.lengths.tolist() == [3, 0, 2]
    sources.select([1, 3])
    assert sources.asking.lengths.tolist() == [1, 0, 1]


def test_rows_must_stay_in_the_order_of_their_sources_and_a_refusal_changes_nothing():
    whole = cache(rows=2)
    fill(whole, [2, 3])
    state = TransformerState(whole, Sources(Layout.of([5, 3])))
    before = [held(whole, 1, row).clone() for row in range(2)]
    with pytest.raises(ValueError, match="sort the rows by source"):
        state.select([1, 0])
    assert [torch.equal(held(whole, 1, row), before[row]) for row in range(2)] == [True, True]


@pytest.mark.usefixtures("unchecked")
def test_select_takes_row_numbers_only():
    with pytest.raises(TypeError, match="not a mask"):
        cache().select(torch.tensor([True, False, True]))
    for rows in ([3], [-1]):
        with pytest.raises(IndexError, match="the rows are 0 to 2"):
            cache().select(rows)


def test_a_window_holds_also_where_every_row_is_full():
    whole = cache()
    fill(whole, [4, 4, 4])
    part, queries = whole.layer(0), torch.randn(3, 2, 4, dtype=torch.float64)
    short = attend_cached(queries, part.keys[:, :, 2:], part.values[:, :, 2:], None)
    assert_close(attend_cached(queries, part.keys, part.values, None, before=1), short)


@pytest.mark.parametrize("before", [None, 1])
@pytest.mark.parametrize("biased", [False, True])
def test_cached_attention_is_the_equation_over_each_rows_own_keys(before, biased):
    whole = cache()
    fill(whole, [2, 4, 1])
    queries = torch.randn(3, 4, 4, dtype=torch.float64)  # two for each key head
    part = whole.layer(0)
    bias = AlibiBias(4).double() if biased else None
    places = whole.lengths - 1  # each row's last token asks
    output = attend_cached(queries, part.keys, part.values, places, before=before, bias=bias)
    for row, length in enumerate([2, 4, 1]):
        first = 0 if before is None else max(0, length - 1 - before)
        keys = part.keys[row, :, first:length].repeat_interleave(2, dim=0)
        values = part.values[row, :, first:length].repeat_interleave(2, dim=0)
        scores = torch.einsum("hd,hkd->hk", queries[row], keys) / 2
        if bias is not None:
            scores = scores + bias(torch.arange(first, length) - (length - 1))
        assert_close(output[row], torch.einsum("hk,hkd->hd", scores.softmax(-1), values))


def test_both_kinds_of_state_serve_the_same_interface():
    recurrent = RecurrentState(
        hidden=torch.randn(1, 2, 4), cell=None, lengths=torch.zeros(2, dtype=torch.int64)
    )
    for state in (TransformerState(cache(rows=2)), recurrent):
        assert isinstance(state, State)
        state.select([1])
        assert state.rows == 1


def recurrent(rows: int, length: int) -> RecurrentState:
    hidden = torch.randn(1, rows, 4)
    return RecurrentState(hidden, None, torch.full((rows,), length), longest=length)


def test_rows_of_other_lengths_join_and_the_others_stay_as_they_are():
    few, many = cache(rows=2), cache(rows=3)
    fill(few, [2, 5])
    fill(many, [9, 1, 4])
    expected = [
        (each.layer(0).keys[row, :, :length].clone(), each.layer(0).values[row, :, :length].clone())
        for each, lengths in ((few, [2, 5]), (many, [9, 1, 4]))
        for row, length in enumerate(lengths)
    ]
    few.join(many)
    assert few.lengths.tolist() == [2, 5, 9, 1, 4]
    assert (few.rows, few.longest, many.rows) == (5, 9, 3)
    for row, (keys, values) in enumerate(expected):
        assert torch.equal(few.layer(0).keys[row, :, : keys.shape[1]], keys)
        assert torch.equal(few.layer(0).values[row, :, : keys.shape[1]], values)
    one, two = recurrent(2, 3), recurrent(1, 7)
    wanted = torch.cat([one.hidden, two.hidden], dim=1)
    one.join(two)
    assert torch.equal(one.hidden, wanted)
    assert (one.lengths.tolist(), one.longest, one.rows) == ([3, 3, 7], 7, 3)


def test_rows_that_take_the_places_of_those_that_leave_move_alone():
    whole = cache(rows=5)
    fill(whole, [2, 5, 3, 1, 4])
    before, address = whole.layer(0).keys.clone(), whole._keys.data_ptr()
    whole.select([0, 4, 2])
    assert whole._keys.data_ptr() == address
    assert whole.lengths.tolist() == [2, 4, 3]
    for row, old in enumerate([0, 4, 2]):
        length = whole.lengths[row]
        assert torch.equal(whole.layer(0).keys[row, :, :length], before[old, :, :length])


def test_a_row_that_joins_sees_nothing_of_the_one_that_left_its_place():
    whole, new = cache(rows=2), cache(rows=1)
    fill(whole, [3, 6])
    whole._keys[:, 1] = torch.nan
    whole.select([0])
    fill(new, [2])
    whole.join(new)
    assert not whole.keys[:, :, :, :6].isnan().any()
