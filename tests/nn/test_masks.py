"""A mask is a description; `visible` is its meaning."""

import pytest
import torch

from regard.nn.masks import CAUSAL, FULL, Mask


def picture(mask: Mask, queries: int, keys: int) -> list[str]:
    return ["".join("1" if seen else "." for seen in row) for row in mask.visible(queries, keys).tolist()]


@pytest.mark.spec("2.8")
def test_the_named_masks_look_as_they_are_drawn():
    assert picture(FULL, 2, 3) == ["111", "111"]
    assert picture(CAUSAL, 4, 4) == ["1...", "11..", "111.", "1111"]
    assert picture(Mask(before=2, after=0), 4, 4) == ["1...", "11..", "111.", ".111"]
    assert picture(Mask(before=1, after=1), 4, 4) == ["11..", "111.", ".111", "..11"]


def test_fewer_queries_than_keys_are_the_last_ones():
    assert picture(CAUSAL, 2, 4) == ["111.", "1111"]
    assert picture(Mask(before=1, after=0), 1, 4) == ["..11"]


def test_more_queries_than_keys_leave_the_first_ones_blind():
    assert picture(CAUSAL, 3, 2) == ["..", "1.", "11"]


def test_a_chosen_mask_narrows_the_reach_of_its_own_sequence():
    chosen = torch.tensor([[[True, True], [True, True]], [[True, True], [False, True]]])
    mask = Mask(after=0, chosen=chosen)
    assert mask.visible(2, 2, sequence=0).tolist() == [[True, False], [True, True]]
    assert mask.visible(2, 2, sequence=1).tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("mask", [FULL, CAUSAL, Mask(before=1, after=0), Mask(before=0, after=2)])
def test_a_grid_is_the_padded_matrices_of_its_sequences(mask):
    queries, keys = [3, 0, 2, 4], [3, 2, 4, 1]
    chosen = torch.rand(4, 5, 6) < 0.7
    mask = Mask(mask.before, mask.after, chosen)
    grid = mask.grid(torch.tensor(queries), torch.tensor(keys), 5, 6)
    for sequence, (q, k) in enumerate(zip(queries, keys, strict=True)):
        assert torch.equal(grid[sequence, :q, :k], mask.visible(q, k, sequence))
        assert not grid[sequence, :, k:].any()


@pytest.mark.parametrize("name", ["before", "after"])
def test_a_negative_reach_is_refused(name):
    with pytest.raises(ValueError, match=f"{name}=-1.*0 or more"):
        Mask(**{name: -1})
