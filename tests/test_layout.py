import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.layout import Layout

LENGTHS = st.lists(st.integers(0, 7), max_size=8)


def tokens_of(layout: Layout, width: int = 3) -> Tensor:
    return torch.arange(1, layout.tokens * width + 1, dtype=torch.float64).view(layout.tokens, width)


@settings(max_examples=25)
@given(LENGTHS, st.integers(0, 3) | st.none())
def test_a_layout_says_what_a_loop_over_the_sequences_says(lengths: list[int], slack: int | None) -> None:
    most = max(lengths, default=0)
    layout = Layout.of(lengths, None if slack is None else most + slack)

    offsets, positions, owners = [0], [], []
    for sequence, length in enumerate(lengths):
        offsets.append(offsets[-1] + length)
        for position in range(length):
            positions.append(position)
            owners.append(sequence)

    assert layout.offsets.tolist() == layout.host_offsets.tolist() == offsets
    assert layout.positions.tolist() == positions
    assert layout.owners.tolist() == owners
    assert layout.lengths.tolist() == layout.host_lengths == lengths
    assert layout.tokens == sum(lengths)
    assert layout.sequences == len(lengths)
    assert layout.longest == most + (slack or 0)
    assert layout.offsets.dtype == torch.int32
    for sequence, length in enumerate(lengths):
        if length:
            assert layout.firsts[sequence] == owners.index(sequence)
            assert layout.lasts[sequence] == owners.index(sequence) + length - 1


def test_lengths_may_be_a_list_a_tuple_or_a_tensor_of_any_integers() -> None:
    for lengths in (
        [2, 0, 3],
        (2, 0, 3),
        torch.tensor([2, 0, 3], dtype=torch.int32),
        torch.tensor([2, 0, 3]),
    ):
        assert Layout.of(lengths).offsets.tolist() == [0, 2, 2, 5]


def test_a_layout_does_not_change_with_the_lengths_it_was_made_of() -> None:
    lengths = torch.tensor([2, 3])
    layout = Layout.of(lengths)
    lengths += 1
    assert layout.lengths.tolist() == [2, 3]


@settings(max_examples=25)
@given(LENGTHS, st.integers(0, 3))
def test_a_grid_and_back_is_the_same_tokens(lengths: list[int], slack: int) -> None:
    layout = Layout.of(lengths, max(lengths, default=0) + slack)
    x = tokens_of(layout)
    grid = layout.to_grid(x)
    assert grid.shape == (layout.sequences, layout.longest, 3)
    assert torch.equal(layout.from_grid(grid), x)
    start = 0
    for row, length in enumerate(lengths):
        assert torch.equal(grid[row, :length], x[start : start + length])
        assert not grid[row, length:].any()
        start += length


@pytest.mark.parametrize("rest", [(), (2,), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
def test_a_grid_takes_tokens_of_any_shape_and_type(rest: tuple[int, ...], dtype: torch.dtype) -> None:
    layout = Layout.of([2, 0, 1])
    x = torch.ones(3, *rest, dtype=dtype)
    assert layout.to_grid(x).dtype == dtype
    assert torch.equal(layout.from_grid(layout.to_grid(x)), x)


@settings(max_examples=25)
@given(LENGTHS)
def test_gradients_pass_the_grid_both_ways(lengths: list[int]) -> None:
    layout = Layout.of(lengths, max(lengths, default=0) + 1)
    x = tokens_of(layout).requires_grad_()
    grid = layout.to_grid(x)
    by_cell = torch.arange(grid.numel(), dtype=torch.float64).view_as(grid)
    (grid * by_cell).sum().backward()
    assert_close(x.grad, layout.from_grid(by_cell))

    leaf = by_cell.clone().requires_grad_()
    (layout.from_grid(leaf) * tokens_of(layout)).sum().backward()
    assert_close(leaf.grad, layout.to_grid(tokens_of(layout)))  # what lies in empty cells gets none


def test_what_lies_in_empty_cells_is_dropped() -> None:
    layout = Layout.of([1, 2], longest=3)
    grid = layout.to_grid(tokens_of(layout))
    grid[0, 1:], grid[1, 2:] = torch.nan, torch.inf
    assert torch.equal(layout.from_grid(grid), tokens_of(layout))


@settings(max_examples=25)
@given(LENGTHS)
def test_the_pieces_of_a_split_are_the_sequences(lengths: list[int]) -> None:
    layout = Layout.of(lengths)
    x = tokens_of(layout)
    pieces = layout.split(x)
    assert [len(piece) for piece in pieces] == lengths
    assert torch.equal(torch.cat([x[:0], *pieces]), x)
    for piece in pieces:
        assert not piece.numel() or piece.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_tokens_of_another_count_are_refused() -> None:
    layout = Layout.of([2, 1])
    for method in (layout.split, layout.to_grid):
        with pytest.raises((RuntimeError, IndexError)):
            method(torch.zeros(4, 2))


def test_a_negative_length_is_an_error_with_its_value_and_the_rule() -> None:
    with pytest.raises(ValueError, match=r"-2.*0 or more"):
        Layout.of([3, -2, 1])


def test_a_bound_below_the_longest_is_an_error_with_value_rule_and_remedy() -> None:
    with pytest.raises(ValueError, match=r"longest=4 .* 5 tokens: give a bound of 5 or more"):
        Layout.of([3, 5], longest=4)
    with pytest.raises(ValueError, match="longest=0"):
        Layout.of([1], longest=0)
    with pytest.raises(ValueError, match="longest=-1"):
        Layout.of([], longest=-1)


def test_a_layout_cannot_be_changed() -> None:
    layout = Layout.of([1, 2])
    with pytest.raises(dataclasses.FrozenInstanceError):
        layout.longest = 9  # type: ignore[misc]


def test_on_the_same_device_a_layout_is_itself() -> None:
    layout = Layout.of([1, 2])
    assert layout.to("cpu") is layout


def test_elsewhere_the_host_still_knows_the_lengths() -> None:
    layout = Layout.of([1, 0, 2], longest=4).to("meta")
    assert layout.offsets.device.type == layout.positions.device.type == "meta"
    assert layout.host_offsets.device.type == "cpu"
    assert layout.host_lengths == [1, 0, 2]
    assert (layout.tokens, layout.sequences, layout.longest) == (3, 3, 4)
    assert layout.to("meta") is layout
