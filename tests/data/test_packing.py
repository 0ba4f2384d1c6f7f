import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.packing import Packed, Shape, filled, pack

SEQUENCES = st.lists(st.lists(st.integers(1, 9), max_size=6), max_size=6)


def needed(lengths: list[int], slots: int, longest: int) -> int:
    """Sequences of the smallest shape that these fit."""
    return len(lengths) + -(-(slots - sum(lengths)) // longest)


@settings(max_examples=40)
@given(SEQUENCES)
def test_without_a_shape_there_is_no_filler(sequences: list[list[int]]) -> None:
    packed = pack(sequences)
    assert packed.ids.tolist() == [one for sequence in sequences for one in sequence]
    assert packed.layout.host_lengths == [len(sequence) for sequence in sequences]
    assert packed.tokens == len(packed.ids)
    assert packed.sequences == len(sequences)


@settings(max_examples=40)
@given(SEQUENCES, st.integers(0, 20), st.integers(0, 3), st.integers(0, 3))
def test_a_shape_is_filled_exactly_and_no_filler_enters_a_real_sequence(
    sequences: list[list[int]], left: int, spare: int, slack: int
) -> None:
    lengths = [len(sequence) for sequence in sequences]
    longest = max([1, *lengths]) + slack
    slots = sum(lengths) + left
    shape = Shape(slots=slots, sequences=needed(lengths, slots, longest) + spare, longest=longest)
    packed = pack(sequences, shape)

    assert len(packed.ids) == packed.layout.tokens == slots
    assert packed.layout.sequences == shape.sequences
    assert packed.layout.longest == longest
    assert max(packed.layout.host_lengths, default=0) <= longest
    assert (packed.tokens, packed.sequences) == (sum(lengths), len(sequences))
    pieces = packed.layout.split(packed.ids)
    assert [piece.tolist() for piece in pieces[: len(sequences)]] == sequences  # real ones first, untouched
    assert not packed.ids[packed.tokens :].any()  # every real id above is 1 or more
    assert sum(len(piece) for piece in pieces[len(sequences) :]) == left


@settings(max_examples=40)
@given(SEQUENCES, st.integers(0, 20))
def test_one_sequence_less_than_needed_is_an_error(sequences: list[list[int]], left: int) -> None:
    lengths = [len(sequence) for sequence in sequences]
    longest = max([1, *lengths])
    slots = sum(lengths) + left
    if few := needed(lengths, slots, longest):
        with pytest.raises(ValueError, match="do not fit"):
            pack(sequences, Shape(slots=slots, sequences=few - 1, longest=longest))


@pytest.mark.parametrize(
    "shape",
    [
        Shape(slots=4, sequences=9, longest=9),  # too many tokens
        Shape(slots=5, sequences=1, longest=9),  # too many sequences
        Shape(slots=5, sequences=2, longest=2),  # one too long
        Shape(slots=8, sequences=2, longest=3),  # filler would need a sequence of its own
    ],
)
def test_what_does_not_fit_is_an_error_with_sizes_shape_and_remedy(shape: Shape) -> None:
    with pytest.raises(ValueError, match="do not fit") as caught:
        pack([[7, 3, 9], [4, 4]], shape)
    for part in ("2 sequences", "up to 3 tokens", "5 in all", str(shape), "larger shape"):
        assert part in str(caught.value)


def test_the_docstrings_example_is_true() -> None:
    packed = pack([[7, 3, 9], [4, 4]], Shape(8, 4, 4))
    assert packed.ids.tolist() == [7, 3, 9, 4, 4, 0, 0, 0]
    assert packed.layout.host_lengths == [3, 2, 3, 0]


def test_filler_is_cut_to_the_bound() -> None:
    assert filled([3], Shape(slots=12, sequences=6, longest=4)) == [3, 4, 4, 1, 0, 0]


def test_nothing_packs_to_nothing_or_to_filler_alone() -> None:
    assert pack([]).ids.shape == (0,)
    assert pack([[], []]).layout.host_lengths == [0, 0]
    assert pack([], Shape(slots=5, sequences=3, longest=4)).layout.host_lengths == [4, 1, 0]
    assert pack([], Shape(slots=0, sequences=0, longest=1)).layout.sequences == 0


@pytest.mark.parametrize("shape", [(-1, 1, 1), (1, -1, 1), (1, 1, 0), (0, 0, 0)])
def test_a_shape_that_can_hold_nothing_is_an_error_at_birth(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="longest is 1 or more"):
        Shape(*shape)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
def test_ids_of_any_integer_type_become_int64(dtype: type[np.generic]) -> None:
    top = np.iinfo(dtype).max
    packed = pack([np.array([1, top], dtype=dtype), [], np.array([], dtype=dtype), [2]])
    assert packed.ids.dtype == torch.int64
    assert packed.ids.tolist() == [1, top, 2]


def test_ids_that_are_no_integers_are_refused_and_not_rounded() -> None:
    for sequences in ([[1.5]], [np.array([1.0])]):
        with pytest.raises(TypeError):
            pack(sequences)


@pytest.mark.parametrize("sequence", ["ab", 3, [[1, 2]], np.ones((2, 2), dtype=np.int64), [1.0], object()])
def test_what_is_no_row_of_ids_is_refused_by_name(sequence: object) -> None:
    with pytest.raises(TypeError, match="is no row of ids: give sequences of whole numbers"):
        pack([[1], sequence])  # type: ignore[list-item]


def test_a_packed_batch_is_a_copy() -> None:
    ids = np.array([1, 2, 3])
    packed = pack([ids])
    ids[:] = 0
    assert packed.ids.tolist() == [1, 2, 3]


def test_a_moved_batch_keeps_its_counts() -> None:
    moved = pack([[1, 2], [3]], Shape(6, 4, 3)).to("meta")
    assert isinstance(moved, Packed)
    assert moved.ids.device.type == moved.layout.offsets.device.type == "meta"
    assert (moved.tokens, moved.sequences) == (3, 2)
    assert moved.layout.host_lengths == [2, 1, 3, 0]
